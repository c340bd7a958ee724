"""How much of an open paragraph stays as it is drawn, whatever comes after it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ossia.cli.terminal.markdown._markdown import block_parser

if TYPE_CHECKING:
    from ossia.cli.terminal.markdown._rows import Row

_ENDINGS = ("> x* x** x_ x__ x~~ x](x)", " *x* x` x`` x```", " *x* x$$", " *x* x\\) x\\]")
"""Behind a word these close what is open. `*x*` is italic, but not in maths and code: no other mark counts there."""
_TRIES = 3
_MARKS = re.compile(r"[*_~`]*\s*")
# What is left begins with it: it opens no other block, and no mark that is closed later makes it shorter.
_PLAIN_WORD = re.compile(r"[^\W\d_][^\s*_~`\[\]()<>$\\|&!]*(?:\s|$)")


def settled(source: str, draw: Callable[[str], list[Row]]) -> int:
    """How many characters of `source` make whole rows that are final; what follows can be drawn alone. Often 0.

    The last row isn't final, nor one with something open that could still be closed. `draw` makes rows of Markdown.
    Two things come too late, and no text is lost then: bars that make the last line the head of a table, whose rows
    above stay text; and an underline that makes a heading of rows that aren't bold.
    """
    top = [token.type for token in block_parser().parse(source) if token.level == 0 and token.nesting >= 0]
    if top != ["paragraph_open"] or "|" in source:
        return 0
    rows = draw(source)
    ends = _ends(source, rows[:-1])
    for number in range(len(ends), max(0, len(ends) - _TRIES), -1):
        at, kept = ends[number - 1], rows[:number]
        word = _PLAIN_WORD.match(source, at)
        rests = [source[at:], *(word[0].rstrip() + ending for ending in _ENDINGS)] if word else []
        if rests and all(draw(source[:at] + rest) == kept + draw(rest) for rest in rests):
            return at
    return 0


def _ends(source: str, rows: Sequence[Row]) -> list[int]:
    """Where in the source the row after each of these begins, as far as that can be told."""
    ends, at = list[int](), 0
    for row in rows:
        for character in "".join("".join(segment.text for segment in row).split()):
            at = source.find(character, at) + 1
            if not at:
                return ends
        marks = _MARKS.match(source, at)
        at = marks.end() if marks else at
        ends.append(at)
    return ends
