"""The parts common to both APIs: numbers, texts, functions, the form of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from ossia.agent.errors import SchemaUnusable
from ossia.agent.schema import require_usable
from ossia.agent.serving.asked import BadRequest, Function, Item
from ossia.harmony.errors import ConversationError
from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, Effort, Message, ResponseFormat, is_call
from ossia.harmony.reader import Json
from ossia.harmony.tokens import CONSTRAIN
from ossia.tools.functions.naming import PREFIX, offered_name
from ossia.tools.functions.returned import ReturnedFunction
from ossia.tools.functions.schema import flatten
from ossia.tools.spec import ToolSpec

MAX_FUNCTIONS = 512
_MAX_CACHED = 64 << 10  # characters of a schema: what is cached stays small
_EFFORTS: Final[Mapping[str, Effort]] = {
    "none": "low", "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high",
}  # fmt: skip
_TEXT_PARTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text"})
_UNSEEN = "[this part is no text: the model can't read it]"
_INPUT: Mapping[str, object] = {
    "type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"], "additionalProperties": False,
}  # fmt: skip


@contextmanager
def reading(body: object, unsupported: Mapping[str, Collection[Any]]) -> Iterator[tuple[Json, dict[str, Any]]]:
    """The body of a request, which must be an object, in both forms.

    A ConversationError of the block becomes a BadRequest with the place as its `param`. Of the fields in
    `unsupported` only these values are fine: others would change the answer, and can't be honoured.
    """
    if not isinstance(body, dict):
        raise BadRequest(f"the body must be a JSON object, not {type(body).__name__}")
    place = Json(body)
    _refuse(place, unsupported)
    try:
        yield place, body
    except ConversationError as error:
        param = str(error).partition(":")[0]
        raise BadRequest(str(error), param=param if param != "the conversation" else None) from None


def wrong(place: Json, message: str, code: str | None = None) -> BadRequest:
    """The error about this place of the request."""
    return BadRequest(f"{place.where}: {message}", param=place.where, code=code)


def number(place: Json, low: float, high: float) -> float | None:
    """A number in these bounds; None for null."""
    value = place.value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise place.wrong(f"a number from {low:g} to {high:g}")
    return float(value)


def count(place: Json, low: int = 1) -> int | None:
    """A whole number, at least `low`; None for null."""
    value = place.value
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < low:
        raise place.wrong(f"a whole number from {low} on")
    return value


def flag(place: Json, default: bool) -> bool:
    """True or false; null is the default."""
    return place.flag() if place.there else default


def _refuse(body: Json, fields: Mapping[str, Collection[Any]]) -> None:
    for name, fine in fields.items():
        place = body.field(name)
        if place.there and place.value not in fine:
            shown = " or ".join(json.dumps(one) for one in fine)
            only = f", only {shown}" if shown else ""
            raise wrong(place, f"isn't supported{only}: leave it out", "unsupported_value")


def effort(place: Json) -> Effort | None:
    """The effort, or the nearest one of gpt-oss's; None for null."""
    if not place.there:
        return None
    found = _EFFORTS.get(place.text())
    if found is None:
        raise place.wrong(f"one of {', '.join(_EFFORTS)}")
    return found


def texts(content: Json, *, results: bool = False) -> str:
    """The text of a message: a string, or parts of text. In `results`, another part is named; else it is refused."""
    if isinstance(content.value, str):
        return clean(content.value)
    return "".join(_part(part, results=results) for part in content.items())


def _part(part: Json, *, results: bool) -> str:
    if isinstance(part.value, str):
        return clean(part.value)
    kind = part.field("type")
    if kind.text() in _TEXT_PARTS:
        return clean(part.field("text").text())
    if kind.value == "refusal":
        return clean(part.field("refusal").text())
    if results:
        return _UNSEEN
    raise wrong(kind, f"gpt-oss reads text only, not {kind.value!r}: leave it out", "unsupported_content")


def clean(text: str) -> str:
    """The text, with `\N{REPLACEMENT CHARACTER}` for half a surrogate pair, as JSON can spell it."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# -- messages ----------------------------------------------------------------------------------------------------------


def call(name: str, arguments: str) -> Message:
    """A call of the client's function as the model writes it. `name`: the client's own."""
    kind = f"{CONSTRAIN}json"
    return Message("assistant", (clean(arguments),), recipient=recipient(name), channel=COMMENTARY, content_type=kind)


def recipient(name: str, namespace: str | None = None) -> str:
    """The recipient of a client's function: `functions.get_weather`."""
    return PREFIX + offered_name(f"{namespace}__{name}" if namespace else name)


def arguments(place: Json) -> str:
    """The arguments of a call: a text, or an object as some clients send it."""
    if isinstance(place.value, dict):
        return json.dumps(place.value, ensure_ascii=False)
    return place.text() or "{}"


def thinking(text: str) -> Message:
    """Reasoning as the model writes it."""
    return Message("assistant", (text,), channel=ANALYSIS)


def said(text: str) -> Message:
    """An answer as the model writes it."""
    return Message("assistant", (text,), channel=FINAL)


def with_preambles(items: Sequence[Item]) -> tuple[Item, ...]:
    """The items, with words right before a call in the channel of preambles."""
    found = [*items]
    for place, (item, following) in enumerate(pairwise(items)):
        message, then = item.message, following.message
        if message and message.channel == FINAL and then and is_call(then):
            found[place] = replace(item, message=replace(message, channel=COMMENTARY))
    return tuple(found)


# -- functions ---------------------------------------------------------------------------------------------------------


def function(about: Json, namespace: str | None = None) -> Function:
    """A client's function: `{"name", "description", "parameters", "strict"}`."""
    name, place = about.field("name").text(), about.field("parameters")
    if place.there:
        place.entries()
    described = clean(about.field("description").text_or_none() or "")
    schema = json.dumps(place.value) if place.value else ""
    made = _spec if len(schema) + len(described) < _MAX_CACHED else _spec.__wrapped__
    fault, spec = made(recipient(name, namespace), described, schema)
    if fault and about.field("strict").value is True:
        raise wrong(place, f"can't be held to this schema: {fault}", "invalid_function_parameters")
    return Function(name, spec, namespace=namespace)


@lru_cache(512)
def _spec(name: str, description: str, schema: str) -> tuple[str, ToolSpec]:
    """The fault of a function's schema ("": none), and the function.

    One that sampling can't be held to is made simpler. The same object comes back for the same texts: the prompt's head
    is rendered once.
    """
    name = name.removeprefix(PREFIX)
    if not schema:
        return "", ReturnedFunction.of(name, description, None).spec
    parameters = json.loads(schema)
    shown = flatten({"type": "object", **parameters})
    if fault := _fault(parameters):
        return fault, ReturnedFunction.of(name, description, shown).spec
    return "", ReturnedFunction.of(name, description, parameters, shown=shown).spec


@lru_cache(256)
def _fault_of(text: str) -> str:
    """The reason that sampling can't be held to a schema; "": it can."""
    try:
        require_usable(json.loads(text))
    except SchemaUnusable as error:
        return str(error)
    return ""


def _fault(schema: object) -> str:
    text = json.dumps(schema)
    return _fault_of(text) if len(text) < _MAX_CACHED else _fault_of.__wrapped__(text)


def custom(about: Json) -> Function:
    """A custom tool: a function of one text. Its form is only described."""
    name = about.field("name").text()
    described = clean(about.field("description").text_or_none() or "")
    form = about.field("format")
    if form.there and form.field("type").value == "grammar":
        inner = form.field("grammar")  # the Chat API has it one level deeper
        form = inner if inner.there else form
        grammar = form.field("definition").text()
        described += f"\n\n`input` follows this {form.field('syntax').text()} grammar:\n{clean(grammar)}"
    spec = ReturnedFunction.of(offered_name(name), described.strip(), _INPUT).spec
    return Function(name, spec, text=True)


def distinct(functions: list[Function], place: Json) -> tuple[Function, ...]:
    """The functions. Raises BadRequest for too many, and for two of one name to the model."""
    if len(functions) > MAX_FUNCTIONS:
        raise wrong(place, f"at most {MAX_FUNCTIONS} functions, not {len(functions)}")
    by_name: dict[str, Function] = {}
    for one in functions:
        if (first := by_name.setdefault(one.spec.name, one)) is not one:
            raise wrong(place, f"two functions of one name for the model: {first.name!r} and {one.name!r}")
    return tuple(functions)


def chosen(name: Json, functions: Collection[Function]) -> str:
    """The recipient of the function to be called."""
    found = next((one for one in functions if one.name == name.text()), None)
    if found is None:
        raise wrong(name, f"there is no function {name.value!r} among tools")
    return found.spec.name


# -- the answer --------------------------------------------------------------------------------------------------------


def answer(form: Json, about: Callable[[Json], Json]) -> ResponseFormat | None:
    """The schema of the answer; None: any text. `about` gives the place of the schema and its name."""
    if not form.there:
        return None
    match form.field("type").value:
        case "text":
            return None
        case "json_object":
            return ResponseFormat("answer", {"type": "object"})
        case "json_schema":
            place = about(form).field("schema")
            place.entries()
            if fault := _fault(place.value):
                raise wrong(place, f"this schema can't be used: {fault}", "invalid_json_schema")
            name = about(form).field("name").text()
            described = clean(about(form).field("description").text_or_none() or "")
            return ResponseFormat(clean(name), place.value, described or None)
    raise form.field("type").wrong("text, json_object or json_schema")
