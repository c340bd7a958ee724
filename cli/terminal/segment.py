r"""Markdown that comes in pieces → chunks that are final: nothing that comes later changes them.

What is cut depends on the text alone, never on how it was split. Only complete lines decide. A top-level block is final
when the next one begins, or when a blank line closes it; a list is cut item by item; a fence needs no parser, only a
look at each new line. Everything is capped, by lines and by characters, so that no step takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cli.terminal._markdown import block_parser

if TYPE_CHECKING:
    from markdown_it.token import Token

CODE_LINES = 40  # a longer fence comes in pieces of this many lines
CONTEXT_LINES = 2 * CODE_LINES  # of the same fence, before the piece: what the lexer gets to see
PARAGRAPH_LINES = 100
PARAGRAPH_CHARS = 4000  # some marks take the parser quadratic time: 4,000 of `[` 30 ms, 16,000 of them 400 ms
BLOCK_LINES = 200  # rows of a table, lines of an item, a quote, indented code; the head of a table is repeated
BLOCK_CHARS = 8000
_CELL_CHARS = 10  # what a cell of a table counts, beside its text: each costs as much to draw
LONG_LINE = 2000  # characters of prose; the first blank after it becomes a line end, or any character 200 further on
LONG_CODE_LINE = 100_000  # a copied line of code should be the line
_BATCH_LINES = 64  # of a text that comes at once, between two looks

_LIKE_A_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_ITEM = re.compile(r"( {0,3}(?:[-+*]|\d{1,9}[.)]))([ \t]*)")
_CLOSED_BY_BLANK = frozenset({"paragraph_open", "blockquote_open", "table_open", "maths_block"})
_CLOSED_AT_ONCE = frozenset({"heading_open", "hr"})
# A last line that is only these could still turn what stands above it into a heading or a table, or be a marker.
_UNDECIDED = re.compile(r"[ \t>]*(?:[-=*_+#~`|:. \t]*|\d{1,9}[.)]?|\$\$?|\\\[?)[ \t]*")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of Markdown that can be painted alone.

    `kind`: the parser's name of the block (`paragraph_open`, `bullet_list_open`…), or `code` for a piece of a fence;
    `source`: Markdown, for `code` the bare lines; `gap`: a blank row goes before it; `info`: the fence's info string;
    `context`: for `code` the lines before it in the same fence; for an item its number ("" for a bullet), or "+" when
    it goes on with the one before.

        Chunk("code", "x = 1\n", gap=True, info="python")
    """

    kind: str
    source: str
    gap: bool
    info: str = ""
    context: str = ""


@dataclass(frozen=True, slots=True)
class _Fence:
    marker: str  # "```", "~~~~"
    info: str
    indent: int

    def closed_by(self, line: str) -> bool:
        if self.marker[0] not in line[:4]:
            return False
        text = line.rstrip()
        mark = text.lstrip(" ")
        return len(text) - len(mark) < 4 and len(mark) >= len(self.marker) and not mark.strip(self.marker[0])

    def bare(self, line: str) -> str:
        """The line without as much indent as the fence has, a tab that is used up in part as blanks."""
        at = column = 0
        while column < self.indent and line[at] in " \t":
            column += 4 - column % 4 if line[at] == "\t" else 1
            at += 1
        return " " * (column - self.indent) + line[at:]


@dataclass(frozen=True, slots=True)
class _Item:
    """The item that was cut last: the next one may go on with its list."""

    markup: str
    number: int | None
    blank_after: bool


class Segmenter:
    """Feed it text that is `clean()`; it returns what is finished. One for each message.

        segmenter = Segmenter()
        segmenter.feed("# Title\nSome te")   → [Chunk("heading_open", "# Title\n", gap=False)]
        segmenter.open                       → "Some te"
        segmenter.finish()                   → [Chunk("paragraph_open", "Some te\n", gap=True)]
    """

    def __init__(self) -> None:
        self._tail: list[str] = []  # complete lines, not cut yet
        self._partial: list[str] = []  # pieces of the line that has no end yet
        self._column = 0
        self._looked = 0  # lines of the tail at the last look: the next when it has grown by a sixteenth
        self._kind = ""  # of its first block, at the last look
        self._first = True  # no gap before the next chunk
        self._item: _Item | None = None
        self._continues = False  # the tail's first item goes on with the one cut last
        self._fence: _Fence | None = None
        self._code: list[str] = []
        self._code_chars = 0
        self._context: list[str] = []

    @property
    def open(self) -> str:
        """What is not final yet; of a fence, the lines without its first one."""
        return "".join((*(self._code if self._fence else self._tail), *self._partial))

    def feed(self, text: str) -> list[Chunk]:
        """The chunks that `text` finishes, often none."""
        if "\n" not in text and self._column + len(text) <= LONG_LINE:
            self._partial.append(text)
            self._column += len(text)
            return []
        chunks = [chunk for line in self._lines(text) for chunk in self._take_line(line)]
        if not self._fence and self._grown():
            chunks += self._cut(final=False)
        return chunks

    def finish(self) -> list[Chunk]:
        """The chunks of the rest: the text has ended."""
        chunks = self.feed("\n") if self._column else []
        chunks += self._code_piece() if self._fence else self._cut(final=True)
        self.__init__()  # type: ignore[misc]
        return chunks

    def live(self, max_rows: int) -> Chunk | None:
        """What a view of `max_rows` rows should show of the open rest; None: nothing.

        A partial line that could still become anything (`---`, `|--`) is left out. A long table is its head and its
        last rows, a fence or a paragraph its last lines. It may be some rows longer than asked for.
        """
        partial = "".join(self._partial)
        if self._fence:
            return self._live_code(partial, max_rows)
        lines = [*self._tail, *([] if _UNDECIDED.fullmatch(partial) else [partial])]
        if not "".join(lines).strip():
            return None
        item = _ITEM.match(lines[0])
        if item is None and len(lines) > max_rows:
            head = lines[:2] if self._kind == "table_open" else []
            lines = [*head, *lines[max(len(head), len(lines) - max_rows) :]]
        return self._live_block(lines, item)

    # -- lines -------------------------------------------------------------------------------------------------------

    def _lines(self, text: str) -> Iterator[str]:
        """Complete lines, long ones broken (on the screen only: what is stored and copied is the original)."""
        at = 0
        while at < len(text):
            limit = LONG_CODE_LINE if self._fence else LONG_LINE
            end = text.find("\n", at, at + max(0, limit - self._column) + 1)
            stop = end + 1 if end >= 0 else self._break(text, at, limit)
            piece = text[at:stop]
            at, self._column = stop, self._column + len(piece)
            if self._column > limit and piece[-1] != "\n" and (piece[-1] == " " or self._column > limit + 200):
                piece = piece.removesuffix(" ") + "\n"
            self._partial.append(piece)
            if piece.endswith("\n"):
                line = "".join(self._partial)
                self._partial, self._column = [], 0
                yield line

    def _break(self, text: str, at: int, limit: int) -> int:
        """Where the piece of a line without an end stops: the limit, then the blank or line end after it."""
        if self._column < limit:
            return at + limit - self._column
        hard = at + max(1, limit + 201 - self._column)
        found = [stop for stop in (text.find(" ", at, hard), text.find("\n", at, hard)) if stop >= 0]
        return min(found) + 1 if found else hard

    def _take_line(self, line: str) -> Iterable[Chunk]:
        if self._fence:
            return self._take_code(line)
        if not self._tail and not line.strip():
            return ()
        self._tail.append(line)
        if self._goes_on(line):
            self._looked = len(self._tail)
            return ()
        capped = self._kind == "paragraph_open" and self._looked >= PARAGRAPH_LINES
        if capped or _LIKE_A_FENCE.match(line) or len(self._tail) - self._looked >= _BATCH_LINES:
            return self._cut(final=False)
        return ()

    def _grown(self) -> bool:
        """Worth a look: whatever is cut now or later is the same."""
        grown = len(self._tail) - self._looked
        return bool(self._tail) and grown > 0 and (grown > self._looked // 16 or not self._tail[-1].strip())

    def _goes_on(self, line: str) -> bool:
        """A line that can only be one more of the paragraph we are in: no look is needed to know it."""
        return (
            self._kind == "paragraph_open"
            and self._looked == len(self._tail) - 1
            and line[0].isalpha()
            and len(line) * PARAGRAPH_LINES <= PARAGRAPH_CHARS
            and len(self._tail) <= PARAGRAPH_LINES
        )

    def _gap(self) -> bool:
        gap, self._first = not self._first, False
        return gap

    # -- inside a top-level fence: no parser, only a look at each new line ---------------------------------------------

    def _take_code(self, line: str) -> Iterable[Chunk]:
        assert self._fence is not None
        if self._fence.closed_by(line):
            chunks = self._code_piece()
            self._fence, self._context, self._first = None, [], False
            return chunks
        self._code.append(self._fence.bare(line))
        self._code_chars += len(line)
        return self._code_piece() if len(self._code) >= CODE_LINES or self._code_chars >= BLOCK_CHARS else ()

    def _code_piece(self) -> list[Chunk]:
        if not self._code or self._fence is None:
            return []
        gap = not self._context and self._gap()
        chunk = Chunk("code", "".join(self._code), gap, self._fence.info, "".join(self._context))
        self._context = [*self._context, *self._code][-CONTEXT_LINES:]
        self._code, self._code_chars = [], 0
        return [chunk]

    def _live_code(self, partial: str, max_rows: int) -> Chunk | None:
        assert self._fence is not None
        lines = [*self._context, *self._code, *([partial] if partial else [])]
        shown = lines[-min(max_rows, len(lines) - len(self._context)) :] if len(lines) > len(self._context) else []
        if not shown:
            return None
        before = lines[: len(lines) - len(shown)][-CODE_LINES:]
        gap = not self._first and not self._context and len(shown) == len(lines)
        return Chunk("code", "".join(line[:LONG_LINE] for line in shown), gap, self._fence.info, "".join(before))

    # -- outside: the parser sees the complete lines of the open tail only ---------------------------------------------

    def _cut(self, *, final: bool) -> list[Chunk]:
        chunks: list[Chunk] = []
        more = True
        while more and self._tail:
            more = self._cut_once(chunks, final=final)
        while self._tail and not self._tail[0].strip():
            self._tail.pop(0)
        self._looked = len(self._tail)
        if not self._tail:
            self._kind = ""
        return chunks

    def _cut_once(self, chunks: list[Chunk], *, final: bool) -> bool:
        """Takes what one parse of the tail shows to be final. True: look again."""
        lines = self._tail
        tokens = block_parser().parse("".join(lines))
        top = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
        done = 0
        self._kind = top[-1].type if top else ""
        for token in top:
            start, stop = _extent(token, lines)
            over = final or token is not top[-1] or self._is_over(token, blank_next=stop < len(lines))
            if token.type == "fence":
                self._open_fence(token, lines[start])
                self._tail = []
                chunks += [chunk for line in lines[start + 1 :] for chunk in self._take_line(line)]
                return bool(self._tail)
            if token.type.endswith("list_open"):
                done, capped = self._cut_list(chunks, token, tokens, over=over)
            else:
                done, capped = self._cut_block(chunks, token, tokens, over=over, done=done)
            if capped:
                return True
        if final or not top:
            done = len(lines)
        self._tail = lines[done:]
        return False

    def _is_over(self, token: Token, *, blank_next: bool) -> bool:
        """Nothing more can come to this last block."""
        if token.type == "maths_block" and token.meta["closed"]:
            return True
        return token.type in _CLOSED_AT_ONCE or (token.type in _CLOSED_BY_BLANK and blank_next)

    def _cut_block(
        self, chunks: list[Chunk], token: Token, tokens: list[Token], *, over: bool, done: int
    ) -> tuple[int, bool]:
        """The lines that are done now, and whether the rest must be looked at again."""
        lines, (start, stop) = self._tail, _extent(token, self._tail)
        text = token.type == "paragraph_open" or (token.type == "heading_open" and stop - start > 1)
        limits = (PARAGRAPH_LINES, PARAGRAPH_CHARS) if text else (BLOCK_LINES, BLOCK_CHARS)
        cap = _cap(lines, start, stop, *limits, cell_chars=_CELL_CHARS if token.type == "table_open" else 0)
        if cap is None and not over:
            return done, False
        self._item = None
        kind = token.type if cap is None or not text else "paragraph_open"
        chunks.append(Chunk(kind, "".join(lines[start : cap or stop]), self._gap()))
        if cap is None:
            return stop, False
        head = lines[start : start + 2] if token.type == "table_open" else _fence_line(tokens, lines, start, cap)
        self._tail = [*head, *lines[cap:]]
        self._first = bool(lines[cap - 1].strip())  # what follows goes on with it
        return 0, True

    def _cut_list(self, chunks: list[Chunk], token: Token, tokens: list[Token], *, over: bool) -> tuple[int, bool]:
        lines, (start, stop) = self._tail, _extent(token, self._tail)
        items = [
            one
            for one in tokens
            if one.type == "list_item_open" and one.level == 1 and one.map and start <= one.map[0] < stop
        ]
        begins = [one.map[0] for one in items if one.map]
        for begin, end in zip(begins, [*begins[1:], stop], strict=True):
            last = end == stop
            content = end if last else _without_blanks(lines, begin, end)
            cap = _cap(lines, begin, content, BLOCK_LINES, BLOCK_CHARS)
            if cap is None and last and not over:
                return begin, False
            chunks.append(self._item_chunk(token, "".join(lines[begin : cap or end])))
            blank_after = cap is None and (stop < len(lines) if last else not lines[end - 1].strip())
            self._item = replace(self._item, blank_after=blank_after) if self._item else None
            if cap is not None:
                self._tail = _continued(lines, begin, cap, _fence_line(tokens, lines, begin, cap))
                self._continues = True
                return 0, True
        return stop, False

    def _item_chunk(self, token: Token, source: str) -> Chunk:
        markup = token.type + token.markup
        gap, number, context = self._gap(), None, ""
        before = self._item if self._item and self._item.markup == markup else None
        if token.type == "ordered_list_open":
            number = int(token.attrGet("start") or 1) if before is None or before.number is None else before.number + 1
            context = str(number)
        if self._continues and before is not None:
            number, context, gap = before.number, "+", False
        elif before is not None:
            gap = gap and before.blank_after
        self._continues = False
        self._item = _Item(markup, number, False)
        return Chunk(token.type, source, gap, context=context)

    def _open_fence(self, token: Token, line: str) -> None:
        self._item = None
        self._fence = _Fence(token.markup, token.info.strip(), len(line) - len(line.lstrip(" ")))

    def _live_block(self, lines: list[str], item: re.Match[str] | None) -> Chunk:
        """The tail as one chunk, of what kind the parser will say when it is painted."""
        gap, kind, context = not self._first, "paragraph_open", ""
        if item is not None:
            kind = "ordered_list_open" if item[1][-1] in ".)" else "bullet_list_open"
            before = self._item if self._item and self._item.markup == kind + item[1][-1] else None
            if before is not None:
                gap = gap and before.blank_after and not self._continues
                context = "+" if self._continues else "" if before.number is None else str(before.number + 1)
        return Chunk(kind, "".join(lines), gap, context=context)


def _extent(token: Token, lines: list[str]) -> tuple[int, int]:
    """First line and the one after the last, without the blank ones at the end."""
    assert token.map is not None
    return token.map[0], _without_blanks(lines, token.map[0], token.map[1])


def _without_blanks(lines: list[str], start: int, stop: int) -> int:
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    return stop


def _cap(
    lines: list[str], start: int, stop: int, max_lines: int, max_chars: int, *, cell_chars: int = 0
) -> int | None:
    """Where a block that is too long is cut: at a line that is not blank. None: it is short enough."""
    chars = 0
    fewest = 3 if cell_chars else 1  # of a table: its head and a row
    for number in range(start, stop):
        full = number - start >= max_lines or chars >= max_chars
        if full and number - start >= fewest and lines[number].strip():
            return number
        chars += len(lines[number]) + (cell_chars * lines[number].count("|") if cell_chars else 0)
    return None


def _fence_line(tokens: list[Token], lines: list[str], start: int, cap: int) -> list[str]:
    """The line that opens the fence in which the cut falls: it is repeated after the cut."""
    for token in tokens:
        if token.type == "fence" and token.map and start <= token.map[0] < cap < token.map[1]:
            return [lines[token.map[0]]]
    return []


def _continued(lines: list[str], start: int, cap: int, head: list[str]) -> list[str]:
    """The lines from `cap` on as an item of their own, with the marker of the one they belong to."""
    rest = [*head, *lines[cap:]]
    marker = _ITEM.match(lines[start])
    if marker is None or rest[0] == lines[start]:
        return rest
    width = len(marker[1]) + (len(marker[2]) if marker[2] in (" ", "  ", "   ", "    ") else 1)
    inside = not rest[0][:width].strip()
    first = marker[1].ljust(width) + rest[0][width:] if inside else f"{marker[1]} {rest[0].lstrip()}"
    return [first, *rest[1:]]
