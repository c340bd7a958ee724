"""Finding models in the folders of other programs, and deciding which one is meant."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from ossia.agent.errors import ModelNotFound, ModelUnusable
from ossia.agent.models.catalog import ETUDE_PATH, name_of, part_of, part_path
from ossia.agent.models.find import Found, Locations, find_models, locations
from ossia.agent.models.memory import Memory
from ossia.agent.models.model import Origin, open_model
from ossia.agent.models.needs import needs_of
from ossia.agent.models.resolve import resolve
from tests.support.gguf_edit import split_gguf
from tests.support.host import host_in
from tests.support.toy_gguf import write_toy_gguf

ETUDE = Found("etude", ETUDE_PATH, "built-in", ETUDE_PATH.stat().st_size)
PLENTY, LITTLE = Memory(1 << 40), Memory(10 << 20)


@pytest.fixture
def places(tmp_path: Path) -> Locations:
    names: dict[str, Origin] = {"hub": "huggingface", "llama.cpp": "llama.cpp", "lmstudio": "lm-studio"}
    return Locations(tmp_path / "data", tuple((origin, tmp_path / name) for name, origin in names.items()))


def _put(source: Path, *names: Path) -> None:
    for path in names:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b"),
        ("gpt-oss-20b.gguf", "gpt-oss-20b"),
        ("gpt-oss-20b-MXFP4_MOE.gguf", "gpt-oss-20b"),
        ("ggml-org_gpt-oss-20b-GGUF_gpt-oss-20b-mxfp4.gguf", "gpt-oss-20b"),
        ("openai_gpt-oss-20b-Q4_K_M.gguf", "gpt-oss-20b"),
        ("openai.gpt-oss-20b.f16.gguf", "gpt-oss-20b"),
        ("gpt-oss-20b-UD-Q8_K_XL.gguf", "gpt-oss-20b"),
        ("gpt-oss-20b-IQ4_NL.gguf", "gpt-oss-20b"),
        ("gpt-oss-120b-mxfp4-00001-of-00003.gguf", "gpt-oss-120b"),
        ("gpt-oss-20b-abliterated-Q4_K_M.gguf", "gpt-oss-20b-abliterated-Q4_K_M"),
        ("gpt-oss-20b-IQ2_XXS.gguf", "gpt-oss-20b"),
        ("uncensored-gpt-oss-20b.gguf", "uncensored-gpt-oss-20b"),
        ("notgpt-oss-20b.gguf", "notgpt-oss-20b"),
        ("gpt-oss-safeguard-20b-00001-of-00002.gguf", "gpt-oss-safeguard-20b"),
        ("etude.gguf", "etude"),
    ],
)
def test_names_of_files(file: str, name: str) -> None:
    assert name_of(Path("/models") / file) == name


def test_names_of_parts() -> None:
    assert part_of(Path("a-00002-of-00003.gguf")) == (2, 3)
    assert part_of(Path("a.gguf")) is None
    assert part_path(Path("/x/a-00001-of-00012.gguf"), 11, 12) == Path("/x/a-00011-of-00012.gguf")


def test_nothing_there(places: Locations) -> None:
    assert find_models(places) == (ETUDE,)
    assert find_models(Locations(places.data)) == (ETUDE,)


def test_the_folders_of_all_programs_in_order(places: Locations, toy: Path) -> None:
    hub, llama_cpp, lm_studio = (folder for _, folder in places.others)
    repo = hub / "models--ggml-org--gpt-oss-20b-GGUF"
    blob, snapshot = repo / "blobs" / "2118aa9e", repo / "snapshots" / "0123abcd" / "gpt-oss-20b-mxfp4.gguf"
    _put(toy, blob)
    snapshot.parent.mkdir(parents=True)
    snapshot.symlink_to(os.path.relpath(blob, snapshot.parent))
    (snapshot.parent / "gpt-oss-20b-cut.gguf").symlink_to("nowhere")
    ours = places.data / "models" / "gpt-oss-120b-mxfp4.gguf"
    llama = llama_cpp / "ggml-org_gpt-oss-20b-GGUF_gpt-oss-20b-mxfp4.gguf"
    studio = lm_studio / "someone" / "gpt-oss-20b-tuned-GGUF" / "gpt-oss-20b-tuned.gguf"
    others = [lm_studio / "someone" / "llama-3-GGUF" / "llama-3.gguf", places.data / "models" / "gpt-oss.txt"]
    _put(toy, ours, llama, studio, *others)
    size = toy.stat().st_size
    assert find_models(places) == (
        Found("gpt-oss-120b", ours, "ossia", size),
        Found("gpt-oss-20b", snapshot, "huggingface", size),
        Found("gpt-oss-20b", llama, "llama.cpp", size),
        Found("gpt-oss-20b-tuned", studio, "lm-studio", size),
        ETUDE,
    )


def test_one_file_in_two_places_comes_once(places: Locations, toy: Path) -> None:
    one, llama_cpp = places.data / "models" / "gpt-oss-20b.gguf", places.others[1][1]
    _put(toy, one)
    llama_cpp.mkdir()
    (llama_cpp / "gpt-oss-20b.gguf").symlink_to(one)
    assert [found.path for found in find_models(places)] == [one, ETUDE_PATH]


def test_the_etude_is_greedy_wherever_it_lies(tmp_path: Path, toy: Path) -> None:
    copy = shutil.copy(ETUDE_PATH, tmp_path / "mine.gguf")
    assert [open_model(Path(path)).temperature for path in (ETUDE_PATH, copy, toy)] == [0.0, 0.0, 1.0]


def test_a_split_model_is_its_first_file(places: Locations, toy: Path) -> None:
    first = split_gguf(toy, places.data / "models", "gpt-oss-120b-mxfp4")
    parts = [part_path(first, part, 3) for part in (1, 2, 3)]
    size = sum(path.stat().st_size for path in parts)
    assert find_models(places) == (Found("gpt-oss-120b", first, "ossia", size), ETUDE)
    model, whole = open_model(first), open_model(toy)
    assert (model.name, model.parts, model.file_bytes) == ("gpt-oss-120b", tuple(parts), size)
    assert model.architecture == whole.architecture
    assert model.weight_bytes == whole.weight_bytes
    assert model.vocabulary() == whole.vocabulary()


def test_a_split_model_with_something_wrong(tmp_path: Path, toy: Path) -> None:
    first = split_gguf(toy, tmp_path, "x")
    second, third = part_path(first, 2, 3), part_path(first, 3, 3)
    with pytest.raises(ModelUnusable, match=r"part 2 of a model of 3 files; name the first one, x-00001-of-00003.gguf"):
        open_model(second)
    kept = third.read_bytes()
    shutil.copy(second, third)
    with pytest.raises(ModelUnusable, match=r"x-00003-of-00003.gguf: must be part 3, but says that it is part 2"):
        open_model(first)
    third.write_bytes(kept[:-40])
    with pytest.raises(ModelUnusable, match=r"x-00003-of-00003.gguf: cut off in its tensors"):
        open_model(first)
    third.unlink()
    with pytest.raises(ModelNotFound, match=r"x-00003-of-00003.gguf: part 3 of 3 is missing"):
        open_model(first)
    renamed = first.rename(tmp_path / "renamed.gguf")
    with pytest.raises(ModelUnusable, match=r"the first of 3 files must be named …-00001-of-00003.gguf"):
        open_model(renamed)


def test_a_path(toy: Path, places: Locations, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    model = resolve(str(toy), locations=places, memory=LITTLE)
    assert (model.name, model.path, model.origin, model.parts) == ("toy", toy, "path", (toy,))
    monkeypatch.chdir(toy.parent)
    assert resolve("toy.gguf", locations=places, memory=PLENTY).path == Path("toy.gguf")
    shutil.copy(toy, home / "mine")
    assert resolve("~/mine", locations=places, memory=PLENTY).path == home / "mine"
    with pytest.raises(ModelNotFound, match="no such file"):
        resolve("none/x.gguf", locations=places, memory=PLENTY)
    with pytest.raises(ModelUnusable, match="is a directory"):
        resolve(str(toy.parent), locations=places, memory=PLENTY)
    with pytest.raises(ModelUnusable, match="can't be read"):
        resolve("x" * 5000, locations=places, memory=PLENTY)
    with pytest.raises(ModelNotFound, match="no such file"):
        resolve("~no-such-user-here/x.gguf", locations=places, memory=PLENTY)


def test_a_name(places: Locations, toy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt-oss-20b").mkdir()  # a folder of that name is not what is meant
    with pytest.raises(
        ModelNotFound, match=r"gpt-oss-20b isn't on this machine; get it \(12.1 GB\): ossia models pull gpt-oss-20b"
    ):
        resolve("gpt-oss-20b", locations=places, memory=PLENTY)
    _put(toy, places.data / "models" / "gpt-oss-20b-mxfp4.gguf", places.data / "models" / "gpt-oss-20b-tuned.gguf")
    model = resolve("gpt-oss-20b", locations=places, memory=LITTLE)
    assert (model.name, model.origin) == ("gpt-oss-20b", "ossia")
    assert resolve("gpt-oss-20b-tuned", locations=places, memory=PLENTY).name == "gpt-oss-20b-tuned"
    assert resolve("etude", locations=places, memory=PLENTY).path == ETUDE_PATH
    with pytest.raises(ModelNotFound, match="no model 'llama': give the path of a GGUF file, or one of etude, gpt-oss"):
        resolve("llama", locations=places, memory=PLENTY)


def test_without_a_model_the_first_that_fits(places: Locations, toy: Path, tmp_path: Path) -> None:
    built_in = resolve(None, locations=places, memory=PLENTY)
    assert (built_in.name, built_in.origin, built_in.notes) == ("etude", "built-in", ())
    models = places.data / "models"
    _put(toy, models / "gpt-oss-120b-mxfp4.gguf", models / "gpt-oss-20b-tuned.gguf")
    assert resolve(None, locations=places, memory=PLENTY).name == "gpt-oss-120b"
    big = write_toy_gguf(models / "gpt-oss-20b-mxfp4.gguf", layers=3, embd=256)
    chosen = resolve(None, locations=places, memory=PLENTY)
    assert (chosen.name, chosen.path, chosen.origin, chosen.notes) == ("gpt-oss-20b", big, "ossia", ())
    tight = resolve(None, locations=places, memory=Memory(needs_of(open_model(toy), 4096).total + 100_000))
    assert tight.name == "gpt-oss-120b"
    assert tight.notes == (f"skipped: {big} (1.2 MB) is larger than free memory; --model gpt-oss-20b forces it",)
    assert resolve(None, locations=places, memory=LITTLE).name == "etude"


def test_a_damaged_model_is_passed_over_and_said(places: Locations, toy: Path) -> None:
    cut, good = places.data / "models" / "gpt-oss-20b.gguf", places.others[1][1] / "gpt-oss-20b.gguf"
    _put(toy, cut, good)
    cut.write_bytes(toy.read_bytes()[:-100])
    chosen = resolve(None, locations=places, memory=PLENTY)
    assert chosen.path == good
    assert [note.split(" (")[0] for note in chosen.notes] == [f"skipped: {cut}: cut off in its tensors"]
    named = resolve("gpt-oss-20b", locations=places, memory=PLENTY)
    assert (named.path, named.notes) == (chosen.path, chosen.notes)
    good.unlink()
    with pytest.raises(ModelUnusable, match="cut off in its tensors"):
        resolve("gpt-oss-20b", locations=places, memory=PLENTY)


@pytest.mark.parametrize("beside", ["eagle_gpt-oss-20b", "draft.gpt-oss-20b", "mmproj_gpt-oss-20b", "lora-gpt-oss-20b"])
def test_files_that_go_with_a_model_are_not_the_model(beside: str) -> None:
    assert name_of(Path(f"{beside}.gguf")) == beside


def test_locations_from_the_environment(tmp_path: Path) -> None:
    assert locations(host_in(tmp_path)).data == tmp_path / "data"

    def found(origin: Origin, **environ: str) -> list[Path]:
        return [folder for one, folder in locations(host_in(tmp_path, **environ)).others if one == origin]

    hub = found("huggingface")
    assert hub == [tmp_path / ".cache" / "huggingface" / "hub"]
    assert found("lm-studio") == [tmp_path / ".lmstudio" / "models", tmp_path / ".cache" / "lm-studio" / "models"]
    assert found("ollama")[0] == tmp_path / ".ollama" / "models"
    if sys.platform == "linux":
        assert found("llama.cpp") == [tmp_path / ".cache" / "llama.cpp"]
        assert found("llama.cpp", XDG_CACHE_HOME="/c") == [Path("/c/llama.cpp")]
    assert found("huggingface", XDG_CACHE_HOME="/c") == [Path("/c/huggingface/hub")]
    assert found("huggingface", HF_HOME="/h") == [Path("/h/hub")]
    assert found("huggingface", HF_HOME="/h", HF_HUB_CACHE="~/x") == [tmp_path / "x"]
    assert found("huggingface", HF_HUB_CACHE="") == hub
    assert found("llama.cpp", LLAMA_CACHE="/l") == [Path("/l")]
    assert found("ollama", OLLAMA_MODELS="~") == [tmp_path]
