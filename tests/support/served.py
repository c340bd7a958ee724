"""Servers that keep Harmony to themselves, on loopback: exchanges in the shapes that their makers document.

None of it is a recording of a running program, but for llama.cpp's (b9870, étude): the events are those of the pages
and sources named here, with texts of our own and without the fields that nothing reads.

- OpenAI, Responses: https://platform.openai.com/docs/api-reference/responses-streaming, with gpt-oss's raw thoughts as
  https://cookbook.openai.com/articles/gpt-oss/handle-raw-cot has them
- OpenAI, Chat Completions: https://platform.openai.com/docs/api-reference/chat-streaming. Hugging Face's router and
  `transformers serve` are asked by it: the Responses API of the one takes no thoughts back
  (https://huggingface.co/docs/inference-providers/guides/responses-api), that of the other no effort
- Ollama, both: https://docs.ollama.com/api/openai-compatibility, events as its `openai/responses.go` and
  `openai/openai.go` write them (https://github.com/ollama/ollama)
- LM Studio: https://lmstudio.ai/docs/developer/openai-compat/tools (a call comes in pieces, name first) and
  https://lmstudio.ai/docs/developer/api-changelog (`delta.reasoning` for gpt-oss)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

from agent.control import Control
from agent.engine.remote.address import parse_url
from agent.engine.remote.client import Client
from agent.events import Decision, Event
from agent.limits import Limits
from agent.loop import run_turn
from agent.served.api import Api, ChatApi, Kind, ResponsesApi
from agent.served.engine import ServedEngine
from agent.served.respond import ServedResponder
from agent.sessions.session import Options, Session
from harmony.codec import Codec
from harmony.messages import ANALYSIS, FINAL, Message
from harmony.tokenizer import Tokenizer
from tests.support.site import Reply, Request, Site
from tests.support.turns import GREEDY, Double, Echo, drive
from tools.approval.policy import Policy
from tools.approval.rules import Rule
from tools.spec import NoStop, Tool, ToolContext
from tools.toolbox import Toolbox

Data = dict[str, Any]
APIS: Final[dict[Kind, Callable[[], Api]]] = {"responses": ResponsesApi, "chat": ChatApi}
PATHS: Final[dict[Kind, str]] = {"responses": "/v1/responses", "chat": "/v1/chat/completions"}
DONE: Final = "data: [DONE]\n\n"


def sse(*events: Data, named: bool = False) -> str:
    """Server-sent events; `named`: with the event's type before it, as the Responses API has them."""
    lines = (f"event: {one['type']}\n" if named else "" for one in events)
    return "".join(f"{line}data: {json.dumps(one)}\n\n" for line, one in zip(lines, events, strict=True))


# -- Responses ---------------------------------------------------------------------------------------------------------


def item(number: int, kind: str, *deltas: Data, **fields: Any) -> list[Data]:
    """An output item from its beginning to its end, its deltas in between."""
    about = {"id": f"{kind[:2]}_{number}", "type": kind, "status": "in_progress", **fields}
    inside = [{"item_id": about["id"], "output_index": number, **delta} for delta in deltas]
    done = about | {"status": "completed"}
    done |= {"arguments": "".join(one.get("delta", "") for one in deltas)} if kind == "function_call" else {}
    return [
        {"type": "response.output_item.added", "output_index": number, "item": about},
        *inside,
        {"type": "response.output_item.done", "output_index": number, "item": done},
    ]


def thoughts(number: int, *texts: str) -> list[Data]:
    deltas = [{"type": "response.reasoning_text.delta", "content_index": 0, "delta": text} for text in texts]
    return item(number, "reasoning", *deltas, summary=[], content=[], encrypted_content=None)


def call(number: int, name: str, *pieces: str) -> list[Data]:
    deltas = [{"type": "response.function_call_arguments.delta", "delta": piece} for piece in pieces]
    return item(number, "function_call", *deltas, call_id=f"call_{number}x", name=name, arguments="")


def text(number: int, *texts: str) -> list[Data]:
    deltas = [{"type": "response.output_text.delta", "content_index": 0, "delta": one} for one in texts]
    return item(number, "message", *deltas, role="assistant", content=[])


def responses(
    *items: Iterable[Data], end: str = "completed", prompt: int = 120, cached: int = 100, written: int = 9
) -> str:
    """A whole answer of the Responses API, as OpenAI documents it."""
    usage = {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": prompt + written,
    }
    reason = {"reason": "max_output_tokens"} if end == "incomplete" else None
    about = {"id": "resp_1", "object": "response", "status": "in_progress", "error": None, "usage": None}
    closing = about | {"status": end, "usage": usage, "incomplete_details": reason}
    events: list[Data] = [
        {"type": "response.created", "response": about},
        {"type": "response.in_progress", "response": about},
        *chain.from_iterable(items),
        {"type": f"response.{end}", "response": closing},
    ]
    return sse(*(one | {"sequence_number": number} for number, one in enumerate(events)), named=True)


def ollama_thoughts(number: int, *texts: str) -> list[Data]:
    """Ollama's: a summary, and the same again as what is to be sent back."""
    whole = "".join(texts)
    deltas = [{"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": one} for one in texts]
    events = item(number, "reasoning", *deltas, summary=[])
    summary = [{"type": "summary_text", "text": whole}]
    events[-1]["item"] |= {"summary": summary, "encrypted_content": whole}
    return events


# -- Chat Completions --------------------------------------------------------------------------------------------------


def chunk(delta: Data, finish: str | None = None) -> Data:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "gpt-oss-20b", "choices": [choice]}


def tool_call(name: str | None = None, arguments: str = "", *, number: int = 0, id: str | None = None) -> Data:
    function = {"name": name, "arguments": arguments}
    about = {"index": number, "id": id, "type": "function" if id else None, "function": function}
    return {"tool_calls": [about]}


def chat(*deltas: Data, finish: str = "stop", prompt: int = 120, cached: int = 100, written: int = 9) -> str:
    """A whole answer of Chat Completions, with the figures at its end."""
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    last = chunk({}) | {"choices": [], "usage": usage}
    return sse(chunk({"role": "assistant", "content": ""}), *map(chunk, deltas), chunk({}, finish), last) + DONE


# -- a step with a call of python, a step with the answer, as each server writes them ----------------------------------

CODE: Final = '{"code": "print(2)"}'
THOUGHT, ANSWER = "Compute it.", "It is 2."


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one server writes those two steps, and what it must get the thoughts of the first one back as."""

    kind: Kind
    steps: tuple[str, str]
    thoughts_back: Data


def _ending_with_call(*deltas: Data) -> str:
    return chat(*deltas, finish="tool_calls")


DIALECTS: Final = {
    "OpenAI": Dialect(
        "responses",
        (
            responses(thoughts(0, "Compute", " it."), call(1, "python", '{"code":', ' "print(2)"}')),
            responses(text(0, "It is", " 2.")),
        ),
        {"summary": [], "content": [{"type": "reasoning_text", "text": THOUGHT}]},
    ),
    "Ollama": Dialect(
        "responses",
        (
            responses(ollama_thoughts(0, "Compute", " it."), call(1, "python", CODE)),
            responses(text(0, "It is", " 2.")),
        ),
        {
            "summary": [],
            "content": [{"type": "reasoning_text", "text": THOUGHT}],
            "encrypted_content": THOUGHT,
        },
    ),
    "LM Studio, chat": Dialect(
        "chat",
        (
            _ending_with_call(
                {"reasoning": "Compute"},
                {"reasoning": " it."},
                tool_call("python", id="814890118"),
                *(tool_call(arguments=piece) for piece in ('{"', "code", '": "', "print(2)", '"}')),
            ),
            chat({"content": "It is"}, {"content": " 2."}),
        ),
        {"reasoning": THOUGHT},
    ),
    "Ollama, chat": Dialect(
        "chat",
        (
            _ending_with_call({"content": "", "reasoning": THOUGHT}, tool_call("python", CODE, id="call_9k")),
            chat({"content": ANSWER}),
        ),
        {"reasoning": THOUGHT},
    ),
    "llama.cpp, chat": Dialect(
        "chat",
        (
            _ending_with_call(
                {"reasoning_content": THOUGHT},
                tool_call("python", "{", id="q7kng8"),
                {"tool_calls": [{"index": 0, "function": {"arguments": CODE[1:]}}]},
            ),
            chat({"content": ANSWER}),
        ),
        {"reasoning_content": THOUGHT},
    ),
}


# -- a server and a turn -----------------------------------------------------------------------------------------------


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
    told: Callable[[str], None] = lambda line: None
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
            told=self.told,
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
