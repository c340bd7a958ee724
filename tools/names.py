"""Names of files: odd ones on one line and back, and names alike to people."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from unicodedata import normalize

from ossia.tools.text import PLAIN

_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"  # octal is git's
)
_CONTROLS = {"a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_MAY_DIFFER = re.compile(r"[^!#-&(-,./-\[\]-~]")
"""Characters with other forms: blanks, quotes, dashes, backslashes, all but ASCII."""


def escaped(name: str) -> str:
    r"""A name or path on one line: controls, bytes that aren't UTF-8, backslashes, blanks at a name's ends as escapes.

    `escaped("a\nb\udcff")` is `r"a\nb\xff"`; `unescaped` is the way back.
    """
    if "/" in name:
        return "/".join(map(escaped, name.split("/")))
    text = "".join(map(_escape, name))
    if text.startswith(" "):
        text = r"\x20" + text[1:]
    return rf"{text[:-1]}\x20" if text.endswith(" ") else text


def _escape(character: str) -> str:
    if character == "\\":
        return r"\\"
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # Python's sign for a byte that isn't UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if 0x7F < code < 0x100 else character.encode("unicode_escape").decode()


def unescaped(text: str) -> str:
    """The name of an escaped form, of `escaped` or of git."""

    def plain(found: re.Match[str]) -> str:
        byte, octal, short, long, other = found.groups()
        if byte or octal:
            code = int(byte, 16) if byte else int(octal, 8) & 0xFF
            return chr(code) if code < 0x80 else chr(0xDC00 + code)
        if short or long:
            return chr(min(int(short or long, 16), 0x10FFFF))
        return _CONTROLS.get(other, other)

    try:
        return _ESCAPE.sub(plain, text).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair
        return text


def same_names(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that people would take for `wanted`: itself, else all that differ in the same, least way from it.

    The ways: escapes; composed or decomposed letters; dashes, quotes or blanks. Other letters, small or large, are
    another name.
    """
    names = list(names)
    forms = (wanted, unescaped(wanted))
    for form in (str, partial(normalize, "NFC"), plain):
        same = {form(name) for name in forms}
        if found := [name for name in names if form(name) in same]:
            return [wanted] if wanted in found else found
    return []


def may_differ(name: str) -> bool:
    """True if another name could look the same to people."""
    return _MAY_DIFFER.search(name) is not None


def in_ascii(name: str) -> str:
    r"""A name as `unescaped` reads it, in ASCII: `in_ascii("é.md")` is `r"\u00e9.md"`."""
    return "".join(c if c.isascii() else f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in name)


def existing(path: Path) -> Path | None:
    """The path, or the only similar one beside it; None: no such file. Raises OSError, ValueError."""
    found = lookalikes(path)
    return found[0] if len(found) == 1 else None


def lookalikes(path: Path) -> list[Path]:
    """The path if it exists, else all similar ones beside it. Raises OSError, ValueError."""
    if os.path.lexists(path):
        return [path]
    above = path.parent if path.parent == path else existing(path.parent)
    if above is None or not may_differ(path.name):
        return []
    try:
        return [above / name for name in same_names(path.name, (one.name for one in above.iterdir()))]
    except OSError:  # no folder, or one that may not be listed
        return []


def plain(name: str) -> str:
    """A name composed, with plain dashes, quotes and blanks, and no blanks at its ends."""
    return normalize("NFC", name).translate(PLAIN).strip()
