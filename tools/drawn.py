"""The text on a terminal's screen after a program's output: progress drawn again and again is one line."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC: titles, links, the clipboard
    r"|\x1b[PX^_](?:[^\x1b]*\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)(?P<private>[<-?]?)(?P<numbers>[0-9;:]*)(?P<final>[@-~])"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # other CSI
    r"|\x1b(?P<saved>[78])"
    r"|\x1b[ -/]*[0-~]?"
    r"|(?P<move>[\r\n\b])"
    r"|(?P<plain>[^\x00-\x08\x0a-\x1f\x7f-\x9f]+)"
)
_ROWS = 50
"""Rows that can still be drawn over: the ones above have left the screen."""
_COLUMNS = 250
"""The furthest that a move goes beyond a row's end."""
_OTHER_SCREEN = ("47", "1047", "1049")


def drawn(text: str) -> str:
    r"""The text on the screen after `text`. Time and memory are linear in its length.

    `drawn("a 10%\nb 5%\x1b[A\ra 100%\n\x1b[Kb 7%")` is `"a 100%\nb 7%"`. Colours, titles and other controls are left
    out. Lines aren't wrapped, each character is one column, a tab stays a tab. What was drawn on the alternate screen
    is gone once that is left.
    """
    screen = _Screen()
    for token in _TOKEN.finditer(text):
        if plain := token["plain"]:
            screen.write(plain)
        elif move := token["move"]:
            screen.move(move)
        elif final := token["final"]:
            screen.control(token["private"], token["numbers"], final)
        elif saved := token["saved"]:
            screen.control("", "", "s" if saved == "7" else "u")
    return screen.text()


class _Screen:
    def __init__(self) -> None:
        self._rows: list[list[str]] = [[]]
        self._drawn_over: set[int] = set()
        self._row = self._column = 0
        self._saved = (0, 0)
        self._main: tuple[list[list[str]], set[int], int, int] | None = None  # while the alternate screen is shown

    def text(self) -> str:
        own = (("".join(row), number in self._drawn_over) for number, row in enumerate(self._rows))
        lines = "\n".join(line.rstrip(" ") if over else line for line, over in own)
        if self._main is None:
            return lines
        self._leave()
        return f"{self.text()}\n{lines}"

    def write(self, plain: str) -> None:
        row = self._rows[self._row]
        column = min(self._column, len(row) + _COLUMNS)
        if column != len(row):
            self._drawn_over.add(self._row)
            row.extend(" " * (column - len(row)))
        row[column : column + len(plain)] = plain
        self._column = column + len(plain)

    def move(self, char: str) -> None:
        if char == "\b":
            self._column = max(0, self._column - 1)
            return
        self._column = 0
        if char == "\n":
            self._row += 1
            if self._row == len(self._rows):
                self._rows.append([])

    def control(self, private: str, numbers: str, final: str) -> None:
        if private:
            if private == "?" and numbers in _OTHER_SCREEN and final in "hl":
                self._enter() if final == "h" else self._leave()
            return
        first, second = ([int(number[:4] or 0) for number in numbers.replace(":", ";").split(";")] + [0])[:2]
        top, count = self._top(), max(1, first)
        match final:
            case "A" | "F":
                self._row = max(top, self._row - count)
            case "B" | "E":
                self._row = min(len(self._rows) - 1, self._row + count)
            case "C":
                self._column += count
            case "D":
                self._column = max(0, self._column - count)
            case "H" | "f":
                self._row = min(len(self._rows) - 1, top + count - 1)
            case "J" | "K":
                self._erase(first, final)
            case "s":
                self._saved = (self._row, self._column)
            case "u":
                self._row, self._column = max(top, self._saved[0]), self._saved[1]
        if final in "EFGHf":
            self._column = {"G": count, "H": max(1, second), "f": max(1, second)}.get(final, 1) - 1

    def _top(self) -> int:
        return max(0, len(self._rows) - _ROWS)

    def _erase(self, what: int, final: str) -> None:
        """From the cursor on (0), or all of it (2), on its row (K) or the screen (J). 1 and 3 are rare."""
        if what not in (0, 2):
            return
        del self._rows[self._row][0 if what else self._column :]
        self._drawn_over.add(self._row)
        if final == "J":
            for number in range(self._top() if what else self._row + 1, len(self._rows)):
                self._rows[number] = []

    def _enter(self) -> None:
        if self._main is None:
            self._main = self._rows, self._drawn_over, self._row, self._column
            self._rows, self._drawn_over, self._row, self._column = [[]], set(), 0, 0

    def _leave(self) -> None:
        if self._main is not None:
            self._rows, self._drawn_over, self._row, self._column = self._main
            self._main = None
