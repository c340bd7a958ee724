r"""The Markdown that is read here: CommonMark, tables, strikethrough, and maths.

Raw HTML is text. Reference definitions (`[1]: https://…`) are text, too: in a stream most come after their use, and
would be lost. `$…$`, `$$…$$`, `\(…\)`, `\[…\]` are for `latex`: no emphasis, no escapes, no lists inside.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MAX_NESTING = 40  # levels of tokens, two for a list in a list; the parser would leave out deeper ones
_BARS = re.compile(r"\\\||(?<!`)(`+)(?!`).{1,2000}?(?<!`)\1(?!`)|\|")  # of a row: `\|`, code, bars between cells


@cache
def block_parser() -> MarkdownIt:
    """The parser of blocks and their line numbers alone, for the cuts of a stream."""
    parser = _parser()
    parser.core.ruler.enableOnly(["block"])  # not "normalize": it could change the number of lines
    return parser


@cache
def parser() -> MarkdownIt:
    """The parser of blocks and their contents."""
    return _parser()


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    parser.block.ruler.at("table", _table_block, {"alt": ["paragraph", "reference"]})
    parser.disable("reference")
    add_maths(parser)
    parser.inline.ruler.before("link", "bracket", _bracket_inline)
    return parser


def _table_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """As in GFM, but a row with more cells than the head loses nothing.

    A bar within code then parts no cells, and the last column takes the surplus.
    """
    from markdown_it.rules_block import table

    known = len(state.tokens)
    if not table(state, first, end, silent):
        return False
    row: list[Token] = []
    for token in state.tokens[known:]:
        if token.type == "tr_open":
            row = []
        elif token.type == "inline":
            row.append(token)
        elif token.type == "tr_close" and row[0].map:
            cells = _cells(line_of(state, row[0].map[0]), within_code=True)
            if len(cells) > len(row):
                cells = _cells(line_of(state, row[0].map[0]), within_code=False)
                cells = [*cells[: len(row) - 1], " | ".join(cells[len(row) - 1 :])]
                for cell, text in zip(row, [*cells, *[""] * len(row)], strict=False):
                    cell.content = text
    return True


def _cells(line: str, *, within_code: bool) -> list[str]:
    """The cells of a table's row. `within_code`: bars in code part them, too."""
    line = line.strip().removeprefix("|")
    bars = re.finditer(r"(?<!\\)\|", line) if within_code else (bar for bar in _BARS.finditer(line) if bar[0] == "|")
    places = [-1, *(bar.start() for bar in bars)]
    parts = [line[begin + 1 : stop] for begin, stop in zip(places, [*places[1:], len(line)], strict=True)]
    return [part.strip().replace("\\|", "|") for part in (parts if parts[-1] else parts[:-1])]


def _bracket_inline(state: StateInline, silent: bool) -> bool:
    """A `[` with no `](` after it is a character: the link's rule would look through the whole rest for each."""
    source, start = state.src, state.pos
    width = 1 if source[start] == "[" else 2 if source.startswith("![", start) else 0
    if not width or source.find("](", start, state.posMax) >= 0:
        return False
    if not silent:
        state.pending += source[start : start + width]
    state.pos += width
    return True


if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

_MATHS_LINES = 60  # display maths that nobody closes ends here, or at a blank line
_MATHS_CHARS = 2000
# An opening $ has no blank after it, a closing one none before it and no digit after it: "$5 and $6" is money.
_DOLLARS = re.compile(r"\$\$(?!\$).{1,2000}?\$\$|\$(?![\s$])[^$\n]{0,500}?(?<![\s\\])\$(?!\d)", re.DOTALL)
_IN_A_WORD = re.compile(r"[A-Za-z0-9_)\]]")
_OPENERS = {"$$": "$$", "\\[": "\\]"}


def add_maths(parser: MarkdownIt) -> None:
    """Have the parser find formulas."""
    parser.block.ruler.before("fence", "maths", _maths_block, {"alt": ["paragraph", "blockquote", "list"]})
    parser.inline.ruler.before("escape", "maths", _maths_inline)


def _maths_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Lines from an opening `$$` or `\\[`, not closed on its line, to the closing one."""
    if state.is_code_block(first):
        return False
    line = line_of(state, first)
    closer = _OPENERS.get(line[:2])
    if closer is None or closer in line[2:]:
        return False  # closed on the same line: left to the inline rule
    if silent:
        return True
    stop, closed = first + 1, False
    while stop < min(end, first + _MATHS_LINES) and not closed:
        if state.isEmpty(stop) or state.sCount[stop] < state.blkIndent:
            break
        closed = closer in line_of(state, stop)
        stop += 1
    state.line = stop
    token = state.push("maths_block", "", 0)
    token.content = state.getLines(first, stop, state.sCount[first], False)
    token.map = [first, stop]
    token.meta = {"closed": closed}
    return True


def line_of(state: StateBlock, number: int) -> str:
    """A line of the source, without its indent."""
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _maths_inline(state: StateInline, silent: bool) -> bool:
    source, start = state.src, state.pos
    if source[start] == "$":
        match = _DOLLARS.match(source, start, state.posMax)
        stop = match.end() if match else -1
    elif source.startswith("\\[", start) and _IN_A_WORD.match(source, start - 1):
        return False  # `array\[0\]`
    elif source.startswith(("\\(", "\\["), start):
        closer = "\\)" if source[start + 1] == "(" else "\\]"
        found = source.find(closer, start + 2, min(state.posMax, start + _MATHS_CHARS))
        stop = found + 2 if found >= 0 else -1
    else:
        return False
    if stop < 0:
        return False
    if not silent:
        state.push("maths_inline", "", 0).content = source[start:stop]
    state.pos = stop
    return True
