"""A request in the form of OpenAI's APIs (tools under names that are legal there, messages as JSON), and its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from ossia.agent.adapt import as_namespaces
from ossia.agent.prompt import compose
from ossia.agent.request import Request
from ossia.harmony.builtins import TRAINED_NAMES
from ossia.harmony.chat_form import conversation_to_chat
from ossia.harmony.messages import ANALYSIS, COMMENTARY, DeveloperPrompt, Message, is_call
from ossia.harmony.recipients import clean_recipient
from ossia.harmony.render import developer_text, drop_past_analysis
from ossia.harmony.tokens import CONSTRAIN
from ossia.tools.calls.arguments import NO_ARGUMENTS
from ossia.tools.functions.naming import MAX_NAME_CHARS, PREFIX, plain_name
from ossia.tools.present import present_of
from ossia.tools.spec import ToolSpec

Json = dict[str, Any]

ANSWER_NOW: Final = "Answer now, with what you have. No tool can be called any more."
"""The instruction where a local engine would open the answer for the model."""
_CODE: Final = "code"
_CONTROL: Final = re.compile(r"<(?=\|[A-Za-z0-9_]+\|>)")


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Some of the reasoning text."""

    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """Some of the answer, or of what the model says before it calls a tool."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """Some of a call: `text` is of its arguments. `key`: one for each call of an answer; a name may come in pieces."""

    key: str
    name: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The server's figures: the prompt's tokens, those of them that its cache held, and those of the answer.

    `cached_tokens` None: it doesn't say.
    """

    prompt_tokens: int
    cached_tokens: int | None
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is whole, or cut at a limit of tokens."""

    how: Literal["stop", "tokens"]


@dataclass(frozen=True, slots=True)
class Failed:
    """The server broke off, and says why, in raw text."""

    why: str


Piece = Reasoning | Said | Called | Usage | Ended | Failed
"""The pieces of a server's answer, through either API."""


class Names:
    """The names of tools as functions, and back.

        names = Names(specs)
        names.out("repo_browser.open_file")    # 'repo_browser__open_file'
        names.back("repo_browser__open_file")  # 'repo_browser.open_file'
        names.back("get_weather")              # 'functions.get_weather'

    A name that the model was trained on stays as it is, even if there is no such tool: `names.back("browser.search")`.
    """

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        specs = tuple(specs)
        self._out: dict[str, str] = {}
        for name in dict.fromkeys((*(spec.name for spec in specs), *TRAINED_NAMES)):
            legal, number = _legal(name), 1
            while legal in self._out.values():
                number += 1
                legal = f"{_legal(name)[: MAX_NAME_CHARS - len(str(number)) - 1]}_{number}"
            self._out[name] = legal
        self._back = {legal: name for name, legal in self._out.items()}
        self._texts = {spec.name for spec in specs if spec.input == "text"}
        self._trained = {*TRAINED_NAMES, *(spec.name for spec in specs if spec.trained)}

    def out(self, recipient: str) -> str:
        return self._out.get(recipient) or _legal(recipient)

    def back(self, name: str) -> str:
        """The recipient that a server's name for a function means."""
        clean = clean_recipient(name)
        if clean in self._back:
            return self._back[clean]
        return clean if clean in self._out or clean.startswith(PREFIX) else PREFIX + clean

    def takes_text(self, recipient: str) -> bool:
        """True if the tool takes raw text, also for a recorded call. A function can't: it gets `{"code": …}`."""
        return recipient in self._texts or present_of(recipient).argument == ""

    def header(self, recipient: str) -> tuple[str, str]:
        """The channel and the content type of a call, as the model itself writes them."""
        return (ANALYSIS, "code") if recipient in self._trained else (COMMENTARY, CONSTRAIN + "json")

    def arguments_out(self, call: Message) -> str:
        """A call's arguments, as a JSON object in any case: some servers refuse a conversation without.

        They are written anew, without escapes: `\\u003c|end|>` would spell a control token that `plain` can't see.
        """
        if call.recipient is not None and self.takes_text(call.recipient):
            return _json({_CODE: call.text})
        with suppress(ValueError, RecursionError):
            if isinstance(arguments := json.loads(call.text or "{}"), dict):
                return _json(arguments)
        return _json({"input": call.text})

    def text_back(self, arguments: str) -> str:
        """The raw text in the arguments of such a tool: `text_back('{"code": "print(1)"}')` is `'print(1)'`."""
        value: object = arguments
        try:
            while isinstance(value, str):  # a text that holds the arguments
                value = json.loads(value)
        except (ValueError, RecursionError):
            return arguments
        text = value.get(_CODE) if isinstance(value, dict) else None
        return text if isinstance(text, str) else arguments


@dataclass(frozen=True, slots=True)
class Conversation:
    """The conversation for a server: `instructions`, `messages` of the Chat API without them, and `functions`.

    A function is `{"name": …, "description": …, "parameters": {…}}`. A message's reasoning is under `thinking`.
    """

    instructions: str | None
    messages: tuple[Json, ...]
    functions: tuple[Json, ...]


def plain(value: Any) -> Any:
    """The same JSON, no control token spelled out in any of its texts: `<|end|>` becomes `< |end|>`.

    Most servers would read the token, whoever wrote it.
    """
    if isinstance(value, str):
        return _CONTROL.sub("< ", value)
    if isinstance(value, Mapping):
        return {plain(key): plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def conversation(request: Request, names: Names) -> Conversation:
    """The request as a conversation. The reasoning of past turns is left out, as the model's own format has it.

    A step that must be the answer (`open_with`) has no functions, and ends with the user asking for it. It isn't
    `plain` yet.
    """
    history = [_outward(request.history[index], names) for index in drop_past_analysis(request.history)]
    if request.open_with and (not history or history[-1].role != "user"):
        history.append(Message("user", (ANSWER_NOW,)))
    tools = () if request.open_with else tuple(_as_function(spec, names) for spec in request.tools)
    outward = replace(request, history=tuple(history), tools=tools, instructions=_instructions(request, names))
    chat: Any = conversation_to_chat(compose(replace(outward, response_format=None)), thinking=True)
    messages = [message for message in map(_whole, chat["messages"]) if message is not None]
    leads = bool(messages) and messages[0]["role"] == "system"
    functions = tuple({"parameters": dict(NO_ARGUMENTS), **tool["function"]} for tool in chat.get("tools", ()))
    instructions = messages[0]["content"] if leads else None
    return Conversation(instructions, tuple(messages[leads:]), functions)


def _legal(recipient: str) -> str:
    return plain_name(recipient.removeprefix(PREFIX), filler="__")


def _outward(message: Message, names: Names) -> Message:
    if not is_call(message):
        return message
    recipient = PREFIX + names.out(message.recipient or "")
    return replace(message, recipient=recipient, content=(names.arguments_out(message),), sampled=None)


def _as_function(spec: ToolSpec, names: Names) -> ToolSpec:
    schema: Mapping[str, object] = spec.parameters or NO_ARGUMENTS
    described = spec.section if spec.input == "text" and spec.section else spec.description
    if spec.input == "text" or schema.get("type") == "string":
        key = _CODE if spec.input == "text" else "input"
        schema = {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}
    name = PREFIX + names.out(spec.name)
    return replace(
        spec, name=name, description=described, parameters=schema, shown=None, input="json", trained=False, section=None
    )


def _instructions(request: Request, names: Names) -> str | None:
    """The instructions, with the text above the trained tools in a local prompt, and the form of the answer."""
    parts = [request.instructions or ""]
    trained, _ = as_namespaces(() if request.open_with else request.tools)
    for key, namespace in trained.items():
        if namespace.description and namespace.functions:
            parts.append(f"The functions {names.out(f'{key}.')}__*: {namespace.description}")
    if request.response_format:
        parts.append(developer_text(DeveloperPrompt(response_formats=(request.response_format,))))
    return "\n\n".join(filter(None, parts)) or None


def _whole(message: Json) -> Json | None:
    """The message, its content a text: some servers take no null. None for reasoning that nothing followed.

    A preamble goes into the reasoning if a call has both: gpt-oss's own template takes only one of them.
    """
    calls, reasoning, content = message.get("tool_calls"), message.get("thinking"), message.get("content")
    if not (calls or content or message["role"] in ("user", "tool")):
        return None
    if calls and reasoning and content:
        return {**message, "content": "", "thinking": f"{reasoning}\n\n{content}"}
    return {**message, "content": content or ""}


def _json(value: object) -> str:
    """As JSON, in a text that can be sent: half a surrogate pair, which JSON can spell, becomes `?`."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
