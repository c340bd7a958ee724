"""Does the terminal make links clickable? It is asked for its name: under tmux or ssh the variables mislead."""

from __future__ import annotations

import re
import select
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.key_binding import KeyPress

    from ossia.cli.terminal.vt import Output

_ASK = "\x1b[>q\x1b[c"
"""XTVERSION, which many terminals answer with their name, then DA1, which all do: that answer ends the wait."""
_WAIT_S = 0.2
_ANSWER = re.compile(r"\x1bP>\|(.*)|\x1b\[\?[\d;]*c", re.DOTALL)

_LINKING = (
    *("contour", "foot", "ghostty", "iterm2", "kitty", "konsole", "mintty", "rio", "vte", "wezterm"),
    *("windows terminal", "xterm.js"),
)
_TMUX = re.compile(r"tmux (?:next-)?(\d{1,4})\.(\d{1,4})")
_TMUX_LINKS = (3, 4)


def knows_links(environ: Mapping[str, str], name: str | None = None) -> bool:
    """Is the terminal known to make OSC 8 links clickable? `name`: its own answer (`ask_name`).

        knows_links({}, "tmux 3.3a")   → False
        knows_links({"TERM": "xterm-kitty"})   → True
        knows_links({"TERM": "tmux-256color", "VTE_VERSION": "7600"})   → False: the variable is of what tmux runs in
    """
    if name:
        tmux = _TMUX.match(name)
        return (int(tmux[1]), int(tmux[2])) >= _TMUX_LINKS if tmux else name.lower().startswith(_LINKING)
    term = environ.get("TERM", "")
    if term.startswith(("tmux", "screen", "dumb", "linux")) or environ.get("TMUX") or environ.get("STY"):
        return False
    if term in ("xterm-kitty", "foot", "alacritty", "wezterm", "xterm-ghostty"):
        return True
    known = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper")
    marks = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
    vte = environ.get("VTE_VERSION", "")
    if environ.get("TERM_PROGRAM") in known or any(map(environ.get, marks)):
        return True
    return vte.isdecimal() and int(vte) >= 5000


def ask_name(input: Input, output: Output) -> str | None:
    """The terminal's own name (`tmux 3.3a`); None without an answer within 0.2 s.

    To be called before prompt_toolkit takes the terminal, which gets what was typed meanwhile.
    """
    if sys.platform == "win32" or output.term in ("dumb", "linux"):
        return None
    from prompt_toolkit.input.typeahead import store_typeahead
    from prompt_toolkit.input.vt100 import Vt100Input

    from ossia.cli.terminal.input.keys import key_parser, take_early_lines

    parser = key_parser(input)
    if parser is None or not isinstance(input, Vt100Input) or not input.stdin.isatty():
        return None
    names: list[str | None] = []

    def reply(sequence: str) -> None:
        if found := _ANSWER.fullmatch(sequence):
            names.append(found[1])

    pressed: list[KeyPress] = []
    before, parser.reply = parser.reply, reply
    with input.raw_mode():
        take_early_lines(input)
        output.write_raw(_ASK)
        output.flush()
        give_up_at = time.monotonic() + _WAIT_S
        while None not in names and not input.closed:
            if not select.select([input.fileno()], [], [], max(0.0, give_up_at - time.monotonic()))[0]:
                break
            pressed += input.read_keys()
    parser.reply = before
    store_typeahead(input, [*pressed, *input.flush_keys()])
    return next(filter(None, reversed(names)), None)
