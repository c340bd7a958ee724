"""The body of `POST /v1/responses` (Open Responses, OpenAI) as a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ossia.agent.serving import fields
from ossia.agent.serving.asked import Asked, Function, Hosted, Item
from ossia.agent.serving.fields import wrong
from ossia.agent.serving.response_items import unsealed
from ossia.harmony.messages import COMMENTARY, Message
from ossia.harmony.reader import Json

_UNSUPPORTED: Final = {
    "background": (False,), "conversation": (), "prompt": (), "top_logprobs": (0,), "presence_penalty": (0,),
    "frequency_penalty": (0,), "n": (1,), "context_management": (), "modalities": (["text"],),
}  # fmt: skip
"""Fields that would change the answer, each with the values of no effect."""
_HOSTED: Final[Mapping[str, Hosted]] = {
    "web_search": "web_search", "web_search_2025_08_26": "web_search", "web_search_preview": "web_search",
    "web_search_preview_2025_03_11": "web_search", "code_interpreter": "code_interpreter", "shell": "shell",
    "container": "shell",  # as gpt-oss names it
}  # fmt: skip
_BY_ID: Final = frozenset(
    {
        *("web_search_call", "code_interpreter_call", "shell_call", "shell_call_output", "mcp_call", "mcp_list_tools"),
        *("mcp_approval_request", "mcp_approval_response", "file_search_call", "image_generation_call"),
    }
)
"""Items of tools run by a server: known by their ids, else of no use."""


def asked_of(body: object) -> Asked:
    """The request. Raises BadRequest, in one line that names the place.

    A field that is unknown has no effect; one that is known, would change the answer and can't be honoured is refused.

        asked_of({"model": "gpt-oss-20b", "input": "What is 48*17?"})
    """
    with fields.reading(body, _UNSUPPORTED) as (place, raw):
        return _asked(place, raw)


def _asked(body: Json, raw: dict[str, Any]) -> Asked:
    functions, hosted = _tools(body.field("tools"))
    choice, functions, hosted = _choice(body.field("tool_choice"), functions, hosted)
    reasoning, text = body.field("reasoning"), body.field("text")
    return Asked(
        "responses",
        body.field("model").text_or_none(),
        _items(body.field("input")),
        fields.clean(body.field("instructions").text_or_none() or "") or None,
        previous=body.field("previous_response_id").text_or_none(),
        functions=functions,
        hosted=hosted,
        tool_choice=choice,
        effort=fields.effort(reasoning.field("effort")) if reasoning.there else None,
        answer=fields.answer(text.field("format"), lambda form: form) if text.there else None,
        temperature=fields.number(body.field("temperature"), 0, 2),
        top_p=fields.number(body.field("top_p"), 0, 1),
        max_tokens=fields.count(body.field("max_output_tokens")),
        max_calls=fields.count(body.field("max_tool_calls"), 0),
        key=body.field("prompt_cache_key").text_or_none(),
        store=fields.flag(body.field("store"), True),
        stream=fields.flag(body.field("stream"), False),
        raw=raw,
    )


# -- tools -------------------------------------------------------------------------------------------------------------


def _tools(place: Json) -> tuple[tuple[Function, ...], frozenset[Hosted]]:
    functions: list[Function] = []
    hosted: set[Hosted] = set()
    for tool in place.items() if place.there else []:
        kind = tool.field("type").text()
        if kind == "function":
            functions.append(fields.function(tool))
        elif kind == "custom":
            functions.append(fields.custom(tool))
        elif kind == "namespace":
            name = tool.field("name").text()
            functions += [fields.function(one, name) for one in tool.field("tools").items()]
        elif kind in _HOSTED:
            _require_here(tool)
            if tool.field("external_web_access").value is not False:  # Codex's "cached": nothing of the web, so nothing
                hosted.add(_HOSTED[kind])
        else:
            expected = "function, custom, web_search, code_interpreter or shell"
            raise wrong(tool.field("type"), f"there is no tool {kind!r} here: {expected}", "unsupported_tool")
    return fields.distinct(functions, place), frozenset(hosted)


def _require_here(tool: Json) -> None:
    """Raise BadRequest for a shell of the client's own: its commands would run twice."""
    environment = tool.field("environment")
    if environment.there and environment.field("type").value == "local":
        raise wrong(environment, "a shell of the client's own must be a function", "unsupported_tool")


def _choice(
    place: Json, functions: tuple[Function, ...], hosted: frozenset[Hosted]
) -> tuple[str, tuple[Function, ...], frozenset[Hosted]]:
    """The choice, and the tools left by it."""
    if not place.there or place.value in ("auto", "none", "required"):
        return str(place.value or "auto"), functions, hosted
    kind = place.field("type").value
    if kind in ("function", "custom"):
        return fields.chosen(place.field("name"), functions), functions, hosted
    if kind == "allowed_tools":
        allowed = [
            (tool.field("type").text(), tool.field("name").text_or_none()) for tool in place.field("tools").items()
        ]
        names = {name for kind, name in allowed if kind in ("function", "custom")}
        kinds = {_HOSTED[kind] for kind, _ in allowed if kind in _HOSTED}
        mode = place.field("mode").value or "auto"
        if mode not in ("auto", "required"):
            raise place.field("mode").wrong("auto or required")
        return str(mode), tuple(one for one in functions if one.name in names), hosted & kinds
    raise wrong(place, "must be auto, none, required, a function or allowed_tools", "unsupported_value")


# -- the input ---------------------------------------------------------------------------------------------------------


def _items(place: Json) -> tuple[Item, ...]:
    if isinstance(place.value, str):
        return (Item(Message("user", (fields.clean(place.value),))),)
    if not isinstance(place.value, list):
        raise place.wrong("a text or an array of items")
    return fields.with_preambles([item for one in place.items() for item in _item(one)])


def _item(item: Json) -> list[Item]:
    kind = item.field("type").text_or_none() or ("message" if item.field("role").there else "item_reference")
    identifier = item.field("id").text_or_none()
    match kind:
        case "message":
            return [Item(_message(item), identifier)]
        case "reasoning":
            text = _reasoning(item)
            return [Item(fields.thinking(text) if text else None, identifier)]
        case "function_call" | "custom_tool_call" | "local_shell_call":
            return [Item(_call(item, kind), identifier, item.field("call_id").text())]
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            place = item.first("call_id", "id")
            text = fields.texts(item.field("output"), results=True)
            return [Item(Message("tool", (text,)), identifier, place.text(), place.where)]
        case "item_reference":
            return [Item(None, item.field("id").text(), where=item.field("id").where)]
        case _ if kind in _BY_ID:
            return [Item(None, identifier)]
    raise wrong(item.field("type"), f"there is no item {kind!r} here", "unsupported_item")


def _message(item: Json) -> Message:
    text = fields.texts(item.field("content"))
    match item.field("role").text():
        case "user":
            return Message("user", (text,))
        case "system" | "developer":
            return Message("developer", (text,))
        case "assistant":
            preamble = item.field("phase").value == "commentary"
            return Message("assistant", (text,), channel=COMMENTARY) if preamble else fields.said(text)
    raise item.field("role").wrong("one of user, assistant, system, developer")


def _reasoning(item: Json) -> str:
    for place in (item.field("content"), item.field("summary")):
        parts = [fields.texts(Json([part.value], part.where)) for part in place.items()] if place.there else []
        if any(parts):
            return "\n\n".join(parts)
    return fields.clean(unsealed(item.field("encrypted_content").text_or_none() or "") or "")


def _call(item: Json, kind: str) -> Message:
    if kind == "local_shell_call":
        command = item.field("action").field("command")
        return fields.call("shell", fields.arguments(Json({"command": command.value}, command.where)))
    name = item.field("name").text()
    if kind == "custom_tool_call":
        return fields.call(name, fields.arguments(Json({"input": item.field("input").text()})))
    namespace = item.field("namespace").text_or_none()
    return fields.call(f"{namespace}__{name}" if namespace else name, fields.arguments(item.field("arguments")))
