"""The fields of a response that don't depend on what the model wrote: those of the request, and the usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from ossia.agent.serving.asked import Asked
from ossia.agent.serving.response_stream import Json
from ossia.agent.stream.events import Result, Source

_NUMBERS: Mapping[str, float] = {
    "temperature": 1.0, "top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "top_logprobs": 0,
}  # fmt: skip
_TEXTS = ("instructions", "user", "safety_identifier", "prompt_cache_key")
_NULLABLE = {"function": ("description", "parameters", "strict"), "json_schema": ("description",)}


def repeated(asked: Asked) -> Json:
    """The request's fields in a response, all that the schema requires; a default where the request has none.

        repeated(asked)["text"]      # {"format": {"type": "text"}}
    """
    raw = asked.raw
    choice = raw.get("tool_choice")
    numbers = {name: _kind(raw.get(name), (int, float), number) for name, number in _NUMBERS.items()}
    return numbers | {name: _kind(raw.get(name), str, None) for name in _TEXTS} | {
        "background": False,
        "max_output_tokens": asked.max_tokens,
        "max_tool_calls": asked.max_calls,
        "metadata": _kind(raw.get("metadata"), dict, {}),
        "parallel_tool_calls": _kind(raw.get("parallel_tool_calls"), bool, True),
        "previous_response_id": asked.previous,
        "reasoning": {"effort": asked.effort, "summary": None} | _kind(raw.get("reasoning"), dict, {}),
        "service_tier": "default",
        "store": asked.store,
        "text": _text(_kind(raw.get("text"), dict, {})),
        "tool_choice": choice if isinstance(choice, dict) or choice in ("none", "required") else "auto",
        "tools": [_whole(tool) for tool in _kind(raw.get("tools"), list, []) if isinstance(tool, dict)],
        "truncation": "auto" if raw.get("truncation") == "auto" else "disabled",
    }  # fmt: skip


def usage(result: Result) -> Json:
    """The tokens of a response, of all its steps: what was read, of it from the cache, and what was written."""
    used = result.usage
    return {
        "input_tokens": used.prompt,
        "input_tokens_details": {"cached_tokens": used.reused, "cache_write_tokens": used.evaluated},
        "output_tokens": used.completion,
        "output_tokens_details": {"reasoning_tokens": result.reasoning_tokens},
        "total_tokens": used.prompt + used.completion,
    }


def citations(sources: Iterable[Source]) -> list[Json]:
    """The annotations of a text that cites these sources, in order: `[{"type": "url_citation", "url": …}]`."""
    places = sorted(((place, source) for source in sources if source.url for place in source.places), key=itemgetter(0))
    return [
        {"type": "url_citation", "start_index": start, "end_index": end, "url": source.url, "title": source.title}
        for (start, end), source in places
    ]


def _text(text: Json) -> Json:
    form = _kind(text.get("format"), dict, {"type": "text"})
    form = {"strict": False, **form} if form.get("type") == "json_schema" else form
    return {**{name: value for name, value in text.items() if value is not None}, "format": _whole(form)}


def _whole(part: Json) -> Json:
    """A tool or a format with the fields that a request may leave out, and a response may not."""
    return dict.fromkeys(_NULLABLE.get(str(part.get("type")), ())) | part


def _kind(value: object, kind: Any, otherwise: Any) -> Any:
    """The value, if it is of this kind: a server answers, too, where a field that it has no use for is nonsense."""
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    return value if fits else otherwise
