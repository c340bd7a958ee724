"""A client's request, whichever API it came by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ossia.harmony.messages import Effort, Message, ResponseFormat
from ossia.tools.spec import ToolSpec

Api = Literal["responses", "chat"]

Hosted = Literal["web_search", "code_interpreter", "shell"]
"""A tool run by the server, by the name of its type in the Responses API."""


_LONGEST = 600


class BadRequest(Exception):
    """A request that can't be answered. The message: one line that names the place, what was expected and what came.

    `status` is HTTP's; `code` and `param` are those of OpenAI's errors: `"unknown_parameter"`, `"input[2].content"`.
    """

    def __init__(
        self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        line = " ".join(message.split())
        super().__init__(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the input: a message as Harmony has it.

    `id`: the item's, if the client gave one; `call_id`: of a call, or of the result that answers it. `message` None:
    the item is one of an earlier response, by its `id`; `where` is its place if it must be known.
    """

    message: Message | None
    id: str | None = None
    call_id: str | None = None
    where: str = ""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the client's. `spec.name` is the recipient; `name` the client's own name for it.

    `text`: a custom tool, whose only argument, `input`, is a text. `namespace`: of its name, if the client gave one.
    """

    name: str
    spec: ToolSpec
    text: bool = False
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the items since `previous` (None: the whole conversation), and how to answer them.

    `functions` are the client's own (`returned`); `tool_choice`: "auto", "none", "required" or a tool's recipient;
    `hosted`: tools that it wants run here. `key`: the client's name for the conversation (`prompt_cache_key`).
    `max_tokens` counts reasoning, too; `max_calls`: calls of tools that run here. None: as the owner set it. `raw`: the
    request as it came, whose fields a response repeats. `openais`: the client is one that knows only OpenAI's events.
    """

    api: Api
    model: str | None
    items: tuple[Item, ...]
    instructions: str | None = None
    previous: str | None = None
    functions: tuple[Function, ...] = ()
    hosted: frozenset[Hosted] = frozenset()
    tool_choice: str = "auto"
    effort: Effort | None = None
    answer: ResponseFormat | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    max_tokens: int | None = None
    max_calls: int | None = None
    key: str | None = None
    store: bool = True
    stream: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict)
    openais: bool = False
