"""From the raw output of a cell to the text that the model reads: bounded, without control characters."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable

from tools.characters import CONTROLS
from tools.python._kernel_inside import HEAD_CHARS, TAIL_CHARS

_ESCAPES = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS, SOS, PM, APC
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, the cursor
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(f"[{CONTROLS}]")


class Bounded:
    """Text of any length, of which the first `head` and the last `tail` characters are kept."""

    def __init__(self, head: int = HEAD_CHARS, tail: int = TAIL_CHARS) -> None:
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
        self._add_to_tail(text[len(taken) :])

    def _add_to_tail(self, text: str) -> None:
        if not text:
            return
        self._tail.append(text)
        self._tail_chars += len(text)
        while self._tail_chars - self._tail_limit >= len(self._tail[0]):
            gone = len(self._tail.popleft())
            self._tail_chars -= gone
            self.omitted += gone
        surplus = self._tail_chars - self._tail_limit
        if surplus > 0:
            self._tail[0] = self._tail[0][surplus:]
            self._tail_chars -= surplus
            self.omitted += surplus

    @property
    def head(self) -> str:
        return "".join(self._head)

    @property
    def tail(self) -> str:
        return "".join(self._tail)

    def ends_a_line(self) -> bool:
        last = self._tail[-1] if self._tail else (self._head[-1] if self._head else "\n")
        return last.endswith("\n")


def clean(text: str) -> str:
    r"""Without escape sequences and control characters; of a line that `\r` overwrote, what stood there last.

    `clean("10%\r100%\n\x1b[31mred\x1b[0m")` is `"100%\nred"`.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(_last_written(line) for line in text.split("\n"))
    # A forged message can hold half a surrogate pair, which no file and no terminal takes.
    return _CONTROLS.sub("", text).encode("utf-8", "replace").decode("utf-8")


def _last_written(line: str) -> str:
    return next((part for part in reversed(line.split("\r")) if part), "")


def trim(head: str, tail: str, omitted: int, *, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """`head + tail` if nothing is missing and it fits; else 3/4 of the tokens from the start and 1/4 from the end.

    Between them stands `[... N characters omitted]`, N being what was cut here plus `omitted`.
    """
    whole = head + tail
    if not omitted:
        if count_tokens(whole) <= max_tokens:
            return whole
        head = tail = whole
    start = head[: _longest(head, 3 * max_tokens // 4, count_tokens)]
    rest = tail if omitted else tail[len(start) :]
    reversed_length = _longest(rest, max_tokens // 4, count_tokens, from_end=True)
    end = rest[len(rest) - reversed_length :]
    missing = omitted + (len(whole) - len(start) - len(end) if omitted else len(rest) - len(end))
    if not missing:
        return start + end
    return f"{start.rstrip()}\n[... {missing} characters omitted]\n{end.lstrip()}"


def _longest(text: str, max_tokens: int, count_tokens: Callable[[str], int], *, from_end: bool = False) -> int:
    """The most characters of one end of `text` that have at most `max_tokens`, to 1 %."""

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
