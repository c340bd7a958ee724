"""The header of a message, read exactly as the reference reads it: on its text, spelled-out markers included."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import get_args

from ossia.harmony.errors import ParseError
from ossia.harmony.messages import Role
from ossia.harmony.tokens import CHANNEL, CONSTRAIN

ROLES: dict[str, Role] = {role: role for role in get_args(Role)}
# Unicode's White_Space, as Rust's char::is_whitespace. str.isspace() differs: it adds U+001C…U+001F.
_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"


@dataclass(frozen=True, slots=True)
class Header:
    """What stands between `<|start|>` and `<|message|>`: the fields of a `Message` without its content."""

    role: Role
    name: str | None = None
    recipient: str | None = None
    channel: str | None = None
    content_type: str | None = None


def words_of(text: str) -> list[str]:
    """The words of a header, split as Rust's `split_ascii_whitespace` does: `"to=f\\u00a0x json"` has two."""
    return re.findall(r"[^\t\n\f\r ]+", text)


def parse_header(text: str, role: Role | None) -> Header:
    """The fields of a header's text; `role` None: its first word is the role.

    Raises `ParseError` with the reference's text.

        parse_header("assistant<|channel|>commentary to=functions.f <|constrain|>json", None)
        # Header("assistant", None, "functions.f", "commentary", "<|constrain|>json")
    """
    channel, text = _take_channel(text)
    text = text.strip(_SPACE)
    if CONSTRAIN in text:
        text = text.replace(CONSTRAIN, " " + CONSTRAIN).strip(_SPACE)
    words = words_of(text)
    name = None
    if role is None:
        role, name, words = _take_role(words)
    if words and words[0] == role:
        words = words[1:]
    recipient, content_type, rest = _take_recipient(words)
    if rest:
        raise ParseError(f"unexpected tokens remaining in message header: Some({rust_debug(' '.join(rest))})")
    return Header(role, name, recipient, channel, content_type)


def _take_channel(text: str) -> tuple[str | None, str]:
    """The channel after the first marker, and the text without these two; what stood around them is now glued."""
    before, marker, after = text.partition(CHANNEL)
    if not marker:
        return None, text
    length = next((i for i, char in enumerate(after) if char == "<" or char in _SPACE), len(after))
    if not length:
        raise ParseError("channel marker present but no channel value found in header")
    return after[:length], before + after[length:]


def _take_role(words: list[str]) -> tuple[Role, str | None, list[str]]:
    if not words:
        raise ParseError("message header did not contain a role")
    first = words[0]
    if first in ROLES:
        return ROLES[first], first if first == "tool" else None, words
    if len(words) > 1 or first.startswith("to="):
        return "tool", first, words[1:]
    raise ParseError(f"Unknown role: {first}")


def _take_recipient(words: list[str]) -> tuple[str | None, str | None, list[str]]:
    """Recipient, content type, and the words that are neither. A lone word is a recipient, whatever it says."""
    if not words:
        return None, None, []
    *rest, last = words
    if last.startswith("to="):
        return last[3:], None, rest
    if not rest:
        return last, None, []
    return rest[-1].removeprefix("to="), last, rest[:-1]


def rust_debug(text: str) -> str:
    """`text` as Rust's `{:?}` writes it: in quotes; quotes, backslashes, unprintable and combining characters escaped.

    Exact for the characters that Python's Unicode version knows; the reference's is 16.
    """
    return '"' + "".join(_ESCAPES.get(char) or _escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    combining = unicodedata.category(char) in ("Mn", "Me") or char in _OTHER_GRAPHEME_EXTEND
    return char if char.isprintable() and not combining else f"\\u{{{ord(char):x}}}"


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\0": "\\0", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
# The marks that Unicode 16 counts as Grapheme_Extend beyond Mn and Me (PropList.txt, Other_Grapheme_Extend).
_OTHER_GRAPHEME_EXTEND = frozenset(
    "\u09be\u09d7\u0b3e\u0b57\u0bbe\u0bd7\u0cc0\u0cc2\u0cc7\u0cc8\u0cca\u0ccb\u0cd5\u0cd6\u0d3e\u0d57\u0dcf"
    "\u0ddf\u1715\u1734\u1b35\u1b3b\u1b3d\u1b43\u1b44\u1baa\u1bf2\u1bf3\u200c\u302e\u302f\ua953\ua9c0\uff9e"
    "\uff9f\U000111c0\U00011235\U0001133e\U0001134d\U00011357\U000114b0\U000114bd\U000115af\U000116b6"
    "\U00011930\U0001193d\U00016ff0\U00016ff1\U0001d165\U0001d166\U0001d16d\U0001d16e\U0001d16f\U0001d170"
    "\U0001d171\U0001d172"
)
