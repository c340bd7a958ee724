"""Text where a header should be: which part of it is metadata, and which the text that the model meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ossia.harmony.mending import CONTENT_TYPES, Segment, known_channel, read_header
from ossia.harmony.messages import ANALYSIS, CHANNELS, FINAL, ROLES, Header, Role
from ossia.harmony.recipients import clean_recipient, resolve
from ossia.harmony.tokens import CHANNEL, CONSTRAIN

_ROLES, _CHANNELS = "|".join(ROLES), "|".join(CHANNELS)
_TYPE = r"(?:json|code)(?=[\s{\[]|$)"
_TO = rf"""(?:\s*to=[^\s<{{"'`]*(?:\s+{_TYPE})?)?"""
_CHANNEL = rf"\s*(?:(?:{_CHANNELS})(?![a-z]))?{_TO}"
# What each place of a header may begin with, as far as words alone can tell; the rest of it is text.
_PLACES = {
    "": re.compile(rf"\s*(?:(?:{_ROLES})+(?=[^a-z]|{_CHANNELS}|to=|$)|\S+(?=\s+to=assistant(?:\s|$)))?{_CHANNEL}"),
    CHANNEL: re.compile(_CHANNEL),
    CONSTRAIN: re.compile(rf"(?:\s*{_TYPE}{_TO})?"),
}
_ADDRESSED = re.compile(rf"(?<!\S)(?:(?:{_ROLES}|{_CHANNELS})\s+){{0,3}}to=(?P<to>\S+)")
_AT_END = re.compile(r"(?<!\S)to=(?P<to>\S+)\s*$")
_UNMARKED = re.compile(rf"(?:^\s*|assistant)({_CHANNELS})")
_MAX_HEADER_CHARS = 500  # of a header behind prose
_MAX_PARTS = 64  # of a text: what single tokens brought


@dataclass(slots=True)
class _Piece:
    """One message in the making. `marked`: some of it was metadata, so the whitespace before its text isn't text."""

    role: Role | None = "assistant"
    metadata: list[Segment] = field(default_factory=list)
    text: str = ""
    marked: bool = False


def split_header(text: str, tools: frozenset[str]) -> tuple[str, str]:
    """Split a text that stands where only a header can: the words said, and the header.

    A header is words like ` to=python` and `commentary`, or anything with the `to=` of an offered tool and no other
    words behind it; more than one other word before that are text.

        split_header("Let me look. to=functions.f json", tools)  # ("Let me look.", " to=functions.f json")
    """
    end = _end_of_metadata("", text, prose=False)
    rest = text[end:].split()
    if is_rubble(text[end:]) or (len(rest) == 1 and _is_word(rest[0], tools)):
        return "", text
    if "to=" in text[:end] and _is_header(text, tools, foreign=True):
        return "", text
    for found in _ADDRESSED.finditer(text, max(0, len(text) - _MAX_HEADER_CHARS)):
        if _is_header(text[found.start() :], tools):
            said = text[: found.start()]
            return (said, text[found.start() :]) if len(said.split()) > 1 else ("", text)
    return text, ""


def trailing_recipient(parts: Sequence[str], tools: frozenset[str]) -> str:
    """The ` to=functions.f` at the end of a text in parts; "" without one."""
    found = _AT_END.search("".join(parts[-_MAX_PARTS:]))
    return found[0] if found and resolve(clean_recipient(found["to"]), tools) is not None else ""


def _is_header(text: str, tools: frozenset[str], *, foreign: bool = False) -> bool:
    """True for the recipient, channel and content type of a call alone. `foreign`: or of a tool not on offer."""
    header, notes = read_header([("", text)], "assistant", tools)
    if foreign and header.recipient in tools:
        return True
    whole = header.content_type in (None, *CONTENT_TYPES) and all(code != "header-junk" for code, _ in notes)
    return whole and (foreign or header.recipient in tools)


def _is_word(word: str, tools: frozenset[str]) -> bool:
    return word in ("json", "code") or bool(known_channel(word) or resolve(clean_recipient(word), tools))


def salvage(
    segments: Sequence[Segment], role: Role | None, tools: frozenset[str], *, prose: bool
) -> list[tuple[Header, str]]:
    """The messages that a header without `<|message|>` was meant to be, with their text, its white space unchanged.

    `prose`: it didn't begin with `<|start|>`, so text in the role's place counts as metadata only with a `to=`.
    Text between two channel markers is a message of its own, and so it is where every marker is missing
    (`analysisAdd them.assistantfinal4`). Empty when there was nothing at all.

        salvage([("", ""), ("<|channel|>", 'final {"answer": 4}')], "assistant", frozenset(), prose=True)
        # [(Header("assistant", channel="final"), '{"answer": 4}')]
    """
    before, *unmarked = _UNMARKED.split(segments[0][1])
    if len(segments) == 1 and len(unmarked) > 2 and not before:
        segments = [(CHANNEL, " ".join(unmarked[i : i + 2])) for i in range(0, len(unmarked), 2)]
    pieces = [_Piece(role)]
    for marker, text in segments:
        if marker == CHANNEL and pieces[-1].text.strip():
            pieces.append(_Piece())
        piece = pieces[-1]
        if not piece.text.strip():
            text = piece.text + text
            end = _end_of_metadata(marker, text, prose=prose)
            piece.metadata += [(marker, text[:end])] if end else []
            piece.marked |= bool(marker or end)
            piece.text = text[end:].lstrip() if piece.marked else text[end:]
        else:
            piece.text += text
    read = [(read_header(piece.metadata, piece.role, tools)[0], piece.text) for piece in pieces]
    return [(header, text) for header, text in read if text.strip() or header.channel or header.recipient]


def is_prose(text: str) -> bool:
    """True if a text where a header can stand holds other words than a header's."""
    return bool(text[_end_of_metadata("", text, prose=False) :].strip())


def is_rubble(text: str) -> bool:
    """True if nothing in it could be read: `…?`, `2.`."""
    return not any(char.isalpha() for char in text)


def is_unclear(header: Header, text: str) -> bool:
    """True if the reading of a message made of a header depends on what follows."""
    if header.role != "assistant" or header.recipient is not None:
        return False
    return header.channel is None or (header.channel != FINAL and is_rubble(text))


def read_left(header: Header, text: str, following: Header, tools: frozenset[str]) -> Header | None:
    """The header of such a message when another one follows: text is reasoning; None: it is rubble.

    Without tools, and before reasoning, text stays what it is: refusals of the user's request are written so.
    """
    if is_rubble(text):
        return None
    before_reasoning = following.channel == ANALYSIS and following.recipient is None
    return replace(header, channel=ANALYSIS) if tools or not before_reasoning else header


def _end_of_metadata(marker: str, text: str, *, prose: bool) -> int:
    found = _PLACES[marker].match(text)
    assert found is not None  # every part of the patterns is optional
    if prose and not marker and "to=" not in found[0]:
        return 0
    if marker == CHANNEL and not found[0].strip():
        cut = known_channel(word := text.strip())
        return len(text) if cut and cut.startswith(word) else found.end()  # the channel itself was cut: `comm`
    return found.end()
