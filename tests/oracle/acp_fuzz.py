"""Mutated messages for `ossia acp`: an error or a result for each request, never a hang, a traceback or a torn line.

    python -m tests.oracle.acp_fuzz [--messages 10000] [--seed 0]

A process gets a thousand of them, the first ones before it is initialized. Every twenty messages, each request must
have its answer; at the end, a whole turn must work, and the process end with 0 when its stdin closes. Prints what was
answered, and each fault; exit 1 if there was one.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tests.bench.processes import own_home
from tests.support.acp_lines import Lines, Message
from tests.support.command import write_script
from tests.support.work_calls import wants

PER_PROCESS = 1000
_TOGETHER = 20
_TOOLS = "def ping(word: str) -> str:\n    'Answers.'\n    return word\n"
_FINAL = "<|channel|>final<|message|>Hi.<|return|>"
_STEPS = (_FINAL, wants("functions.ping", word="a"), _FINAL, wants("functions.nothing", word=1), _FINAL)

_SERVER: Message = {"name": "a", "command": "/no/such/server", "args": ["-x"], "env": [{"name": "A", "value": "b"}]}

Wanted = Literal["its id", "any id", "perhaps", "nothing"]
"""The answer that a line must have: with the id that it has; with that or null; or it needn't or mustn't have one."""

_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 0.5, 1e300, float("nan"), "", " ", "\0", "\ud800", "é" * 99),
    *([], {}, [[]], [None], {"": {}}, "x" * 5000, "../../etc/passwd", "/", "//", "session/new", "2.0", "allow_once"),
)


class Fuzz:
    """Mutations of what a client says, drawn from a generator, and what each must be answered with."""

    def __init__(self, draw: random.Random, folder: Path) -> None:
        self._draw, self._folder = draw, folder
        self._number = 0
        self.session = "none yet"

    def line(self) -> tuple[bytes, Wanted, object]:
        """A line, the answer that it must have, and its id."""
        draw = self._draw
        message: Any = self._valid()
        for _ in range(draw.choice((0, 1, 1, 1, 2, 3))):
            message = self.changed(message)
        if draw.random() < 0.03:
            message = [message, self._valid()][: draw.randrange(3)]
        text = json.dumps(message, ensure_ascii=draw.random() < 0.7).encode("utf-8", "surrogatepass")
        if draw.random() < 0.15:
            text = self._torn(text)
        text = text.replace(b"\n", b" ").replace(b'"@deep@"', b"[" * 100_000 + b"]" * 100_000)
        return text + draw.choice((b"\n", b"\n", b"\r\n")), *_wanted(text)

    def _valid(self) -> Message:
        """A message that a client may send."""
        draw = self._draw
        self._number += 1
        whole: dict[str, Message] = {
            "initialize": {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}},
            "authenticate": {"methodId": "download"},
            "session/new": {"cwd": str(self._folder), "mcpServers": [dict(_SERVER, name=draw.choice("ab"))]},
            "session/load": {"sessionId": self.session, "cwd": str(self._folder), "mcpServers": []},
            "session/resume": {"sessionId": self.session, "cwd": str(self._folder), "mcpServers": []},
            "session/list": {"cwd": str(self._folder), "cursor": None},
            "session/close": {"sessionId": "another"},
            "session/delete": {"sessionId": "another"},
            "session/prompt": {
                "sessionId": self.session,
                "prompt": [
                    {
                        "type": "text",
                        "text": draw.choice(("Hi", "/undo", "/no-such", "/mcp accept a", "/context x", "@a.md")),
                    },
                    {"type": "resource_link", "uri": (self._folder / "a.md").as_uri(), "name": "a.md"},
                    {"type": "resource", "resource": {"uri": "file:///a.md", "text": "Text."}},
                ][: draw.randrange(1, 4)],
            },
            "session/cancel": {"sessionId": self.session},
            "session/set_mode": {"sessionId": self.session, "modeId": draw.choice(("ask", "plan", "accept-edits"))},
            "session/set_config_option": {
                "sessionId": self.session,
                "configId": draw.choice(("model", "effort", "thought_level", "mode")),
                "value": draw.choice(("low", "high", "ask", "etude")),
            },
            "fs/read_text_file": {"path": "/a"},
            "$/cancel_request": {"requestId": 1},
        }
        method = draw.choice([*whole, "session/prompt", "session/prompt", "session/set_config_option"])
        message: Message = {"jsonrpc": "2.0", "id": self._id(), "method": method, "params": whole[method]}
        if method == "session/cancel":
            message.pop("id")
        if draw.random() < 0.05:
            outcome = {"outcome": {"outcome": "selected", "optionId": draw.choice(("allow_once", "x"))}}
            message = {"jsonrpc": "2.0", "id": draw.choice((0, 1, "q1", self._id())), "result": outcome}
        return message

    def _id(self) -> object:
        return self._draw.choice((f"f{self._number}", self._number + 100_000, f"f{max(1, self._number - 1)}"))

    def changed(self, message: Any) -> Any:
        """The message, with one of its values or fields changed."""
        draw = self._draw
        changed = copy.deepcopy(message)
        places = list(_places(changed))
        if not places:
            return draw.choice(_ODD)
        deeper = [one for one in places if one[0] is not changed]
        holder, key = draw.choice(deeper if deeper and draw.random() < 0.7 else places)
        match draw.randrange(6):
            case 0:
                holder.pop(key)
            case 1:
                holder[key] = _deep(draw.choice((10, 400, 100_000))) if draw.random() < 0.1 else draw.choice(_ODD)
            case 2 if isinstance(holder, dict):
                holder[draw.choice(("extra", "_meta", "id", "result", "error", "sessionId"))] = draw.choice(_ODD)
            case 3 if isinstance(holder[key], str):
                cut = draw.randrange(len(holder[key]) + 1)
                holder[key] = holder[key][:cut] + draw.choice(("", "\ud83d", "/..", "x" * 300)) + holder[key][cut:]
            case 4 if isinstance(holder[key], str) and draw.random() < 0.1:
                holder[key] = "x" * draw.choice((70_000, 1_000_000))
            case _:
                holder[key] = draw.choice(_ODD)
        return changed

    def _torn(self, text: bytes) -> bytes:
        """Bytes that are no JSON, or no longer the same."""
        draw = self._draw
        at = draw.randrange(len(text) + 1)
        return draw.choice(
            (
                text[:at],
                text[:at] + text,
                text[:at] + draw.choice((b"\xff", b"\xc3", b"\0", b"\xed\xa0\x80", b'"', b"}", b"\x1b[2J")) + text[at:],
                b"\xef\xbb\xbf" + text,
                text.decode("utf-8", "replace").encode("utf-16"),
                b"",
                b"Content-Length: 20\r",
                text.replace(b'"id"', b'"id": 7, "id"', 1),
            )
        )


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each holder and key in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _deep(depth: int) -> Any:
    if depth > 1000:  # too deep for json.dumps: written by hand
        return "@deep@"
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _wanted(text: bytes) -> tuple[Wanted, object]:
    if not text.strip():
        return "perhaps", None
    try:
        message = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return "any id", None
    if not isinstance(message, dict):
        return "any id", None
    number = message.get("id")
    sound = isinstance(number, str | int) and not isinstance(number, bool)
    if "method" not in message:
        response = message.get("jsonrpc") == "2.0" and ("result" in message) != ("error" in message)
        return ("nothing" if response and (sound or number is None) else "perhaps"), number
    if "id" not in message or number is None:
        return "perhaps", number
    usual = message.get("jsonrpc") == "2.0" and isinstance(message["method"], str)
    return ("its id" if sound and usual else "any id"), number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


class Run:
    """One process and its mutated messages. `faults`: a line each; `answers`: how many of which sort."""

    def __init__(self, seed: str, folder: Path) -> None:
        self._draw = random.Random(seed)
        self._folder = folder / "work"
        self._folder.mkdir()
        (self._folder / "a.md").write_text("A.\n")
        (folder / "tools.py").write_text(_TOOLS)
        script = write_script(folder, *(_STEPS * PER_PROCESS))
        self._fuzz = Fuzz(self._draw, self._folder)
        flags = ("--engine", script, "--tools", str(folder / "tools.py"))
        self._agent = Lines(*flags, env=own_home(folder))
        self._seed = seed
        self._perhaps = 0  # lines so far that may still be answered
        self.faults: list[str] = []
        self.answers: Counter[str] = Counter()

    def run(self, count: int) -> None:
        """Send `count` lines, then see whether the process still works."""
        with self._agent:
            try:
                self._together(min(_TOGETHER, count), ready=False)
                for _ in range(_TOGETHER, count, _TOGETHER):
                    self._together(_TOGETHER)
                self._open()
                end = self._answer(self._agent.prompt(self._fuzz.session, "Are you there?"))
                if "result" not in end:
                    self.faults.append(f"{self._seed}: afterwards a turn ends with {end}")
            except (TimeoutError, EOFError, BrokenPipeError) as error:
                self.faults.append(f"{self._seed}: {error}")
                self._agent.process.kill()
            code = self._agent.close()
            if code or self._agent.torn or "Traceback" in self._agent.errors:
                found = f"exit {code}, torn {self._agent.torn[:3]}, stderr {self._agent.errors[-3000:]}"
                self.faults.append(f"{self._seed}: {found}")

    def _together(self, count: int, *, ready: bool = True) -> None:
        """Send some lines, and wait for the answers that they must have."""
        if ready:
            self._open()
        lines = [self._fuzz.line() for _ in range(count)]
        seen = len(self._agent.messages)
        for line, _, _ in lines:
            self._agent.write(line)
        probe = self._agent.ask("no/such")
        self._answer(probe)
        needed = Counter(_key(number) for _, wanted, number in lines if wanted == "its id")
        least = sum(wanted in ("its id", "any id") for _, wanted, _ in lines)
        self._perhaps += sum(wanted == "perhaps" for _, wanted, _ in lines)
        while True:
            come = [one for one in self._agent.messages[seen:] if "method" not in one and one.get("id") != probe]
            ids = Counter(_key(one.get("id")) for one in come)
            if len(come) >= least and not needed - ids:
                break
            try:
                self._see(self._agent.next())
            except TimeoutError:
                missing = [line[:400] for line, wanted, number in lines if wanted == "its id" and not ids[_key(number)]]
                shown = missing or [line[:200] for line, wanted, _ in lines if wanted == "any id"]
                self.faults.append(f"{self._seed}: {len(come)} of {least} answers; not to {shown}")
                break
        self._perhaps -= max(0, len(come) - least)
        if self._perhaps < 0:
            self.faults.append(f"{self._seed}: more than {least} answers: {[str(one)[:200] for one in come]}")
        for one in come:
            self._count(one)

    def _count(self, answer: Message) -> None:
        error = answer.get("error")
        if "result" in answer:
            self.answers["result"] += 1
        elif isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str):
            self.answers[str(error["code"])] += 1
            if error["code"] == -32603:
                self.faults.append(f"{self._seed}: an internal error: {error}")
        else:
            self.faults.append(f"{self._seed}: neither a result nor an error: {answer}")

    def _open(self) -> None:
        """See to it that there is a session."""
        self._answer(self._agent.ask("initialize", protocolVersion=1, clientCapabilities={}))
        known = self._answer(self._agent.ask("session/set_mode", sessionId=self._fuzz.session, modeId="ask"))
        if "result" not in known:
            made = self._answer(self._agent.ask("session/new", cwd=str(self._folder), mcpServers=[]))
            if "result" not in made:
                raise EOFError(f"no new session: {made}")
            self._fuzz.session = made["result"]["sessionId"]

    def _answer(self, number: int) -> Message:
        """The answer to one of our own requests; questions that come before it are answered."""
        for one in self._agent.messages:
            if "method" not in one and one.get("id") == number:
                return one
        while True:
            message = self._agent.next()
            self._see(message)
            if "method" not in message and message.get("id") == number:
                return message

    def _see(self, message: Message) -> None:
        """Answer a question, first perhaps with a mutated answer."""
        if "method" not in message or "id" not in message:
            return
        options = message["params"]["options"]
        outcome = {"outcome": "selected", "optionId": self._draw.choice(options)["optionId"]}
        answer: Any = {"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}
        if self._draw.random() < 0.5:
            self._agent.send(self._fuzz.changed(answer))
            self._perhaps += 1
        self._agent.send(answer)


def _key(number: object) -> str:
    return json.dumps(number)


def search(messages: int, seed: int) -> list[str]:
    """Send so many messages; the faults. Prints the answers of each process."""
    faults = []
    for first in range(0, messages, PER_PROCESS):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(f"{seed}.{first}", Path(folder).resolve())
            run.run(min(PER_PROCESS, messages - first))
        print(f"{seed}.{first}: {dict(run.answers.most_common())}", flush=True)
        faults += run.faults
        for fault in run.faults:
            print(f"  {fault}", flush=True)
    return faults


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    given = parser.parse_args()
    sys.exit(1 if search(given.messages, given.seed) else 0)
