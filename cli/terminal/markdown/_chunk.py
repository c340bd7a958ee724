"""What Segmenter gives and Painter takes, and how long a piece may be."""

from __future__ import annotations

from dataclasses import dataclass

CODE_LINES = 40  # a longer fence comes in pieces of this many lines
CONTEXT_LINES = 2 * CODE_LINES  # of the same fence, before the piece: what the lexer gets to see
PARAGRAPH_LINES = 100
PARAGRAPH_CHARS = 4000  # some marks take the parser quadratic time: 4,000 of `[` 30 ms, 16,000 of them 400 ms
BLOCK_LINES = 200  # rows of a table, lines of an item, a quote, indented code; the head of a table is repeated
BLOCK_CHARS = 8000
LONG_LINE = 2000  # characters of prose; the first blank after it becomes a line end, or any character 200 further on
LONG_CODE_LINE = 100_000  # long, so that a copied line of code is the whole line


@dataclass(frozen=True, slots=True)
class Chunk:
    r"""A piece of Markdown that can be painted alone.

    `kind`: the parser's name of the block (`paragraph_open`, `bullet_list_open`…), or `code` for a piece of a fence;
    `source`: Markdown, for `code` the bare lines; `gap`: a blank row goes before it; `info`: the fence's info string;
    `context`: for `code` the lines before it in the same fence; for an item its number ("" for a bullet), or "+" when
    it goes on with the one before. `begins`, `ends`: for `code`, the fence begins or ends with this piece.

        Chunk("code", "x = 1\n", gap=True, info="python")
    """

    kind: str
    source: str
    gap: bool
    info: str = ""
    context: str = ""
    begins: bool = False
    ends: bool = False
