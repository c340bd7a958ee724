"""A unified diff as rows: files by their names, numbered lines, each row of a long line behind its mark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ossia.cli.terminal.fold import folded
from ossia.cli.visible import seen

if TYPE_CHECKING:
    from ossia.cli.terminal.markdown.paint import Row

_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(.*)")
_TAB = 4
_LEAST_TEXT = 16  # columns of text; else the numbers are left out
_LOOKS = {"+": "green", "-": "red", "file": "bold", "note": "dim"}


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: a file's name, changed or kept text with its number (0: unknown), or a note between them."""

    kind: Literal["file", "note", "+", "-", " "]
    text: str
    number: int = 0


def diff_rows(diff: str, width: int) -> list[Row]:
    r"""The rows of a unified diff at `width` columns, its invisible characters made visible; nothing of it is left out.

    A removed line has its old number, every other its new one. A file's name begins at the first column, what belongs
    to it further right, so that no line can pass for a name. Text in no known form is shown as it came.

        diff_rows("--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-one\n+two\n six\n", 80)
        #  x.py
        #   1 - one
        #   1 + two
        #   2   six
    """
    from rich.segment import Segment

    from ossia.cli.terminal.markdown._rows import style

    lines = list(_lines(seen(diff, "diff").removesuffix("\n").split("\n")))
    digits = len(str(max((line.number for line in lines), default=0)))
    digits = digits if width - digits - 4 >= _LEAST_TEXT and any(line.number for line in lines) else 0
    rows: list[Row] = []
    for line in lines:
        look = style(_LOOKS.get(line.kind, ""))
        text = line.text.expandtabs(_TAB)
        if line.kind == "file":
            rows += folded([[Segment(text, look)]], width)
            continue
        mark = " " if line.kind == "note" else line.kind
        gutter = len(f"{'':{digits}} {mark} ") + bool(digits)
        for at, part in enumerate(folded([[Segment(text, look)]] if text else [[]], width - gutter)):
            number = str(line.number or "") if not at else ""
            shown = f" {number:>{digits}} " if digits else " "
            rows.append([Segment(shown, style("dim")), Segment(f"{mark} ", look), *part])
    return rows


def _lines(texts: list[str]) -> Iterator[_Line]:
    """The lines of a diff. Within a hunk, as long as its header says, `--- x` is a removed line."""
    old = new = olds = news = at = 0  # the next numbers, and the lines of each side that are still to come
    begun = False  # the file has shown a hunk
    while at < len(texts):
        text, at = texts[at], at + 1
        mark = text[:1] or " "
        if (olds or news) and mark in "+- ":
            yield _Line(mark, text[1:], old if mark == "-" else new)  # type: ignore[arg-type]
            old, olds = old + (mark != "+"), max(0, olds - (mark != "+"))
            new, news = new + (mark != "-"), max(0, news - (mark != "-"))
            continue
        if text.startswith("\\"):
            yield _Line("note", text)
            continue
        olds = news = 0
        if text.startswith("--- ") and at < len(texts) and texts[at].startswith("+++ "):
            yield _Line("file", _name(text[4:], texts[at][4:]))
            at, begun = at + 1, False
        elif found := _HUNK.fullmatch(text):
            old, new = int(found[1]), int(found[3])
            olds, news = int(found[2] or 1), int(found[4] or 1)
            if begun or found[5]:
                yield _Line("note", f"⋮{found[5]}")
            begun = True
        elif mark in "+-":
            yield _Line(mark, text[1:])  # type: ignore[arg-type]
        else:
            yield _Line(" ", text)


def _name(old: str, new: str) -> str:
    """`a.py`, `a.py · new`, `a.py · deleted`, `a.py → b.py`; other headers as they came."""
    if not (old == "/dev/null" or old.startswith("a/")) or not (new == "/dev/null" or new.startswith("b/")):
        return f"{old} → {new}"
    if old == "/dev/null":
        return f"{new[2:]} · new"
    if new == "/dev/null":
        return f"{old[2:]} · deleted"
    return new[2:] if old[2:] == new[2:] else f"{old[2:]} → {new[2:]}"
