"""What a kill -9 leaves of a stored session: `python -m tests.oracle.kill_sessions [--count 50] [--seed 1]`.

Each time a process of its own plays turns over the script engine, with files that it really writes and reads, and says
after every message that it is in the session; half of them at 300 tokens a second, half as fast as they can, so that
most of the time goes into storing. It is killed at a random moment. Then the database must be whole, the session must
have every message that was told and at most one more, and it must go on: the open call gets its answer, and a turn
comes to its end. The first difference ends it, with 1.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ossia.agent.errors import SessionMissing
from ossia.agent.events import Event, MessageAdded, TurnEnded
from ossia.agent.models.model import open_model
from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore
from ossia.harmony.messages import is_call
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import NoStop, ToolContext
from ossia.tools.toolbox import Toolbox
from ossia.tools.work import workspace_tools
from ossia.tools.workspace import Workspace
from tests.support.command import ROOT
from tests.support.turns import Stage, drive, end_of
from tests.support.work_calls import reads, writes

_TURNS = 20  # of one script; then it begins again
_FINAL = "<|channel|>final<|message|>Both notes are there.<|return|>"


@dataclass
class Report:
    """How often it was killed, and where: before the first message, in the middle of a turn, between two."""

    kills: int = 0
    empty: int = 0
    in_turn: int = 0
    resumed: int = 0
    messages: int = 0
    untold: int = 0


class Difference(AssertionError):
    """The file isn't what it must be; the message says where."""


# -- the process that is killed ----------------------------------------------------------------------------------------


def play(path: Path, tokens_per_s: float) -> None:
    """Store turns for ever; a line on stdout for the session, and after each event that changed it."""
    store, session, tokenizer = SessionStore(path, now=time.time), Session(), _tokenizer()
    session.vocabulary = tokenizer.vocabulary.digest
    folder = path.parent / "workspace"
    folder.mkdir(parents=True)
    context = ToolContext(NoStop(), Workspace(folder), path.parent, lambda text: len(tokenizer.encode(text)))

    def new_stage() -> Stage:
        stage = Stage(tokenizer, _steps(), tokens_per_s=tokens_per_s, session=session, context_tokens=1 << 20)
        stage.toolbox = Toolbox(workspace_tools(), policy=Policy((Rule("*", "allow"),)), context=context)
        return stage

    stage = new_stage()
    print(store.keep(session), flush=True)  # all is ready: the time until the kill begins
    while True:
        for n in range(_TURNS):
            drive(stage.turn(f"Note {n}, please."), _tell)
        stage = new_stage()


def _tell(event: Event) -> None:
    if isinstance(event, MessageAdded):
        print(_digest(event.message.text), flush=True)
    elif isinstance(event, TurnEnded):
        print("end", flush=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _steps() -> list[str]:
    steps: list[str] = []
    for n in range(_TURNS):
        steps += [
            "<|channel|>analysis<|message|>A note is a file.<|end|><|start|>assistant"
            + writes(f"{n}.txt", f"{'note ' * 40}{n}"),
            reads(f"{n}.txt"),
            _FINAL,
        ]
    return steps


# -- the one that looks ------------------------------------------------------------------------------------------------


def play_and_kill(*, count: int, seed: int, tokenizer: Tokenizer | None = None) -> Report:
    """Kill `count` processes, each at a moment of its own. Raises `Difference`."""
    source, report = random.Random(seed), Report()
    tokenizer = tokenizer or _tokenizer()
    moments = [source.uniform(0.0, 0.5) for _ in range(count)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        paths = [Path(folder) / str(n) / "sessions.sqlite" for n in range(count)]
        speeds = [300.0 * (n % 2) for n in range(count)]
        for n, told in enumerate(pool.map(_killed, paths, speeds, moments)):
            try:
                _look(paths[n], told, report, tokenizer)
            except AssertionError as error:
                raise Difference(f"kill {n}, {moments[n]:.4f} s after its start, of seed {seed}: {error}") from error
            shutil.rmtree(paths[n].parent)
    return report


def _killed(path: Path, tokens_per_s: float, after_s: float) -> list[str]:
    """What the process told before it was killed, the session's id first."""
    command = [sys.executable, "-m", "tests.oracle.kill_sessions", "--play", str(path), str(tokens_per_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            first = process.stdout.readline().strip()
            time.sleep(after_s)
        finally:
            process.kill()
            rest = process.stdout.read()  # `communicate` with a timeout would pass over what `readline` has buffered
    assert process.returncode == -9, f"it ended by itself: {process.returncode}"
    return [first, *(line.rstrip() for line in rest.splitlines(keepends=True) if line.endswith("\n"))]


def _look(path: Path, told: list[str], report: Report, tokenizer: Tokenizer) -> None:
    report.kills += 1
    session_id, *said = told
    ends, digests = said.count("end"), [line for line in said if line != "end"]
    if path.exists():
        _is_whole(path)
    store = SessionStore(path, now=time.time)
    try:
        session = store.resume(session_id)
    except SessionMissing:
        assert not digests, f"{len(digests)} messages were told, and there is no session"
        report.empty += 1
        return
    finally:
        store.close()
    stored = [_digest(message.text) for message in session.messages]
    assert stored[: len(digests)] == digests, f"{len(digests)} messages were told, the session has {len(stored)}"
    assert len(stored) <= len(digests) + 1, f"{len(digests)} messages were told, the session has {len(stored)}"
    assert list(session.ends[:ends]) == ["answered"] * ends and len(session.ends) <= ends + 1, session.ends
    assert all(entry.vocabulary for entry in session.entries if entry.message.sampled)
    report.messages += len(stored)
    report.untold += len(stored) - len(digests)
    report.in_turn += session.ends[-1] is None
    _goes_on(path, session_id, tokenizer)
    report.resumed += 1


def _is_whole(path: Path) -> None:
    db = sqlite3.connect(path)
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if db.execute("SELECT 1 FROM sqlite_master WHERE name='words'").fetchone():
            db.execute("INSERT INTO words(words) VALUES('integrity-check')")
    finally:
        db.rollback()
        db.close()


def _goes_on(path: Path, session_id: str, tokenizer: Tokenizer) -> None:
    store = SessionStore(path, now=time.time)
    try:
        session = store.resume(session_id)
        session.vocabulary = tokenizer.vocabulary.digest
        stage = Stage(tokenizer, (_FINAL,), session=session, context_tokens=1 << 20)
        assert end_of(stage.play("And now?")).end == "answered"
        assert store.problem is None, store.problem
        _calls_are_answered(store.load(session_id))
    finally:
        store.close()


def _calls_are_answered(session: Session) -> None:
    for message, after in itertools.pairwise(session.messages):
        assert not is_call(message) or after.role == "tool", f"no answer to {message.text!r}"
    assert session.messages[-1].text == "Both notes are there."
    assert session.entries == tuple(sorted(session.entries, key=lambda entry: entry.turn))


def _tokenizer() -> Tokenizer:
    return Tokenizer(open_model(ROOT / "agent" / "models" / "etude.gguf").vocabulary())


def main() -> None:
    """Play, or kill and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--play", nargs=2, metavar=("PATH", "TOKENS_PER_S"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.play:
        play(Path(given.play[0]), float(given.play[1]))
        return
    report = play_and_kill(count=given.count, seed=given.seed)
    print(
        f"{report.kills} kills: {report.in_turn} in the middle of a turn, {report.empty} before the first message; "
        f"{report.messages} messages, all there; {report.untold} of them were stored and not yet told; "
        f"integrity_check ok each time; {report.resumed} went on"
    )


if __name__ == "__main__":
    main()
