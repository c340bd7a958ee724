"""The parts of a question as rows: its head, its text, the keys, the line on what is out of sight."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from ossia.cli.clean import widest
from ossia.cli.terminal.diff_rows import diff_rows
from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.markdown.segment import Chunk
from ossia.cli.visible import seen, seen_line

if TYPE_CHECKING:
    from ossia.cli.terminal.markdown.paint import Painter, Row
    from ossia.cli.terminal.question import Question

_COLOURED_CHARS = 50_000  # a longer code is shown plainly: it would take a second
_TAB = 4


def head_rows(question: Question, paint: Painter) -> list[Row]:
    """The call and the reason for the question, at the painter's width."""
    rows = paint.text(seen_line(question.title), "bold")
    rows += paint.text(seen_line(question.reason), "yellow" if question.careful else "dim")
    rows += paint.text(seen_line(question.fault), "red") if question.fault else []
    return folded(rows, paint.width)


def detail_rows(question: Question, paint: Painter) -> list[Row]:
    """All that is agreed to: a diff with its numbers, code with its colours; rows of code may be too wide.

    Nothing if it is one line, and the title, on one row, ends with it: `Run ls -l`.
    """
    language = question.language
    if language == "diff" and question.detail:
        return diff_rows(question.detail, paint.width)
    detail = seen(question.detail, language).removesuffix("\n").expandtabs(_TAB)
    title = seen_line(question.title)
    if not detail or ("\n" not in detail and title.endswith(f" {detail}") and widest(title) <= paint.width):
        return []
    lines = detail.split("\n")
    code = Chunk("code", f"{detail}\n", gap=False, info=language)
    coloured = paint.chunk(code) if language and len(detail) <= _COLOURED_CHARS else []
    shown = ["".join(segment.text for segment in row) for row in coloured]
    whole = shown == [line.rstrip() for line in lines]  # colours must not change the text that is agreed to
    return coloured if whole else [styled(line) for line in lines]


def key_lines(choices: Sequence[tuple[str, str]], width: int) -> list[str]:
    """The answers, `[y] yes  [n] no`, closer together to save a row."""
    wrap = TextWrapper(width, break_long_words=False, break_on_hyphens=False).wrap
    shown = [f"[{key}] {seen(word)}".replace(" ", "\0") for key, word in choices]  # a choice stays whole
    lines = min((wrap(gap.join(shown)) for gap in ("  ", " ")), key=len)
    return [line.replace("\0", " ") for line in lines]


def more_line(above: int, below: int, width: int, elsewhere: str) -> str:
    """The numbers of hidden lines, and their keys; in as many words as fit."""
    keys = " ".join(name for name, there in (("PgUp", above), ("PgDn", below)) if there)
    counts = [f"{above} lines above" if above else "", f"{below} more lines" if below else ""]
    long, brief = (f"… {', '.join(filter(None, counts))}, {keys}", f"… {above + below} more, {keys}")
    rest = f"; {elsewhere}: all" if elsewhere else ""
    ways = (f"{long}{rest}", f"{brief}{rest}", long, brief, keys)
    return next((way for way in ways if len(way) <= width), keys)


def styled(text: str, style: str = "") -> Row:
    """A row of one style; `""` is an empty one."""
    return [Segment(text, Style.parse(style) if style else None)] if text else []
