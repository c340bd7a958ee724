"""The files that are kept, in whichever state they are: made by two at once, damaged, on a full disk."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from ossia.cli import paths
from ossia.tools.library.library import Library, Row, Seen
from ossia.tools.undo.journal import Journal
from tests.oracle.damaged_databases import damage
from tests.oracle.first_starts import first_starts
from tests.support.command import OSSIA, ossia_here, write_script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes and modes as POSIX has them")

FINAL = "<|channel|>final<|message|>Done.<|return|>"
FULL = """
set -e
mount -t tmpfs -o size=1m tmpfs "$XDG_DATA_HOME"
"$@" --save 2> /dev/null
dd if=/dev/zero of="$XDG_DATA_HOME/fill" bs=4k status=none 2> /dev/null || true
"$@" --save
"$@" --continue || echo $? >&2
"$0" docs list || echo $? >&2
rm -r "$XDG_DATA_HOME/ossia"
dd if=/dev/zero of="$XDG_DATA_HOME/fill2" bs=1 status=none 2> /dev/null || true
"$@" --save
"$0" docs add "$HOME" || echo $? >&2
"""


def _can_mount() -> bool:
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return bool(shutil.which("unshare")) and subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_two_that_start_first_lose_nothing() -> None:
    """A small part of `python -m tests.oracle.first_starts`."""
    report = first_starts(6, commands=1)
    assert report.good, report


def test_what_is_damaged_is_one_line() -> None:
    """A small part of `python -m tests.oracle.damaged_databases`."""
    report = damage(6, seed=3)
    assert not report.faults, report
    assert sum(report.commands.values()) >= 12 and sum(report.told.values())


@pytest.mark.skipif(not _can_mount(), reason="needs unshare -m and root, to mount a small tmpfs")
def test_a_full_disk_is_called_that_and_the_answer_comes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    environ = {**os.environ, "XDG_DATA_HOME": str(data), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = ("run", "hi", "--engine", write_script(tmp_path, FINAL), "--no-tools")
    command = ["unshare", "-m", "/bin/sh", "-c", FULL, str(OSSIA), str(OSSIA), *run]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environ, timeout=120)
    sessions, library = (
        f"{data}/ossia/{name}: the disk is full" for name in ("sessions/sessions.sqlite", "library.sqlite")
    )
    assert done.stdout == "Done.\n" * 3, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("ossia: warning", "ossia: error", "1"))]
    said = [line.split(": free some space")[0] for line in lines]
    not_stored = f"ossia: warning: the session is not stored: {sessions}"
    assert said == [not_stored, f"ossia: error: {sessions}", "1", not_stored, f"ossia: error: {library}", "1"]


@pytest.mark.parametrize("command", [("undo", "--workspace", "."), ("undo", "--workspace", ".", "--list")])
def test_a_journal_that_cannot_be_used_is_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    journal = Journal(paths.data_dir(), tmp_path)
    journal.begin_turn("one")
    journal.keep(tmp_path / "a")
    (tmp_path / "a").touch()
    journal.end_turn()
    (lock,) = (paths.data_dir() / "undo").glob("*/lock")
    lock.unlink()
    lock.mkdir()
    said = ossia_here(*command, cwd=tmp_path)
    line = (
        f"ossia: error: {lock}: can't be used: Is a directory: "
        "check what is there and its permissions, or move it away\n"
    )
    assert (said.returncode, said.stdout, said.stderr.decode()) == (1, b"", line)


@pytest.mark.parametrize("line", ['{"path": "b", "before": ["file", 1e999, "", "", null]}', "[" * 99_999, '"before"'])
def test_a_line_of_the_journal_that_nobody_wrote_is_left_out(line: str, tmp_path: Path) -> None:
    journal = Journal(paths.data_dir(), tmp_path)
    journal.begin_turn("one")
    journal.keep(tmp_path / "a")
    (tmp_path / "a").touch()
    journal.end_turn()
    (turn,) = (paths.data_dir() / "undo").glob("*/turns/*/turn.jsonl")
    turn.write_bytes(turn.read_bytes() + line.encode() + b"\n")
    assert ossia_here("undo", "--workspace", ".", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "a").exists()


def test_a_schema_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    """SQLite names the table that it can't make sense of, in bytes that are no UTF-8; Python's error is about those."""
    library = paths.library_file()
    Library(library).add_root("url", "http://x.test/")
    assert ossia_here("sessions", "import", _conversation(tmp_path)).returncode == 0
    for path in (library, paths.sessions_file()):
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA writable_schema=ON")
            db.execute(
                "UPDATE sqlite_master SET sql=CAST(x'ff41ff' AS TEXT), name=CAST(x'ff41ff' AS TEXT) WHERE type='table'"
            )
        db.close()
    for command, path in ((("docs", "list"), library), (("sessions", "list"), paths.sessions_file())):
        said = ossia_here(*command)
        assert (said.returncode, said.stdout, said.stderr.count(b"\n")) == (1, b"", 1), said.stderr.decode()
        assert f"{path}: not a whole " in said.stderr.decode() and b"move it away" in said.stderr


def test_a_damaged_row_is_listed_and_removed(tmp_path: Path) -> None:
    for _ in range(2):
        assert ossia_here("sessions", "import", _conversation(tmp_path)).returncode == 0
    with sqlite3.connect(paths.sessions_file()) as db:
        db.execute("UPDATE sessions SET title=x'ff', created=x'00', updated=1e300, model=x'00' WHERE number=1")
        (session_id,) = db.execute("SELECT id FROM sessions WHERE number=1").fetchone()
    db.close()
    said = ossia_here("sessions", "list")
    assert said.returncode == 0 and session_id.encode() in said.stdout, said.stderr
    assert ossia_here("sessions", "show", session_id).returncode == 0
    assert ossia_here("sessions", "rm", session_id).returncode == 0
    assert session_id.encode() not in ossia_here("sessions", "list").stdout


@pytest.mark.parametrize("change", ["page=7", "page='text'", "links='nonsense'", "links='[]'", "links='{\"x\": 1}'"])
def test_a_damaged_document_is_one_line(change: str) -> None:
    library = Library(paths.library_file())
    seen = Seen(1, 1, b"", 1)
    library.put(library.add_root("folder", "/notes"), [Row("/notes/a", "a", seen, "Title", "text", "text")])
    with sqlite3.connect(library.path) as db:
        db.execute(f"UPDATE documents SET {change}")
    db.close()
    said = ossia_here("docs", "show", "1")
    assert (said.stdout, said.stderr.count(b"\n")) == (b"", 1) and said.returncode in (1, 2), said.stderr.decode()
    assert f"{library.path}: not a whole database" in said.stderr.decode()


def _conversation(folder: Path) -> str:
    path = folder / "conversation.json"
    path.write_text('[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]')
    return str(path)
