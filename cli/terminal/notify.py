"""Notifications of the desktop, sent by the terminal: OSC 9, or OSC 777 where a terminal knows only that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ossia.cli.clean import clean, one_line

FOCUS_REPORTS, NO_FOCUS_REPORTS = "\x1b[?1004h", "\x1b[?1004l"
FOCUS: Final[Mapping[str, bool]] = {"\x1b[I": True, "\x1b[O": False}
"""The reports, each with its meaning: does the terminal have the focus now?"""

_MAX_CHARS: Final = 100
_ONLY_777: Final = ("VTE_VERSION", "KONSOLE_VERSION", "WT_SESSION")
"""Variables of terminals that have no OSC 9, or ConEmu's commands there; of the others urxvt and old foot by TERM."""


def notification(text: str, environ: Mapping[str, str]) -> str:
    r"""The escape sequence that notifies of `text`, which is cleaned and cut. tmux passes it on if it is allowed to.

    The text begins with a word: a digit behind `9;` is a command of ConEmu's (`9;4`: progress).

        notification("done", {"TERM": "xterm-kitty"})     # '\x1b]9;ossia: done\x07'
        notification("done", {"TERM": "rxvt-unicode"})    # '\x1b]777;notify;ossia;done\x07'
    """
    text = clean(one_line(text, _MAX_CHARS)).replace(";", ",")
    only_777 = environ.get("TERM", "").startswith(("rxvt", "foot")) or any(map(environ.get, _ONLY_777))
    sequence = f"\x1b]777;notify;ossia;{text}\x07" if only_777 else f"\x1b]9;ossia: {text}\x07"
    doubled = sequence.replace("\x1b", "\x1b\x1b")
    return f"\x1bPtmux;{doubled}\x1b\\" if environ.get("TMUX") else sequence
