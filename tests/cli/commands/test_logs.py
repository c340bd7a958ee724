"""`ossia logs`, after runs that were stored."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.command import ossia, ossia_here, write_script
from tests.support.documents import answer
from tests.support.pty import PtyChat

SCHEMA = '{"type": "object"}'


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Three stored turns, of which one is by a schema and one by a schema and cut; their sessions."""
    monkeypatch.setenv("OSSIA_STORE", "always")
    for question, text, flags, code in (
        ("Who\u202e is it?", "First \x1b[31mred\n\n    line\n", (), 0),
        ("Ada?", '{"year": 1815, "name": "\u00c4da"}', ("--schema", SCHEMA), 0),
        ("And?", '{"year": 18', ("--schema", SCHEMA, "--max-tokens", "8"), 6),
    ):
        done = ossia("run", question, "--engine", write_script(tmp_path, answer(text)), *flags)
        assert done.returncode == code, done.stderr
    assert ossia("run", "Unseen?", "--private", "--engine", write_script(tmp_path, answer("No."))).returncode == 0
    sessions = json.loads(ossia("sessions", "list", "--json").stdout)["sessions"]
    return [one["id"] for one in reversed(sessions)]


def test_the_last_turns_are_printed_exactly(stored: list[str], tmp_path: Path) -> None:
    found = json.loads(ossia("logs", "--json").stdout)
    assert found["version"] == 1
    days = [f"{datetime.fromtimestamp(one.pop('created')):%Y-%m-%d %H:%M}" for one in found["turns"]]
    whole = found["turns"][0]["answer"]
    assert whole.startswith("First \x1b[31mred\n\n    line")
    assert found["turns"] == [
        {"session": stored[0], "turn": 1, "question": "Who\u202e is it?", "answer": whole,
         "model": "script", "end": "answered", "data": None},
        {"session": stored[1], "turn": 1, "question": "Ada?", "answer": '{"year": 1815, "name": "\u00c4da"}',
         "model": "script", "end": "answered", "data": {"year": 1815, "name": "\u00c4da"}},
        {"session": stored[2], "turn": 1, "question": "And?", "answer": found["turns"][2]["answer"],
         "model": "script", "end": "tokens", "data": None},
    ]  # fmt: skip
    first = f"{days[0]}  {stored[0]}\n> Who\u202e is it?\n\n{whole}\n"
    second = f"{days[1]}  {stored[1]}\n> Ada?\n\n{found['turns'][1]['answer']}\n"
    done = ossia("logs", "-n", "0")
    assert done.stdout.decode().startswith(f"{first}\n{second}\n") and not done.stderr
    assert ossia("logs", "-q", "year 1815").stdout.decode() == second
    with PtyChat("logs", "-q", "red") as terminal:
        assert terminal.wait() == 0
        assert "\x1b[31m" not in terminal.sent.decode() and "\u202e" not in terminal.sent.decode()
    data = ossia("logs", "--data")
    assert data.stdout.decode() == '{"year": 1815, "name": "\u00c4da"}\n'
    assert data.stderr.decode() == f"ossia: an answer of session {stored[2]} isn't whole JSON: it is left out\n"
    assert b"Unseen" not in done.stdout


def test_without_turns_stdout_stays_empty() -> None:
    for flags, out, error in (
        ((), b"", b'ossia: nothing is stored yet: ossia run --save "\xe2\x80\xa6" stores its turn\n'),
        (("-q", "x"), b"", b"ossia: nothing found\n"),
        (("--data",), b"", b"ossia: nothing found\n"),
        (("--json",), b'{"version": 1, "turns": []}\n', b""),
    ):
        done = ossia_here("logs", *flags)
        assert (done.returncode, done.stdout, done.stderr) == (0, out, error)
    for flags in (("--json", "--data"), ("-n", "-1"), ("-n", "x")):
        done = ossia_here("logs", *flags)
        assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
