"""What `ossia models rm` takes for one model of ossia's own, and what the other commands say of such files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ossia.agent.models.catalog import download_of
from ossia.agent.models.pull import on_the_hub, pull
from ossia.agent.models.transfer import PullProgress
from ossia.cli import paths
from tests.agent.models.test_ollama import add
from tests.support.command import ossia_here
from tests.support.gguf_edit import split_gguf
from tests.support.hub import Hub

REPO = "someone/tuned-GGUF"


@pytest.fixture
def models(home: Path) -> Path:
    folder = paths.data_dir() / "models"
    folder.mkdir(parents=True)
    return folder


def _put(toy: Path, *paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(toy, path)


def _run(*arguments: str, code: int = 0) -> tuple[str, str]:
    done = ossia_here("models", *arguments)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def test_what_another_ossia_downloads_stays(models: Path) -> None:
    name, content = "gpt-oss-20b-mxfp4.gguf", b"GGUF" * 20_000
    known = download_of("gpt-oss-20b")
    assert known is not None
    said: list[str] = []

    def meanwhile(progress: PullProgress) -> None:
        if progress.done and not said:
            said.append(_run("rm", "--yes", "gpt-oss-20b", code=7)[1])

    with Hub({name: content}, repo=known.repo) as hub:
        path = pull(known, paths.data_dir(), on_progress=meanwhile, endpoint=hub.endpoint)
    assert said == [
        "ossia: error: gpt-oss-20b-mxfp4 is being downloaded by another ossia: wait for that one\n",
    ]
    assert path.read_bytes() == content


def test_a_folder_of_models_that_is_another_programs(toy: Path, home: Path) -> None:
    theirs = home / ".lmstudio" / "models" / "gpt-oss-20b-mxfp4.gguf"
    _put(toy, theirs)
    own = paths.data_dir() / "models"
    own.parent.mkdir(parents=True)
    own.symlink_to(home / ".lmstudio" / "models", target_is_directory=True)
    for name in ("gpt-oss-20b", str(own / theirs.name)):
        assert "is LM Studio's; remove it there" in _run("rm", "--yes", name, code=2)[1]
    assert theirs.exists()
    assert "lm-studio" in _run("list")[0]


def test_several_models_of_one_name(toy: Path, models: Path) -> None:
    one, two = models / "gpt-oss-20b-mxfp4.gguf", models / "someone" / "x" / "gpt-oss-20b-Q8_0.gguf"
    _put(toy, one, two)
    said = _run("rm", "--yes", "gpt-oss-20b", code=2)[1]
    assert said == f"ossia: error: rm: gpt-oss-20b names 2 models; give the path of one: {one}, {two}\n"
    more = f"ossia: 1 more called gpt-oss-20b: {one} is used; for another one give its path\n"
    assert _run("path", "gpt-oss-20b") == (f"{one}\n", more)
    for command in ("show", "plan", "default"):
        assert more in _run(command, "gpt-oss-20b")[1]
    assert _run("rm", "--yes", str(two))[1] == f"ossia: removed {two}\n"
    assert one.exists()


def test_what_a_deleted_first_part_leaves(toy: Path, models: Path) -> None:
    first = split_gguf(toy, models, "gpt-oss-120b-mxfp4")
    first.unlink()
    left = sorted(models.glob("*.gguf"))
    assert [line.split("`")[1] for line in _run("list")[1].splitlines()[:2]] == [
        f"ossia models rm {one}" for one in left
    ]
    _run("rm", "--yes", "gpt-oss-120b")
    assert list(models.glob("*.gguf")) == []


def test_a_part_of_a_repositorys_or_an_addresses_file(models: Path) -> None:
    def stop(progress: PullProgress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with Hub({"tuned-Q8_0.gguf": b"GGUF" * 20_000}, repo=REPO) as hub:
        model = on_the_hub(REPO, None, paths.data_dir(), endpoint=hub.endpoint)
        with pytest.raises(KeyboardInterrupt):
            pull(model, paths.data_dir(), on_progress=stop, endpoint=hub.endpoint)
    (part,) = models.rglob("*.part")
    assert f"; `ossia models rm {part}` removes it\n" in _run("list")[1]
    assert "no such file" in _run("rm", "--yes", f"{REPO}:Q4", code=3)[1]
    assert _run("rm", "--yes", f"{REPO}:q8")[1] == f"ossia: removed {part}\n"



def test_a_model_of_any_name_in_our_folder(toy: Path, models: Path) -> None:
    path, beside = models / REPO / "finetune-20b.gguf", models / REPO / "mmproj-f16.gguf"
    _put(toy, path, beside)
    listed = _run("list")[0]
    assert "finetune-20b" in listed
    assert "mmproj" not in listed
    for name in ("finetune-20b", REPO, f"{REPO}:finetune"):
        assert _run("path", name)[0] == f"{path}\n"
        _run("plan", name)
    assert _run("default", REPO)[1].endswith(f'model = "{REPO}"\n')
    gone = f"ossia: the settings' model is {REPO}, which is gone: `ossia config unset model` removes the setting\n"
    assert _run("rm", "--yes", f"{REPO}:finetune-20b.gguf")[1] == f"ossia: removed {path}\n{gone}"
    assert list(path.parent.iterdir()) == [beside]
    _run("rm", "--yes", str(beside))
    assert list(models.iterdir()) == [], "nor an empty folder"


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
def test_a_name_is_one_line_and_quoted_in_a_command(toy: Path, models: Path, home: Path, tmp_path: Path) -> None:
    _put(toy, models / "gpt-oss\nforged.gguf", tmp_path / "-rf.gguf")
    assert len(_run("list")[0].splitlines()) == 3
    done = ossia_here("models", "rm", "--yes", "--", "-rf.gguf", cwd=tmp_path)
    assert "`rm ./-rf.gguf` removes it" in done.stderr.decode()
    add(home / ".ollama" / "models", "hf.co/a/gpt-oss`id`/latest", toy.read_bytes())
    assert "`ollama rm 'hf.co/a/gpt-oss`id`:latest'`" in _run("rm", "--yes", "gpt-oss`id`", code=2)[1]


def test_the_etude_stays_the_etude(toy: Path, models: Path) -> None:
    _put(toy, models / "etude.gguf")
    assert "étude is a part of ossia" in _run("rm", "--yes", "etude", code=2)[1]
    assert _run("rm", "--yes", str(models / "etude.gguf"))[1].startswith("ossia: removed")


def test_what_is_no_model_file(toy: Path, models: Path) -> None:
    (models / "d.gguf").mkdir()
    assert "wasn't downloaded by ossia" in _run("rm", "--yes", str(models / "d.gguf"), code=2)[1]
    odd, nowhere, around = (models / name for name in ("x-00005-of-00003.gguf", "gone.gguf", "around.gguf"))
    _put(toy, odd)
    nowhere.symlink_to("nothing")
    around.symlink_to(around.name)
    _run("show", str(around), code=3)
    for path in (odd, nowhere, around):
        assert _run("rm", "--yes", str(path))[1] == f"ossia: removed {path}\n"
    assert "must not be empty" in _run("rm", "--yes", "", code=2)[1]


def test_a_folder_here_is_not_the_model_of_its_name(toy: Path, models: Path, tmp_path: Path) -> None:
    _put(toy, models / "gpt-oss-mine.gguf")
    (tmp_path / "gpt-oss-mine").mkdir()
    done = ossia_here("models", "path", "gpt-oss-mine", cwd=tmp_path)
    assert done.stdout.decode() == f"{models / 'gpt-oss-mine.gguf'}\n"


def test_an_engine_that_is_a_server_is_told(home: Path) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text('engine = "http://127.0.0.1:9"\n')
    told = "ossia: the engine is http://127.0.0.1:9: a local model is used with --engine llama only\n"
    for command in (["show"], ["plan"], ["path"], ["default", "etude"]):
        assert told in _run(*command)[1]
    assert told not in _run("path", "etude")[1]
    paths.config_file().write_text('engine = "http://127.0.0.1:9"\nmodel = "openai/gpt-oss-20b"\n')
    part = paths.data_dir() / "models" / "gpt-oss-20b-mxfp4.gguf.0123456789ab.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x")
    assert _run("rm", "--yes", "gpt-oss-20b")[1] == f"ossia: removed {part}\n", "the server's model isn't gone"
