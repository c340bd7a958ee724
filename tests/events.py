"""The lines of `ossia run --jsonl` over all ends of a turn: `python -m tests.events [--turns 500] [--approvals 50]`.

Each turn is a process of its own, with a script as engine (now and then étude): answered, silent, cut, refused, by a
schema, with a wrong flag, a missing model, an engine that fails, a full disk; and ended at a random moment by signals,
or by a reader that goes away. Every line must follow docs/events.schema.json; there is one result, the last line, and
its code is the process's; what it says is what the events said. `--approvals` has a client answer through stdin, at
random moments, early, twice, with the ids of other questions; it steers and stops. Nothing but the first answer to a
question's own id counts. `--seed` repeats a run. Prints the ends; the first difference ends it, with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.events_schema import faults
from tests.support.command import OSSIA, start, write_script
from tests.support.work_calls import runs, wants, writes

Line = dict[str, Any]

_FINAL = "<|channel|>final<|message|>{}<|return|>"
_THINK = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant"
_PREAMBLE = "<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant"
_YEAR = '{"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}'
_WORDS = ("llama", "capy", "bara", "um\u2028laut", "\x85", "ü", "\x1b[2J", '"', "\\", "𝄞", "</s>", "\ud7ff")
_BEFORE_THE_TURN = {"loading", "notice", "refused", "result"}


class Difference(AssertionError):
    """A run isn't what it must be; the message says which."""


def need(holds: object, what: object) -> None:
    """Raise Difference unless it holds."""
    if not holds:
        raise Difference(str(what)[:2000])


# -- the lines ---------------------------------------------------------------------------------------------------------


def events_of(out: bytes, code: int) -> list[Line]:
    """The lines of a run that ended with this code. Raises Difference if they can't be its."""
    need(out.endswith(b"\n"), f"half a line at the end: {out[-200:]!r}")
    lines = [json.loads(line, parse_constant=_refuse) for line in out.decode("utf-8").splitlines()]
    for line in lines:
        for fault in faults(line):
            raise Difference(fault)
    kinds = [line["type"] for line in lines]
    need(kinds.count("result") == 1 and kinds[-1] == "result", f"not one result at the end: {kinds}")
    need(lines[-1]["exit"] == code, f"the result says {lines[-1]['exit']}, the process {code}: {lines[-1]}")
    need({line["turn"] for line in lines} == {1}, "another turn")
    _agree(lines)
    return lines


def _agree(lines: Sequence[Line]) -> None:
    """Require that the result says the same as the events."""
    result, kinds = lines[-1], [line["type"] for line in lines]
    need(kinds.count("begin") <= 1, kinds)
    begun = kinds.index("begin") if "begin" in kinds else len(kinds)
    need(set(kinds[:begun]) <= _BEFORE_THE_TURN, f"before the turn: {kinds[:begun]}")
    calls = [line["id"] for line in lines if line["type"] == "tool_call"]
    results = [line["id"] for line in lines if line["type"] == "tool_result"]
    need(len(set(calls)) == len(calls), calls)
    need(calls == results, (calls, results, result))
    need([call["id"] for call in result["calls"]] == results, (result, results))
    texts = [line for line in lines if line["type"] == "text" and not line["preamble"]]
    said = ["".join(one["delta"] for one in group) for _, group in groupby(texts, key=lambda line: line["item"])]
    if result["text"] is not None and result["end"] == "answered":
        need(result["text"] == [text for text in said if text.strip()][-1], (result, said))
    asked = [line["id"] for line in lines if line["type"] == "approval"]
    need(len(set(asked)) == len(asked), asked)


def _refuse(constant: str) -> None:
    raise Difference(f"{constant} is no JSON")


# -- turns with all ends -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """One run: its flags, the expected ends and codes (None: any), the moment and the signals that end it."""

    name: str
    args: Sequence[str]
    ends: frozenset[tuple[str, int]] | None = None
    signals: tuple[tuple[float, int], ...] = ()
    reads: int | None = None  # so many bytes; then the pipe is closed
    env: dict[str, str] = field(default_factory=dict)
    full: bool = False  # stdout is
    prefix: tuple[str, ...] = ()


def _text(source: random.Random, words: int) -> str:
    return "".join(f"{source.choice(_WORDS)} {n} " for n in range(words))


def _turn(kind: str, source: random.Random, folder: Path) -> Turn:
    """A turn of this kind; its files are in `folder`."""

    def ends(*pairs: tuple[str, int]) -> frozenset[tuple[str, int]]:
        return frozenset(pairs)

    def turn(*steps: str, ends: frozenset[tuple[str, int]] | None, flags: Sequence[str] = (), per_s: float = 0,
             **rest: Any) -> Turn:  # fmt: skip
        engine = write_script(folder, *steps, tokens_per_s=per_s)
        return Turn(kind, ("hi", "--engine", engine, "--temperature", "0", *flags), ends, **rest)

    (folder / "work").mkdir()
    work, bare = ("--workspace", str(folder / "work")), ("--no-tools",)
    think, final = _THINK.format(_text(source, source.randrange(8))), _FINAL.format(_text(source, 6))
    number, moment = source.randrange(1, 20), source.uniform(0, source.choice((0.8, 2.5)))
    slow = (think + _PREAMBLE + writes("slow.txt"), think + _FINAL.format(_text(source, 200)))
    match kind:
        case "answered":
            return turn(think + _PREAMBLE + wants("repo_browser.print_tree", path=""), think + final,
                        ends=ends(("answered", 0)), flags=work)  # fmt: skip
        case "étude":
            return Turn(kind, (f"What is {number}*17?", "--seed", str(number)), ends(("answered", 0)))
        case "stored":
            return turn(think + final, ends=ends(("answered", 0)), flags=(*bare, "--save"))
        case "schema":
            year = _FINAL.format('{"year": 1815}')
            return turn(year, ends=ends(("answered", 0)), flags=(*bare, "--schema", _YEAR))
        case "misfit":
            flags = (*bare, "--no-guide", "--schema", _YEAR)
            return turn(_FINAL.format('{"year": NaN}'), ends=ends(("answered", 10)), flags=flags)
        case "silent":
            return turn(think + _FINAL.format(" \n"), ends=ends(("silent", 9)), flags=bare)
        case "tokens":
            return turn(think + _FINAL.format(_text(source, 40)), ends=ends(("tokens", 6)),
                        flags=(*bare, "--max-tokens", str(number)))  # fmt: skip
        case "time":
            return turn(*slow, ends=ends(("time", 6)), flags=(*work, "--timeout", "0.3"), per_s=100)
        case "context":
            return turn(_FINAL.format(_text(source, 300)), ends=ends(("context", 6)), flags=(*bare, "--context", "500"))
        case "no room":
            return turn(final, ends=ends(("context", 4)), flags=(*bare, "--context", "20"))
        case "loop":
            return turn(_FINAL.format("the same again and " * 400), ends=ends(("loop", 6)), flags=bare)
        case "steps":
            calls = [wants("nothing", n=n) for n in range(50)]
            return turn(*calls, final, ends=ends(("steps", 5)), flags=bare)
        case "refused":
            strict = source.random() < 0.5
            flags = (*work, *(("--strict-approvals",) if strict else ()))
            return turn(writes("no.txt"), runs("touch no"), final, ends=ends(("answered", 8 if strict else 0)),
                        flags=flags)  # fmt: skip
        case "shown":
            return turn(writes("no.txt"), final, ends=ends(("answered", 0)), flags=(*work, "--dry-run"))
        case "allowed":
            return turn(writes("yes.txt"), final, ends=ends(("answered", 0)), flags=(*work, "--yes"))
        case "odd arguments":
            deep = "".join(f'{{"{n}":' for n in range(600)) + "1" + "}" * 600
            odd = source.choice(('{"path": NaN}', '{"path": 1e999}', deep, '{"path": "\\ud800"}', "no JSON"))
            call = f"<|channel|>analysis to=repo_browser.open_file code<|message|>{odd}<|call|>"
            return turn(call, final, ends=ends(("answered", 0), ("loop", 6)), flags=work)
        case "malformed":
            return turn('<|channel|>final {"a": 1}<|return|>', ends=ends(("answered", 0)), flags=bare)
        case "failed engine":
            return turn(think + wants("nothing"), ends=ends(("error", 7)), flags=bare)
        case "no server":
            return Turn(kind, ("hi", "--engine", "http://127.0.0.1:9"), ends(("error", 7)))
        case "wrong":
            flags, code = source.choice(_WRONG)
            return Turn(kind, ("hi", *flags), ends(("error", code), ("context", code)))
        case "unreadable settings":
            (folder / "config.toml").write_text("effort = 'huge'")
            env = {"OSSIA_CONFIG": str(folder / "config.toml")}
            return Turn(kind, ("hi",), ends(("error", 2)), env=env)
        case "full data":
            (folder / "data").mkdir()
            return turn(final, ends=ends(("answered", 0)), flags=(*bare, "--save"), prefix=_FULL_DATA,
                        env={"XDG_DATA_HOME": str(folder / "data")})  # fmt: skip
        case "full output":
            return turn(final, ends=None, flags=bare, full=True)
        case "closed pipe":
            return turn(*slow, ends=None, flags=(*work, "--yes"), per_s=source.choice((0, 300)),
                        reads=source.randrange(3000))  # fmt: skip
        case "signal":
            numbers = [source.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))]
            moments = [moment]
            if source.random() < 0.5:  # once more
                numbers.append(source.choice((signal.SIGINT, signal.SIGTERM)))
                moments.append(source.choice((0, 0.01, source.uniform(0, 0.3))))
            return turn(*slow, ends=ends(("stopped", 130), ("answered", 0)), flags=(*work, "--yes"),
                        per_s=source.choice((0, 200, 400)),
                        signals=tuple(zip(moments, map(int, numbers), strict=True)))  # fmt: skip
    raise ValueError(kind)


_WRONG = (
    (("--effort", "huge"), 2), (("--no-such-flag",), 2), (("--json",), 2), (("--schema", "{"), 2),
    (("--schema", '{"not": {}}'), 2), (("--model", "nowhere.gguf"), 3), (("--engine", "script:nowhere"), 2),
    (("--resume", "nobody"), 2), (("--tools", "nowhere.py"), 2), (("--workspace", "nowhere"), 2),
    (("--control", "stdout"), 2), (("--model", "etude", "--context", "2"), 4), (("two", "prompts"), 2),
)  # fmt: skip
_FULL_DATA = ("unshare", "-m", "/bin/sh", "-c", 'mount -t tmpfs -o size=4k tmpfs "$XDG_DATA_HOME"; exec "$@"', "sh")
_ODD = ("full data", "full output")
KINDS = (
    "answered", "étude", "stored", "schema", "misfit", "silent", "tokens", "time", "context", "no room", "loop",
    "steps", "refused", "shown", "allowed", "odd arguments", "malformed", "failed engine", "no server", "wrong",
    "unreadable settings", "full data", "full output", "closed pipe", "signal",
)  # fmt: skip
_OFTEN = ("signal", "closed pipe")
"""Half of all turns, since there the moment counts."""


def play(turns: int, seed: int, *, kinds: Sequence[str] = KINDS) -> Counter[str]:
    """Play so many turns; returns how they ended. Raises Difference."""
    source = random.Random(seed)
    often = [kind for kind in _OFTEN if kind in kinds]
    chosen = [kinds[n // 2 % len(kinds)] if n % 2 or not often else source.choice(often) for n in range(turns)]
    seeds = [source.random() for _ in chosen]
    first = _played(chosen[0], seeds[0])  # it starts the server of forks, which threads can't
    with ThreadPoolExecutor(3) as pool:
        return Counter([first, *pool.map(_played, chosen[1:], seeds[1:])])


def _played(kind: str, seed: float) -> str:
    with tempfile.TemporaryDirectory(prefix="ossia-") as name:
        turn = _turn(kind, random.Random(seed), Path(name))
        try:
            return f"{kind}: {_run(turn, Path(name))}"
        except (AssertionError, ValueError) as error:
            raise Difference(f"{kind}, {turn.args} {turn.signals} {turn.reads}: {error}") from None


def _run(turn: Turn, folder: Path) -> str:
    args, env = ("run", "--jsonl", *turn.args), {"HOME": str(folder), **turn.env}
    if turn.full or turn.prefix:
        with Path("/dev/full").open("wb") as full:
            command = [*turn.prefix, str(OSSIA), *args]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=full if turn.full else subprocess.PIPE,
                                  stderr=subprocess.PIPE, env={**os.environ, **env}, check=False)  # fmt: skip
        code, out, errors = done.returncode, done.stdout or b"", done.stderr
    else:
        process = start(*args, env=env)
        with process:
            code, out, errors = _followed(process, turn)
    if turn.signals and not out and (code < 0 or (b"KeyboardInterrupt" in errors and b"in main\n" not in errors)):
        return "before ossia"
    need(b"Traceback" not in errors, errors.decode())
    if turn.full:
        need(code == 1 and b"No space left" in errors, (code, errors))
        return "1"
    if turn.reads is not None and code != 0:
        need(code == 141, (code, errors))
        return "141"
    if turn.signals and code < 0:  # Python takes none any more
        code = json.loads(out.splitlines()[-1])["exit"]
    result = events_of(out, code)[-1] if turn.reads is None else {"end": "read", "exit": code}
    pair = result["end"], result["exit"]
    need(turn.reads is not None or turn.ends is None or pair in turn.ends, (pair, turn.ends, result, errors))
    return "{} {}".format(*pair)


def _followed(process: subprocess.Popen[bytes], turn: Turn) -> tuple[int, bytes, bytes]:
    assert process.stdout is not None and process.stderr is not None
    for seconds, number in turn.signals:
        time.sleep(seconds)
        process.send_signal(number)
    if turn.reads is not None:
        process.stdout.read(turn.reads)
        process.stdout.close()
        errors = process.stderr.read()
        return process.wait(60), b"", errors
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


# -- a client on stdin -------------------------------------------------------------------------------------------------


@dataclass
class Client:
    """Answers at random; knows which answer to which question was the first with its id."""

    source: random.Random
    send: Callable[[bytes], None]
    answers: dict[str, bool] = field(default_factory=dict)  # by the question's id
    closed: list[str] = field(default_factory=list)
    bad: int = 0  # lines that must be refused
    stopped: bool = False

    def say(self, *, bad: bool = False, **line: object) -> None:
        self.bad += bad
        self.send(json.dumps(line).encode() + b"\n")

    def see(self, event: Line) -> None:
        """Something of what a bad client does, and at a question its answer."""
        kind, chance = event["type"], self.source.random()
        if kind == "begin":
            for _ in range(self.source.randrange(4)):  # the next question's name, but for its ending
                self.say(type="approve", id=self.source.choice(("call_1/1", "call_2/2", "call_1", "1", "")), bad=True)
        if kind == "approval":
            self._answer(event)
        elif chance < 0.03:
            self.say(type="steer", text=f"Mind {chance}.")
        elif chance < 0.05 and self.closed:
            self.say(type="approve", id=self.source.choice(self.closed), bad=True)
        elif chance < 0.06:
            self.send(self.source.choice((b"\xff\n", b"[]\n", b'{"type": "no"}\n', b'{"type": "deny"}\n')))
            self.bad += 1

    def _answer(self, event: Line) -> None:
        name, allow = event["id"], self.source.random() < 0.6
        if self.closed and self.source.random() < 0.5:
            self.say(type=self.source.choice(("approve", "deny")), id=self.closed[-1], bad=True)
        if self.source.random() < 0.3:
            self.say(type="approve", id=name, remember="for ever", bad=True)
        time.sleep(self.source.choice((0, 0, self.source.uniform(0, 0.05))))
        if self.source.random() < 0.03:
            self.stopped = True
            return self.say(type="stop")
        self.say(type="approve" if allow else "deny", id=name)
        self.answers[name] = allow
        if self.source.random() < 0.4:  # twice, and the other way round
            self.say(type="deny" if allow else "approve", id=name, bad=True)
        self.closed.append(name)
        return None


def answer(approvals: int, seed: int, *, calls: int = 8) -> Counter[str]:
    """Have clients answer so many questions. Raises Difference."""
    source, counts = random.Random(seed), Counter[str]()
    while counts["approved"] + counts["denied"] < approvals:
        with tempfile.TemporaryDirectory(prefix="ossia-") as name:
            counts += _answered(Path(name), random.Random(source.random()), calls)
    return counts


def _answered(folder: Path, source: random.Random, calls: int) -> Counter[str]:
    work = folder / "work"
    work.mkdir()
    engine = write_script(folder, *(writes(f"{n}.txt") for n in range(calls)), _FINAL.format("Done."))
    reader, writer = os.pipe()
    args = ("hi", "--engine", engine, "--workspace", str(work), "--temperature", "0")
    process = start("run", "--jsonl", "--control", "stdin", *args, stdin=reader, env={"HOME": str(folder)})
    os.close(reader)
    early = source.randrange(3)

    def send(line: bytes) -> None:
        try:
            os.write(writer, line)
        except BrokenPipeError:
            client.bad -= 1  # too late to be refused

    client = Client(source, send)
    for n in range(early):
        client.say(type=source.choice(("approve", "deny", "answer_now")), **({"id": f"call_{n}/{n}"} if n else {}))
    with process:
        assert process.stdout is not None and process.stderr is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()
        out = b""
        for line in process.stdout:
            out += line
            client.see(json.loads(line))
        os.close(writer)
        code = process.wait(60)
    lines = events_of(out, code)
    _check(client, lines, work)
    return Counter({
        "approved": sum(client.answers.values()), "denied": list(client.answers.values()).count(False),
        "stopped": client.stopped, "steered": sum(line["type"] == "steered" for line in lines),
        "refused lines": sum(line["type"] == "refused" for line in lines), "runs": 1,
    })  # fmt: skip


def _check(client: Client, lines: Sequence[Line], work: Path) -> None:
    asked = {line["id"]: line for line in lines if line["type"] == "approval"}
    decided = {line["id"]: line["allow"] for line in lines if line["type"] == "approval_decided" and line["id"]}
    need(client.answers.items() >= {k: v for k, v in decided.items() if not client.stopped or v}.items(),
         (client.answers, decided))  # fmt: skip
    need(client.stopped or decided == client.answers, (decided, client.answers))
    allowed = {asked[name]["call"] for name, allow in decided.items() if allow}
    calls = [line for line in lines if line["type"] == "tool_call" and line["id"] in allowed]
    written = {path for line in calls for path in line["paths"]}
    need({path.name for path in work.iterdir()} <= written, (list(work.iterdir()), written))
    end = lines[-1]["end"]
    need(end == ("stopped" if client.stopped else "answered"), (end, client.stopped))


def main() -> None:
    """Play, and print how the turns ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=500)
    parser.add_argument("--approvals", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    os.environ["LANG"] = "C.UTF-8"  # as in the suite: the commands are forked then
    mounts = shutil.which("unshare") and os.geteuid() == 0
    kinds = [kind for kind in KINDS if kind != "full data" or mounts]
    ended = play(given.turns, given.seed, kinds=kinds)
    print(*(f"{number:5} {end}" for end, number in sorted(ended.items())), sep="\n")
    print(f"{ended.total()} turns: each line valid, one result, the last, its code the process's")
    answered = answer(given.approvals, given.seed)
    print(", ".join(f"{number} {what}" for what, number in answered.items()) + ": no answer to another question")


if __name__ == "__main__":
    sys.exit(main())
