"""Finding a text in the transcript, even where nothing was painted yet, and across the ends of rows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from ossia.cli.chat.pager.scroll import Block, Line, Piece, View
from ossia.cli.clean import clean_flat
from ossia.cli.terminal.markdown.paint import Painter, Row

Spans = list[tuple[int, int, int]]
"""One hit: for each row that it touches, the row's number in its piece, and where the hit begins and ends in it."""

_SOFT = "\x1f"  # stands between two rows of one line; clean text never has it
_MARKS = r"*_`~\\"  # Markdown's marks, which are in the source but not on the screen; for a character class
_MAX_PAINTED = 20  # pieces that are painted only to count their hits; 10 ms each


class Query:
    """A text to find: case doesn't matter, and a blank stands for any number of blanks.

    Query("two words").hits(piece, painter)      # their places on the piece's rows
    """

    def __init__(self, text: str) -> None:
        self.text = clean_flat(text)
        words = self.text.split()
        on_rows = rf"[\s{_SOFT}]+".join(f"{_SOFT}?".join(map(re.escape, word)) for word in words)
        in_source = rf"[\s{_MARKS}]+".join(map(_loose, words))
        self._on_rows = re.compile(on_rows, re.IGNORECASE) if words else None
        self._in_source = re.compile(in_source, re.IGNORECASE) if words else None
        self._guessed: dict[Piece, int] = {}
        self._found: dict[Piece, tuple[int, list[Spans]]] = {}

    def guess(self, piece: Piece) -> int:
        """The number of hits in the piece's source: about as many as its rows have."""
        if piece not in self._guessed:
            found = self._in_source.findall(piece.section.source) if self._in_source else []
            self._guessed[piece] = len(found)
        return self._guessed[piece]

    def hits(self, piece: Piece, painter: Painter) -> list[Spans]:
        """The hits on the piece's rows, in order."""
        width, hits = self._found.get(piece, (0, []))
        if width != painter.width:
            hits = self._search(piece.rows(painter), painter.width)
            self._found[piece] = (painter.width, hits)
        return hits

    def count(self, piece: Piece, painter: Painter) -> tuple[int, bool]:
        """The number of hits, and True if it is certain."""
        if piece in self._found:
            return len(self.hits(piece, painter)), True
        return self.guess(piece), self.guess(piece) == 0

    def _search(self, rows: list[Row], width: int) -> list[Spans]:
        if self._on_rows is None:
            return []
        texts = ["".join(segment.text for segment in row) for row in rows]
        starts, joined = [], []
        at = 0
        for row, text in zip(rows, texts, strict=True):
            starts.append(at)
            full = sum(segment.cell_length for segment in row) >= width - 1
            joined.append(text + (_SOFT if full else "\n"))
            at += len(text) + 1
        return [
            list(_spans(match.start(), match.end(), starts, texts)) for match in self._on_rows.finditer("".join(joined))
        ]


def _loose(word: str) -> str:
    """A pattern: the word, with any marks between its letters, but not beside a mark in it: that takes for ever."""
    done = re.escape(word[0])
    for before, char in pairwise(word):
        done += ("" if before in _MARKS or char in _MARKS else f"[{_MARKS}]*") + re.escape(char)
    return done


def _spans(start: int, stop: int, starts: list[int], texts: list[str]) -> Iterator[tuple[int, int, int]]:
    for number in range(bisect_right(starts, start) - 1, len(starts)):
        begin, end = max(0, start - starts[number]), min(len(texts[number]), stop - starts[number])
        if starts[number] >= stop:
            return
        if begin < end:
            yield number, begin, end


@dataclass(slots=True)
class Finder:
    """A search in a view: the current hit, and the number of all."""

    view: View
    query: Query
    wrapped: bool = False
    _at: tuple[Piece, int] | None = None  # the hit: its piece, and its number in it
    _pieces: list[tuple[Block, Piece]] = field(default_factory=list)
    _made_of: object = None
    _painted: int = 0

    def step(self, forward: bool, height: int) -> None:
        """Go to the next hit, or the one before, if there is one; wrap around at the end."""
        self.wrapped = False
        pieces = self._all()
        if not pieces:
            return
        start = self._start(pieces)
        for away in range(len(pieces) + 1):
            number = start + (away if forward else -away)
            block, piece = pieces[number % len(pieces)]
            found = self._in_piece(piece, forward, first=away == 0)
            if found is not None:
                self.wrapped = not 0 <= number < len(pieces)
                self._at = (piece, found)
                self._show(block, piece, found, height)
                return

    def marks(self, line: Line) -> list[tuple[int, int, bool]]:
        """The hits on this row: begin and end of each, and True for the current one."""
        hits = self.query.hits(line.piece, self.view.painter)
        return [
            (begin, end, self._at == (line.piece, number))
            for number, hit in enumerate(hits)
            for row, begin, end in hit
            if row == line.number
        ]

    @property
    def where(self) -> str:
        """`3 of 17`; `3 of ~1,700` where some pieces that hold the text weren't painted yet; `none`.

        Text that is switched off isn't searched, but its hits are counted: `none · 3 in hidden thinking: t shows it`.
        """
        painter, at, total, sure = self.view.painter, 0, 0, True
        for _, piece in self._all():
            count, known = self.query.count(piece, painter)
            if not known and self._painted < _MAX_PAINTED:
                count, known, self._painted = len(self.query.hits(piece, painter)), True, self._painted + 1
            if self._at and piece is self._at[0]:
                at = total + self._at[1] + 1
            total, sure = total + count, sure and known
        parts = [f"{at or '–'} of {'' if sure else '~'}{total:,}" if total else "none"]
        parts += ["around"] if self.wrapped else []
        for kind, what, key in (("thinking", "thinking", "t"), ("call", "output", "o")):
            if hidden := self._hidden(kind):
                parts.append(f"{hidden:,}{' more' if total else ''} in hidden {what}: {key} shows it")
        return " · ".join(parts)

    def _hidden(self, kind: str) -> int:
        """The approximate number of hits in the parts of these items that are switched off."""
        view, hidden = self.view, 0
        for block in view.blocks:
            if block.item.kind == kind and not self._whole(block):
                shown, whole = (block.pieces(view.switches, opened=opened) for opened in (False, True))
                hidden += max(0, sum(map(self.query.guess, whole)) - sum(map(self.query.guess, shown)))
        return hidden

    def _all(self) -> list[tuple[Block, Piece]]:
        """Every piece that the switches show, with long results whole."""
        view = self.view
        view.sync()
        made_of = (view.transcript.version, view.switches, sum(block.opened for block in view.blocks))
        if made_of != self._made_of:
            self._made_of = made_of
            whole = ((block, block.pieces(view.switches, opened=self._whole(block))) for block in view.blocks)
            self._pieces = [(block, piece) for block, pieces in whole for piece in pieces]
        return self._pieces

    def _whole(self, block: Block) -> bool:
        shown = {"call": self.view.switches.output, "thinking": self.view.switches.thinking}
        return block.opened or shown.get(block.item.kind, True)

    def _start(self, pieces: list[tuple[Block, Piece]]) -> int:
        """The piece to begin with: that of the hit, else that at the top of the view."""
        if self._at:
            found = next((number for number, (_, piece) in enumerate(pieces) if piece is self._at[0]), None)
            if found is not None:
                return found
        self._at = None
        top = self.view.lines[0] if self.view.lines else None
        if top is None:
            return 0
        same = [number for number, (_, piece) in enumerate(pieces) if piece is top.piece]
        return same[0] if same else next((n for n, (b, _) in enumerate(pieces) if b.index >= top.block.index), 0)

    def _in_piece(self, piece: Piece, forward: bool, *, first: bool) -> int | None:
        """The number of the hit to go to in this piece, if there is one."""
        if not self.query.guess(piece) and not (self._at and self._at[0] is piece):
            return None
        hits = self.query.hits(piece, self.view.painter)
        if first and self._at and self._at[0] is piece:
            number = self._at[1] + (1 if forward else -1)
            return number if 0 <= number < len(hits) else None
        if first and self.view.lines and self.view.lines[0].piece is piece and self._at is None:
            after = [number for number, hit in enumerate(hits) if (hit[0][0] >= self.view.lines[0].number) is forward]
            return (after[0] if forward else after[-1]) if after else None
        return (0 if forward else len(hits) - 1) if hits else None

    def _show(self, block: Block, piece: Piece, found: int, height: int) -> None:
        """Bring the hit into the view, a third from the top; if it is in view already, nothing moves."""
        view = self.view
        if piece not in view.pieces(block):
            block.opened = True
        row = self.query.hits(piece, view.painter)[found][0][0]
        if any(line.piece is piece and line.number == row for line in view.lines):
            view.follow = False
            return
        view.to(block, view.pieces(block).index(piece), row, above=height // 3)
