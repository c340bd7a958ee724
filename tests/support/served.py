"""A server that keeps Harmony to itself, on loopback, and a turn with it; what it says is in `dialects`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ossia.agent.control import Control
from ossia.agent.engine.remote.address import parse_url
from ossia.agent.engine.remote.client import Client
from ossia.agent.events import Decision, Event
from ossia.agent.limits import Limits
from ossia.agent.loop import run_turn
from ossia.agent.served.api import Api, ChatApi, Kind, ResponsesApi
from ossia.agent.served.engine import ServedEngine
from ossia.agent.served.respond import ServedResponder
from ossia.agent.sessions.session import Options, Session
from ossia.harmony.codec import Codec
from ossia.harmony.messages import ANALYSIS, FINAL, Message
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import NoStop, Tool, ToolContext
from ossia.tools.toolbox import Toolbox
from tests.support.dialects import ANSWER, THOUGHT, Data
from tests.support.site import Reply, Request, Site
from tests.support.turns import GREEDY, Double, Echo, drive

APIS: Final[dict[Kind, Callable[[], Api]]] = {"responses": ResponsesApi, "chat": ChatApi}
PATHS: Final[dict[Kind, str]] = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}


class Server(Site):
    """Answers each request of a step with the next of `answers`; one without a model is refused."""

    def __init__(self, kind: Kind, answers: Sequence[str | Callable[[Request], Reply]]) -> None:
        super().__init__()
        self._answers = iter(answers)
        self.asked: list[Data] = []
        self.route(PATHS[kind], self._next)

    def list_models(self, *names: str) -> None:
        self.json("/v1/models", {"object": "list", "data": [{"id": name, "object": "model"} for name in names]})

    def _next(self, request: Request) -> Reply:
        body = json.loads(request.body)
        if "model" not in body:
            return Reply(b'{"error": {"message": "model is required"}}', 400)
        self.asked.append(body)
        answer = next(self._answers)
        events = {"Content-Type": "text/event-stream"}
        return answer(request) if callable(answer) else Reply(answer.encode(), headers=events)


@dataclass
class ServedStage:
    """All that a turn with such a server needs: `tests.support.turns.Stage`, with another responder."""

    tokenizer: Tokenizer
    server: Server
    kind: Kind
    tools: tuple[Tool, ...] | None = None
    model: str = "gpt-oss-20b"
    context_tokens: int = 4096
    key: str | None = None
    notice: Callable[[str], None] = lambda line: None
    session: Session = field(default_factory=lambda: Session(Options(effort="high", sampling=GREEDY)))
    control: Control = field(default_factory=Control)

    def __post_init__(self) -> None:
        address = parse_url(self.server.url(""), name="team", key=self.key, key_env="TEAM_KEY" if self.key else "")
        self.engine = ServedEngine(
            Client(address, back_off_s=0.01),
            APIS[self.kind](),
            model=self.model,
            context_tokens=self.context_tokens,
            vocabulary=self.tokenizer.vocabulary,
            notice=self.notice,
        )
        self.responder = ServedResponder(Codec(self.tokenizer, recipient_position="channel", replay=True), self.engine)
        self.echo = Echo()
        context = ToolContext(stop=NoStop(), workspace=None, data_dir=Path("nowhere"), count_tokens=len)
        tools = (self.echo, Double()) if self.tools is None else self.tools
        self.toolbox = Toolbox(tools, policy=Policy((Rule("*", "allow"),)), context=context, max_result_tokens=200)
        self.session.vocabulary, self.session.model = self.tokenizer.vocabulary.digest, self.model

    def play(
        self,
        said: str = "hi",
        *,
        limits: Limits | None = None,
        decide: Callable[[Event], Decision | None] = lambda event: None,
    ) -> list[Event]:
        """All events of one turn; `decide` sees each of them."""
        turn = run_turn(
            self.session,
            said,
            responder=self.responder,
            tools=self.toolbox,
            limits=limits or Limits(),
            control=self.control,
        )
        return drive(turn, decide)


PLAYED: Final = (
    Message("user", ("hi",)),
    Message("assistant", (THOUGHT,), channel=ANALYSIS),
    Message("assistant", ("print(2)",), recipient="python", channel=ANALYSIS, content_type="code"),
    Message("tool", ("ran print(2)",), name="python", recipient="assistant", channel=ANALYSIS),
    Message("assistant", (ANSWER,), channel=FINAL),
)
"""The messages of that turn, whichever server answered it."""
