"""One thing of a session as a person reads it (said, thought, called or noted), and a call in one line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Literal

from ossia.agent.events import Delta
from ossia.cli.clean import fitted
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.visible import seen_line
from ossia.cli.words import parsed, short_arguments, size_words
from ossia.harmony.messages import Message, Sampled, is_call
from ossia.tools.present import present_of
from ossia.tools.spec import Attachment, Preview, ToolCall, ToolFinished, ToolResult
from ossia.tools.work.result import for_people

ItemKind = Literal["user", "thinking", "preamble", "answer", "call", "note", "summary"]
ItemState = Literal["open", "asked", "running", "done"]
"""open: still being written; asked: the user is asked about this call; running: the call runs; done: all is there."""

TAIL_CHARS = 100_000
_SHORT_CHARS = 500  # more than any line holds
_HUNK = re.compile(r"@@ -\d+,(\d+) \+\d+,(\d+) @@")


@dataclass(slots=True, eq=False)
class Item:
    """One thing that happened. `text` is raw outside text: the user's, the model's, or a call's result.

    `turn` counts from 0; -1: before the first. `cut`: it was never closed. `tokens` and `seconds` (of generation) are
    None if unknown. `attached`: the part of a user's message that they didn't type; `steers`: they said it within a
    turn. `attachments`: files that a call made. `name`: a call's whole recipient; for a note on the end of a turn, that
    end; "" for others.

    A call has `arguments` (as the model wrote them; `ran` if the user changed them), an `id` once it is known,
    `answered` once it has its result, `ms` spent in the tool (None: not known, or it runs), and while it runs `output`:
    the end of what it printed, `TAIL_CHARS` at the most. `diff`: what it changes in files; a stored call has none.
    `lost`: the reason that a call never ran, or has no result, once its turn is over.

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
    lost: str = ""
    since: float = 0.0  # the clock when it began
    version: int = 0  # grows with each change
    result: str = ""  # of a call, as the model reads it
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
        result = ToolResult(self.lost or self.result, error=self.failed)
        return ToolFinished(ToolCall("", self.name, "" if self.lost else self.arguments), result, self.ms or 0)


def tokens_of(sampled: Sampled) -> int:
    """The tokens of its text: `<|start|>assistant<|channel|>analysis<|message|>` are 5, and 1 closes it."""
    return max(0, len(sampled.ids) - 5 - (sampled.closed_by is not None))


def item_name(message: Message | Delta) -> str:
    """A call's recipient; "" for anything else."""
    return message.recipient or "" if is_call(message) else ""


def diff_of(preview: Preview | None) -> str:
    """The diff in a preview; "" for one without."""
    return preview.detail if preview is not None and preview.language == "diff" else ""


def diffstat(diff: str) -> str:
    """The files in a diff, with their changed lines: `"a.py +3 −1, b.py +2 −0"`; "" if it was cut."""
    files: dict[str, list[int]] = {}
    old = name = ""
    left = [0, 0]  # lines of the hunk that are still to come: old, new
    for line in diff.split("\n"):
        if any(left) and line[:1] in ("+", "-", " "):
            counts = files.setdefault(name, [0, 0])
            left[0] -= line[0] != "+"
            left[1] -= line[0] != "-"
            counts[0] += line[0] == "+"
            counts[1] += line[0] == "-"
        elif line.startswith("--- "):
            old = line[4:]
        elif line.startswith("+++ "):
            name = (old if line[4:] == "/dev/null" else line[4:])[2:]
            files.setdefault(name, [0, 0])
        elif found := _HUNK.match(line):
            left = [int(found[1]), int(found[2])]
    return "" if any(left) else ", ".join(f"{name} +{added} −{removed}" for name, (added, removed) in files.items())


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


def headline(item: Item, max_chars: int | None = None) -> str:
    """A call in one line, without its arguments: `▸ python · 0.3 s · 1 line, 2 bytes`.

    `max_chars`: with its arguments, cut to that length. Nothing is hidden in it.
    """
    if item.lost:
        return f"✗ {seen_line(item.name)}: {item.lost}"
    mark = "✗" if item.error else "▸"
    made_with = item.arguments if item.ran is None else item.ran
    arguments = ""
    if max_chars:
        arguments = seen_line(diffstat(item.diff), max_chars) or short_arguments(item.name, made_with, max_chars)
    parts = [f"{mark} {seen_line(item.name)}{'  ' if arguments else ''}{arguments}"]
    if item.state != "done":
        parts.append({"open": "being written", "asked": "waiting for you", "running": "running"}[item.state])
    elif not item.answered and not item.text:
        parts.append("never ran")
    else:
        parts += [f"{item.ms / 1000:.1f} s"] if item.ms else []
        parts.append(size_words(item.text))
    return " · ".join([*parts, "cut"] if item.cut else parts)


def style_of(item: Item) -> str:
    """The style of its headline."""
    return "red" if item.failed else "cyan"


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
    room = painter.width - len(headline(item)) - digits - 3
    text = headline(item, max(4, min(_SHORT_CHARS, room)))
    return painter.text(fitted(f"{number:>{digits}} {text}", painter.width), "red" if item.failed else "")[0]
