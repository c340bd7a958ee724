"""Detection of a model's endless repetition."""

from __future__ import annotations

import re
import zlib
from array import array
from collections.abc import Sequence

LOOK_EVERY = 64
"""The ids from one check to the next: checking 8,192 ids takes 0.3 ms (measured on an idle machine)."""
_BLOCK_IDS, _BLOCKS = 32, 8
_BOUND_IDS, _BOUND_BLOCK_IDS = 512, 170
"""Text that may repeat: so many ids must be nothing but one block, a line or function: longer ones may be records."""
_BEFORE_IDS, _TIMES = 128, 4
"""So many ids may stand before the block, as JSON does; behind more of them, it must go on as many times longer."""
WINDOW_IDS = 8192
_WIDTH = array("i").itemsize
_CHARS, _PHRASE_CHARS = 8, 64
"""The characters that count as an id, since one may have that many (`AAAAAAAA`); of a block at most."""
_RUNS = re.compile(r"([\W_])\1+")
_NUMBER_CHARS, _ALIKE = 2000, 0.1
_NUMBER = re.compile(rf"\d{{{_NUMBER_CHARS}}}\Z")
"""A number that goes on and on, as 777…776666…: digits by chance keep half of their length, and bits a fifth."""
_END_CHARS, _MONOTONOUS = 3000, 0.03
_FENCE = re.compile(r"\s*(?:(?:>|[-*+]|\d{1,9}[.)])\s*)*(```+|~~~+)")  # in a list or a quotation, too


def repeats(ids: Sequence[int], *, may: bool = False, body: int = 0) -> bool:
    """Do `ids` end with 8 identical blocks of 32 ids or more (1,024 at the most)?

    `repeats([5, 6, 7] * 90)` is true: blocks of 33 ids. `repeats([5, 6, 7] * 80)` isn't yet. `may`: it is a call or a
    structured answer, where some repetition is normal: only 512 ids or more of one block of up to 170 ids count, and
    2,048 where they stand behind other text. `body`: how many of the ids are the message's own text.
    """
    longest = _BOUND_BLOCK_IDS if may else WINDOW_IDS
    return _ends_in_blocks(array("i", ids[-WINDOW_IDS:]).tobytes(), 1, longest, may=may, body=body)


def repeats_as_text(text: str, *, may: bool = False, body: int = 0) -> bool:
    """Does `text` end so, however it was cut into ids (`111|11|1|111`)? Or in a number of 2,000 digits, nearly alike?

    An id counts as 8 characters; a block has at most 64, as a number or a phrase. Runs of one mark or blank count as
    one character: boxes and tables are drawn with them. `body`: as in `repeats`, in characters.
    """
    squeezed = _RUNS.sub(r"\1", text)
    number = _NUMBER.match(squeezed, max(0, len(squeezed) - _NUMBER_CHARS))
    if number and _share_of_new(number[0]) < _ALIKE:
        return True
    return _ends_in_blocks(squeezed.encode("utf-32-le"), _CHARS, _PHRASE_CHARS, may=may, body=body)


def is_monotonous(text: str) -> bool:
    """True if the end of `text` says the same again and again, with small changes. A large grid of zeros does, too."""
    end = _RUNS.sub(r"\1", text)[-_END_CHARS:]
    return len(end) == _END_CHARS and _share_of_new(end) < _MONOTONOUS


def _share_of_new(text: str) -> float:
    """The size of a compressed text, as a part of its own: prose 0.4, a count 0.27, numbered rows of zeros 0.03."""
    data = text.encode("utf-8", "replace")
    return len(zlib.compress(data)) / len(data)


def _ends_in_blocks(data: bytes, scale: int, longest: int, *, may: bool, body: int) -> bool:
    """As `repeats`, for values of 4 bytes, `scale` of which stand for an id, in blocks of at most `longest`."""
    least = (_BOUND_IDS if may else _BLOCK_IDS * _BLOCKS) * scale * _WIDTH
    if len(data) < least:
        return False
    last = _BLOCK_IDS * scale * _WIDTH
    period = _period(data, last)
    block = period * -(-last // period) if period else 0
    if not block or period > longest * _WIDTH:
        return False
    whole = max(block * _BLOCKS, least)
    if body * _WIDTH > whole + _BEFORE_IDS * scale * _WIDTH:
        whole *= _TIMES
    return whole <= len(data) and data[-whole:-period] == data[-whole + period :]


def _period(data: bytes, block: int) -> int:
    """The distance in bytes between the last `block` bytes and their previous occurrence; 0: it is the first."""
    last, end = data[-block:], len(data) - 1
    while (found := data.rfind(last, 0, end)) >= 0:
        distance = len(data) - len(last) - found
        if distance % _WIDTH == 0:
            return distance
        end = found + len(last) - 1
    return 0


def in_code(text: str) -> bool:
    """True if `text` ends inside a block of code, fenced or indented. Repetition is normal there."""
    fence, line = "", ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        mark = found[1] if found else ""
        if not fence:
            fence = mark
        elif mark.startswith(fence):
            fence = ""
    return bool(fence) or line.startswith(("    ", "\t"))
