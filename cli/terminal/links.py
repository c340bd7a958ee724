"""Can the terminal link? It is asked who it is: under tmux or ssh, the variables tell of another one, or of none."""

from __future__ import annotations

import re
import select
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prompt_toolkit.input import Input

    from cli.terminal.vt import Output

_ASK = "\x1b[>q\x1b[c"
"""XTVERSION, which many terminals answer with their name, then DA1, which all do: that answer ends the wait."""
_WAIT_S = 0.2
_ANSWER = re.compile(r"\x1bP>\|([^\x1b]*)\x1b\\|\x1b\[\?[\d;]*c")
_HALF_AN_ANSWER = re.compile(r"\x1b(?:P>[^\x1b]{0,99}\x1b?|\[\?[\d;]*)\Z")
_MAYBE_HALF = re.compile(rf"{_HALF_AN_ANSWER.pattern}|\x1b[P\[]?\Z")
"""While the answer is waited for: the same, or what a key may send, too."""

_LINKING = (
    *("contour", "foot", "ghostty", "iterm2", "kitty", "konsole", "mintty", "rio", "vte", "wezterm"),
    *("windows terminal", "xterm.js"),
)
_TMUX = re.compile(r"tmux (?:next-)?(\d{1,4})\.(\d{1,4})")
_TMUX_LINKS = (3, 4)


def knows_links(environ: Mapping[str, str], name: str | None = None) -> bool:
    """Is the terminal one of those that are known to make OSC 8 links clickable? `name`: what it says that it is.

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
    """The name that the terminal gives itself (`tmux 3.3a`); None where it gives none within 0.2 s.

    To be called before prompt_toolkit takes the terminal. What was typed meanwhile is kept for it, and an answer that
    comes too late isn't taken for something typed.
    """
    if sys.platform == "win32" or output.term in ("dumb", "linux"):
        return None
    from prompt_toolkit.input.typeahead import store_typeahead
    from prompt_toolkit.input.vt100 import Vt100Input
    from prompt_toolkit.input.vt100_parser import Vt100Parser
    from prompt_toolkit.key_binding import KeyPress

    from cli.terminal.input.early import take_early_lines

    if not isinstance(input, Vt100Input) or not input.stdin.isatty():
        return None
    answers, reader, typed = _Answers(), input.stdin_reader, ""
    with input.raw_mode():
        take_early_lines(input)
        output.write_raw(_ASK)
        output.flush()
        give_up_at = time.monotonic() + _WAIT_S
        while not answers.complete and not reader.closed:
            if not select.select([input.fileno()], [], [], max(0.0, give_up_at - time.monotonic()))[0]:
                break
            typed += answers.taken_from(reader.read(), waiting=True)
    typed += answers.not_half()
    if not answers.complete:
        read = reader.read
        reader.read = lambda count=1024: answers.taken_from(read(count))  # type: ignore[method-assign]
    pressed: list[KeyPress] = []
    parser = Vt100Parser(pressed.append)
    parser.feed(typed)
    parser.flush()
    store_typeahead(input, pressed)
    return answers.name


class _Answers:
    """Takes the terminal's answers out of what is read."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.complete = False
        self._half = ""

    def not_half(self) -> str:
        """What was held back and is no beginning of an answer for sure: a key."""
        if _HALF_AN_ANSWER.match(self._half):
            return ""
        key, self._half = self._half, ""
        return key

    def taken_from(self, text: str, *, waiting: bool = False) -> str:
        """The text without them. The beginning of one is held back until its end comes."""
        text = self._half + text
        self._half = ""
        if self.complete:
            return text
        for answer in _ANSWER.finditer(text):
            self.name = answer[1] or self.name
            self.complete = self.complete or answer[1] is None
        text = _ANSWER.sub("", text)
        half = None if self.complete else (_MAYBE_HALF if waiting else _HALF_AN_ANSWER).search(text)
        if half is None:
            return text
        self._half = half[0]
        return text[: half.start()]
