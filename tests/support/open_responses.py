"""Open Responses' schema in short, and the rules of a response's stream.

Written after https://www.openresponses.org/specification and the schema there (2026-04-24): the required fields of
each event and item, and the types that clients rely on. Items and events that it doesn't know are OpenAI's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

Json = dict[str, Any]

_S, _I, _N, _B = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
_STATUS = {"enum": ["in_progress", "completed", "incomplete"]}
_ANY: Json = {}


def _or_null(form: Json) -> Json:
    return {"anyOf": [form, {"type": "null"}]}


def _of(*, optional: Mapping[str, Json] | None = None, **required: Json | str) -> Json:
    """An object with these fields; a text is the only value of its field."""
    fields = {name: {"const": form} if isinstance(form, str) else form for name, form in required.items()}
    return {"type": "object", "required": [*fields], "properties": {**fields, **(optional or {})}}


def _list(form: Json) -> Json:
    return {"type": "array", "items": form}


_CITATION = _of(type="url_citation", url=_S, title=_S, start_index=_I, end_index=_I)
_OUTPUT_TEXT = _of(type="output_text", text=_S, annotations=_list(_CITATION), optional={"logprobs": _list(_ANY)})
_REASONING_TEXT = _of(type="reasoning_text", text=_S)
_SUMMARY_TEXT = _of(type="summary_text", text=_S)
_PHASE = {"phase": {"enum": ["commentary", "final_answer"]}}
_ITEMS = {
    "message": _of(
        type="message", id=_S, status=_STATUS, role="assistant", content=_list(_OUTPUT_TEXT), optional=_PHASE),
    "reasoning": _of(
        type="reasoning", id=_S, summary=_list(_SUMMARY_TEXT), optional={"content": _list(_REASONING_TEXT),
                                                                         "encrypted_content": _S, "status": _STATUS}),
    "function_call": _of(type="function_call", id=_S, call_id=_S, name=_S, arguments=_S, status=_STATUS),
    **{name: _of(type=name, id=_S, status=_ANY) for name in (
        "web_search_call", "code_interpreter_call", "shell_call", "shell_call_output", "mcp_call", "custom_tool_call")},
}  # fmt: skip
_ITEM = {"oneOf": list(_ITEMS.values())}
_FORMAT = {"oneOf": [
    _of(type="text"), _of(type="json_object"),
    _of(type="json_schema", name=_S, description=_or_null(_S), schema=_ANY, strict=_B),
]}  # fmt: skip
_TOOL = {"if": _of(type="function"), "then": _of(
    name=_S, description=_or_null(_S), parameters=_or_null({"type": "object"}), strict=_or_null(_B))}  # fmt: skip
_USAGE = _of(
    input_tokens=_I, output_tokens=_I, total_tokens=_I, input_tokens_details=_of(cached_tokens=_I),
    output_tokens_details=_of(reasoning_tokens=_I),
)  # fmt: skip
RESPONSE = _of(
    id=_S, object="response", created_at=_I, completed_at=_or_null(_I), model=_S, output=_list(_ITEM),
    status={"enum": ["in_progress", "completed", "incomplete", "failed"]},
    incomplete_details=_or_null(_of(reason=_S)), previous_response_id=_or_null(_S), instructions=_or_null(_S),
    error=_or_null(_of(code=_S, message=_S)), tools=_list(_TOOL), truncation={"enum": ["auto", "disabled"]},
    tool_choice={"anyOf": [{"enum": ["none", "auto", "required"]}, {"type": "object"}]}, parallel_tool_calls=_B,
    text=_of(format=_FORMAT), top_p=_N, presence_penalty=_N, frequency_penalty=_N, top_logprobs=_I, temperature=_N,
    reasoning=_or_null(_of(effort=_or_null(_S), summary=_or_null(_S))), user=_or_null(_S), usage=_or_null(_USAGE),
    max_output_tokens=_or_null(_I), max_tool_calls=_or_null(_I), store=_B, background=_B, service_tier=_S,
    metadata={"type": "object"}, safety_identifier=_or_null(_S), prompt_cache_key=_or_null(_S),
)  # fmt: skip
_PART = {"part": {"oneOf": [_OUTPUT_TEXT, _REASONING_TEXT, _SUMMARY_TEXT]}}
_EVENTS: Mapping[str, Json] = {
    **{f"response.{one}": {"response": RESPONSE} for one in (
        "created", "in_progress", "completed", "incomplete", "failed")},
    **{f"response.output_item.{one}": {"output_index": _I, "item": _ITEM} for one in ("added", "done")},
    **{f"response.content_part.{one}": {"content_index": _I, **_PART} for one in ("added", "done")},
    **{f"response.reasoning_summary_part.{one}": {"summary_index": _I, **_PART} for one in ("added", "done")},
    "response.output_text.delta": {"content_index": _I, "delta": _S},
    "response.output_text.done": {"content_index": _I, "text": _S},
    "response.output_text.annotation.added": {"content_index": _I, "annotation_index": _I, "annotation": _CITATION},
    "response.reasoning.delta": {"content_index": _I, "delta": _S},
    "response.reasoning.done": {"content_index": _I, "text": _S},
    "response.reasoning_summary_text.delta": {"summary_index": _I, "delta": _S},
    "response.reasoning_summary_text.done": {"summary_index": _I, "text": _S},
    "response.function_call_arguments.delta": {"delta": _S},
    "response.function_call_arguments.done": {"arguments": _S},
    "response.custom_tool_call_input.delta": {"delta": _S},
    "response.custom_tool_call_input.done": {"input": _S},
    "response.mcp_call_arguments.delta": {"delta": _S},
    "response.mcp_call_arguments.done": {"arguments": _S},
    "response.code_interpreter_call_code.delta": {"delta": _S},
    "response.code_interpreter_call_code.done": {"code": _S},
    **{f"response.{one}": {} for one in (
        "web_search_call.in_progress", "web_search_call.searching", "web_search_call.completed", "mcp_call.in_progress",
        "mcp_call.completed", "mcp_call.failed", "code_interpreter_call.in_progress",
        "code_interpreter_call.interpreting", "code_interpreter_call.completed")},
    "error": {"code": _or_null(_S), "message": _S, "param": _or_null(_S), "error": _of(
        type=_S, code=_or_null(_S), message=_S, param=_or_null(_S))},
}  # fmt: skip


@cache
def _validator(kind: str) -> Draft202012Validator:
    if kind == "response":
        return Draft202012Validator(RESPONSE)
    fields = dict(_EVENTS[kind])
    if "response" not in fields and "item" not in fields and kind != "error":
        fields |= {"item_id": _S, "output_index": _I}
    return Draft202012Validator(_of(type=kind, sequence_number=_I, **fields))


def require(value: Json, kind: str) -> None:
    """Raise AssertionError unless this is an event, or a response, by the schema."""
    for fault in _validator(kind).iter_errors(value):
        raise AssertionError(f"{kind}: {'.'.join(map(str, fault.path))}: {fault.message}"[:2000])


_TEXTS = {  # the kind of a delta: the field of the text in its "done"
    "response.output_text": "text", "response.reasoning": "text", "response.reasoning_summary_text": "text",
    "response.function_call_arguments": "arguments", "response.custom_tool_call_input": "input",
    "response.mcp_call_arguments": "arguments", "response.code_interpreter_call_code": "code",
}  # fmt: skip
_ENDS = ("response.completed", "response.incomplete", "response.failed")


def follow(events: Sequence[Json]) -> Json:
    """Follow a whole stream by its rules; the response at its end. Raises AssertionError for what can't be.

    Each item is added once, then done once, in between named by its id and index; deltas add up to the text that is
    done; parts are those of the item; the items done are the response's output; one event ends the stream.
    """
    kinds = [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] in _ENDS, kinds
    assert sum(kind in _ENDS for kind in kinds) == 1 and kinds.count("response.created") == 1, kinds
    failed = kinds[-1] == "response.failed"
    assert [at for at, kind in enumerate(kinds) if kind == "error"] == ([len(kinds) - 2] if failed else []), kinds
    added: list[Json] = []
    done: dict[int, Json] = {}
    texts: dict[tuple[int, str], str] = {}
    parts: dict[tuple[int, str], Json] = {}
    for event in events:
        kind = event["type"]
        require(event, kind)
        at = event.get("output_index")
        if kind == "response.output_item.added":
            assert at == len(added) and event["item"]["id"] not in {item["id"] for item in added}
            assert event["item"]["status"] == "in_progress"
            added.append(event["item"])
        elif at is not None:
            assert at not in done and event.get("item_id", added[at]["id"]) == added[at]["id"], event
            field = kind.rpartition(".")[0]
            if kind == "response.output_item.done":
                done[at] = event["item"]
                same = {name: (added[at].get(name), done[at].get(name)) for name in ("id", "type", "call_id", "name")}
                assert all(before == after for before, after in same.values()), same
            elif kind.endswith("_part.added"):
                assert (at, field) not in parts
                parts[at, field] = event["part"]
            elif kind.endswith("_part.done"):
                assert event["part"]["type"] == parts[at, field]["type"]
                parts[at, field] = event["part"]
            elif field in _TEXTS and kind.endswith(".delta"):
                assert event["delta"]
                texts[at, field] = texts.get((at, field), "") + event["delta"]
            elif field in _TEXTS:
                assert event[_TEXTS[field]] == texts.get((at, field), ""), event
                assert not added[at].get(_TEXTS[field]), added[at]
    assert sorted(done) == list(range(len(added)))
    response: Json = events[-1]["response"]
    assert response["output"] == [done[at] for at in range(len(added))]
    assert f"response.{response['status']}" == kinds[-1]
    for at, item in done.items():
        whole = list(item.get("content", ()))
        assert whole == ([parts[at, "response.content_part"]] if whole else [])
        summary = parts.get((at, "response.reasoning_summary_part"))
        assert item.get("summary", []) == ([summary] if summary else [])
        assert item["status"] != "in_progress"
        assert item["status"] != "incomplete" or (at == len(added) - 1 and response["status"] != "completed"), item
    return response
