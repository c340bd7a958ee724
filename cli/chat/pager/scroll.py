"""The transcript as rows, of which only those near the view are ever made.

A position is an item, a piece of it and a row of that piece, so that nothing above or below the view needs to be known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ossia.cli.chat.pager.sections import Page, Section, Switches, foldable, remembering, sections
from ossia.cli.terminal.markdown.paint import Painter, Row

if TYPE_CHECKING:
    from ossia.cli.chat.pager.items import Item
    from ossia.cli.chat.pager.transcript import Transcript


@dataclass(slots=True, eq=False)
class Piece:
    """A section and its rows, made when they are first asked for, and again for another width."""

    section: Section
    _width: int = 0
    _rows: list[Row] = field(default_factory=list)

    def rows(self, painter: Painter) -> list[Row]:
        """Its rows at the painter's width."""
        if self._width != painter.width:
            self._rows, self._width = self.section.rows(painter), painter.width
        return self._rows

    @property
    def drawn_rows(self) -> int:
        """The number of rows at the last drawing; 0: never drawn."""
        return len(self._rows)


@dataclass(slots=True, eq=False)
class Block:
    """An item in the view. `opened`: all of it is shown, whatever the switches say."""

    item: Item
    page: Page | None = None
    index: int = 0
    opened: bool = False
    _made: dict[tuple[bool, Switches], tuple[int, list[Piece]]] = field(default_factory=dict)

    def pieces(self, switches: Switches, *, opened: bool | None = None) -> list[Piece]:
        """Its pieces as they are shown, or would be when `opened`. Unchanged pieces stay the same objects."""
        key = (self.opened if opened is None else opened, switches)
        version, pieces = self._made.get(key, (-1, []))
        if version == self.item.version:
            return pieces
        known: dict[Section, list[Piece]] = {}
        for piece in {id(piece): piece for _, kept in self._made.values() for piece in kept}.values():
            known.setdefault(piece.section, []).append(piece)  # a text may hold the same piece twice
        made = [
            known[section].pop(0) if known.get(section) else Piece(section)
            for section in sections(self.item, switches, opened=key[0], page=self.page)
        ]
        self._made = {other: kept for other, kept in self._made.items() if kept[0] == self.item.version}
        self._made[key] = (self.item.version, made)
        return made

    def foldable(self, switches: Switches) -> bool:
        return foldable(self.item, switches)


@dataclass(frozen=True, slots=True)
class Line:
    """A row on the screen: where it is from, and itself."""

    block: Block
    piece: Piece
    number: int
    row: Row


class View:
    """The reader's view: a place in the transcript, and the switches.

    `follow`: the view stays at the end as the transcript grows.
    """

    def __init__(self, transcript: Transcript, painter: Painter, *, page: Page | None = None) -> None:
        self.transcript, self.painter = transcript, painter
        self._page = remembering(page) if page else None
        self.switches = Switches()
        self.blocks: list[Block] = []
        self.follow = True
        self.more_below = False
        self.lines: list[Line] = []
        self._version = -1
        self._block, self._piece, self._row = 0, 0, 0  # the first row of the view

    # -- the items -------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Take in the changes of the transcript."""
        if self._version == self.transcript.version:
            return
        self._version = self.transcript.version
        known = {id(block.item): block for block in self.blocks}
        top = self.blocks[self._block] if self._block < len(self.blocks) else None
        self.blocks = [known.get(id(item)) or Block(item, self._page) for item in self.transcript.items]
        for index, block in enumerate(self.blocks):
            block.index = index
        if top is not None and top.index < len(self.blocks) and self.blocks[top.index] is top:
            self._block = top.index

    def pieces(self, block: Block) -> list[Piece]:
        return block.pieces(self.switches)

    # -- drawing -------------------------------------------------------------------------------------------------------

    def draw(self, width: int, height: int) -> list[Line]:
        """The rows of a view of this size."""
        self.sync()
        self._resize(width)
        self._clamp()
        if self.follow:
            self._to_end(height)
        lines = self._collect(height)
        if len(lines) < height and not self.follow:  # the end is in view, with room below it
            self._to_end(height)
            lines = self._collect(height)
        self.more_below = len(lines) > height
        self.lines = lines[:height]
        return self.lines

    def _collect(self, height: int) -> list[Line]:
        """The rows from the top of the view on, one more than there is room for."""
        lines: list[Line] = []
        skip = self._row
        for block, piece in self._forward(self._block, self._piece):
            rows = piece.rows(self.painter)
            lines += [Line(block, piece, number, rows[number]) for number in range(skip, len(rows))]
            skip = 0
            if len(lines) > height:
                break
        return lines[: height + 1]

    def _resize(self, width: int) -> None:
        """Take a new width. The row at the top is then the one that is as far into its piece as before."""
        if width == self.painter.width:
            return
        self._clamp()
        pieces = self.pieces(self.blocks[self._block]) if self._block < len(self.blocks) else []
        top = pieces[self._piece : self._piece + 1]
        before = sum(piece.drawn_rows for piece in top)
        self.painter.width = width
        if before:
            self._row = self._row * len(top[0].rows(self.painter)) // before

    def _clamp(self) -> None:
        """Correct a top that became shorter, or is gone."""
        if self._block >= len(self.blocks):
            self._block, self._piece, self._row = max(0, len(self.blocks) - 1), 0, 0
        if self.blocks:
            pieces = self.pieces(self.blocks[self._block])
            if self._piece >= len(pieces):
                self._piece, self._row = max(0, len(pieces) - 1), 0

    def begin(self, *, follow: bool) -> None:
        """Begin at the end and follow it, or, while the user is asked about a call, at that; else at the top."""
        self.sync()
        self.follow = follow
        asked = next((block for block in reversed(self.blocks) if block.item.state == "asked"), None)
        if follow and asked:
            self.to(asked)

    # -- moving --------------------------------------------------------------------------------------------------------

    def scroll(self, rows: int, height: int) -> None:
        """Move by so many rows, towards the end if positive; at the end the view follows."""
        if rows < 0:
            self._up(-rows)
            self.follow = False
        else:
            self._down(rows)
            if len(self._collect(height)) <= height:
                self.follow = True

    def to_start(self) -> None:
        """To the first row."""
        self._block, self._piece, self._row, self.follow = 0, 0, 0, False

    def to_end(self) -> None:
        """To the end, and stay there."""
        self.follow = True

    def to(self, block: Block, piece: int = 0, row: int = 0, *, above: int = 0) -> None:
        """Bring this row to the top, or below `above` rows."""
        self._block, self._piece, self._row, self.follow = block.index, piece, row, False
        self._up(above)

    def to_turn(self, step: int) -> None:
        """To the next turn (1), or to the beginning of this one, then to the one before (-1)."""
        self.sync()
        here = self._block
        users = [block for block in self.blocks if block.item.kind == "user" and not block.item.steers]
        at_head = self._piece == 0 and self._row <= 1
        if step > 0:
            target = next((block for block in users if block.index > here), None)
        else:
            before = [block for block in users if block.index < here or (block.index == here and not at_head)]
            target = before[-1] if before else None
        if target is not None:
            self.to(target)
        elif step > 0:
            self.to_end()
        else:
            self.to_start()

    def _down(self, rows: int) -> None:
        left = rows + self._row
        for block, piece in self._forward(self._block, self._piece):
            self._block, self._piece = block.index, self.pieces(block).index(piece)
            count = len(piece.rows(self.painter))
            if left < count:
                break
            left -= count
        self._row = max(0, min(left, len(piece.rows(self.painter)) - 1)) if self.blocks else 0

    def _up(self, rows: int) -> None:
        left = rows - self._row
        if left <= 0:
            self._row -= rows
            return
        for block, piece in self._backward(self._block, self._piece):
            left -= len(piece.rows(self.painter))
            self._block, self._piece = block.index, self.pieces(block).index(piece)
            if left <= 0:
                self._row = -left
                return
        self._block, self._piece, self._row = 0, 0, 0

    def _to_end(self, height: int) -> None:
        self._block, self._piece, self._row = len(self.blocks), 0, 0
        self._up(height)

    def _forward(self, block: int, piece: int) -> Iterator[tuple[Block, Piece]]:
        for one in self.blocks[block:]:
            yield from ((one, part) for part in self.pieces(one)[piece:])
            piece = 0

    def _backward(self, block: int, piece: int) -> Iterator[tuple[Block, Piece]]:
        """The pieces before, nearest first."""
        if block < len(self.blocks):
            one = self.blocks[block]
            yield from ((one, part) for part in reversed(self.pieces(one)[:piece]))
        for one in reversed(self.blocks[:block]):
            yield from ((one, part) for part in reversed(self.pieces(one)))
