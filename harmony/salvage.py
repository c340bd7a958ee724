"""A header without its `<|message|>`: which part of it is metadata, and which the text that the model meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harmony.header import ROLES, Header
from harmony.mending import CHANNELS, Segment, known_channel
from harmony.messages import Role
from harmony.recipients import clean_recipient, resolve
from harmony.tokens import CHANNEL, CONSTRAIN

_ROLES, _CHANNELS = "|".join(ROLES), "|".join(CHANNELS)
_TO = r"""to=(?P<to>[^\s<{"'`]*)"""
_TYPE = r"(?P<type>json|code)(?=\s|[{\[]|$)"
_ROLE = re.compile(rf"\s*(?P<role>{_ROLES})(?P=role)*(?=[^a-z]|{_CHANNELS}|to=|$)")
_RESULT = re.compile(r"\s*(?P<name>\S+)\s+to=assistant(?=\s|$)")
_KNOWN = re.compile(rf"\s*(?P<channel>{_CHANNELS})")
_TAIL = re.compile(rf"\s*{_TO}(?:\s+{_TYPE})?")
_CONSTRAINED = re.compile(rf"\s*{_TYPE}")
# What a header's text begins with, as far as words alone can tell: each part is optional.
_FRONT = re.compile(rf"\s*(?:(?:{_ROLES})\s*)*(?:(?P<channel>{_CHANNELS})(?=\s|$))?\s*(?:{_TO}(?:\s+{_TYPE})?)?\s*")


@dataclass(slots=True)
class _Piece:
    """One message in the making. `marked`: some of it was metadata, so the whitespace before its text isn't text."""

    role: Role = "assistant"
    name: str | None = None
    channel: str | None = None
    recipient: str | None = None
    content_type: str | None = None
    text: str = ""
    marked: bool = False


def is_header(text: str, tools: frozenset[str]) -> bool:
    """Is this text, which stands where only a header can, metadata (` to=python`, `commentary to=…`) and not prose?"""
    front = _front(text)
    rest = text[front.end() :]
    return front["to"] is not None or not rest.strip() or (len(rest.split()) == 1 and _is_word(rest.strip(), tools))


def _front(text: str) -> re.Match[str]:
    front = _FRONT.match(text)
    assert front is not None  # every part of the pattern is optional
    return front


def _is_word(word: str, tools: frozenset[str]) -> bool:
    return word in ("json", "code") or bool(known_channel(word) or resolve(clean_recipient(word), tools))


def salvage(
    segments: Sequence[Segment], role: Role | None, tools: frozenset[str], *, prose: bool
) -> list[tuple[Header, str]]:
    """The messages that a header without `<|message|>` was meant to be, with their text, its white space unchanged.

    `prose`: it didn't begin with `<|start|>`, so text in the role's place counts as metadata only with a `to=`.
    Text between two channel markers is a message of its own. Empty when there was nothing at all.

        salvage([("", ""), ("<|channel|>", 'final {"answer": 4}')], "assistant", frozenset(), prose=True)
        # [(Header("assistant", channel="final"), '{"answer": 4}')]
    """
    pieces = [_Piece()]
    for marker, text in segments:
        if marker == CHANNEL and pieces[-1].text.strip():
            pieces.append(_Piece())
        piece = pieces[-1]
        if not piece.text.strip():
            text = piece.text + text
            piece.text = ""
            if marker == CHANNEL:
                text = _take_channel(piece, text)
            elif marker == CONSTRAIN:
                text = _take_constrain(piece, text)
            else:
                text = _take_role(piece, text, role, prose=prose)
            if piece.marked:
                text = text.lstrip()
        piece.text += text
    said = (piece for piece in pieces if piece.text.strip() or piece.channel or piece.recipient)
    return [(_header(piece, tools), piece.text) for piece in said]


def _header(piece: _Piece, tools: frozenset[str]) -> Header:
    recipient = piece.recipient and (resolve(piece.recipient, tools) or piece.recipient)
    return Header(piece.role, piece.name, recipient, piece.channel, piece.content_type)


def _take_role(piece: _Piece, text: str, role: Role | None, *, prose: bool) -> str:
    if role is not None:
        piece.role = role
    elif found := _ROLE.match(text):
        piece.role, piece.marked = ROLES[found["role"]], True
        piece.name = "tool" if piece.role == "tool" else None  # as in a whole header: without one it can't be written
        text = text[found.end() :]
    elif not prose and (found := _RESULT.match(text)):
        piece.role, piece.name, piece.recipient, piece.marked = "tool", found["name"], "assistant", True
        return text[found.end() :]
    front = _front(text)
    if front["to"] is None:
        return text if prose else _take_known(piece, text)
    piece.channel = front["channel"]
    return _take_tail(piece, text[front.start("to") - len("to=") :])


def _take_known(piece: _Piece, text: str) -> str:
    """A known channel at the front, glued to the text or not (`final{"a": 1}`)."""
    found = _KNOWN.match(text)
    if found is None:
        return text
    piece.channel = found["channel"]
    piece.marked = True
    return text[found.end() :]


def _take_channel(piece: _Piece, text: str) -> str:
    piece.marked = True
    rest = _take_known(piece, text)
    cut = known_channel(text.strip()) if rest == text else None
    if cut and cut.startswith(text.strip()):  # the channel itself was cut: `comm`
        piece.channel, rest = cut, ""
    return _take_tail(piece, rest)


def _take_constrain(piece: _Piece, text: str) -> str:
    piece.marked = True
    found = _CONSTRAINED.match(text)
    if found is None:
        return text
    piece.content_type = CONSTRAIN + found["type"]
    return _take_tail(piece, text[found.end("type") :])


def _take_tail(piece: _Piece, text: str) -> str:
    """`to=…` and a content type behind it."""
    found = _TAIL.match(text)
    if found is None:
        return text
    piece.marked = True
    to = clean_recipient(found["to"])
    piece.recipient = to if to and to != "assistant" else piece.recipient
    piece.content_type = found["type"] or piece.content_type
    return text[found.end() :]
