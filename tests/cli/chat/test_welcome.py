"""What the chat says when it begins, from made-up machines and from this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ossia import __version__
from ossia.agent.models.find import Locations
from ossia.agent.models.memory import Memory
from ossia.cli.chat.welcome import KEYS, Facts, Offer, gather, greeting, model_facts, needed_gb
from ossia.cli.settings.table import Settings
from tests.support.command import ROOT, write_script
from tests.support.documents import answer

GB = 1_000_000_000
SIZE_20B, SIZE_120B = 12_110_000_000, 63_400_000_000
HEAD = f"ossia {__version__} · "


def _model(folder: Path, name: str, size: int) -> None:
    """A file of that size with nothing in it: it is found by its name, and never opened."""
    path = folder / "models" / f"{name}.gguf"
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def _line(folder: Path, *, free: int | None, gpu: bool = False, settings: Settings | None = None) -> str:
    facts = model_facts(settings or Settings(), Locations(folder), Memory(free), gpu=gpu)
    first, *rest = greeting(facts)
    assert rest == [KEYS] and first.startswith(HEAD)
    return first.removeprefix(HEAD)


def test_a_machine_without_a_model(tmp_path: Path) -> None:
    assert _line(tmp_path, free=24 * GB) == (
        "no gpt-oss model on this machine: étude, a small study model, answers; the real one: "
        "/model pull gpt-oss-20b (12.1 GB, about 16 min at 100 Mbit/s; needs 13 GB of memory, 24.0 GB free)"
    )
    assert "; needs 13 GB of memory)" in _line(tmp_path, free=None)


def test_the_readme_says_how_much_memory_they_need() -> None:
    text = " ".join((Path(__file__).parents[3] / "README.md").read_text("utf-8").split())
    needed = f"gpt-oss-20b needs {needed_gb(SIZE_20B)} GB of free memory, gpt-oss-120b {needed_gb(SIZE_120B)} GB"
    assert needed in text


def test_a_model_that_fits(tmp_path: Path) -> None:
    _model(tmp_path, "gpt-oss-20b-mxfp4", SIZE_20B)
    _model(tmp_path, "gpt-oss-120b-mxfp4", SIZE_120B)
    for free in (24 * GB, None, 100 * GB):
        assert _line(tmp_path, free=free) == "gpt-oss-20b found (12.1 GB), fits"


def test_a_model_that_is_too_large_is_passed_over_as_it_will_be(tmp_path: Path) -> None:
    _model(tmp_path, "gpt-oss-20b-mxfp4", SIZE_20B)
    said = _line(tmp_path, free=8 * GB)
    assert said == (
        "étude, a small study model, answers; gpt-oss-20b is here, but needs 13 GB of memory, 8.0 GB free: "
        "/model gpt-oss-20b uses it anyway"
    )
    assert _line(tmp_path, free=8 * GB, gpu=True) == "gpt-oss-20b found (12.1 GB), fits", "the GPU's isn't known yet"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(engine="script:/tmp/x.json"), "script"),
        (Settings(model="etude"), "étude, a small study model, answers"),
        (Settings(model="gpt-oss-20b"), "gpt-oss-20b found (12.1 GB), too large for the 8.0 GB of free memory"),
        (Settings(model="/models/gpt-oss-20b-mxfp4.gguf"), "gpt-oss-20b"),
        (Settings(model="gpt-oss-120b"), "gpt-oss-120b"),
        (Settings(model="own.gguf"), "own"),
    ],
)
def test_what_was_asked_for(settings: Settings, said: str, tmp_path: Path) -> None:
    _model(tmp_path, "gpt-oss-20b-mxfp4", SIZE_20B)
    assert _line(tmp_path, free=8 * GB, settings=settings) == said
    if settings.model == "etude":
        assert _line(tmp_path, free=24 * GB, settings=settings) == said


def test_what_fits_is_more_than_the_weights(tmp_path: Path) -> None:
    _model(tmp_path, "gpt-oss-20b-mxfp4", SIZE_20B)
    asked = Settings(model="gpt-oss-20b")
    assert _line(tmp_path, free=SIZE_20B + 700_000_000, settings=asked).endswith(", fits")
    assert _line(tmp_path, free=SIZE_20B + 699_999_999, settings=asked).endswith("of free memory")


def test_where_it_goes_on() -> None:
    facts = Facts("1.0", "script", workspace="/home/me/work", title="How do I\nbake a cake?", turns=1)
    where = "workspace /home/me/work · resumed \"How do I bake a cake?\" (1 turn)"
    assert greeting(facts) == ["ossia 1.0 · script", KEYS, where]


def test_it_is_three_clean_lines_whatever_the_names(tmp_path: Path) -> None:
    bad = "a\x1b[2J\n\u202eb" * 50
    lines = greeting(Facts("1", bad, bytes=1, workspace=bad, title=bad, turns=2, offer=Offer(bad, 1)))
    assert len(lines) == 3 and len(greeting(Facts("1", "m", title="t" * 500))[-1]) < 80
    assert all(char.isprintable() for line in lines for char in line)


def test_this_machine() -> None:
    facts = gather(Settings(), workspace=Path("/w"), title="t", turns=3)
    assert (facts.version, facts.workspace, facts.title, facts.turns) == (__version__, "/w", "t", 3)
    assert facts.built_in == (facts.model == "etude") and 1 <= len(greeting(facts)) <= 3


def test_llama_cpp_is_not_loaded_for_it() -> None:
    code = """
import sys
from ossia.cli.settings.table import Settings
from tests.support.command import ROOT, write_script
from tests.support.documents import answer
from ossia.cli.chat.welcome import gather, greeting
greeting(gather(Settings()))
assert not [name for name in sys.modules if name.startswith("llama_cpp")]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_first_message_waits_for_no_import(tmp_path: Path) -> None:
    """What a turn needs of other packages is imported once the model is there; in a process of its own."""
    code = f"""
import sys
from tests.support import screen

async def case():
    async with screen.ChatScreen(loaded=False, engine={write_script(tmp_path, answer("Done."))!r}) as stage:
        await stage.until(lambda: stage.talk.model.loaded)
        await stage.until(lambda: hasattr(sys.modules.get("numpy.random"), "default_rng"))  # the last one
        before = set(sys.modules)
        await stage.type("hi\\r")
        await stage.until(lambda: "Done." in stage.rows)
        print(*sorted(name for name in {{*sys.modules}} - before if not name.startswith(("ossia.", "encodings."))))

assert not {{"filelock", "markdown_it", "numpy.random"}} & set(sys.modules)
screen.chatting(case)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=90)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
