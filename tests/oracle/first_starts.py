"""Two processes that use a data folder at the same moment, which is new to both: nothing is lost.

    python -m tests.oracle.first_starts [300] [--commands 10]

Each time two processes meet before each kind of stored file, and then both make it and write into it: the sessions,
the library, the journal that undo uses, the history of a chat, the grants. Afterwards all that both wrote must be
there, and neither may have said anything. `--commands`: as many pairs of whole `ossia run --save` besides. Exit 1 if
anything was lost or said.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore
from ossia.cli.terminal.input.history import Entry, History
from ossia.tools.approval.grants import Grants
from ossia.tools.library.library import Library
from ossia.tools.undo.journal import Journal
from tests.support.command import OSSIA, ROOT, write_script

_PATIENCE_S = 60
_FINAL = "<|channel|>final<|message|>Done.<|return|>"


def _sessions(data: Path, who: str) -> str | None:
    store, session = SessionStore(data / "sessions" / "sessions.sqlite", now=time.time), Session()
    store.keep(session)
    session.open_turn(who)
    session.close_turn("answered")
    store.close()
    return store.problem


def _library(data: Path, who: str) -> None:
    Library(data / "library.sqlite").add_root("url", who)


def _journal(data: Path, who: str) -> None:
    (data / "work").mkdir(exist_ok=True)
    journal = Journal(data, data / "work")
    journal.begin_turn(who)
    journal.keep(data / "work" / who)
    (data / "work" / who).write_text(who)
    journal.end_turn()


def _history(data: Path, who: str) -> None:
    History(data / "history.jsonl").add(Entry(who))


def _grants(data: Path, who: str) -> None:
    Grants(data).add([who])


WRITERS: dict[str, Callable[[Path, str], str | None]] = {
    "sessions": _sessions,
    "library": _library,
    "journal": _journal,
    "history": _history,
    "grants": _grants,
}


def _found(data: Path, kind: str) -> list[str]:
    """Who has written there, by what can be read afterwards."""
    match kind:
        case "sessions":
            path = data / "sessions" / "sessions.sqlite"
            store = SessionStore(path, now=time.time)
            found = [message.text for info in store.list() for message in store.load(info.id).messages]
            store.close()
            db = sqlite3.connect(path)
            whole = db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            db.close()
            return found if whole else []
        case "library":
            return [root.place for root in Library(data / "library.sqlite").roots()]
        case "journal":
            return [turn.label for turn in Journal(data, data / "work").turns()]
        case "history":
            return [entry.text for entry in History(data / "history.jsonl").entries]
        case _:
            return [str(rule) for rule in Grants(data).rules()]


# -- the two that meet -------------------------------------------------------------------------------------------------


def _play(me: int) -> None:
    """For each folder that is named on stdin: a process of its own writes into it, and what it said is one line."""
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            os.write(writer, json.dumps(_write_all(Path(line.strip()), me)).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as said:
            print(said.read() or '{"sessions": "it ended by itself"}', flush=True)
        os.waitpid(child, 0)


def _write_all(data: Path, me: int) -> dict[str, str]:
    said = {}
    with (data / "meeting").open("r+b") as file, mmap.mmap(file.fileno(), 0) as meeting:
        for number, (kind, write) in enumerate(WRITERS.items()):
            _meet(meeting, 2 * number + me, 2 * number + 1 - me)
            try:
                problem = write(data, f"w{me}")
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            if problem:
                said[kind] = problem.replace(str(data), "DATA")
    return said


def _meet(meeting: mmap.mmap, mine: int, theirs: int) -> None:
    """Go on at the moment at which the other one does: no lock or sleep would wake both at once."""
    meeting[mine] = 1
    give_up_at = time.monotonic() + _PATIENCE_S
    while not meeting[theirs] and time.monotonic() < give_up_at:
        os.sched_yield()


# -- the one that looks ------------------------------------------------------------------------------------------------


class Report:
    """By kind: how many were written and are there, and what was said, with how often."""

    def __init__(self) -> None:
        self.written: Counter[str] = Counter()
        self.there: Counter[str] = Counter()
        self.said: Counter[str] = Counter()

    @property
    def good(self) -> bool:
        """Is everything there, and was nothing said?"""
        return self.written == self.there and not self.said

    def __str__(self) -> str:
        rows = [f"{'':<10} {'written':>8} {'lost':>5}"]
        rows += [f"{kind:<10} {count:>8} {count - self.there[kind]:>5}" for kind, count in self.written.items()]
        return "\n".join([*rows, *(f"{count} × {line}" for line, count in self.said.most_common())])


def first_starts(count: int, *, commands: int = 0) -> Report:
    """`count` times two processes, and `commands` times two whole commands."""
    report = Report()
    command = [sys.executable, "-m", "tests.oracle.first_starts", "--play"]
    players = [
        subprocess.Popen([*command, str(me)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for me in range(2)
    ]
    try:
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder:
                _let_meet(players, Path(folder), report)
    finally:
        for player in players:
            player.communicate(timeout=_PATIENCE_S)
    for _ in range(commands):
        with tempfile.TemporaryDirectory() as folder:
            _run_two(Path(folder), report)
    return report


def _let_meet(players: list[subprocess.Popen[str]], data: Path, report: Report) -> None:
    (data / "meeting").write_bytes(bytes(2 * len(WRITERS)))
    for player in players:
        assert player.stdin is not None
        player.stdin.write(f"{data}\n")
        player.stdin.flush()
    for player in players:
        assert player.stdout is not None
        report.said.update(f"{kind}: {line}" for kind, line in json.loads(player.stdout.readline()).items())
    for kind in WRITERS:
        report.written[kind] += 2
        report.there[kind] += len({"w0", "w1"}.intersection(_found(data, kind)))


def _run_two(data: Path, report: Report) -> None:
    script = write_script(data, _FINAL)
    env = {**os.environ, "XDG_DATA_HOME": str(data), "XDG_CACHE_HOME": str(data)}
    runs = [
        subprocess.Popen(
            [str(OSSIA), "run", who, "--engine", script, "--save", "--no-tools", "--quiet"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
        )
        for who in ("w0", "w1")
    ]  # fmt: skip
    for run in runs:
        out, said = run.communicate(timeout=_PATIENCE_S)
        lines = [line for line in said.splitlines() if not line.startswith("stored; continue it with")]
        if (run.returncode, out) != (0, "Done.\n") or lines:
            report.said["; ".join([f"run: {run.returncode}", *lines]).replace(str(data), "DATA")] += 1
    report.written["commands"] += 2
    report.there["commands"] += len({"w0", "w1"}.intersection(_found(data / "ossia", "sessions")))


def main() -> int:
    """Let them meet, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=300)
    parser.add_argument("--commands", type=int, default=10)
    parser.add_argument("--play", type=int, choices=(0, 1), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play is not None:
        _play(given.play)
        return 0
    report = first_starts(given.count, commands=given.commands)
    print(report)
    return 0 if report.good else 1


if __name__ == "__main__":
    sys.exit(main())
