"""A terminal emulator: pyte, with what it lacks of a terminal of today."""

from __future__ import annotations

import re
from collections import deque
from copy import deepcopy
from typing import Any

import pyte

_ALTERNATE = 1049
_SIGNS = re.compile("([\U0001f1e6-\U0001f1ff]{2}|.(?:[\ufe0f\U0001f3fb-\U0001f3ff]|\u200d.)+)")
_HISTORY_ROWS = 50_000

Stream = pyte.ByteStream


class Rows(pyte.Screen):
    """pyte's screen, with what has scrolled away in `history`; its `HistoryScreen` takes three times as long."""

    def __init__(self, columns: int, rows: int) -> None:
        self.history: deque[Any] = deque(maxlen=_HISTORY_ROWS)
        super().__init__(columns, rows)

    @property
    def shown(self) -> list[str]:
        """The rows on screen."""
        return [self._text(self.buffer[y]) for y in range(self.lines)]

    @property
    def gone(self) -> list[str]:
        """The rows that have scrolled away."""
        return [self._text(line) for line in self.history]

    def _text(self, line: Any) -> str:
        return "".join([line[x].data for x in range(self.columns)]).rstrip() if line else ""

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom:
            self.history.append(self.buffer[top])
        super().index()

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        if self.cursor.attrs != self.default_char:
            super().erase_in_line(how, private)
            return
        line, x = self.buffer[self.cursor.y], self.cursor.x
        for erased in [at for at in line if how == 2 or (at >= x if how == 0 else at <= x)]:
            del line[erased]

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        super().erase_in_display(how, *args, **kwargs)
        if how == 3:
            self.history.clear()

    def reset(self) -> None:
        self.history.clear()
        super().reset()


class Emulator(Rows):
    """Its screen. Joined emoji and flags are one sign of two columns, as in kitty; an alternate screen goes again."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__(columns, rows)
        self._main: Any = None

    def draw(self, data: str) -> None:
        for number, part in enumerate([data] if data.isascii() else _SIGNS.split(data)):
            super().draw("漢" if number % 2 else part)
            if number % 2:
                line, x = self.buffer[self.cursor.y], self.cursor.x - 2
                line[x] = line[x]._replace(data=part)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if _ALTERNATE in modes:
            self._main = deepcopy((self.buffer, self.cursor))
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        if _ALTERNATE in modes and self._main:
            self.buffer, self.cursor = self._main
        super().reset_mode(*modes, **kwargs)
