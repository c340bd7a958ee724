"""Text for a model or a person: without characters that control instead of being read, and not too long.

`readable` and `trim` are for the result of any tool. `Bounded` and `clean` are for a program's output, which may be
endless and is written for a terminal.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

# -- sets for a regular expression's brackets: characters that act instead of being read, or that nobody sees ----------

CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
r"""C0 but `\t` and `\n`, DEL, C1 (0x9b alone begins an escape sequence)."""

REORDERS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Unicode's bidi marks, embeddings, overrides, isolates."""

TAGS: Final = "\U000e0000-\U000e007f"
"""Tags, an invisible alphabet: text can be hidden in them."""

BROKEN: Final = "\ud800-\udfff"
"""Lone surrogates: they can't be encoded at all."""

PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
"""Typographic dashes, quotes and blanks, and the plain ones typed instead of them."""

_CONTROLS = re.compile(f"[{CONTROLS}]")
_DRAWS = re.compile("[\x08\r\x1b\x9b]")
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[(-/][0-~])"
    # colours and moves; titles, clipboards, links; character sets, as `tput sgr0` writes them
)
_ACTS = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}]")
_CHARS_PER_TOKEN = 16
"""A token seldom has more (o200k's mean is 4): a longer text is too long, without counting."""
_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)


def readable(text: str) -> str:
    r"""The text without terminal sequences, controls (except `\n`, `\t`), bidi controls, tags and lone surrogates.

    `\r\n` and `\r` become `\n`. `readable("\x1b[31mred\x1b[0m\r\n")` is `"red\n"`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return _ACTS.sub("", text).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str, max_chars: int) -> str:
    """`text` on one line: blanks, line ends and invisible characters become single blanks; cut with an ellipsis.

    Terminal sequences are dropped: `one_line("\x1b[31mred\x1b[0m", 9)` is `"red"`.
    """
    flat = " ".join(_UNSEEN.sub(" ", _SEQUENCE.sub("", text[: max_chars * 4])).split())
    return flat if len(flat) <= max_chars else f"{flat[: max(0, max_chars - 1)].rstrip()}…"


def has_unseen(text: str) -> bool:
    """True if it holds invisible characters, such as controls and zero-width spaces."""
    return _UNSEEN.search(text) is not None


def without_middle(text: str, head: int, tail: int) -> str:
    """The first `head` and last `tail` characters around `[... N characters omitted]`; all of a shorter text."""
    cut = len(text) - head - tail
    return text if cut <= 0 else f"{text[:head]}\n{_omission(cut)}\n{text[len(text) - tail :]}"


def _omission(chars: int) -> str:
    return f"[... {chars} characters omitted]"


class Bounded:
    """Collects text of any length, and keeps its first `head` and last `tail` characters."""

    def __init__(self, head: int = 150_000, tail: int = 50_000) -> None:
        self._head_room, self._tail_limit = head, tail
        self._head: list[str] = []
        self._tail: deque[str] = deque()
        self._tail_chars = 0
        self.omitted = 0

    def add(self, text: str) -> None:
        taken = text[: self._head_room]
        self._head_room -= len(taken)
        if taken:
            self._head.append(taken)
        if len(taken) == len(text):
            return
        self._tail.append(text[len(taken) :])
        self._tail_chars += len(text) - len(taken)
        surplus = max(0, self._tail_chars - self._tail_limit)
        self._tail_chars -= surplus
        self.omitted += surplus
        while surplus and surplus >= len(self._tail[0]):
            surplus -= len(self._tail.popleft())
        if surplus:
            self._tail[0] = self._tail[0][surplus:]

    @property
    def head(self) -> str:
        return "".join(self._head)

    @property
    def tail(self) -> str:
        return "".join(self._tail)

    def cleaned(self, max_tokens: int, count: Callable[[str], int], *, first: Callable[[str], str] = str) -> str:
        """The text for a model: through `first`, cleaned and trimmed, without line ends at its end."""
        head, tail = self.head, self.tail
        if not self.omitted:  # as one text: a path or an escape sequence may lie across the seam
            head, tail = head + tail, ""
        head, tail = clean(first(head)), clean(first(tail))
        return trim(head, tail, self.omitted, max_tokens=max_tokens, count_tokens=count).rstrip("\n")

    def ends_a_line(self) -> bool:
        last = self._tail[-1] if self._tail else (self._head[-1] if self._head else "\n")
        return last.endswith("\n")


def clean(text: str) -> str:
    r"""The text on a terminal's screen after `text`: `clean("10%\r100%\n\x1b[31mred\x1b[0m")` is `"100%\nred"`."""
    text = text.replace("\r\n", "\n")
    if _DRAWS.search(text):
        text = _drawn(text)
    # A forged message can hold lone surrogates, which no file and no terminal accepts.
    return _CONTROLS.sub("", text).encode("utf-8", "replace").decode("utf-8")


def trim(
    head: str, tail: str = "", omitted: int = 0, *, max_tokens: int, count_tokens: Callable[[str], int]
) -> str:
    """`head + tail` if nothing is missing and it fits; else 3/4 of the tokens from the start and 1/4 from the end.

    Between them stands `[... N characters omitted]`, where N includes the `omitted` between head and tail.
    """
    whole = head + tail
    if not omitted:
        if len(whole) <= max_tokens * _CHARS_PER_TOKEN and count_tokens(whole) <= max_tokens:
            return whole
        head = tail = whole
    start = head[: _longest(head, 3 * max_tokens // 4, count_tokens)]
    rest = tail if omitted else tail[len(start) :]
    reversed_length = _longest(rest, max_tokens // 4, count_tokens, from_end=True)
    end = rest[len(rest) - reversed_length :]
    missing = omitted + (len(whole) - len(start) - len(end) if omitted else len(rest) - len(end))
    if not missing:
        return start + end
    return f"{start.rstrip()}\n{_omission(missing)}\n{end.lstrip()}"


def fair_limit(counts: Sequence[int], total: int) -> int:
    """The largest limit for each count with which they add up to at most `total`. `fair_limit([9, 2, 5], 10)` is 4."""
    left = total
    for at, count in enumerate(ordered := sorted(counts)):
        share = left // (len(ordered) - at)
        if count > share:
            return share
        left -= count
    return max(counts, default=0)


def _longest(text: str, max_tokens: int, count_tokens: Callable[[str], int], *, from_end: bool = False) -> int:
    """The number of characters from one end of `text` within `max_tokens`, to 1 %."""

    def fits(length: int) -> bool:
        return count_tokens(text[len(text) - length :] if from_end else text[:length]) <= max_tokens

    good, bad = 0, min(len(text), max(64, 2 * max_tokens))
    while fits(bad):
        if bad == len(text):
            return bad
        good, bad = bad, min(len(text), 2 * bad)
    while bad - good > max(1, bad // 100):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


# -- the screen of a terminal: progress drawn again and again is one line ----------------------------------------------

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
"""The rows of the screen, which can be drawn over."""
_COLUMNS = 250
"""The furthest move beyond a row's end."""
_OTHER_SCREEN = ("47", "1047", "1049")


def _drawn(text: str) -> str:
    r"""The text on the screen after `text`. Time and memory are linear in its length.

    `_drawn("a 10%\nb 5%\x1b[A\ra 100%\n\x1b[Kb 7%")` is `"a 100%\nb 7%"`. Colours, titles and other controls are left
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
