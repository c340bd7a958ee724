"""Words that several views share."""

from __future__ import annotations

from typing import get_args

import pytest

from ossia.agent.events import TurnEnd
from ossia.agent.models.memory import size_text
from ossia.cli.words import ENDS, short_arguments, size_words


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (3_140, "3.14 kB"), (999_499, "999 kB"), (1_200_000, "1.2 MB")],
)
def test_bytes(count: int, words: str) -> None:
    assert size_text(count) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *(("", "nothing"), ("\n\n", "nothing"), ("a", "1 line, 1 byte"), ("a\n", "1 line, 2 bytes")),
        *(("a\n\u00e4", "2 lines, 4 bytes"), ("12345678\n" * 1500, "1,500 lines, 13.5 kB")),
        ("\ud800", "1 line, 1 byte"),
    ],
)
def test_how_long_a_result_is(text: str, words: str) -> None:
    assert size_words(text) == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"path": "a.txt", "content": "one\\ntwo"}', "a.txt"),
        ("*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b.py\n+z\n*** End Patch", "a.py, b.py"),
        ('{"patch": "*** Begin Patch\\n*** Delete File: c.py\\n*** End Patch"}', "c.py"),
        ('{"path": 3, "n": 1}', '{"path": 3, "n": 1}'),
        *(('{"path": "a.txt"}', "a.txt"), ('{"a": 1}', '{"a": 1}'), ('{"a": "b", "c": "d"}', '{"a": "b", "c": "d"}')),
        *(("print(1)\nprint(2)", "print(1) print(2)"), ('{"cmd": "ls\\n-l"}', "ls -l"), ("", ""), ("[1]", "[1]")),
        *(('{"a": ' * 5000, '{"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a": {"a":…'), ('{"broken', '{"broken')),
        ('{"command": ["bash", "-lc", "pytest -q"], "timeout": 60000}', "pytest -q"),
        *(('{"command": ["echo", "$HOME;ls"]}', "echo '$HOME;ls'"), ('{"command": []}', '{"command": []}')),
        *(('{"path": "src", "query": "def f"}', "def f in src"), ('{"path": "", "query": "def f"}', "def f")),
        ('{"path": "a.py", "line_start": 3, "line_end": 9}', "a.py"),
        *(("x" * 100, "x" * 59 + "…"), ('{"code": "' + "y" * 100 + '"}', "y" * 59 + "…")),
    ],
)
def test_arguments_on_one_line(arguments: str, words: str) -> None:
    assert short_arguments("bash", arguments, 60) == words


def test_only_commands_are_shown_as_commands() -> None:
    """With their folder; another tool's arguments may say more than that."""
    assert short_arguments("container.exec", '{"command": ["ls"], "workdir": "a b"}', 60) == "cd 'a b' && ls"
    written = '{"command": ["ls"], "delete": "everything"}'
    for name in ("python", "functions.bash", "functions.tidy"):
        assert short_arguments(name, written, 60) == written


def test_every_end_of_a_turn_has_words() -> None:
    assert set(ENDS) == {*get_args(TurnEnd), None} - {"answered"}
