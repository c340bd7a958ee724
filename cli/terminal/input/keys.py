"""The keys of a terminal in any known form; its other sequences are swallowed."""

from __future__ import annotations

import re
import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.input.vt100 import Vt100Input

_WHOLE = re.compile(r"\x1b(?:\[\[[ -~]|\[[0-?]*+[ -/]*+[@-Z\\-~]|O[\d;]*+[@-~])")
"""CSI, in the Linux console's form, too, and SS3."""
_BEGUN = re.compile(r"\x1b(?:\[\[?|\[[0-?]*+[ -/]*+|O[\d;]*+|[P\]X^_])?\Z")
_CUT = re.compile(r"\x1b\[[0-?]+[ -/]*+|\x1bO[\d;]++")
"""A broken beginning of a sequence."""
_STRING = re.compile(r"\x1b[P\]X^_]")
"""DCS, OSC, SOS, PM, APC: text up to ST or BEL. Any other control character was typed: then the end is lost."""
_STRING_ENDS = ("\x1b\\", "\x07")
_CONTROL = re.compile(r"[\x00-\x1f]")
_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_MOUSE, _MOUSE_BYTES = "\x1b[M", 3
_MOST_HELD = 256
_MAX_EARLY_BYTES = 4096  # as much as a terminal holds


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
        """Drop an unfinished sequence."""
        self._inside = self._typed
        self._held = ""
        self._parts: list[str] = []  # of a paste
        self._string = ""  # as much of a control string as is handed to `reply`
        self._mouse = 0

    def feed(self, data: str) -> None:
        """Take in the next piece."""
        text, self._held, at = self._held + data, "", 0
        while at < len(text):
            at = self._inside(text, at)

    def flush(self) -> None:
        """Take an ESC without a sequel as a key."""
        if self._inside == self._typed and len(self._held) <= 2:
            held, self._held = self._held, ""
            for char in held:
                self._press(char)

    # -- each takes its part of the text, and returns where the next begins --------------------------------------------

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
        """xterm's first form: three bytes of any value from 32 on, not always UTF-8."""
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
    """Give the input a `KeyParser`; None: the input has no parser (a console of Windows)."""
    vt100 = _vt100(input)
    if vt100 is None:
        return None
    if not isinstance(vt100.vt100_parser, KeyParser):
        vt100.vt100_parser = KeyParser(vt100.vt100_parser.feed_key_callback)
    return vt100.vt100_parser


def take_early_lines(input: Input) -> None:
    """Read waiting newlines as Enter, in a terminal that has just become raw: before, it handed over lines."""
    vt100 = _vt100(input)
    if vt100 is None or not vt100.stdin.isatty():
        return
    reader = vt100.stdin_reader
    if not reader.closed and select.select([vt100.fileno()], [], [], 0)[0]:
        read = reader.read

        def read_once(count: int = 0) -> str:
            reader.read = read  # type: ignore[method-assign]
            return read(_MAX_EARLY_BYTES).replace("\n", "\r")

        reader.read = read_once  # type: ignore[method-assign]


def _vt100(input: Input) -> Vt100Input | None:
    if sys.platform == "win32":
        return None
    from prompt_toolkit.input.vt100 import Vt100Input

    return input if isinstance(input, Vt100Input) else None


# -- kitty's keyboard protocol, xterm's modifyOtherKeys ----------------------------------------------------------------

_CSI = re.compile(r"\x1b\[([\d:;]*)([A-HPQSu~])")
_MOST_KEY_CHARS = 128
_SHIFT, _ALT, _CTRL, _SUPER, _META, _CAPS = 1, 2, 4, 8 | 16, 32, 64
_LOCKS = 64 | 128
_RELEASE = 3
_PASTE_NUMBER = 200  # of its beginning: no key
_SPECIAL = "\t\r\x1b\x7f"
_KEYPAD = {57399 + at: char for at, char in enumerate("0123456789./*-+\r=,")}
_KEYPAD_KEYS = {57417 + at: key for at, key in enumerate(("D", "C", "A", "B", "5~", "6~", "H", "F", "2~", "3~"))}
_KEYPAD_SS3 = dict(zip("jklmnopqrstuvwxyXM", "*+,-./0123456789=\r", strict=True))
"""Of the application keypad."""
_SHIFTED = dict(zip("`1234567890-=[]\\;',./", '~!@#$%^&*()_+{}|:"<>?', strict=True))
"""Of a keyboard for American English, for terminals that don't report shifted keys."""
_CONTROLS = dict(zip(" 2345678/?~", "\0\0\x1b\x1c\x1d\x1e\x1f\x7f\x1f\x7f\x1e", strict=True))


def plain_keys(sequence: str) -> list[str]:
    r"""The key as a terminal without such a protocol sends it: one string for each press, none for no press.

    Any other sequence is returned unchanged. Shift-Enter, which such a terminal can't send, is Ctrl-J: a newline.

        plain_keys("\x1b[99;5u")      → ["\x03"]
        plain_keys("\x1b[97;3u")      → ["\x1b", "a"]
        plain_keys("\x1b[97;1:3u")    → []: the key was released
        plain_keys("\x1b[1;129A")     → ["\x1b[A"]: Num Lock was on
    """
    if sequence[:2] == "\x1bO" and sequence[2:] in _KEYPAD_SS3:
        return [_KEYPAD_SS3[sequence[2:]]]
    found = _CSI.fullmatch(sequence)
    if not found:
        return [sequence]
    if len(sequence) > _MOST_KEY_CHARS:
        return []
    fields = [[int(part or 0) for part in field.split(":")] for field in found[1].split(";")]
    codes, modified, text = fields[0], fields[1] if len(fields) > 1 else [0], fields[2] if len(fields) > 2 else []
    modifiers = max(0, modified[0] - 1)  # as bits
    if modified[1:2] == [_RELEASE]:
        return []
    if found[2] == "u":
        return _pressed(codes, modifiers, "".join(chr(code) for code in text if _prints(code)))
    if found[2] == "~" and codes[0] == 27 and text:
        return _pressed(text[:1] * 2, modifiers, "")  # the code is what Shift made of the key
    if len(fields) < 2 or codes[0] == _PASTE_NUMBER:
        return [sequence]
    return [_functional(codes[0], modifiers & ~_LOCKS, found[2])]


def _functional(number: int, modifiers: int, last: str) -> str:
    if modifiers:
        return f"\x1b[{number or 1};{modifiers + 1}{last}"
    return f"\x1b[{number}~" if last == "~" else f"\x1bO{last}" if last in "PQS" else f"\x1b[{last}"


def _pressed(codes: list[int], modifiers: int, text: str) -> list[str]:
    """The presses of a key. `codes`: its own code, its shifted code, the code of its place on a PC keyboard."""
    code, shifted, base, *_ = [*codes, 0, 0]
    alt, ctrl = modifiers & (_ALT | _META), modifiers & _CTRL
    if code in _KEYPAD_KEYS:
        last = _KEYPAD_KEYS[code]
        number = int(last[0]) if last[0].isdigit() else 1
        return [_functional(number, modifiers & ~_LOCKS, last[-1])]
    if modifiers & _SUPER:
        return []
    if text and not ctrl and not (alt and text.isascii()):
        return list(text)
    char = _KEYPAD.get(code) or (chr(code) if _prints(code) or code in map(ord, _SPECIAL) else "")
    if char and char in _SPECIAL:
        char = _special(char, modifiers)
    elif ctrl:
        char = _control(char, _shifted(char, shifted), chr(base) if _prints(base) else "")
    elif char and modifiers & _SHIFT:
        char = _shifted(char, shifted)
    if char.isalpha() and modifiers & _CAPS and not ctrl:
        swapped = char.lower() if modifiers & _SHIFT else char.upper()
        char = swapped if len(swapped) == 1 else char
    return ["\x1b", char] if char and alt else [char] if char else []


def _special(char: str, modifiers: int) -> str:
    """Enter, Tab, Escape, Backspace."""
    if char == "\r" and modifiers & (_SHIFT | _ALT | _CTRL | _META) == _SHIFT:
        return "\n"
    if char == "\t" and modifiers & _SHIFT:
        return "\x1b[Z"
    return "\x08" if char == "\x7f" and modifiers & _CTRL else char


def _shifted(char: str, shifted: int) -> str:
    upper = char.upper()
    return chr(shifted) if _prints(shifted) else _SHIFTED.get(char, upper if len(upper) == 1 else char)


def _control(char: str, shifted: str, base: str) -> str:
    """The control character of a key, or "". For a key beyond ASCII (Cyrillic, Greek) its place counts."""
    for one in (char, shifted) if char.isascii() else (base,):
        if one.isascii() and (one.isalpha() or one in ("@", "[", "\\", "]", "^", "_")):
            return chr(ord(one.upper()) & 0x1F)
        if one in _CONTROLS:
            return _CONTROLS[one]
    return ""


def _prints(code: int) -> bool:
    """Is it a character? Keys without one (Caps Lock, F13, Play) have codes between the surrogates and 63743."""
    return 31 < code < 127 or 159 < code < 0xD800 or 63743 < code < 0x110000
