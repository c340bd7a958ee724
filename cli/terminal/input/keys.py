"""The keys of a terminal: what is typed in any form that terminals know; whatever else they send is swallowed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from ossia.cli.terminal.input.sequences import plain_keys

if TYPE_CHECKING:
    from prompt_toolkit.input import Input

_WHOLE = re.compile(r"\x1b(?:\[\[[ -~]|\[[0-?]*+[ -/]*+[@-Z\\-~]|O[\d;]*+[@-~])")
"""CSI, in the Linux console's form, too, and SS3."""
_BEGUN = re.compile(r"\x1b(?:\[\[?|\[[0-?]*+[ -/]*+|O[\d;]*+|[P\]X^_])?\Z")
_CUT = re.compile(r"\x1b\[[0-?]+[ -/]*+|\x1bO[\d;]++")
"""What can't become a sequence any more, and what was no key either."""
_STRING = re.compile(r"\x1b[P\]X^_]")
"""DCS, OSC, SOS, PM, APC: text up to ST or BEL. Any other control character was typed: then the end is lost."""
_STRING_ENDS = ("\x1b\\", "\x07")
_CONTROL = re.compile(r"[\x00-\x1f]")
_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_MOUSE, _MOUSE_BYTES = "\x1b[M", 3
_MOST_HELD = 256


class KeyParser(Vt100Parser):
    r"""prompt_toolkit's parser, for more than its table knows. `reply` gets each sequence that is no key.

    A sequence may come in any number of pieces. After a pause (`flush`), ESC and ESC with one character are keys.

        parser = KeyParser(pressed.append)
        parser.feed("a\x1b[13u")     # a, Enter
    """

    def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
        super().__init__(feed_key_callback)
        self.reply: Callable[[str], None] = lambda sequence: None

    def reset(self, request: bool = False) -> None:
        """Forget what has begun."""
        self._inside = self._typed
        self._held = ""
        self._parts: list[str] = []  # of a paste
        self._string = ""  # as much of a control string as is handed to `reply`
        self._mouse = 0

    def feed(self, data: str) -> None:
        """Take in what was read."""
        text, self._held, at = self._held + data, "", 0
        while at < len(text):
            at = self._inside(text, at)

    def flush(self) -> None:
        """Nothing has followed for a while."""
        if self._inside == self._typed and len(self._held) <= 2:
            held, self._held = self._held, ""
            for char in held:
                self._press(char)

    # -- each takes from the text what it knows, and returns where the next begins -------------------------------------

    def _typed(self, text: str, at: int) -> int:
        if text[at] != "\x1b":
            self._press(text[at])
            return at + 1
        if found := _WHOLE.match(text, at):
            self._sequence(found[0])
            return found.end()
        if _BEGUN.match(text, at):
            self._held = text[at : at + _MOST_HELD]
            return len(text)
        if found := _CUT.match(text, at):
            return found.end()
        if found := _STRING.match(text, at):
            self._inside, self._string = self._control_string, found[0]
            return found.end()
        if text[at : at + 2] in ANSI_SEQUENCES:
            self._press(text[at : at + 2])
            return at + 2
        self._press("\x1b")
        return at + 1

    def _control_string(self, text: str, at: int) -> int:
        found = _CONTROL.search(text, at)
        end = found.start() if found else len(text)
        self._string += text[at : min(end, at + _MOST_HELD - len(self._string))]
        if not found:
            return end
        if text[end:] == "\x1b":
            self._held = "\x1b"
            return len(text)
        self._inside = self._typed
        last = next((last for last in _STRING_ENDS if text.startswith(last, end)), "")
        if last:
            self.reply(self._string)
        return end + len(last)

    def _paste(self, text: str, at: int) -> int:
        end = text.find(_PASTE_END, at)
        if end >= 0:
            self._inside, parts, self._parts = self._typed, self._parts, []
            self.feed_key_callback(KeyPress(Keys.BracketedPaste, "".join([*parts, text[at:end]])))
            return end + len(_PASTE_END)
        rest = text[at:]
        kept = next((n for n in range(len(_PASTE_END) - 1, 0, -1) if rest.endswith(_PASTE_END[:n])), 0)
        self._parts.append(rest[: len(rest) - kept])
        self._held = rest[len(rest) - kept :]
        return len(text)

    def _mouse_report(self, text: str, at: int) -> int:
        """xterm's first form: three bytes of any value from 32 on, which needn't be UTF-8."""
        typed = text[at] < " "
        self._mouse -= len(text[at].encode("utf-8", "surrogateescape"))
        if typed or self._mouse <= 0:
            self._inside = self._typed
        return at if typed else at + 1

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _sequence(self, sequence: str) -> None:
        if sequence == _PASTE:
            self._inside = self._paste
        elif sequence == _MOUSE:
            self._inside, self._mouse = self._mouse_report, _MOUSE_BYTES
        else:
            for press in plain_keys(sequence):
                self._press(press)

    def _press(self, pressed: str) -> None:
        """Hand on a character, or a sequence of prompt_toolkit's table."""
        key = ANSI_SEQUENCES.get(pressed, pressed)
        if key == pressed and len(pressed) > 1:
            self.reply(pressed)
            return
        keys = key if isinstance(key, tuple) else (key,)
        for number, one in enumerate(keys):
            self.feed_key_callback(KeyPress(one, "" if number else pressed))


def key_parser(input: Input) -> KeyParser | None:
    """The parser that this input has from now on; None for one that has no parser (a console of Windows)."""
    if sys.platform == "win32":
        return None
    from prompt_toolkit.input.vt100 import Vt100Input

    if not isinstance(input, Vt100Input):
        return None
    if not isinstance(input.vt100_parser, KeyParser):
        input.vt100_parser = KeyParser(input.vt100_parser.feed_key_callback)
    return input.vt100_parser
