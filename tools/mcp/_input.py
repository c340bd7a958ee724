"""A server's questions to the user during a call: a form to fill in, or an address to open."""

from __future__ import annotations

import asyncio
import json
import queue
import re
from collections.abc import Generator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from ossia.tools.calls.coerce import Misfit, fitted, mapping
from ossia.tools.functions.schema import flatten
from ossia.tools.spec import ApprovalAsked, Decision, Preview, Stop, ToolCall, ToolOutput
from ossia.tools.text import one_line

if TYPE_CHECKING:
    from mcp.types import ElicitRequestParams

Action = Literal["accept", "decline", "cancel"]
Given = tuple[Action, dict[str, Any] | None]
"""The user's answer: the values of a form if they accept it, else None."""

_MAX_QUESTIONS = 10  # of a call; also how often one is put until its answer fits
_CANCELLED: Given = ("cancel", None)
_MAX_MESSAGE_CHARS = 4_000
_MAX_HINT_CHARS = 300
_MAX_URL_CHARS = 4_000
_SECRET = re.compile(
    r"pass(word|code|phrase|wort)|secret|token|api.?key|credential|private.?key|\b(pin|cvc|cvv|otp|2fa)\b",
    re.IGNORECASE,
)
_TRUTH = {"y": True, "n": False}


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One question: a form described by `schema`, or the address `url`. `answer` is set by another thread."""

    message: str
    schema: Mapping[str, Any]
    url: str = ""
    answer: Future[Given] = field(default_factory=Future)

    @property
    def fault(self) -> str:
        """The reason not to ask the user; "" if it can be asked."""
        return "" if not self.url or _host(self.url) else "not an address of the web"

    def question(self, call: ToolCall, server: str) -> ApprovalAsked:
        """The question for a person, with the defaults of the form as its `arguments`."""
        message = _cut(self.message, _MAX_MESSAGE_CHARS)
        reason = "the server asks this during the call; "
        if self.url:
            summary = f"{server} asks you to open a page of {_host(self.url)}"
            preview = Preview(summary, f"{message}\n\n{self.url}", caution="it leads elsewhere")
            return ApprovalAsked(call, preview, f"{reason}open it yourself, then say yes", firm=True, form={})
        flat, names = self._flat, mapping(self.schema.get("properties"))
        fields = mapping(flat.get("properties"))
        form = {name: _hint(mapping(names.get(name)), each, name in flat["required"]) for name, each in fields.items()}
        defaults = {name: each.get("default") for name, each in fields.items()}
        lines = [f"{name}: {hint}{_shown(defaults[name])}" for name, hint in form.items()]
        detail = "\n".join([message, *([""] if lines else []), *lines])
        reason += "what you answer goes to it, not to the model"
        if _SECRET.search(detail):
            reason += "; IT SEEMS TO ASK FOR A SECRET, which no server may ask for like this"
        preview = Preview(f"{server} asks you for input", detail)
        return ApprovalAsked(call, preview, reason, firm=True, arguments=defaults, form=form)

    def read(self, text: str | None) -> Given:
        """The user's answer: the values in a JSON text (those that are null are left out), or the defaults (None).

        Raises Misfit for values that the form doesn't take.
        """
        if self.url:
            return "accept", None
        flat = self._flat
        fields = mapping(flat.get("properties"))
        try:
            values = {key: each.get("default") for key, each in fields.items()} if text is None else json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Misfit(f"no JSON: {error}") from None
        if not isinstance(values, dict):
            raise Misfit("the values must be a JSON object")
        typed = {key: _typed(value, mapping(fields.get(key))) for key, value in values.items() if value is not None}
        values = fitted(typed, flat)
        from jsonschema import Draft202012Validator

        for name in flat["required"]:
            if name not in typed:
                raise Misfit(f"{name}: a value is needed")
        fault = next(Draft202012Validator(flat, format_checker=_formats()).iter_errors(values), None)
        if fault is not None:
            place = "/".join(map(str, fault.absolute_path))
            raise Misfit(one_line(f"{place}: {fault.message}" if place else fault.message, _MAX_HINT_CHARS))
        assert isinstance(values, dict)
        return "accept", values

    @property
    def _flat(self) -> dict[str, Any]:
        """The schema with nothing but its fields, which come from a stranger."""
        flat: dict[str, Any] = dict(flatten({**self.schema, "type": "object"}) or {"properties": {}})
        for name, each in mapping(self.schema.get("properties")).items():
            if name in flat["properties"] and isinstance(mapping(each).get("format"), str):
                flat["properties"][name] = {**flat["properties"][name], "format": each["format"]}
        return {**flat, "required": flat.get("required", []), "additionalProperties": False}


class Questions:
    """The questions of one call, on their way from MCP's thread to the call's own, one at a time."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._turn, self._left = asyncio.Lock(), _MAX_QUESTIONS
        self._last: Asked | None = None
        self.open = True  # while the call runs
        self.timer: asyncio.Timeout | None = None  # the call's; it stands still while the user thinks

    async def ask(self, params: ElicitRequestParams) -> Given:
        """The user's answer (on MCP's thread)."""
        asked = Asked(params.message, getattr(params, "requested_schema", {}), getattr(params, "url", ""))
        async with self._turn:
            self._left -= 1
            if not self.open or self._left < 0 or asked.fault:
                return _CANCELLED
            self._last = asked
            loop, timer = asyncio.get_running_loop(), self.timer
            assert timer is not None
            left_s = (timer.when() or 0) - loop.time()
            timer.reschedule(None)
            self._inbox.put(asked)
            try:
                return await asyncio.wrap_future(asked.answer)
            finally:
                if self.open:
                    timer.reschedule(loop.time() + left_s)

    def end(self) -> None:
        """End the call: an open question is cancelled (on MCP's thread)."""
        self.open = False
        if self._last is not None:
            with suppress(InvalidStateError):
                self._last.answer.set_result(_CANCELLED)

    def no_more(self) -> None:
        """Let `next` return None once all questions were taken."""
        self._inbox.put(None)

    def next(self, timeout_s: float) -> Asked | None:
        """The next question, None: the call is over. Raises TimeoutError."""
        try:
            return self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None


def put(
    asked: Asked, call: ToolCall, server: str, stop: Stop
) -> Generator[ToolOutput | ApprovalAsked, Decision | None, str]:
    """Put a question to the user until the answer fits. Returns a line for the model."""
    question, what = asked.question(call, server), "they declined"
    given: Given | None = None
    for _ in range(_MAX_QUESTIONS):
        decision = yield question
        if decision is None or not decision.allow:
            what = "nobody could be asked" if decision is not None and decision.unasked else what
            break
        try:
            given, what = asked.read(decision.arguments), "they answered"
            break
        except Misfit as error:
            rejected = decision.arguments or json.dumps(question.arguments)
            question = replace(question, fault=str(error), rejected=rejected)
    with suppress(InvalidStateError):  # the call has ended meanwhile
        asked.answer.set_result(given or ("cancel" if stop.stopped else "decline", None))
    note = f"[the server asked the user for input: {what}]"
    yield ToolOutput(call.id, f"{note}\n")
    return note


def _host(url: str) -> str:
    """The host of an address of the web, as a name server knows it; "" for any other text."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode()
        sound = parts.scheme in ("http", "https") and len(url) <= _MAX_URL_CHARS and not re.search(r"\s", url)
    except ValueError:
        return ""
    return host if sound else ""


def _hint(raw: Mapping[str, Any], flat: Mapping[str, Any], required: bool) -> str:
    """`The day · date · needed`, `How many · integer, 1 to 9`, `one of r (Red), g (Green)`."""
    of = mapping(flat.get("items")) if flat.get("type") == "array" else flat
    kind = str(raw.get("format") or of.get("type") or "text").replace("string", "text")
    if isinstance(values := of.get("enum"), list):
        titles = _titles(mapping(raw.get("items")) if of is not flat else raw)
        shown = (f"{value} ({titles[value]})" if titles.get(value) else str(value) for value in values)
        kind = f"{'one' if of is flat else 'some'} of {', '.join(shown)}"
    for low, high, unit in (
        ("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " of them")
    ):  # fmt: skip
        if low in flat or high in flat:
            kind += f", {flat.get(low, '…')} to {flat.get(high, '…')}{unit}"
    said = " · ".join(dict.fromkeys(str(raw[key]) for key in ("title", "description") if raw.get(key)))
    hint = _cut(" · ".join(filter(None, (said, kind))), _MAX_HINT_CHARS).replace("\n", "␊")
    return f"{hint} · needed" if required else hint


def _titles(raw: Mapping[str, Any]) -> dict[object, str]:
    """The titles of the values of a choice."""
    choices = raw.get("oneOf") or raw.get("anyOf") or []
    pairs = [(mapping(one).get("const"), mapping(one).get("title")) for one in choices if isinstance(one, Mapping)]
    names = raw.get("enumNames")
    pairs += zip(raw.get("enum") or [], names, strict=False) if isinstance(names, list) else []
    return {value: title for value, title in pairs if isinstance(value, str) and isinstance(title, str)}


def _cut(text: str, max_chars: int) -> str:
    """The text, at most so long. Nothing is cleaned away: whoever shows it gives each character a sign."""
    return text if len(text) <= max_chars else f"{text[:max_chars]} … {len(text) - max_chars} more characters"


def _shown(default: object) -> str:
    return "" if default is None else f" = {json.dumps(default, ensure_ascii=False)}"


def _typed(value: object, flat: Mapping[str, Any]) -> object:
    """The value of a typed line: `y` is true, `a, b` is a list."""
    if flat.get("type") == "boolean" and isinstance(value, str):
        return _TRUTH.get(value.lower(), value)
    if flat.get("type") == "array" and isinstance(value, str) and not value.startswith("["):
        return [part.strip() for part in value.split(",")]
    return value


def _formats() -> Any:
    from jsonschema import FormatChecker

    def parses(read: Any) -> Any:
        return lambda value: not isinstance(value, str) or bool(read(value))

    checker = FormatChecker(formats=())
    checker.checks("email")(parses(lambda text: re.fullmatch(r"[^@\s]+@[^@\s]+", text)))
    checker.checks("uri")(parses(lambda text: re.match(r"[A-Za-z][A-Za-z0-9+.-]*:\S+$", text)))
    checker.checks("date", ValueError)(parses(date.fromisoformat))
    checker.checks("date-time", ValueError)(parses(lambda text: "T" in text and datetime.fromisoformat(text)))
    return checker
