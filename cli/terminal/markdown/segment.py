r"""Markdown that comes in pieces → chunks that are final: nothing that comes later changes them.

The cuts depend on the text alone, never on how it was split. Only complete lines decide. A top-level block is final
when the next one begins, or when a blank line closes it; a list is cut item by item; a fence needs no parser, only a
look at each new line. Everything is capped, by lines and by characters, so that no step takes long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ossia.cli.terminal.markdown import _chunk
from ossia.cli.terminal.markdown._chunk import ITEM, LONG_CODE_LINE, LONG_LINE, Chunk, Fence, LongLines
from ossia.cli.terminal.markdown._markdown import block_parser
from ossia.cli.terminal.markdown.latex import formulas

if TYPE_CHECKING:
    from markdown_it.token import Token

    from ossia.cli.terminal.markdown._rows import Row

__all__ = ["Chunk", "Segmenter"]

_BATCH_LINES = 64  # of a text that comes at once, between two looks
_SETTLE_CHARS = 40  # or an eighth of the open text: as much comes between two tries to settle rows
_LIKE_A_FENCE = re.compile(r" {0,3}(?:```|~~~)")
# A last line of only these could still turn the one above into a heading or a table, or be a marker.
_UNDECIDED = re.compile(r"[ \t>]*(?:[-=*_+#~`|:. \t]*|\d{1,9}[.)]?|\$\$?|\\\[?)[ \t]*")

_ENDINGS = ("> x* x** x_ x__ x~~ x](x)", " *x* x` x`` x```", " *x* x$$", " *x* x\\) x\\]")
"""Behind a word these close what is open. `*x*` is italic, but not in maths and code: no other mark counts there."""
_TRIES = 3
_MARKS = re.compile(r"[*_~`]*\s*")
# The rest begins with it: it opens no other block, and no mark that is closed later makes it shorter.
_PLAIN_WORD = re.compile(r"[^\W\d_][^\s*_~`\[\]()<>$\\|&!]*(?:\s|$)")


@dataclass(frozen=True, slots=True)
class _Item:
    """The last item cut: the next one may continue its list."""

    markup: str
    number: int | None
    blank_after: bool


class Segmenter:
    r"""Takes text that is `clean()`, returns the chunks that are final. One for each message.

    segmenter = Segmenter()
    segmenter.feed("# Title\nSome te")   → [Chunk("heading_open", "# Title\n", gap=False)]
    segmenter.finish()                   → [Chunk("paragraph_open", "Some te\n", gap=True)]
    """

    def __init__(self) -> None:
        self._line = LongLines()
        self._tail: list[str] = []  # complete lines, not cut yet
        self._looked = 0  # lines of the tail at the last look; the next comes when it has grown by a sixteenth
        self._kind = ""  # of its last block, at the last look
        self._first = True  # no gap before the next chunk
        self._item: _Item | None = None
        self._continues = False  # the tail's first item goes on with the one cut last
        self._fence: Fence | None = None
        self._settled = False  # the beginning of the open paragraph is drawn
        self._settle_at = 0  # characters that the open text has at the next try: a try costs several drawings

    def feed(self, text: str) -> list[Chunk]:
        """The chunks finished by `text`, often none."""
        chunks: list[Chunk] = []
        for line in self._line.push(text, lambda: LONG_CODE_LINE if self._fence else LONG_LINE):
            chunks += self._take_line(line)
        if not self._fence and self._grown():
            chunks += self._cut(final=False)
        return chunks

    def finish(self) -> list[Chunk]:
        """The chunks of the rest, at the text's end. After that the segmenter is as new."""
        chunks = self.feed("\n") if self._line.column else []
        chunks += self._fence.rest() if self._fence else self._cut(final=True)
        Segmenter.__init__(self)
        return chunks

    def live(self, max_rows: int) -> Chunk | None:
        """The open rest for a view of `max_rows` rows (it may be some rows longer); None: nothing.

        A partial line that could still become anything (`---`, `|--`) is left out. Of a long table it holds the head
        and the last rows, of a fence or a paragraph the last lines.
        """
        partial = self._line.partial
        if self._fence:
            return self._fence.live(partial, max_rows)
        lines = [*self._tail, *([] if _UNDECIDED.fullmatch(partial) else [partial])]
        if not "".join(lines).strip():
            return None
        item = ITEM.match(lines[0])
        if item is None and len(lines) > max_rows:
            head = lines[:2] if self._kind == "table_open" else []
            lines = [*head, *lines[max(len(head), len(lines) - max_rows) :]]
        return self._live_block(lines, item)

    def settle(self, draw: Callable[[str], list[Row]]) -> Chunk | None:
        """Cut off the final rows of an open paragraph, as drawn by `draw`: the cut depends on the width."""
        text = "".join(self._tail) + self._line.partial
        if self._fence or len(text) < self._settle_at:
            return None
        at = settled(text, draw)
        left = len(text) - at
        self._settle_at = left + max(_SETTLE_CHARS, left // 8)
        if not at:
            return None
        whole = sum(map(len, self._tail))
        self._line.drop(at - whole)
        self._tail = text[at:whole].splitlines(keepends=True)
        chunk, self._first, self._settled = Chunk("paragraph_open", text[:at], self._gap()), True, True
        self._looked = min(self._looked, len(self._tail))
        return chunk

    # -- lines -------------------------------------------------------------------------------------------------------

    def _take_line(self, line: str) -> Iterable[Chunk]:
        if self._fence:
            if not self._fence.closed_by(line):
                return self._fence.take(line)
            fence, self._fence = self._fence, None
            return fence.rest()
        if not self._tail and not line.strip():
            return ()
        self._tail.append(line)
        if _LIKE_A_FENCE.match(line) or len(self._tail) - self._looked >= _BATCH_LINES:
            return self._cut(final=False)
        return ()

    def _grown(self) -> bool:
        """Is it worth a look? The cuts will be the same, now or later."""
        grown = len(self._tail) - self._looked
        return bool(self._tail) and grown > 0 and (grown > self._looked // 16 or not self._tail[-1].strip())

    def _gap(self) -> bool:
        gap, self._first = not self._first, False
        return gap

    # -- blocks: the parser sees the complete lines of the open tail only ----------------------------------------------

    def _cut(self, *, final: bool) -> list[Chunk]:
        chunks: list[Chunk] = []
        more = True
        while more and self._tail:
            more = self._cut_once(chunks, final=final)
        while self._tail and not self._tail[0].strip():
            self._tail.pop(0)
        self._looked = len(self._tail)
        if chunks or not self._tail:
            self._settled, self._settle_at = False, 0
        if not self._tail:
            self._kind = ""
        return chunks

    def _cut_once(self, chunks: list[Chunk], *, final: bool) -> bool:
        """Cut the final part of the tail by one parse. True: look again."""
        lines = self._tail
        tokens = block_parser().parse("".join(lines))
        top = [token for token in tokens if token.level == 0 and token.nesting >= 0 and token.map]
        self._kind = top[-1].type if top else ""
        if self._settled and top and top[0].type == "heading_open" and top[0].map and top[0].markup in ("=", "-"):
            lines[top[0].map[1] - 1] = "\n"  # a heading's underline; but its beginning is drawn already, as text
            return True
        done = 0
        for token in top:
            start, stop = _chunk.extent(token, lines)
            if token.type == "fence":
                self._open_fence(token, lines[start])
                chunks += [chunk for line in lines[start + 1 :] for chunk in self._take_line(line)]
                return bool(self._tail)
            over = final or token is not top[-1] or _chunk.is_over(token, blank_next=stop < len(lines))
            cut = self._cut_list if token.type.endswith("list_open") else self._cut_block
            end, rest = cut(chunks, token, tokens, over=over)
            if rest is not None:
                self._tail = rest
                return True
            done = max(done, end)
        self._tail = [] if final or not top else lines[done:]
        return False

    def _cut_block(
        self, chunks: list[Chunk], token: Token, tokens: list[Token], *, over: bool
    ) -> tuple[int, list[str] | None]:
        """Returns the line up to which all is done; or, where the block was too long, the remaining lines."""
        lines, (start, stop) = self._tail, _chunk.extent(token, self._tail)
        cap = _chunk.cap_of(token, lines, start, stop)
        if cap is None and not over:
            return 0, None
        self._item = None
        kind = "paragraph_open" if cap is not None and _chunk.is_text(token, stop - start) else token.type
        chunks.append(Chunk(kind, "".join(lines[start : cap or stop]), self._gap()))
        if cap is None:
            return stop, None
        self._first = bool(lines[cap - 1].strip())  # the rest continues it
        return 0, _chunk.after_cap(token, tokens, lines, start, cap)

    def _cut_list(
        self, chunks: list[Chunk], token: Token, tokens: list[Token], *, over: bool
    ) -> tuple[int, list[str] | None]:
        """The same for a list: its items, the last one only if the list is over."""
        lines, (start, stop) = self._tail, _chunk.extent(token, self._tail)
        inside = (one for one in tokens if one.type == "list_item_open" and one.level == 1 and one.map)
        begins = [one.map[0] for one in inside if one.map and start <= one.map[0] < stop]
        for begin, end in zip(begins, [*begins[1:], stop], strict=True):
            last = end == stop
            cap = _chunk.cap_of(token, lines, begin, _chunk.without_blanks(lines, begin, end))
            if cap is None and last and not over:
                return begin, None
            chunks.append(self._item_chunk(token, "".join(lines[begin : cap or end])))
            blank_after = stop < len(lines) if cap is None and last else not lines[(cap or end) - 1].strip()
            self._item = replace(self._item, blank_after=blank_after) if self._item else None
            if cap is not None:
                self._continues = True
                return 0, _chunk.as_item(_chunk.after_cap(token, tokens, lines, begin, cap), lines[begin])
        return stop, None

    def _item_chunk(self, token: Token, source: str) -> Chunk:
        markup = token.type + token.markup
        first = _chunk.start_of(token) if token.type == "ordered_list_open" else None
        spaced, number, context = self._position(markup, first)
        self._continues = False
        self._item = _Item(markup, number, False)
        return Chunk(token.type, source, self._gap() and spaced, context=context)

    def _position(self, markup: str, first: int | None) -> tuple[bool, int | None, str]:
        """Does a gap precede the next item; its number in an ordered list from `first` on; its context."""
        before = self._item if self._item and self._item.markup == markup else None
        if before and self._continues:
            return before.blank_after, before.number, "+"
        number = first if before is None or before.number is None else before.number + 1
        return before is None or before.blank_after, number, "" if number is None else str(number)

    def _open_fence(self, token: Token, line: str) -> None:
        indent = len(line) - len(line.lstrip(" "))
        self._fence = Fence(token.markup, token.info.strip(), indent, gap=self._gap())
        self._item, self._tail = None, []

    def _live_block(self, lines: list[str], item: re.Match[str] | None) -> Chunk:
        """The tail as one chunk; the parser will find its real kind when it is painted."""
        gap, kind, context = not self._first, "paragraph_open", ""
        if item is not None:
            kind = "ordered_list_open" if item[1][-1] in ".)" else "bullet_list_open"
            spaced, _, context = self._position(kind + item[1][-1], None)
            gap = gap and spaced
        return Chunk(kind, "".join(lines), gap, context=context)


def settled(source: str, draw: Callable[[str], list[Row]]) -> int:
    """The number of characters of `source` that make whole, final rows; the rest can be drawn alone. Often 0.

    The last row isn't final, nor one with something open that could still be closed. `draw` makes rows of Markdown.
    Two things come too late, without loss of text: bars that make the last line the head of a table, whose rows
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
    """The place in the source where the row after each of these begins, as far as it can be found."""
    shown, places = _as_shown(source)
    ends, at = list[int](), 0
    for row in rows:
        for character in "".join("".join(segment.text for segment in row).split()):
            at = shown.find(character, at) + 1
            if not at:
                return ends
        marks = _MARKS.match(shown, at)
        at = marks.end() if marks else at
        ends.append(places[at])
    return ends


def _as_shown(source: str) -> tuple[str, Sequence[int]]:
    """The source with its formulas as text, and the place in the source behind as many of its characters."""
    found = formulas(source)
    if not found:
        return source, range(len(source) + 1)
    parts, places, at = list[str](), [0], 0
    for start, stop, text in found:
        parts += [source[at:start], text]
        places += [*range(at + 1, start + 1), *[stop] * len(text)]
        at = stop
    return "".join([*parts, source[at:]]), [*places, *range(at + 1, len(source) + 1)]
