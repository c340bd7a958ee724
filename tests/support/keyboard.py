"""The stacks and modes of a terminal's keyboard, by what was written to it."""

from __future__ import annotations

import re

_CODES = re.compile(rb"\x1b\[(?:([<>=])(\d*)(?:;\d+)*u|\?([\d;]+)([hl]))")


def keyboard_after(sent: bytes, *, pushed: int = 0) -> tuple[list[int], set[int]]:
    """Kitty's stack of flags on the main screen (`pushed` was on it), and the modes of reports that are on.

        keyboard_after(b"\\x1b[>0u", pushed=1)      → ([1, 0], set())
    """
    stacks, screen, modes = {False: [pushed] if pushed else [], True: list[int]()}, False, set[int]()
    for sign, number, numbers, switch in _CODES.findall(sent):
        stack = stacks[screen]
        if sign == b">":
            stack.append(int(number or 0))
        elif sign == b"<":
            del stack[max(0, len(stack) - int(number or 1)) :]
        for mode in map(int, numbers.split(b";") if numbers else ()):
            if mode == 1049:
                screen = switch == b"h"
            (modes.add if switch == b"h" else modes.discard)(mode)
    return stacks[False], modes & {1004, 1000, 1002, 1003, 1006, 2004}
