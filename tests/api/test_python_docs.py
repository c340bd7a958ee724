"""Every example of docs/python.md, run as it stands."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.manual import PAGES, Block, blocks
from tests.support.notebook import Notebook

PAGE = blocks(PAGES["docs/python.md"].read_text(encoding="utf-8"))
EXAMPLES = [number for number, block in enumerate(PAGE) if block.language == "python"]
ELSEWHERE = ("test_lamp.py", "notebook.py")
"""Examples that Python itself doesn't run."""


def _printed(number: int) -> str:
    """The output that the page shows below an example; "" for none."""
    following = PAGE[number + 1] if number + 1 < len(PAGE) else Block("", "", "")
    return following.text if following.language == "text" else ""


def _title(number: int) -> str:
    return f"example-{EXAMPLES.index(number) + 1}"


@pytest.mark.parametrize("number", [one for one in EXAMPLES if PAGE[one].name not in ELSEWHERE], ids=_title)
def test_an_example_prints_what_the_page_shows(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """capfd: nothing else is printed, not even by llama.cpp."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "example.py"
    path.write_text(PAGE[number].text, encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")
    assert capfd.readouterr() == (_printed(number), "")


def test_the_example_of_a_test_passes(tmp_path: Path) -> None:
    """With warnings as errors: an unclosed file or a thread that dies would fail it."""
    (block,) = (one for one in PAGE if one.name == "test_lamp.py")
    (tmp_path / block.name).write_text(block.text, encoding="utf-8")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", block.name]
    command.append(f"--basetemp={tmp_path / 'temp'}")  # in the usual place it looks for old folders of all runs
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"^2 passed", done.stdout, re.MULTILINE)


def test_the_example_of_a_notebook_runs(tmp_path: Path) -> None:
    (number,) = (one for one in EXAMPLES if PAGE[one].name == "notebook.py")
    cells = [cell for cell in PAGE[number].text.split("# %%\n") if cell]
    with Notebook(tmp_path) as notebook:
        done = [notebook.run(cell) for cell in cells]
    assert [cell.error for cell in done] == [""] * len(cells)
    assert "\n".join(cell.text for cell in done if cell.text) == _printed(number).rstrip("\n")
