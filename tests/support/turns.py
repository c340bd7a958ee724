"""Turns over the script engine: a session, a toolbox of small real tools, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ossia.agent.control import Control
from ossia.agent.engine.base import Sampling
from ossia.agent.engine.scripted import Script, ScriptedEngine
from ossia.agent.events import Decision, Event, TurnEnded
from ossia.agent.limits import Limits
from ossia.agent.loop import run_turn
from ossia.agent.respond import LocalResponder
from ossia.agent.sessions.session import Options, Session
from ossia.harmony.codec import Codec
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import (
    NoStop,
    Preview,
    Tool,
    ToolContext,
    ToolFailed,
    ToolOutput,
    ToolResult,
    ToolSpec,
    interrupted,
)
from ossia.tools.toolbox import Toolbox

GREEDY = Sampling(temperature=0.0)
NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


@dataclass
class Echo:
    """A tool that takes raw text, as python does: gives it back, in two pieces of output."""

    spec: ToolSpec = field(
        default_factory=lambda: ToolSpec(
            "python", "Echoes.", input="text", effects=frozenset({"run"}), trained=True, provenance="built-in"
        )
    )
    closed: bool = False
    ran: list[str] = field(default_factory=list)

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        return Preview("run python", str(args), "python")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        self.ran.append(str(args))
        for piece in ("1\n", "2\n"):
            if context.stop.stopped:
                return ToolResult(f"[{interrupted(context.stop)}]", error=True)
            yield ToolOutput(call_id, piece)
        if "raise" in str(args):
            raise ToolFailed("Error: it failed: try another way")
        return ToolResult(f"ran {args}", error="fail" in str(args))

    def close(self) -> None:
        self.closed = True


@dataclass
class Double:
    """A function with a schema that writes: twice its number."""

    spec: ToolSpec = field(
        default_factory=lambda: ToolSpec(
            "functions.double", "Doubles n.", parameters=NUMBER, effects=frozenset({"write"}), provenance="built-in"
        )
    )

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        return Preview(f"double {args}")

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        assert isinstance(args, dict)
        yield from ()
        return ToolResult(str(2 * args["n"]))

    def close(self) -> None:
        """Nothing to give back."""


@dataclass
class Stage:
    """Everything a scripted turn needs. `play` runs one and returns its events; the session keeps the rest.

    Greedy, so that each entry of the script is a step: nothing is drawn again.
    """

    tokenizer: Tokenizer
    steps: Sequence[str | tuple[int, ...]]
    rules: tuple[Rule, ...] = (Rule("*", "allow"),)
    tools: tuple[Tool, ...] | None = None
    context_tokens: int = 4096
    tokens_per_s: float = 0.0
    session: Session = field(default_factory=lambda: Session(Options(date="2025-06-28", sampling=GREEDY)))
    control: Control = field(default_factory=Control)

    def __post_init__(self) -> None:
        script = Script(tuple(self.steps), self.tokens_per_s)
        self.engine = ScriptedEngine(script, self.tokenizer, context_tokens=self.context_tokens)
        self.responder = LocalResponder(Codec(self.tokenizer, recipient_position="channel", replay=True), self.engine)
        context = ToolContext(
            stop=NoStop(),
            workspace=None,
            data_dir=Path("nowhere"),
            count_tokens=lambda text: len(self.tokenizer.encode(text)),
        )
        self.echo = Echo()
        tools = (self.echo, Double()) if self.tools is None else self.tools
        self.toolbox = Toolbox(tools, policy=Policy(self.rules), context=context, max_result_tokens=200)

    def turn(self, text: str = "hi", *, limits: Limits | None = None) -> Generator[Event, Decision | None, None]:
        return run_turn(
            self.session,
            text,
            responder=self.responder,
            tools=self.toolbox,
            limits=limits or Limits(),
            control=self.control,
        )

    def play(
        self,
        text: str = "hi",
        *,
        limits: Limits | None = None,
        decide: Callable[[Event], Decision | None] = lambda event: None,
    ) -> list[Event]:
        """All events of one turn; `decide` answers each of them (None but for questions)."""
        return drive(self.turn(text, limits=limits), decide)

    def prompt(self) -> str:
        """The text of the next prompt, as the engine would get it."""
        prompt = self.responder._rendered(self.session.request(self.toolbox.specs)).prompt
        return self.tokenizer.decode(prompt.ids)


def drive(
    turn: Generator[Event, Decision | None, None], decide: Callable[[Event], Decision | None] = lambda event: None
) -> list[Event]:
    """Every event of `turn`, each answered by `decide`."""
    events: list[Event] = []
    decision: Decision | None = None
    while True:
        try:
            event = turn.send(decision)
        except StopIteration:
            return events
        events.append(event)
        decision = decide(event)


def end_of(events: Sequence[Event]) -> TurnEnded:
    """The last event, which every turn has."""
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last
