"""Calls as a person reads them: one line in a list, or whole with arguments and result."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ossia.cli.chat.pager.diffs import diffstat
from ossia.cli.chat.pager.items import Item
from ossia.cli.chat.pager.transcript import Transcript
from ossia.cli.clean import clean
from ossia.cli.runtime.progress import fitted
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk
from ossia.cli.visible import seen_line, visible
from ossia.cli.words import parsed, short_arguments, size_words
from ossia.tools.present import present_of

MAX_RESULT_ROWS = 200
_SHORT_CHARS = 500  # more than any line holds


@dataclass(frozen=True, slots=True)
class Shown:
    """Arguments laid out for reading: `Shown("print(6*7)", "python")`. `language` "" is plain text."""

    text: str
    language: str


def calls_rows(transcript: Transcript, painter: Painter) -> list[Row]:
    """A numbered list, one row a call: `3 ▸ python  print(6*7) · 0.3 s · 1 line, 2 bytes`."""
    calls = transcript.calls()
    if not calls:
        return painter.text("No calls yet.", "dim")
    digits = len(str(len(calls)))
    return [_list_row(number, digits, item, painter) for number, item in enumerate(calls, 1)]


def call_rows(item: Item, painter: Painter) -> list[Row]:
    """One call: what was called, the whole arguments, the result up to `MAX_RESULT_ROWS` rows, the files it made."""
    shown = shown_arguments(item)
    rows = painter.text(headline(item), style_of(item))
    rows += _block(shown, painter)
    if item.ran is not None:
        rows += painter.text("you changed it before it ran:", "dim")
        rows += _block(shown_arguments(item, item.ran), painter)
    if result := item.text or item.output:
        whole = painter.text(result.rstrip("\n"))
        rows += [[], *whole[:MAX_RESULT_ROWS]]
        if len(whole) > MAX_RESULT_ROWS:
            rest = f"… {len(whole) - MAX_RESULT_ROWS:,} more rows of the result: Ctrl-O shows them"
            rows += painter.text(rest, "dim")
    for attachment in item.attachments:
        rows += painter.text(seen_line(str(attachment.path)), "dim")
    return rows


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


def _block(shown: Shown, painter: Painter) -> list[Row]:
    text, _ = visible(shown.text, shown.language)
    if not text.strip():
        return []
    if shown.language:
        return painter.chunk(Chunk("code", clean(text), gap=False, info=shown.language))
    return painter.text(text.rstrip("\n"))


def _list_row(number: int, digits: int, item: Item, painter: Painter) -> Row:
    """Number, name and size are shown whole if they fit; the arguments get the room that is left."""
    room = painter.width - len(headline(item)) - digits - 3
    text = headline(item, max(4, min(_SHORT_CHARS, room)))
    return painter.text(fitted(f"{number:>{digits}} {text}", painter.width), "red" if item.failed else "")[0]
