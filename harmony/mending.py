"""What a malformed header means: the tolerant reading. It never fails, and notes what it mended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from harmony.header import ROLES, Header, words_of
from harmony.messages import Channel, Role
from harmony.recipients import clean_recipient, resolve
from harmony.tokens import CHANNEL, CONSTRAIN

Segment = tuple[str, str]
"""A stretch of a header and the marker before it: "" (the role's place), `<|channel|>` or `<|constrain|>`."""
Note = tuple[str, str]
"""A repair: its code and what it was, for people."""

CHANNELS: tuple[str, ...] = get_args(Channel)
CONTENT_TYPES = frozenset(("json", "code", "text", "xml", "yaml", "markdown", "html"))
"""Words that are a content type wherever they stand, and never a recipient."""

_CONTENT_TYPE = re.compile(r"[\w./+-]*[A-Za-z][\w./+-]*")
_MAX_QUOTED = 200  # characters: a header can be as long as a completion
_SHORTEST_CHANNEL = 4  # "comm" is commentary that was cut; less could be anything
_TOOL_NAME = re.compile(r"functions\.\S+|browser\.\S+|python$")


def read_header(segments: Sequence[Segment], role: Role | None, tools: frozenset[str]) -> tuple[Header, list[Note]]:
    """The header that `segments` mean, and what had to be mended to read it.

    `role` None: the first word is the role. `tools` are the recipients on offer, which names are matched with.

        read_header([("", ""), ("<|channel|>", "commentary to=get_weather json")], "assistant",
                    frozenset({"functions.get_weather"}))
        # Header("assistant", None, "functions.get_weather", "commentary", "json"), [("resolved-recipient", …)]
    """
    reader = _Reader(segments, role, tools)
    return reader.header(), reader.notes


def known_channel(text: str) -> str | None:
    """The channel that `text` is a spoilt form of: `finalx`, `analysis––commentary` (the last counts), `comment`."""
    lowered = text.lower()
    inside = [(lowered.rfind(channel), channel) for channel in CHANNELS if channel in lowered]
    if inside:
        return max(inside)[1]
    if len(lowered) < _SHORTEST_CHANNEL:
        return None
    return next((channel for channel in CHANNELS if channel.startswith(lowered)), None)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "…")


class _Reader:
    """Sorts the words of a header by what they are, then decides which of them count."""

    def __init__(self, segments: Sequence[Segment], role: Role | None, tools: frozenset[str]) -> None:
        self.notes: list[Note] = []
        self._tools = tools
        self._role = role
        self._name: str | None = None
        self._channels: list[str] = []  # of those known; the last one counts
        self._odd_channels: list[str] = []
        self._to: list[str] = []
        self._constrain: str | None = None
        self._loose: list[str] = []  # words that are none of these, until the end
        self._all_words = [word for _, text in segments for word in words_of(text)]
        for marker, text in segments:
            words = words_of(text)
            if marker == CHANNEL:
                words = self._read_channel(words, text)
            elif marker == CONSTRAIN:
                words = self._read_constrain(words, text)
            else:
                words = self._read_role(words)
            self._sort(words)
        if sum(marker == CHANNEL for marker, _ in segments) > 1:
            self._note("doubled-channel", "more than one channel: the last known one counts")
            if self._role == "assistant" and "assistant" in self._to:
                self._to.remove("assistant")

    def header(self) -> Header:
        role = self._role or "assistant"
        self._drop_roles()
        channel = self._channel()
        recipient = self._recipient(role)
        return Header(role, self._name, recipient, channel, self._content_type(recipient))

    def _note(self, code: str, message: str) -> None:
        self.notes.append((code, message))

    # -- the three places of a header ------------------------------------------------------------------------------

    def _read_role(self, words: list[str]) -> list[str]:
        """Take the role from the front of its place; what is left are words like all others."""
        if self._role is not None:
            return words[1:] if words[:1] == [self._role] else words
        if not words:
            self._note("missing-role", "a header without a role: taken for the assistant's")
            self._role = "assistant"
            return []
        first, *rest = words
        if first in ROLES:
            self._role = ROLES[first]
            self._name = first if first == "tool" else None
            return rest
        glued = self._split_glued(first)
        if glued is not None:
            return [glued, *rest] if glued else rest
        if "to=assistant" in self._all_words:
            self._role, self._name = "tool", first
            return rest
        self._role = "assistant"
        return self._read_odd_role(first, rest)

    def _split_glued(self, word: str) -> str | None:
        """What follows the role in a word that begins with one (`assistantfinal`); None if the word doesn't."""
        role = next((role for role in ROLES if word.startswith(role)), None)
        if role is None:
            return None
        rest = word
        while rest.startswith(role):
            rest = rest.removeprefix(role)
        if rest.startswith(":"):
            self._role, self._name = ROLES[role], rest[1:]
            self._note("named-role", f"the name {_quoted(rest[1:])} stood in the role's place")
            return ""
        if rest and not rest.startswith((*CHANNELS, "to=")):
            return None
        self._role = ROLES[role]
        self._note("glued-role", f"{_quoted(word)} in the role's place: read as {_quoted(role)}")
        return rest

    def _read_odd_role(self, first: str, rest: list[str]) -> list[str]:
        """The role's place holds something else: a tool, a channel, `to=…`, or nothing that is known."""
        tool = resolve(clean_recipient(first), self._tools)
        if tool is not None:
            self._note("tool-as-role", f"the tool {_quoted(first)} stood in the role's place: read as the recipient")
            self._to.append(tool)
            return rest
        if _TOOL_NAME.match(first):
            self._note("tool-without-recipient", f"{_quoted(first)} in the role's place: read as a tool's message")
            self._role, self._name = "tool", first
            return rest
        self._note("missing-role", f"no role but {_quoted(first)}: taken for the assistant's")
        return [first, *rest]

    def _read_channel(self, words: list[str], text: str) -> list[str]:
        value = words[0] if words else ""
        if value in CHANNELS:
            self._channels.append(value)
            if not text.startswith(value):
                self._note("spaced-channel", "whitespace before the channel")
            return words[1:]
        if not value or value.startswith("to="):
            self._note("empty-channel", "a channel marker without a channel")
            return words
        if value in CONTENT_TYPES:
            self._note("content-type-as-channel", f"the channel {_quoted(value)} is a content type")
            return words
        tool = resolve(clean_recipient(value), self._tools)
        if tool is not None:
            self._note("tool-as-channel", f"the channel {_quoted(value)} is a tool: read as the recipient")
            self._to.append(tool)
            return words[1:]
        self._mend_channel(value)
        return words[1:]

    def _mend_channel(self, value: str) -> None:
        known = known_channel(value)
        if known:
            self._note("mended-channel", f"the channel {_quoted(value)} is read as {_quoted(known)}")
            self._channels.append(known)
        elif value in ROLES or not any(char.isalnum() for char in value):
            self._note("header-junk", f"dropped from the header: {_quoted(value)}")
        else:
            self._odd_channels.append(value)

    def _read_constrain(self, words: list[str], text: str) -> list[str]:
        value = words[0] if words else ""
        if value in CHANNELS or value.startswith("to="):
            self._note("misplaced-constrain", f"no content type but {_quoted(value)} after <|constrain|>")
            return words
        if self._constrain is not None:
            return words
        if value and not text.startswith(value):
            self._note("spaced-constrain", "whitespace between <|constrain|> and the content type")
        self._constrain = CONSTRAIN + value
        return words[1:]

    def _sort(self, words: list[str]) -> None:
        for word in words:
            if word.startswith("to="):
                if self._loose and self._loose[-1] not in CHANNELS:
                    self._note("header-order", f"the recipient stood after {_quoted(self._loose[-1])}")
                self._to.append(word[3:])
            else:
                self._loose.append(word)

    # -- what counts -----------------------------------------------------------------------------------------------

    def _drop_roles(self) -> None:
        roles = [word for word in self._loose if word in ROLES]
        if roles:
            self._note("doubled-role", f"dropped from the header: {_quoted(' '.join(roles))}")
            self._loose = [word for word in self._loose if word not in ROLES]

    def _channel(self) -> str | None:
        loose = [word for word in self._loose if word in CHANNELS]
        if not (loose or self._channels or self._odd_channels or self._to) and len(self._loose) == 1:
            self._mend_unmarked()
        if loose and not self._channels:
            self._note("unmarked-channel", f"the channel {_quoted(loose[-1])} had no marker")
            self._channels = loose
            self._loose = [word for word in self._loose if word not in CHANNELS]
        if self._channels:
            if self._odd_channels:
                self._note("header-junk", f"dropped from the header: {_quoted(' '.join(self._odd_channels))}")
            return self._channels[-1]
        return self._odd_channels[-1] if self._odd_channels else None

    def _mend_unmarked(self) -> None:
        known = known_channel(self._loose[0])
        if known:
            self._note(
                "unmarked-channel", f"the channel {_quoted(known)} had no marker, and read {_quoted(self._loose[0])}"
            )
            self._channels = [known]
            self._loose = []

    def _recipient(self, role: Role) -> str | None:
        values = [clean_recipient(text) for text in self._to]
        if values != self._to:
            self._note("cut-recipient", f"the recipient {_quoted(self._to[-1])} is read as {_quoted(values[-1])}")
        values = list(dict.fromkeys(value for value in values if value))
        if role != "assistant":
            return values[0] if values else None
        if not values:
            return self._bare_recipient()
        if len(self._to) > 1:
            self._note("doubled-recipient", "more than one recipient")
        chosen = next((value for value in values if resolve(value, self._tools)), values[0])
        resolved = resolve(chosen, self._tools)
        if resolved and resolved != chosen:
            self._note("resolved-recipient", f"the recipient {_quoted(chosen)} is read as {_quoted(resolved)}")
        return resolved or chosen

    def _bare_recipient(self) -> str | None:
        """A word that names a tool is the recipient when no `to=` gives one."""
        if self._to:
            self._note("empty-recipient", "a `to=` without a recipient")
        for i, word in enumerate(self._loose):
            tool = None if word in CONTENT_TYPES else resolve(clean_recipient(word), self._tools)
            if tool:
                self._note("bare-recipient", f"the recipient {_quoted(word)} had no `to=`: read as {_quoted(tool)}")
                del self._loose[i]
                return tool
        return None

    def _content_type(self, recipient: str | None) -> str | None:
        found = self._constrain
        if found is None:
            fitting = [word for word in self._loose if word in CONTENT_TYPES]
            if not fitting and recipient is not None and len(self._loose) == 1:
                fitting = [word for word in self._loose if _CONTENT_TYPE.fullmatch(word) and word not in CHANNELS]
            if fitting:
                found = fitting[0]
                self._loose.remove(found)
        if self._loose:
            self._note("header-junk", f"dropped from the header: {_quoted(' '.join(self._loose))}")
        return found
