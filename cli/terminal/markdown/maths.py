"""The rules for Markdown's parser that find formulas: `maths_inline` and `maths_block`, as they are written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

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
