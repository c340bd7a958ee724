"""Each flag of `ossia run` in each failure: the table, and what a script may rely on.

The exit code is that of `cli/exits.py`. Code, JSON and files come whole or not at all; a cut text is printed as far as
it goes. `--json` has its line, `--jsonl` its result at the end. stderr has one line about it, and no traceback.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.support.command import TIMEOUT_S, ossia, ossia_here, start, write_script
from tests.support.documents import counted
from tests.support.skills import write_skill

FINAL = "<|channel|>final<|message|>"
CODE = '{"n": 1}'
ITEMS = f'{{"items": [{CODE}]}}'
WHOLE = f"```json\n{CODE}\n```\n"
LONG = f"{FINAL}{counted('word ', 200)}"
CALL = "<|channel|>commentary to=functions.none <|constrain|>json<|message|>{}<|call|>"
THINKING = f"<|channel|>analysis<|message|>{counted('word ', 500)}"
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
OLDER = "older\n"

FLAGS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "-f": ("-f", "notes.txt"),
    "--truncate": ("--truncate", "head"),
    "-t": ("-t", "review"),
    "--no-stream": ("--no-stream",),
    "--plain": ("--plain",),
    "-q": ("-q",),
    "-v": ("-v",),
    "--save": ("--save",),
    "-c": ("-c",),
    "-o -": ("-o", "-"),
    "-x": ("-x",),
    "--xl": ("--xl", "json"),
    "--xa": ("--xa",),
    "-o": ("-o", "out.txt"),
    "-o -x": ("-o", "out.txt", "-x"),
    "--schema": ("--schema", "n int"),
    "--schema-multi": ("--schema-multi", "n int"),
    "--json": ("--json",),
    "--json -x": ("--json", "-x"),
    "--json -o": ("--json", "-o", "out.txt"),
    "--json --schema": ("--json", "--schema", "n int"),
    "--jsonl": ("--jsonl",),
    "--jsonl --schema": ("--jsonl", "--schema", "n int"),
    "--jsonl --save": ("--jsonl", "--save"),
    "--control": ("--jsonl", "--control", "stdin"),
    "--raw": ("--raw",),
}
_CODE_ALONE = {"-x", "--xl", "--xa"}
_SCHEMAS = {"--schema", "--schema-multi"}
_NOT_BOTH = ((_CODE_ALONE, {*_SCHEMAS, "--raw", "--jsonl"}), ({"--schema"}, {"--schema-multi"}))


@dataclass(frozen=True, slots=True)
class Failure:
    """`said`: a part of the line about it; `steps`: of the model, none: it answers.

    `printed`: how the text begins that is left of a cut answer; "": it may be empty. `begun`: the model has begun by
    then. `read` False: the flags themselves can't be read. `interrupted`: when Ctrl-C comes, as a pipe is read or while
    the model thinks.
    """

    code: int
    said: str
    args: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    tokens_per_s: float = 0
    question: str = "hi"
    printed: str = ""
    begun: bool = False
    read: bool = True
    stdout: Literal["pipe", "full", "closed"] = "pipe"
    store: bool = True
    interrupted: Literal["", "reading", "thinking"] = ""


_FULL = "the disk is full (No space left on device): free some space"
FAILURES: Mapping[str, Failure] = {
    "unknown flag": Failure(2, "--nonsense", ("--nonsense",), read=False),
    "no number": Failure(2, "--max-tokens", ("--max-tokens", "many"), read=False),
    "unusable value": Failure(2, "--temperature", ("--temperature", "-1")),
    "missing model": Failure(3, "nowhere.gguf", ("--engine", "llama", "--model", "nowhere.gguf")),
    "missing script": Failure(2, "nowhere.json", ("--engine", "script:nowhere.json")),
    "unreadable -f": Failure(2, "nowhere.txt", ("-f", "nowhere.txt")),
    "binary -f": Failure(2, "binary", ("-f", "binary")),
    "no page": Failure(7, "127.0.0.1", ("-f", "http://127.0.0.1:1/")),
    "unknown --truncate": Failure(2, "--truncate", ("--truncate", "none")),
    "unwritable -o": Failure(2, "-o nowhere/out.txt", ("-o", "nowhere/out.txt")),
    "unusable schema": Failure(2, "nonsense", ("--schema", '{"type": "nonsense"}')),
    "unknown skill": Failure(2, "nobody", ("-t", "nobody")),
    "too long": Failure(4, "context", ("--context", "300"), question="word " * 400, begun=True),
    "engine fails": Failure(7, "script", steps=(CALL,), begun=True),
    "--max-tokens": Failure(6, "--max-tokens", ("--max-tokens", "9"), (LONG,), printed="word 0", begun=True),
    "--timeout": Failure(6, "--timeout", ("--timeout", "0.3"), (LONG,), 40, begun=True),
    "full context": Failure(6, "context is full", ("--context", "300"), (LONG,), printed="word 0", begun=True),
    "loop": Failure(6, "repeated", (), (f"{FINAL}{'word and word ' * 400}",), printed="word and", begun=True),
    "silent": Failure(9, "no answer", (), (f"{FINAL}<|return|>",) * 3, begun=True),
    "misfit": Failure(10, "schema", ("--schema", SCHEMA), (f"{FINAL}seven<|return|>",), begun=True),
    "no code block": Failure(10, "no code block", ("-x",), (f"{FINAL}seven<|return|>",), begun=True),
    "unusable store": Failure(1, "not a whole database", ("--save",), begun=True, store=False),
    "full stdout": Failure(1, _FULL, stdout="full"),
    "closed stdout": Failure(141, "", stdout="closed"),
    "Ctrl-C before": Failure(130, "", ("-f", "pipe"), interrupted="reading"),
    "Ctrl-C within": Failure(130, "", ("--show-thinking",), (THINKING,), 50, begun=True, interrupted="thinking"),
}


def cells(share: int, shift: int = 0) -> list[tuple[str, str]]:
    """Names of flags and failures: one in `share` of all pairs, yet each flag and failure; by `shift` other pairs."""
    pairs = ((row, column) for row in range(len(FLAGS)) for column in range(len(FAILURES)))
    flags, failures = [*FLAGS], [*FAILURES]
    return [(flags[row], failures[column]) for row, column in pairs if (row + column + shift) % share == 0]


def prepare(home: Path) -> Path:
    """A folder with an older answer in it, and a session to go on with."""
    here = home / "work"
    here.mkdir()
    (here / "notes.txt").write_text("walrus\n")
    (here / "binary").write_bytes(b"\x00\x01")
    (here / "out.txt").write_text(OLDER)
    os.mkfifo(here / "pipe")
    write_skill(home / ".agents/skills", "review")
    ossia_here("run", "hi", "--save", "--engine", write_script(home, f"{FINAL}Hi.<|return|>"), "--no-tools", cwd=here)
    return here


def fault(here: Path, flags: Sequence[str], failure: Failure) -> str:
    """Run it; what is wrong with its end, and all that it wrote. "": nothing is."""
    stored = here.parent / ".local/share/ossia/sessions/sessions.sqlite"
    before = stored.read_bytes()
    if not failure.store:
        stored.write_bytes(b"nonsense " * 99)
    try:
        done = _run(here, flags, failure)
        wrong = _wrong(done, flags, failure) or _wrong_file((here / "out.txt").read_text(), flags, failure)
        return wrong and f"{wrong}: {done.returncode} {done.stdout!r} {done.stderr!r}"
    finally:
        shutil.rmtree(stored.parent, ignore_errors=True)
        stored.parent.mkdir()
        stored.write_bytes(before)
        (here / "out.txt").write_text(OLDER)


def _run(here: Path, flags: Sequence[str], failure: Failure) -> subprocess.CompletedProcess[bytes]:
    engine = write_script(here.parent, *(failure.steps or answer_of(flags)), tokens_per_s=failure.tokens_per_s)
    model = () if "--engine" in failure.args else ("--engine", engine)
    command = ("run", failure.question, "--no-tools", *model, *flags, *failure.args)
    if failure.interrupted:
        return _interrupted(here, command, failure)
    with _stdout(failure.stdout) as stdout:
        return ossia(*command, cwd=here, stdout=stdout)


def _interrupted(here: Path, command: Sequence[str], failure: Failure) -> subprocess.CompletedProcess[bytes]:
    process = start(*command, cwd=here)
    assert process.stderr is not None
    ends_at, writer = time.monotonic() + TIMEOUT_S, -1
    if failure.interrupted == "thinking":
        seen = b""
        while b"word" not in seen:
            more = process.stderr.read(1)
            assert more, command
            seen += more
    while failure.interrupted == "reading" and writer < 0:
        assert process.poll() is None and time.monotonic() < ends_at, command
        try:
            writer = os.open(here / "pipe", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads it yet
            time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=TIMEOUT_S)
    if writer >= 0:
        os.close(writer)
    assert process.returncode is not None
    return subprocess.CompletedProcess(command, process.returncode, out, error)


@contextmanager
def _stdout(kind: str) -> Iterator[int]:
    if kind == "full":
        with Path("/dev/full").open("wb") as full:
            yield full.fileno()
    elif kind == "closed":
        reader, writer = os.pipe()
        os.close(reader)
        try:
            yield writer
        finally:
            os.close(writer)
    else:
        yield subprocess.PIPE


# -- what is expected --


def answer_of(flags: Sequence[str]) -> tuple[str]:
    """The step of a model that does as the flags ask."""
    answer = ITEMS if "--schema-multi" in flags else CODE if "--schema" in flags else WHOLE
    return (f"{FINAL}{answer}<|return|>",)


def text_of(flags: Sequence[str]) -> str:
    """What is printed of that answer, or written to the file."""
    if "--schema-multi" in flags:
        return f"{ITEMS}\n"
    return f"{CODE}\n" if {*flags} & {"--schema", *_CODE_ALONE} else WHOLE


def _clash(given: set[str]) -> bool:
    writes = "-o" in given and bool({"--raw", "--jsonl"} & given)
    return writes or any(one & given and others & given for one, others in _NOT_BOTH)


def _flags(given: Sequence[str]) -> set[str]:
    return {*given} if _into_file(given) else {*given} - {"-o"}


def _into_file(given: Sequence[str]) -> bool:
    return "-o" in given and given[len(given) - given[::-1].index("-o")] != "-"


def _code(given: Sequence[str], failure: Failure) -> int:
    if failure.read and _clash(_flags(given)):
        return 2
    if not failure.store:
        return failure.code if "-c" in given else 0  # a new session isn't stored then, which is a warning
    if failure.stdout != "pipe" and _into_file(given):
        return 0
    return failure.code


def _wrong(done: subprocess.CompletedProcess[bytes], flags: Sequence[str], failure: Failure) -> str:
    given = (*flags, *failure.args)
    code = _code(given, failure)
    if done.returncode != code:
        return f"the exit code isn't {code}"
    return _wrong_lines(done.stderr.decode(), given, failure, code) or _wrong_output(
        done.stdout.decode(), given, failure, code
    )


def _wrong_lines(text: str, given: Sequence[str], failure: Failure, code: int) -> str:
    lines, own = text.splitlines(), failure.read and _clash(_flags(given))
    if "Traceback" in text:
        return "a traceback"
    if failure.interrupted == "thinking":
        return ""  # the thinking is there, too
    said = "not both" if own else "" if code == 0 and failure.stdout != "pipe" else failure.said
    if code == 0 and "-q" in given:
        said = ""  # a warning
    about = [line for line in lines if said and said in line]
    if len(about) != bool(said):
        return f"stderr hasn't one line with {said!r}"
    more = "-v" in given or "-c" in given
    if len(lines) != len(about) and not more:
        return "stderr has other lines"
    return "" if all(line.startswith("ossia: ") for line in about) else "the line isn't of ossia"


def _wrong_output(out: str, given: Sequence[str], failure: Failure, code: int) -> str:
    refused = code == 2 or not failure.begun
    if failure.stdout != "pipe":
        return ""
    if "--jsonl" in given:
        events = [json.loads(line) for line in out.splitlines()]
        return _wrong_events(events, code, begun=not refused, read=failure.read)
    if _into_file(given) or not failure.read:
        return "stdout isn't empty" if out else ""
    if "--json" in given:
        lines = [json.loads(line) for line in out.splitlines()]
        return "" if [line["exit"] for line in lines] == [code] else "there isn't one line with the exit code"
    if "--raw" in given:
        return "the stream is there too early" if refused and out else ""
    if code == 0:
        return "" if out == text_of(given) else "stdout isn't the answer"
    if code != 6 or {*given} & {*_SCHEMAS, *_CODE_ALONE}:
        return "stdout isn't empty" if out else ""
    begins = failure.steps[0].removeprefix(FINAL).startswith(out.removesuffix("\n"))
    whole = begins and out.startswith(failure.printed) and out.endswith("\n"[: len(out)])
    return "" if whole else "stdout isn't the beginning of the answer"


def _wrong_events(lines: Sequence[Mapping[str, object]], code: int, *, begun: bool, read: bool) -> str:
    if [line["exit"] for line in lines if line["type"] == "result"] != [code] or lines[-1]["type"] != "result":
        return "there isn't one result with the exit code, at the end"
    if lines[-1]["error"] == "the command line can't be read: stderr says why" and read:
        return "the result doesn't say why"
    if begun != any(line["type"] == "begin" for line in lines):
        return "the turn has begun too early, or never"
    return "an id of nothing stored" if not begun and lines[-1].get("session_id") else ""


def _wrong_file(text: str, flags: Sequence[str], failure: Failure) -> str:
    given = (*flags, *failure.args)
    if _code(given, failure) or not ("-o" in given and "out.txt" in given):
        return "" if text == OLDER else f"the older file is {text!r}"
    if "--json" in given:
        return "" if json.loads(text)["exit"] == 0 else "the file hasn't the line"
    return "" if text == text_of(given) else f"the file is {text!r}"
