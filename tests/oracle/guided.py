"""What random weights write under the guide, and without it: `python -m tests.oracle.guided [--turns 1000]`.

Whole turns with tools at temperature 1, on a small gpt-oss with random weights, which writes every header and every
argument as blindly as it can be written; each other turn has an answer by a schema. Of each kind a line:

    guided     1000 turns, 214 answered, 786 cut, 2931 steps, 2145 finished, 0 malformed, …

- malformed: of the completions that came to their end, those in which the parser had to mend anything;
- let go: what the guide gave up; it insists on its headers here, since these weights are often sure of nonsense;
- invalid: of the calls and answers that came to their end, those that aren't what their schema says;
- of what a limit cut: how much was run as a call, or counted as an answer by a schema (both must be 0).

Exit code 1 when anything is that shouldn't be under the guide.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path

from ossia.agent.control import Control
from ossia.agent.engine.base import ConstraintDropped, Sampling
from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.events import Event, MessageAdded, Stats, ToolFinished, TurnEnded
from ossia.agent.limits import Limits
from ossia.agent.loop import run_turn
from ossia.agent.respond import LocalResponder
from ossia.agent.schema import fault_of
from ossia.agent.sessions.session import Options, Session
from ossia.agent.stream.account import Account
from ossia.harmony.codec import Codec
from ossia.harmony.messages import Message, Repaired, ResponseFormat, is_call
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import NoStop, Preview, ToolContext, ToolOutput, ToolResult, ToolSpec
from ossia.tools.toolbox import Toolbox
from tests.support.engines import load_engine
from tests.support.toy_gguf import write_toy_gguf
from tests.support.turns import Double, Echo

ORDER = {
    "type": "object",
    "properties": {
        "article": {"type": "string", "maxLength": 20},
        "size": {"enum": ["small", "large"]},
        "express": {"type": "boolean"},
        "pieces": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        "to": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["article", "size"],
    "additionalProperties": False,
}
ANSWER = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "why": {"type": "string", "maxLength": 40}},
    "required": ["ok"],
    "additionalProperties": False,
}
MAX_TOKENS = 800
"""A turn's. A message of random bytes ends after 260 of them on average."""


@dataclass
class Order:
    """Takes an order."""

    spec: ToolSpec = field(
        default_factory=lambda: ToolSpec("functions.order", "Orders an article.", ORDER, provenance="built-in")
    )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        return Preview("order")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        yield from ()
        return ToolResult("ordered")

    def close(self) -> None:
        """Nothing to give back."""


@dataclass
class Seen:
    """What came of some turns."""

    turns: int = 0
    answered: int = 0
    cut: int = 0
    steps: int = 0
    finished: int = 0
    malformed: int = 0
    let_go: int = 0
    calls: int = 0
    invalid_calls: int = 0
    structured: int = 0
    invalid_answers: int = 0
    cut_and_run: int = 0
    cut_and_answered: int = 0
    tokens: int = 0
    forced: int = 0
    repairs: Counter[str] = field(default_factory=Counter)

    def add(self, events: list[Event], report: Account) -> None:
        """One turn's."""
        self.turns += 1
        messages = [(event.message, event.cut) for event in events if isinstance(event, MessageAdded)]
        ended = next(event.end for event in events if isinstance(event, TurnEnded))
        whole = [message for message, cut in messages if not cut]
        self.answered += ended == "answered"
        self.cut += ended in ("tokens", "context")
        mended: list[str] = []
        for event in events:
            if isinstance(event, Repaired):
                mended.append(event.code)
            elif isinstance(event, Stats):
                self.steps += 1
                self.tokens += event.step.completion_tokens
                self.forced += event.step.forced_tokens
                if event.step.end == "stop":
                    self.finished += 1
                    self.malformed += bool(mended)
                    self.repairs.update(mended)
                mended = []
            self.let_go += isinstance(event, ConstraintDropped)
        calls = [message for message in whole if is_call(message)]
        self.calls += len(calls)
        self.invalid_calls += sum(map(_is_invalid, calls))
        self.cut_and_run += sum(isinstance(event, ToolFinished) for event in events) - len(calls)
        finals = [message for message in whole if message.role == "assistant" and message.channel == "final"]
        if report.schema is not None:
            self.structured += len(finals)
            self.invalid_answers += sum(fault_of(message.text, report.schema) is not None for message in finals)
            self.cut_and_answered += report.answer is not None and not finals

    @property
    def faults(self) -> int:
        """What must not be under the guide."""
        unwanted = (self.malformed, self.let_go, self.invalid_calls, self.invalid_answers)
        return sum(unwanted) + self.cut_and_run + self.cut_and_answered

    def told(self, name: str) -> str:
        counts = [one.name for one in fields(self) if one.name != "repairs"]
        values = ", ".join(f"{getattr(self, count)} {count.replace('_', ' ')}" for count in counts)
        return f"{name:<10} {values} {dict(self.repairs) or ''}".rstrip()


_SCHEMAS = {spec.name: spec.parameters for spec in (Order().spec, Double().spec)}


def _is_invalid(call: Message) -> bool:
    """Tools without a schema (python, those that nobody offers) take anything."""
    schema = _SCHEMAS.get(call.recipient or "")
    return schema is not None and fault_of(call.text, schema) is not None


def play(
    engine: LlamaEngine, tokenizer: Tokenizer, seeds: Iterable[int], *, guided: bool, max_tokens: int = MAX_TOKENS
) -> Seen:
    """A turn for each seed; each other one with an answer by a schema."""
    seen = Seen()
    responder = LocalResponder(Codec(tokenizer, recipient_position="channel", replay=True), engine, guided=guided)
    context = ToolContext(NoStop(), None, Path("nowhere"), lambda text: len(tokenizer.encode(text)))
    tools = Toolbox((Echo(), Double(), Order()), policy=Policy((Rule("*", "allow"),)), context=context)
    for seed in seeds:
        answer = ResponseFormat("answer", ANSWER) if seed % 2 else None
        session = Session(Options(date="2026-11-22", response_format=answer, sampling=Sampling(seed=seed)))
        report = Account(model="toy", schema=answer and answer.schema)
        limits = Limits(max_steps=8, max_tokens=max_tokens)
        events: list[Event] = []
        for event in run_turn(session, "Go.", responder=responder, tools=tools, limits=limits, control=Control()):
            report.see(event)
            events.append(event)
        seen.add(events, report)
    return seen


def main() -> int:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        engine = load_engine(
            write_toy_gguf(Path(folder) / "toy.gguf", context=8192), context_tokens=8192, guided=True, insists=True
        )
        tokenizer = Tokenizer(engine.vocabulary)
        guided = play(engine, tokenizer, range(turns), guided=True)
        print(guided.told("guided"))
        print(play(engine, tokenizer, range(max(1, turns // 10)), guided=False).told("unguided"))
        engine.close()
    return 1 if guided.faults else 0


if __name__ == "__main__":
    sys.exit(main())
