"""A client's request, whichever API it came by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ossia.agent.engine.base import Sampling
from ossia.harmony.messages import Effort, Message, ResponseFormat
from ossia.tools.spec import ToolSpec

Api = Literal["responses", "chat"]

Hosted = Literal["web_search", "code_interpreter", "shell", "apply_patch"]
"""A tool that a client asks for and the server runs, by the name of its type in the Responses API."""


class BadRequest(Exception):
    """A request that can't be answered. The message: one line that names the place, what was expected and what came.

    `status` is HTTP's; `code` and `param` are those of OpenAI's errors: `"unknown_parameter"`, `"input[2].content"`.
    """

    def __init__(
        self, message: str, *, status: int = 400, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True, slots=True)
class Item:
    """One item of the input: a message as Harmony has it. `id`: the item's, if the client gave one.

    `call_id`: of a call, or of the result that answers it.
    """

    message: Message
    id: str | None = None
    call_id: str | None = None
    error: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: the items since `previous` (None: the whole conversation), and how to answer them.

    `functions` are the client's own (`returned`); `tool_choice`: "auto", "none", "required" or a function's name;
    `hosted`: tools that it wants run here. `key`: the client's name for the conversation (`prompt_cache_key`).
    `max_tokens` counts reasoning, too. `raw`: the request as it came, whose fields a response repeats.
    """

    api: Api
    model: str | None
    items: tuple[Item, ...]
    instructions: str | None = None
    previous: str | None = None
    functions: tuple[ToolSpec, ...] = ()
    hosted: frozenset[Hosted] = frozenset()
    tool_choice: str = "auto"
    effort: Effort | None = None
    answer: ResponseFormat | None = None
    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    max_calls: int | None = None
    key: str | None = None
    store: bool = True
    stream: bool = False
    raw: Mapping[str, Any] = field(default_factory=dict)
