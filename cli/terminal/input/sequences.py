"""Keys in the forms of kitty's keyboard protocol and of xterm's modifyOtherKeys, in those of a plain terminal."""

from __future__ import annotations

import re

_CSI = re.compile(r"\x1b\[([\d:;]*)([A-HPQSu~])")
_MOST_CHARS = 128
_SHIFT, _ALT, _CTRL, _SUPER, _META, _CAPS = 1, 2, 4, 8 | 16, 32, 64
_LOCKS = 64 | 128
_RELEASE = 3
_PASTE = 200  # the number of its beginning: no key
_SPECIAL = "\t\r\x1b\x7f"
_KEYPAD = {57399 + at: char for at, char in enumerate("0123456789./*-+\r=,")}
_KEYPAD_KEYS = {57417 + at: key for at, key in enumerate(("D", "C", "A", "B", "5~", "6~", "H", "F", "2~", "3~"))}
_KEYPAD_SS3 = dict(zip("jklmnopqrstuvwxyXM", "*+,-./0123456789=\r", strict=True))
"""Of the application keypad."""
_SHIFTED = dict(zip("`1234567890-=[]\\;',./", '~!@#$%^&*()_+{}|:"<>?', strict=True))
"""Of a keyboard for American English: for a terminal that doesn't say what Shift makes of a key."""
_CONTROLS = dict(zip(" 2345678/?~", "\0\0\x1b\x1c\x1d\x1e\x1f\x7f\x1f\x7f\x1e", strict=True))


def plain_keys(sequence: str) -> list[str]:
    r"""What a terminal without such a protocol sends for the key: one string for each press, none for no press.

    Any other sequence is returned as it is. Shift-Enter, which such a terminal can't send, is Ctrl-J: a newline.

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
    if len(sequence) > _MOST_CHARS:
        return []
    fields = [[int(part or 0) for part in field.split(":")] for field in found[1].split(";")]
    codes, (modifiers, event), text = fields[0], _modifiers(fields), fields[2] if len(fields) > 2 else []
    if event == _RELEASE:
        return []
    if found[2] == "u":
        return _pressed(codes, modifiers, "".join(chr(code) for code in text if _prints(code)))
    if found[2] == "~" and codes[0] == 27 and text:
        return _pressed(text[:1] * 2, modifiers, "")  # it is told as Shift made it
    if len(fields) < 2 or codes[0] == _PASTE:
        return [sequence]
    return [_functional(codes[0], modifiers & ~_LOCKS, found[2])]


def _modifiers(fields: list[list[int]]) -> tuple[int, int]:
    """The modifiers, as bits, and the type of the event."""
    modifiers, event, *_ = [*fields[1], 0] if len(fields) > 1 else [0, 0]
    return max(0, modifiers - 1), event


def _functional(number: int, modifiers: int, last: str) -> str:
    if modifiers:
        return f"\x1b[{number or 1};{modifiers + 1}{last}"
    return f"\x1b[{number}~" if last == "~" else f"\x1bO{last}" if last in "PQS" else f"\x1b[{last}"


def _pressed(codes: list[int], modifiers: int, text: str) -> list[str]:
    """The presses of the key `codes`: its own code, what Shift makes of it, the code of its place on a PC keyboard."""
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
    """The control character of a key; of one that isn't ASCII (Cyrillic, Greek), that of its place; "" for none."""
    for one in (char, shifted) if char.isascii() else (base,):
        if one.isascii() and (one.isalpha() or one in ("@", "[", "\\", "]", "^", "_")):
            return chr(ord(one.upper()) & 0x1F)
        if one in _CONTROLS:
            return _CONTROLS[one]
    return ""


def _prints(code: int) -> bool:
    """Is it a character? Keys without one (Caps Lock, F13, Play) have codes between the surrogates and 63743."""
    return 31 < code < 127 or 159 < code < 0xD800 or 63743 < code < 0x110000
