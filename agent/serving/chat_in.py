"""The body of `POST /v1/chat/completions` as a request."""

from __future__ import annotations

from typing import Any, Final

from ossia.agent.serving import fields
from ossia.agent.serving.asked import Asked, Function, Item
from ossia.agent.serving.fields import wrong
from ossia.harmony.messages import Message
from ossia.harmony.reader import Json

_UNSUPPORTED: Final = {
    "n": (1,), "logprobs": (False,), "top_logprobs": (0,), "logit_bias": ({},), "presence_penalty": (0,),
    "frequency_penalty": (0,), "modalities": (["text"],), "audio": (), "functions": ([],),
    "function_call": ("none", "auto"), "web_search_options": (), "stop": ([], ""),
}  # fmt: skip


def asked_of(body: object) -> Asked:
    """The request. Raises BadRequest, in one line that names the place. See `responses_in` on other fields.

        asked_of({"model": "gpt-oss-20b", "messages": [{"role": "user", "content": "What is 48*17?"}]})
    """
    with fields.reading(body, _UNSUPPORTED) as (place, raw):
        return _asked(place, raw)


def _asked(body: Json, raw: dict[str, Any]) -> Asked:
    functions = _functions(body.field("tools"))
    return Asked(
        "chat",
        body.field("model").text_or_none(),
        fields.with_preambles([item for one in body.field("messages").items() for item in _read(one)]),
        functions=functions,
        tool_choice=_choice(body.field("tool_choice"), functions),
        effort=fields.effort(body.field("reasoning_effort")),
        answer=fields.answer(body.field("response_format"), lambda form: form.field("json_schema")),
        temperature=fields.number(body.field("temperature"), 0, 2),
        top_p=fields.number(body.field("top_p"), 0, 1),
        seed=fields.count(body.field("seed"), 0),
        max_tokens=fields.count(body.first("max_completion_tokens", "max_tokens")),
        key=body.field("prompt_cache_key").text_or_none(),
        store=False,  # nothing goes on by the id of a chat completion
        stream=fields.flag(body.field("stream"), False),
        raw=raw,
    )


def _functions(place: Json) -> tuple[Function, ...]:
    functions = []
    for tool in place.items() if place.there else []:
        kind = tool.field("type").value
        if kind not in ("function", "custom"):
            raise wrong(tool.field("type"), f"there is no tool {kind!r} here: function or custom", "unsupported_tool")
        about = tool.field(str(kind))
        functions.append(fields.function(about) if kind == "function" else fields.custom(about))
    return fields.distinct(functions, place)


def _choice(place: Json, functions: tuple[Function, ...]) -> str:
    if not place.there or place.value in ("auto", "none", "required"):
        return str(place.value or "auto")
    kind = place.field("type").value
    if kind not in ("function", "custom"):
        raise wrong(place, "must be auto, none, required or a function", "unsupported_value")
    return fields.chosen(place.field(str(kind)).field("name"), functions)


def _read(item: Json) -> list[Item]:
    role = item.field("role")
    match role.text():
        case "system" | "developer":
            return [Item(Message("developer", (fields.texts(item.field("content")),)))]
        case "user":
            return [Item(Message("user", (fields.texts(item.field("content")),)))]
        case "assistant":
            return _assistant(item)
        case "tool":
            place = item.field("tool_call_id")
            text = fields.texts(item.field("content"), results=True)
            return [Item(Message("tool", (text,)), call_id=place.text(), where=place.where)]
    raise role.wrong("one of system, developer, user, assistant, tool")


def _assistant(item: Json) -> list[Item]:
    items = []
    thinking = item.first("reasoning_content", "reasoning", "thinking")
    if thinking.there and isinstance(thinking.value, str) and thinking.value:
        items.append(Item(fields.thinking(fields.clean(thinking.value))))
    content, calls = item.first("content", "refusal"), item.field("tool_calls")
    text = fields.texts(content) if content.there else ""
    if text or not calls.value:
        items.append(Item(fields.said(text)))
    for call in calls.items() if calls.there else []:
        kind = "custom" if call.field("type").value == "custom" else "function"
        about = call.field(kind)
        name = about.field("name").text()
        given = about.field("arguments" if kind == "function" else "input")
        written = fields.arguments(given if kind == "function" else Json({"input": given.text()}))
        items.append(Item(fields.call(name, written), call_id=call.field("id").text()))
    return items
