"""Text in pieces → complete lines, long ones broken: on the screen only, what is stored and copied is the original."""

from __future__ import annotations

from collections.abc import Callable, Iterator

_FURTHER = 200  # characters in which a blank is looked for


class LongLines:
    """Keeps the line that has no end yet."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self.column = 0  # how many characters it has

    @property
    def partial(self) -> str:
        """The line that has no end yet."""
        return "".join(self._pieces)

    def fits(self, text: str, limit: int) -> bool:
        """True if the text neither ends the line nor makes it too long; then it is kept."""
        if "\n" in text or self.column + len(text) > limit:
            return False
        self._pieces.append(text)
        self.column += len(text)
        return True

    def drop(self, characters: int) -> None:
        """Forget the beginning of the line that has no end yet; it is broken where it would have been."""
        self._pieces = [self.partial[max(0, characters) :]]

    def push(self, text: str, limit: Callable[[], int]) -> Iterator[str]:
        """The lines that the text completes; `limit` is asked for each, as a line decides what the next is part of."""
        at = 0
        while at < len(text):
            longest = limit()
            end = text.find("\n", at, at + max(0, longest - self.column) + 1)
            stop = end + 1 if end >= 0 else self._break(text, at, longest)
            piece = text[at:stop]
            at, self.column = stop, self.column + len(piece)
            if self.column > longest and piece[-1] != "\n" and (piece[-1] == " " or self.column > longest + _FURTHER):
                piece = piece.removesuffix(" ") + "\n"
            self._pieces.append(piece)
            if piece.endswith("\n"):
                line = self.partial
                self._pieces, self.column = [], 0
                yield line

    def _break(self, text: str, at: int, limit: int) -> int:
        """Where the piece of a line without an end stops: the limit, then the blank or line end after it."""
        if self.column < limit:
            return at + limit - self.column
        hard = at + max(1, limit + _FURTHER + 1 - self.column)
        found = [stop for stop in (text.find(" ", at, hard), text.find("\n", at, hard)) if stop >= 0]
        return min(found) + 1 if found else hard
