"""How calls are shown, and turned into text and back to be edited."""

from __future__ import annotations

import pytest

from ossia.tools.present import CODE, COMMAND, JSON, PATCH, Present, present_of
from ossia.tools.work.apply_patch import ApplyPatch
from ossia.tools.work.exec import Exec
from ossia.tools.work.open_file import OpenFile


@pytest.mark.parametrize(
    ("present", "args", "text"),
    [
        (COMMAND, {"command": ["bash", "-lc", "pytest -q | tail"], "timeout": 9}, "pytest -q | tail"),
        (COMMAND, {"command": ["echo", "a b"]}, "echo 'a b'"),
        *((COMMAND, {"command": wrong}, None) for wrong in ([], [1], 3)),
        *((COMMAND, wrong, None) for wrong in ({}, [], "ls")),
        (PATCH, {"patch": "*** Begin Patch"}, "*** Begin Patch"),
        *((CODE, "print(1)", "print(1)"), (CODE, {"code": "1"}, None)),
        *((JSON, {"a": "b"}, None), (JSON, "text", None)),
    ],
)
def test_a_call_as_text(present: Present, args: object, text: str | None) -> None:
    assert present.text(args) == text


def test_an_edited_text_becomes_the_arguments_again() -> None:
    """What isn't shown stays."""
    assert COMMAND.edited({"command": ["ls"], "timeout": 9}, "ls -l") == {
        "command": ["bash", "-lc", "ls -l"], "timeout": 9,
    }  # fmt: skip
    assert PATCH.edited({"patch": "a"}, "b") == {"patch": "b"}
    assert CODE.edited("print(1)", "print(2)") == "print(2)"


def test_recorded_calls_look_as_those_of_the_tools() -> None:
    """However a model writes the name, and whether the tool is on or not."""
    for tool in (Exec(), ApplyPatch(), OpenFile()):
        assert present_of(tool.spec.name) == tool.spec.present
    assert present_of("python") == CODE
    assert (present_of("bash"), present_of("applypatch"), present_of("functions.bash")) == (COMMAND, PATCH, JSON)
