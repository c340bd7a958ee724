"""The answers of several lanes beside those of one: `python -m tests.oracle.lanes [--questions 200] [--lanes 8]`.

Each question is answered twice by the étude: alone, by an engine with one lane, one question after the other; and by an
engine with several lanes, of which each takes the next question as soon as it is free. There are five kinds, in turn:
greedy; drawn with a seed; by a JSON Schema; with tools (python where it can be confined, functions with a schema); and
stopped in the middle. Prompts and ids of each step must be the same.

A step of several lanes has another size than one of a single lane, and may be rounded differently. So where ids part
for the first time, the logits of both are compared: if those of the two ids lie nearer than `NEAR_TIE` to each other
(greedy), or each of them nearer than that to itself (with a seed: the same chance meets almost the same weights), it is
a tie; what comes after it isn't compared. Where a rounding chooses another expert, logits move further: that is printed
as well. Everything else is a fault. Exit code 1 if there is one, at ties of more than `MOST_TIES` of the ids, if logits
moved further in more than `MOST_MOVED` of the questions, or if the process grows by more than `MOST_GROWTH` in the
second half.

Most of it isn't the batch: all lanes share one KV cache, where a sequence begins at any cell, and flash attention adds
up tiles of cells. (300 random ids, then 60 ids in 8 sequences: the median of the largest move is 0.2, and with a cache
for each sequence 0; without flash attention a single sequence moves by 0.2 as well.) The rest is that llama.cpp
computes one row otherwise than two. (Of 3,500 rows in answers of 120 ids, which fit in one tile, 84 moved, by 0.34 at
most: bit for bit to what a single lane computes with two ids a step.)
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import queue
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil

from ossia.agent.control import Control
from ossia.agent.engine.base import Forced, Sampling, Task
from ossia.agent.engine.cache import Logits
from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.limits import Limits
from ossia.agent.loop import run_turn
from ossia.agent.respond import LocalResponder
from ossia.agent.sessions.session import Options, Session
from ossia.agent.vocabulary import TokenCounter
from ossia.harmony.codec import Codec
from ossia.harmony.messages import ResponseFormat
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.rules import Rule
from ossia.tools.build import ToolsSpec, toolset
from ossia.tools.host import silent
from ossia.tools.toolbox import Toolbox
from tests.oracle.engine import MOST_TIES, NEAR_TIE
from tests.oracle.guided import ANSWER, Order
from tests.support.engines import ETUDE, GREEDY, load_lanes
from tests.support.host import host_in
from tests.support.turns import Double

MOST_MOVED = 0.05
MOST_GROWTH = 8 << 20

Kind = Literal["greedy", "seed", "schema", "tools", "stopped"]
KINDS: tuple[Kind, ...] = ("greedy", "seed", "schema", "tools", "stopped")
_CONTEXT_TOKENS, _MOST_TOKENS = 2048, 300
_ASKED = (
    "Tell me about the number {n}.",
    "What comes after {n}, and after that?",
    "Write two sentences about {n} ships.",
    "Is {n} larger than {m}?",
)
_CALLING = ("What is {n} times {m}? Use python.", "Double {n} with the function double.", "Order {n} small lamps.")


@dataclass(frozen=True, slots=True)
class Question:
    """`Question(7, "schema", "Is 7 larger than 86?")`"""

    number: int
    kind: Kind
    text: str

    @property
    def session(self) -> Session:
        """A new session with the options of its kind."""
        form = ResponseFormat("answer", ANSWER) if self.kind == "schema" else None
        sampling = Sampling(temperature=1.0, seed=self.number) if self.kind == "seed" else GREEDY
        return Session(Options(date="2026-11-29", response_format=form, sampling=sampling))

    @property
    def stop_after(self) -> int | None:
        """The number of ids after which it is stopped; None: it isn't."""
        return 5 + self.number % 40 if self.kind == "stopped" else None


def questions(count: int) -> list[Question]:
    """The questions, each of them another one."""
    found = []
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        forms = _CALLING if kind == "tools" else _ASKED
        text = forms[number // len(KINDS) % len(forms)].format(n=number + 11, m=(7 * number) % 90 + 12)
        found.append(Question(number, kind, text))
    return found


# -- playing -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Step:
    """One generation: its prompt, its ids, and the logits that each was drawn from; None for a forced one."""

    prompt: tuple[int, ...]
    ids: list[int] = field(default_factory=list)
    rows: list[Logits | None] = field(default_factory=list)


class _Recorder:
    """An engine that notes its steps."""

    def __init__(self, engine: LlamaEngine, *, rows: bool) -> None:
        self._engine, self._rows = engine, rows
        self.steps: list[Step] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def generate(self, task: Task, *, control: Control) -> Any:
        self.steps.append(Step(task.prompt.ids))
        logits = self._engine.lane.decoder.logits if self._rows else None
        return _Noted(self._engine.generate(task, control=control), self.steps[-1], logits)


class _Noted:
    """See `agent.engine.base.Generation`."""

    def __init__(self, inner: Any, step: Step, logits: Callable[[], Logits] | None) -> None:
        self._inner, self._step, self._logits = inner, step, logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        item = next(self._inner)
        if isinstance(item, int):
            self._step.ids.append(int(item))
            if self._logits is not None:
                self._step.rows.append(None if isinstance(item, Forced) else self._logits().copy())
        return item


class Player:
    """Plays turns on one engine, with tools of its own. `with closing(Player(engine, folder)) as player: …`"""

    def __init__(self, engine: LlamaEngine, folder: Path, *, python: bool = False) -> None:
        self._engine, self._tokenizer = engine, Tokenizer(engine.vocabulary)
        self._codec = Codec(self._tokenizer, recipient_position="channel", replay=True)
        host = host_in(folder)
        spec = ToolsSpec(trained=("python",) if python else (), rules=(Rule("*", "allow"),))
        counter = TokenCounter(self._tokenizer, host)
        self._tools = toolset(spec, host, silent, counter, extra=(Double(), Order()))
        self._none = toolset(ToolsSpec(trained=()), host, silent, counter)

    @property
    def has_python(self) -> bool:
        """Can it be confined here?"""
        return self._tools.python is not None

    def play(self, question: Question, *, rows: bool = False) -> list[Step]:
        """The steps of the answer. `rows`: with their logits."""
        recorder, control, drawn = _Recorder(self._engine, rows=rows), Control(), itertools.count(1)

        def tap(ids: Sequence[int]) -> None:
            if len(ids) == 1 and next(drawn) == question.stop_after:
                control.stop()

        responder = LocalResponder(self._codec, recorder, tap=tap)  # type: ignore[arg-type]
        tools: Toolbox = (self._tools if question.kind == "tools" else self._none).toolbox
        limits = Limits(max_steps=5, max_tokens=_MOST_TOKENS)
        turn = run_turn(
            question.session, question.text, responder=responder, tools=tools, limits=limits, control=control
        )
        for _ in turn:
            pass
        return recorder.steps

    def close(self) -> None:
        self._tools.close()
        self._none.close()


# -- comparing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parting:
    """The first difference: in a step, at an id. `row`: the logits in the lane."""

    question: Question
    step: int
    place: int
    ids: tuple[int, int]
    row: Logits | None


@dataclass(slots=True)
class Tally:
    """The results so far."""

    questions: int = 0
    tokens: int = 0
    ties: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    seconds: dict[int, float] = field(default_factory=dict)
    memory: list[int] = field(default_factory=list)

    @property
    def growth(self) -> int:
        """The bytes by which the process grew in the second half."""
        return self.memory[-1] - self.memory[len(self.memory) // 2] if self.memory else 0

    @property
    def passed(self) -> bool:
        """No faults, and not too many ties."""
        few = len(self.ties) <= MOST_TIES * self.tokens and len(self.moved) <= MOST_MOVED * self.questions
        return few and not self.faults


def compare(asked: Sequence[Question], alone: Player, lanes: Sequence[Player]) -> Tally:
    """Have the questions answered both ways; every difference is a tie or a fault."""
    tally, began = Tally(questions=len(asked)), time.monotonic()
    expected = {question: alone.play(question) for question in asked}
    tally.seconds[1], began = time.monotonic() - began, time.monotonic()
    partings = list[Parting]()
    waiting, lock = queue.SimpleQueue[Question](), threading.Lock()
    for question in asked:
        waiting.put(question)

    def work(player: Player) -> None:
        while True:
            try:
                question = waiting.get_nowait()
            except queue.Empty:
                return
            steps = player.play(question, rows=True)
            found = _first_difference(question, expected[question], steps)
            with lock:
                tally.kinds[question.kind] += 1
                tally.tokens += sum(len(step.ids) for step in steps)
                if isinstance(found, Parting):
                    partings.append(found)
                elif found:
                    tally.faults.append(found)
                tally.memory.append(_resident())

    threads = [threading.Thread(target=work, args=(player,)) for player in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tally.seconds[len(lanes)] = time.monotonic() - began
    if (missed := len(asked) - tally.kinds.total()) > 0:
        tally.faults.append(f"{missed} questions got no answer")
    for parting in partings:
        _judge(parting, alone.play(parting.question, rows=True), tally)
    return tally


def _first_difference(question: Question, alone: Sequence[Step], lane: Sequence[Step]) -> Parting | str | None:
    for number, (one, other) in enumerate(zip(alone, lane, strict=False)):
        if one.prompt != other.prompt:
            return f"{question}: step {number} has another prompt"
        for place, ids in enumerate(zip(one.ids, other.ids, strict=False)):
            if ids[0] != ids[1]:
                return Parting(question, number, place, ids, other.rows[place])
        if len(one.ids) != len(other.ids):
            return f"{question}: step {number} has {len(other.ids)} ids, not {len(one.ids)}"
    return None if len(alone) == len(lane) else f"{question}: {len(lane)} steps, not {len(alone)}"


def _judge(parting: Parting, alone: Sequence[Step], tally: Tally) -> None:
    ids, row = list(parting.ids), alone[parting.step].rows[parting.place]
    what = f"{parting.question}: step {parting.step}, id {parting.place}, {ids[1]} and not {ids[0]}"
    if row is None or parting.row is None:
        tally.faults.append(f"{what}, which was forced")
        return
    moved = float(np.abs(row - parting.row)[ids].max())
    apart = float(abs(row[ids[0]] - row[ids[1]]))
    is_tie = moved <= NEAR_TIE and (parting.question.kind == "seed" or apart <= NEAR_TIE)
    (tally.ties if is_tie else tally.moved).append(f"{what}: {apart:.4f} apart, {moved:.4f} moved")


def _resident() -> int:
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
    return int(psutil.Process().memory_info().rss)


def main() -> int:
    """Compare and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.lanes", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--questions", type=int, default=200, metavar="N")
    parser.add_argument("--lanes", type=int, default=8, metavar="N")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, ExitStack() as after:
        folder, asked = Path(place), questions(given.questions)
        engines = [
            load_lanes(ETUDE, count, context_tokens=_CONTEXT_TOKENS, guided=True) for count in (1, given.lanes)
        ]
        for engine in itertools.chain(*engines):
            after.callback(engine.close)
        players = [
            after.enter_context(closing(Player(engine, folder / str(number), python=True)))
            for number, engine in enumerate(itertools.chain(*engines))
        ]
        gc.collect()
        tally = compare(asked, players[0], players[1:])
        python = "with" if players[0].has_python else "without"
        print(f"{tally.questions} questions in {given.lanes} lanes, {tally.tokens} ids, {python} python: {tally.kinds}")
        print(f"seconds {tally.seconds}, the process grew by {tally.growth / 1e6:.1f} MB in the second half")
        for name, lines in (("ties", tally.ties), ("moved", tally.moved), ("faults", tally.faults)):
            print(f"{len(lines)} {name}", *lines, sep="\n  ")
    return int(not tally.passed or tally.growth > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
