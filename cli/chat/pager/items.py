"""One thing of a session as a person reads it (said, thought, called or noted), and a call in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ossia.agent.events import Delta
from ossia.cli.clean import fitted, one_line
from ossia.cli.runtime.call_line import LEAST_MS, said_line, seconds
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.visible import seen_line
from ossia.harmony.messages import Message, Sampled, is_call
from ossia.tools.outcome import outcome_of
from ossia.tools.present import present_of
from ossia.tools.saying import parsed, saying
from ossia.tools.spec import Attachment, Preview, ToolCall, ToolFinished, ToolResult
from ossia.tools.work.result import for_people

ItemKind = Literal["user", "thinking", "preamble", "answer", "call", "note", "summary"]
ItemState = Literal["open", "asked", "running", "done"]
"""open: still being written; asked: the user is asked about this call; running: the call runs; done: all is there."""

TAIL_CHARS = 100_000
_SHORT_CHARS = 500  # more than any line holds
_REASON_CHARS, _BRIEF_CHARS = 80, 40


@dataclass(slots=True, eq=False)
class Item:
    """One thing that happened. `text` is raw outside text: the user's, the model's, or a call's result.

    `turn` counts from 0; -1: before the first. `cut`: it was never closed. `tokens` and `seconds` (of generation) are
    None if unknown. `attached`: the part of a user's message that they didn't type; `steers`: they said it within a
    turn. `attachments`: files that a call made. `name`: a call's whole recipient; for a note on the end of a turn, that
    end; "" for others.

    A call has a `summary` (its preview's; a stored call has none), `arguments` (as the model wrote them; `ran` if the
    user changed them), an `id` once it is known, `answered` once it has its result, `ms` spent in the tool (None: not
    known, or it runs), and while it runs `output`: the end of what it printed, `TAIL_CHARS` at the most. `diff`: what
    it changes in files; a stored call may have its beginning. `lost`: the reason that a call never ran, or has no
    result, once its turn is over.

        Item("call", turn=0, name="python").arguments    # 'print(6*7)'
    """

    kind: ItemKind
    turn: int = -1
    name: str = ""
    state: ItemState = "done"
    cut: bool = False
    error: bool = False
    tokens: int | None = None
    seconds: float | None = None
    attached: str = ""
    steers: bool = False
    attachments: tuple[Attachment, ...] = ()
    id: str = ""
    answered: bool = False
    ms: int | None = None
    output: str = ""
    ran: str | None = None
    diff: str = ""
    summary: str = ""
    lost: str = ""
    since: float = 0.0  # the clock when it began
    version: int = 0  # grows with each change
    result: str = ""  # of a call, as the model reads it
    kept: Mapping[str, object] | None = None  # `ToolResult.state`
    said: list[str] = field(default_factory=list)  # a call's arguments, anything else's text; in pieces, as it grows

    @property
    def text(self) -> str:
        """Its text; of a call, the result."""
        return for_people(self.result, self.name) if self.kind == "call" else self._whole()

    @property
    def arguments(self) -> str:
        """Of a call; "" for anything else."""
        return self._whole() if self.kind == "call" else ""

    def _whole(self) -> str:
        if len(self.said) > 1:
            self.said = ["".join(self.said)]
        return self.said[0] if self.said else ""

    @property
    def failed(self) -> bool:
        """Of a call: it gave an error, or never came to its end."""
        return self.error or bool(self.lost)

    def finished(self) -> ToolFinished:
        """A call of the past as it ended."""
        result = ToolResult(self.lost or self.result, error=self.failed, state=self.kept)
        return ToolFinished(ToolCall(self.id, self.name, "" if self.cut else self.arguments), result, self.ms or 0)


def tokens_of(sampled: Sampled) -> int:
    """The tokens of its text: `<|start|>assistant<|channel|>analysis<|message|>` are 5, and 1 closes it."""
    return max(0, len(sampled.ids) - 5 - (sampled.closed_by is not None))


def item_name(message: Message | Delta) -> str:
    """A call's recipient; "" for anything else."""
    return message.recipient or "" if is_call(message) else ""


def diff_of(preview: Preview | None) -> str:
    """The diff in a preview; "" for one without."""
    return preview.detail if preview is not None and preview.language == "diff" else ""


# -- calls -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """Arguments laid out for reading: `Shown("print(6*7)", "python")`. `language` "" is plain text."""

    text: str
    language: str


def calls_rows(calls: list[Item], painter: Painter) -> list[Row]:
    """A numbered list, one row a call: `3 ▸ python  print(6*7) · 0.3 s · 1 line, 2 bytes`."""
    if not calls:
        return painter.text("No calls yet.", "dim")
    digits = len(str(len(calls)))
    return [_list_row(number, digits, item, painter) for number, item in enumerate(calls, 1)]


def headline(item: Item, max_chars: int = _SHORT_CHARS) -> str:
    """A call in one line, and its tool's own name: `▸ ran pytest -q · exit 1 · 34 lines · 2.1 s · container.exec`.

    The words for the call are cut to `max_chars`. Nothing is hidden in it.
    """
    done = item.finished()
    if item.state != "done":
        said = said_line(item.summary or saying(item.name, item.arguments), max_chars)
        words = ({"open": "being written", "asked": "waiting for you", "running": "running"}[item.state],)
        return " · ".join((f"▸ {said}", *words, seen_line(item.name)))
    outcome = outcome_of(done, item.summary)
    brief = outcome.printed == 1 and len(outcome.lines[0]) <= _BRIEF_CHARS
    size = outcome.lines if brief else filter(None, (outcome.size,))
    parts = [*outcome.words, *size, *filter(None, (one_line(outcome.reason, _REASON_CHARS),))]
    if not item.answered and not item.text and not item.lost:
        parts = ["never ran"]
    parts += [seconds(item.ms)] if item.ms and item.ms >= LEAST_MS else []
    mark = "✗" if outcome.reason else "▸"
    named = [f"{mark} {said_line(outcome.said, max_chars)}", *(seen_line(part, _REASON_CHARS) for part in parts)]
    return " · ".join([*named, seen_line(item.name), *(["cut"] if item.cut else [])])


def style_of(item: Item) -> str:
    """The style of its headline."""
    return "red" if is_bad(item) else "cyan"


def is_bad(item: Item) -> bool:
    """True for a failed call, as a person would say."""
    return item.failed or outcome_of(item.finished()).failed


def shown_arguments(item: Item, arguments: str | None = None) -> Shown:
    """Its arguments (or those given) as a person reads them: code as code, JSON with its texts readable."""
    if arguments is None:
        arguments = item.arguments
    present = present_of(item.name)
    if present.argument == "":
        return Shown(arguments, present.language)
    value = parsed(arguments)
    if not isinstance(value, dict):
        return Shown(arguments, "")
    text = present.text(value)
    if text is not None and present.argument:
        value[present.argument] = text
    if len(value) == 1:
        only = next(iter(value.values()))
        if isinstance(only, str):
            return Shown(only, present.language if text is not None else "")
    if text is not None or any(isinstance(part, str) and "\n" in part.strip("\n") for part in value.values()):
        return Shown("\n".join(_field(key, part) for key, part in value.items()), "")
    try:
        return Shown(json.dumps(value, indent=2, ensure_ascii=False), "json")
    except RecursionError:  # the C code that reads JSON gets deeper than the code that writes it indented
        return Shown(arguments, "")


def _field(key: str, value: object) -> str:
    """One argument: a text of several lines below its name, anything else behind it."""
    if isinstance(value, str):
        return f"{key}:\n{value.rstrip()}" if "\n" in value.strip("\n") else f"{key}: {value}"
    return f"{key}: {json.dumps(value, ensure_ascii=False)}"


def _list_row(number: int, digits: int, item: Item, painter: Painter) -> Row:
    """Number, name and size are shown whole if they fit; the arguments get the room that is left."""
    room = painter.width - len(headline(item, 1)) - digits
    text = headline(item, max(4, min(_SHORT_CHARS, room)))
    return painter.text(fitted(f"{number:>{digits}} {text}", painter.width), "red" if is_bad(item) else "")[0]
