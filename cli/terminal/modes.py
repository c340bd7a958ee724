"""What a program before ours, or a setting, may have made the terminal send: switched off while ossia reads keys.

Kitty's keyboard protocol has a stack: ours is pushed and popped (kitty, VS Code, foot, Ghostty, WezTerm, iTerm2).
modifyOtherKeys becomes again what the user set. Reports of the mouse and of focus, and the application's cursor keys
and keypad, stay off: who leaves them on has ended.
"""

from __future__ import annotations

import re

PLAIN_KEYS = "\x1b[>0u\x1b[>4;0m\x1b[?9;1000;1002;1003;1004;1005;1006;1015;1l\x1b>"
KEYS_BACK = "\x1b[<u\r\x1b[K\x1b[>4;m"
"""To be written on an empty row: a terminal that can't read the first sequence may print its last letter."""

_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[P\]X^_][^\x00-\x1f]*(?:\x1b\\|\x07)|O[ -~])")


def without_sequences(line: str) -> str:
    """A line that was read as the terminal has it, without what the terminal sent of itself."""
    return _SEQUENCES.sub("", line)


def has_modes(term: str) -> bool:
    """Can a terminal of this kind have such modes? `dumb` has none, Linux's console would print the sequences."""
    return term not in ("dumb", "linux", "")
