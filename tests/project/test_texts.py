"""What the texts of the project say is so."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ossia import __version__
from ossia.agent.engine.scripted import read_script
from ossia.cli.exits import ExitCode
from ossia.cli.settings.table import Settings
from tests import readme
from tests.support.command import ROOT, ossia_text


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def _blocks(text: str, language: str = "") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# -- README --


def test_the_readme_opens_with_the_two_commands() -> None:
    first = _text("README.md").split("```")[1].strip().splitlines()
    assert [line.split("  #")[0].rstrip() for line in first] == [
        'pip install uv && uv run ossia run "What is 48*17?"',
        "uv run pytest",
    ]


def test_the_page_on_confinement_names_every_gap() -> None:
    """`python -m tests.readme` writes it."""
    text = _text("docs/confinement.md")
    assert readme.with_gaps(text) == text
    assert "| processor time: limited only by a call's time limit | × | × |  |" in text


def test_the_chats_page_lists_its_commands() -> None:
    """`python -m tests.readme` writes it."""
    text = _text("docs/chat.md")
    assert readme.with_commands(text) == text
    assert "| `/retry` |" in text


def test_the_page_on_configuration_lists_every_setting() -> None:
    """`python -m tests.readme` writes it."""
    text = _text("docs/configuration.md")
    assert readme.with_settings(text) == text
    assert [key for key in Settings.__dataclass_fields__ if f"\n| `{key}`, `OSSIA_{key.upper()}` |" not in text] == []


def test_the_page_for_programs_lists_every_exit_code() -> None:
    listed = re.findall(r"^\| (\d+) \|", _text("docs/programs.md"), re.MULTILINE)
    assert listed == [str(int(code)) for code in ExitCode]


def test_every_flag_of_run_and_of_the_chat_is_a_setting() -> None:
    """All but those that say what this one command is to do. `--no-guide` is `guide = "off"`."""
    helps = "".join(ossia_text(*args).stdout for args in (("--help",), ("run", "--help")))
    flags = {flag.replace("-", "_") for flag in re.findall(r"^  (?:-\w, )?--([a-z-]+)", helps, re.MULTILINE)}
    own = {"save", "continue", "resume", "schema", "skill", "control", "file", "truncate", "version", "help"}
    own |= {"schema_multi", "extract", "xl", "xa", "output", "no_stream"}
    assert flags - own - {"no_guide"} | {"guide"} == set(Settings.__dataclass_fields__)


# -- the other pages --


def test_agents_md_is_short() -> None:
    assert len(_text("AGENTS.md").splitlines()) <= 110


def test_the_changelog_has_its_form() -> None:
    headings = re.findall(r"^## (.*)$", _text("CHANGELOG.md"), re.MULTILINE)
    releases = [heading for heading in headings if heading != "Unreleased"]
    assert releases == [one for one in releases if re.fullmatch(r"\d+\.\d+\.\d+ – \d{4}-\d\d-\d\d", one)]
    assert releases[0].partition(" ")[0] == __version__
    assert headings in (releases, ["Unreleased", *releases])


def test_the_script_in_the_docs_is_one(tmp_path: Path) -> None:
    (example,) = _blocks(_text("docs/formats.md"), "json")
    path = tmp_path / "script.json"
    path.write_text(example, encoding="utf-8")
    assert list(read_script(path).steps) == json.loads(example)["steps"]


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md") if path.name != "README.md"))
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", _text(page))
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


# -- every file --


def _tracked() -> list[Path]:
    """What git tracks, or nothing outside a clone (an unpacked sdist)."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return []
    command = [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


_SOMEBODYS = re.compile(r"(?:/home|/Users)/(?!(?:me|you|user)\b)[a-z]\w*/")


def test_nothing_that_is_tracked_belongs_to_one_machine() -> None:
    """No path of this clone or of somebody's home, no lock file (it records download addresses)."""
    texts = {path: path.read_bytes().decode("utf-8", "replace") for path in _tracked() if path.suffix != ".gguf"}
    assert [path for path, text in texts.items() if f"{ROOT}/" in text or _SOMEBODYS.search(text)] == []
    assert [path for path in texts if path.name == "uv.lock"] == []
