"""The pieces that Segmenter gives and Painter takes, and their bounds; a top-level fence in such pieces."""

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


class Fence:
    """Takes the lines after the opening one. `marker`: "```", "~~~~"; `indent`: the opening line's blanks."""

    def __init__(self, marker: str, info: str, indent: int, *, gap: bool) -> None:
        self._marker, self._info, self._indent, self._gap = marker, info, indent, gap
        self._code: list[str] = []
        self._chars = 0
        self._context: list[str] = []

    def closed_by(self, line: str) -> bool:
        """Does the line end it? As many marks or more, fewer than four blanks before them, nothing behind."""
        if self._marker[0] not in line[:4]:
            return False
        text = line.rstrip()
        mark = text.lstrip(" ")
        return len(text) - len(mark) < 4 and len(mark) >= len(self._marker) and not mark.strip(self._marker[0])

    def take(self, line: str) -> list[Chunk]:
        """Take one more line; returns the piece before it if that is long enough: the last one always has a line."""
        full = len(self._code) >= CODE_LINES or self._chars >= BLOCK_CHARS
        pieces = self.rest(ends=False) if full else []
        self._code.append(self._bare(line))
        self._chars += len(line)
        return pieces

    def rest(self, *, ends: bool = True) -> list[Chunk]:
        """What is left, as a piece, if there is any. `ends`: it is the last one."""
        if not self._code:
            return []
        begins = not self._context
        gap = self._gap and begins
        chunk = Chunk("code", "".join(self._code), gap, self._info, "".join(self._context), begins, ends)
        self._context = [*self._context, *self._code][-CONTEXT_LINES:]
        self._code, self._chars = [], 0
        return [chunk]

    def live(self, partial: str, max_rows: int) -> Chunk | None:
        """The last lines that are in no piece yet."""
        lines = [*self._code, *([partial] if partial else [])]
        if not lines:
            return None
        shown = lines[-max_rows:]
        before = [*self._context, *lines[: -len(shown)]][-CODE_LINES:]
        begins = not before
        source = "".join(line[:LONG_LINE] for line in shown)
        return Chunk("code", source, self._gap and begins, self._info, "".join(before), begins)

    def _bare(self, line: str) -> str:
        """The line without the indent that the fence has; what is left of a tab becomes blanks."""
        at = column = 0
        while column < self._indent and line[at] in " \t":
            column += 4 - column % 4 if line[at] == "\t" else 1
            at += 1
        return " " * (column - self._indent) + line[at:]
