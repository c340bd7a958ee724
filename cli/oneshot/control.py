"""The lines on stdin that answer, steer and stop a run: `ossia run --jsonl --control stdin`.

    {"type": "approve", "id": "call_1/1-9f3a2c1d"}

Whoever holds stdin is the person: what only a person may answer may be answered here. A question's id can't be guessed,
so that nothing written before it was asked answers it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any

from ossia.agent.events import ApprovalAsked, Decision
from ossia.agent.stream.events import Event, Notice, Refused
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Turn
from ossia.cli.oneshot.ask import Asker
from ossia.cli.runtime.approval_text import answers, decision_of
from ossia.tools.calls.coerce import STRICT

MAX_BYTES = 1_000_000
"""The longest line."""
_MAX_WAITING = 256  # lines; then whoever writes them waits
_SHOWN_CHARS = 200
_TICK_S = 0.05
_REMEMBER = {"once": "y", "session": "s", "always": "a", "wider": "p", "edits": "w"}
_KEYS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "approve": {"id": str, "remember": str, "arguments": (str, dict)},
    "deny": {"id": str, "reason": str},
    "steer": {"text": str},
    "answer_now": {},
    "stop": {},
}
_OPTIONAL = {"remember", "arguments", "reason"}
_WORDS: Mapping[type | tuple[type, ...], str] = {str: "a text", (str, dict): "an object or a text"}


@dataclass(frozen=True, slots=True)
class Order:
    """A line that can be followed; `line` is its beginning, for a refusal."""

    type: str
    keys: Mapping[str, Any]
    line: str


def read_order(line: bytes) -> Order | Refused:
    """The order in a line, or its refusal.

    read_order(b'{"type": "deny", "id": "call_1/1-9f3a2c1d"}')    # Order("deny", {"id": "call_1/1-9f3a2c1d"}, …)
    read_order(b'{"type": "deny"}')                               # Refused('{"type": "deny"}', "expected the key id…")
    """
    shown = line.decode("utf-8", "replace").rstrip("\n")[:_SHOWN_CHARS]
    if len(line) > MAX_BYTES:
        return Refused(shown, f"expected a line of at most {MAX_BYTES:,} bytes")
    try:
        keys = json.loads(line.decode("utf-8"), **STRICT)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError, too
        return Refused(shown, f"expected one JSON object a line, as UTF-8: {error}")
    if not isinstance(keys, dict):
        return Refused(shown, "expected a JSON object")
    kind = keys.pop("type", None)
    if not isinstance(kind, str) or kind not in _KEYS:
        return Refused(shown, f"expected as type one of {', '.join(_KEYS)}")
    fault = _fault(kind, keys)
    return Refused(shown, fault) if fault else Order(kind, keys, shown)


def _fault(kind: str, keys: Mapping[str, Any]) -> str:
    """The fault in the keys; "": none."""
    known = _KEYS[kind]
    for name, wanted in known.items():
        if name not in keys and name not in _OPTIONAL:
            return f"expected the key {name} in {kind}"
        if name in keys and not isinstance(keys[name], wanted):
            return f"expected {_WORDS[wanted]} as {name}"
    if extra := keys.keys() - known.keys():
        return f"expected no key {min(extra)!r} in {kind}: it may have {', '.join(known) or 'none'}"
    if keys.get("remember", "once") not in _REMEMBER:
        return f"expected as remember one of {', '.join(_REMEMBER)}"
    return "expected a text that says something" if kind == "steer" and not keys["text"].strip() else ""


class Control:
    """Reads the orders on a thread of its own, and carries them out on the thread that follows the turn.

    A stop acts at once, as Ctrl-C does. `write` gets the refusals and notices. Orders before `begin` are refused.
    """

    def __init__(self, write: Callable[[Event], None]) -> None:
        self._write = write
        self._orders: queue.SimpleQueue[Order | Refused | None] = queue.SimpleQueue()
        self._ended = False
        self._turn: Turn | None = None
        threading.Thread(target=self._read, args=(_taken_stdin(),), name="ossia-control", daemon=True).start()

    def begin(self, turn: Turn, publisher: Publisher, asker: Asker, store: Callable[[Sequence[str]], None]) -> None:
        """Follow this turn from now on. Call it before its first event is published: orders so far are refused."""
        self.tick()
        self._turn, self._publisher, self._asker, self._store = turn, publisher, asker, store

    def tick(self) -> None:
        """Carry out the waiting orders, not those that come meanwhile. No question is open."""
        for _ in range(self._orders.qsize()):
            self._carry_out(self._orders.get_nowait())

    def decide(self, asked: ApprovalAsked, *, given_up: Callable[[], bool]) -> Decision | None:
        """The answer to the question that was published last; None when the turn ended meanwhile."""
        if self._asker.agrees(asked):
            return Decision(asked.call.id, True)
        while not given_up():
            with suppress(queue.Empty):
                decision = self._carry_out(self._orders.get(timeout=_TICK_S), asked)
                if decision is not None:
                    return decision
                continue
            if self._ended:
                return self._asker.refuse(asked, "stdin has ended")
        return None

    def end(self) -> None:
        """The turn is over: name the texts that it didn't take."""
        self.tick()
        for text in self._turn.control.unsaid() if self._turn else ():
            self._write(Notice("not-steered", f"the turn ended before it could take this: {text}"))

    def _carry_out(self, order: Order | Refused | None, asked: ApprovalAsked | None = None) -> Decision | None:
        """Carry out an order; returns the decision on the open question, if it is one."""
        if order is None:
            self._ended = True
            self._write(Notice("control-ended", "stdin has ended: what needs an answer from now on is refused"))
        elif isinstance(order, Refused):
            self._write(order)
        elif self._turn is None:
            self._write(Refused(order.line, "expected it after the begin event: no turn runs yet"))
        elif order.type == "steer":
            self._turn.steer(order.keys["text"])
        elif order.type == "answer_now":
            self._turn.answer_now()
        else:
            answer = self._answer(order, asked)
            if isinstance(answer, Decision):
                return answer
            self._write(Refused(order.line, answer))
        return None

    def _answer(self, order: Order, asked: ApprovalAsked | None) -> Decision | str:
        """The decision, or the reason for a refusal of the line."""
        keys = order.keys
        if asked is None or keys["id"] not in self._publisher.asked:
            name = next(iter(self._publisher.asked), "") if asked else ""
            return f"expected the id of the open approval, {name}" if name else "expected no answer: nothing is asked"
        if order.type == "deny":
            return decision_of(asked, "n", self._store, keys.get("reason", ""))
        if "arguments" not in keys:
            offered = ("y", "n") if asked.form is not None else answers(asked)
            key = _REMEMBER[keys.get("remember", "once")]
            if key in offered:
                return decision_of(asked, key, self._store)
            return f"expected as remember one of {', '.join(name for name, key in _REMEMBER.items() if key in offered)}"
        if "remember" in keys:
            return "expected no remember beside arguments: the changed call is asked about anew"
        arguments, is_text = keys["arguments"], isinstance(asked.arguments, str)
        if isinstance(arguments, str) != is_text:
            return f"expected {'a text' if is_text else 'an object'} as arguments"
        return Decision(asked.call.id, True, arguments=arguments if is_text else json.dumps(arguments))

    # -- on its own thread ---------------------------------------------------------------------------------------------

    def _read(self, lines: IO[bytes]) -> None:
        stopping = False
        with suppress(OSError):
            while line := lines.readline(MAX_BYTES + 1):
                piece = line
                while len(line) > MAX_BYTES and piece and not piece.endswith(b"\n"):
                    piece = lines.readline(1 << 16)
                while self._orders.qsize() >= _MAX_WAITING:
                    time.sleep(_TICK_S)
                order = read_order(line)
                if isinstance(order, Refused) or order.type != "stop":
                    self._orders.put(order)
                elif stopping:
                    self._orders.put(Refused(order.line, "expected one stop: it is stopping"))
                else:
                    stopping = True
                    interrupt()
        self._orders.put(None)


def interrupt() -> None:
    """Interrupt the main thread as Ctrl-C does, even where a shell has SIGINT ignored (`ossia … &`)."""
    import _thread

    _thread.interrupt_main(signal.SIGTERM)


def _taken_stdin() -> IO[bytes]:
    """Our stdin, which nobody else reads any more: neither the user's functions nor other programs."""
    if sys.stdin is None or sys.stdin.closed:
        return open(os.devnull, "rb")  # noqa: PTH123 - read to its end at once
    number = sys.stdin.fileno()
    ours = os.dup(number)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), number)
    if hasattr(os, "set_blocking"):  # a parent may have made it non-blocking
        os.set_blocking(ours, True)
    return os.fdopen(ours, "rb")
