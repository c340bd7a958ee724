"""`ossia run --plan`: it looks, it can't change anything, and it says so to the model once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.prompt import PLAN, WORK
from tests.support.command import ossia, write_script
from tests.support.work_calls import wants

ADD = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"
NOTES = "Notes of the workspace's AGENTS.md:\n\nUse tabs."
FINAL = "<|channel|>final<|message|>1. Add new.txt.<|return|>"


def run(work: Path, *steps: str, flags: tuple[str, ...] = ()) -> dict[str, Any]:
    script = write_script(work.parent, *steps)
    done = ossia("run", "Make new.txt.", "--engine", script, "--workspace", str(work), "--json", *flags)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rendered(title: str) -> str:
    """The stored session as `harmony render` shows it. (Exported it is without tools, so without `DATA`.)"""
    exported = ossia("sessions", "export", title, "--form", "harmony")
    assert exported.returncode == 0, exported.stderr
    return ossia("harmony", "render", "-", "--text", "--model", "etude", stdin=exported.stdout).stdout.decode()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    return folder


def test_nothing_is_changed_whatever_is_allowed(work: Path) -> None:
    steps = (
        wants("repo_browser.open_file", path="a.txt"),
        wants("repo_browser.apply_patch", patch=ADD),
        wants("container.exec", command=["bash", "-lc", "cat a.txt; echo x >b.txt"]),
        FINAL,
    )
    allowing = ("--yes", "--trust", "--allow", "repo_browser", "--allow", "container.exec")
    done = run(work, *steps, flags=("--plan", *allowing))
    opened, patched, ran = done["calls"]
    assert not opened["error"] and "a\n" in opened["result"]
    assert patched["error"] and "a plan is being made" in patched["result"]
    assert ran["error"]  # the sandbox's refusal, or "off" where nothing confines commands
    assert sorted(path.name for path in work.iterdir()) == ["a.txt"]
    assert done["answer"] == "1. Add new.txt."


def test_what_the_plan_refused_is_told_in_a_pipe(work: Path) -> None:
    patch = wants("repo_browser.apply_patch", patch=ADD)
    done = ossia("run", "Hi", "--engine", write_script(work.parent, patch, FINAL), "--workspace", str(work), "--plan")
    told = "ossia: 1 call was refused while a plan is made: repo_browser.apply_patch"
    assert done.stderr.decode().splitlines() == [told]


def test_the_model_is_told_once_and_the_plan_is_carried_out(work: Path) -> None:
    run(work, FINAL, flags=("--plan", "--save"))
    run(work, FINAL, flags=("--plan", "--continue"))
    done = run(work, wants("repo_browser.apply_patch", patch=ADD), FINAL, flags=("--continue", "--yes", "--trust"))
    assert not done["calls"][0]["error"] and (work / "new.txt").read_text() == "new\n"
    once, *later = re.findall(r"<\|start\|>user<\|message\|>(.*?)<\|end\|>", rendered("Make new"), re.DOTALL)
    assert once == f"Make new.txt.\n\n{PLAN}" and later == ["Make new.txt.", "Make new.txt."]


@pytest.mark.parametrize(
    ("flags", "notes", "told"),
    [
        ((), "", WORK),
        ((), "Use tabs.", f"{WORK}\n\n{NOTES}"),
        (("--instructions", "Be brief."), "", "Be brief."),
        (("--instructions", "Be brief."), "Use tabs.", f"Be brief.\n\n{NOTES}"),
    ],
)
def test_the_instructions_for_work_in_a_folder(work: Path, flags: tuple[str, ...], notes: str, told: str) -> None:
    """Those of the user take their place; AGENTS.md stands behind either."""
    if notes:
        (work / "AGENTS.md").write_text(notes)
    script = write_script(work.parent, FINAL)
    done = ossia("run", "Hi", "--engine", script, "--workspace", str(work), "--trust", "--save", *flags)
    assert done.returncode == 0, done.stderr
    assert f"<|start|>developer<|message|># Instructions\n\n{told}<|end|>" in rendered("Hi")


def test_without_a_folder_there_are_none(tmp_path: Path) -> None:
    script = write_script(tmp_path, FINAL)
    ossia("run", "Hi", "--engine", script, "--save")
    assert "developer" not in rendered("Hi")
