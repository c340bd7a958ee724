"""The tolerant reading of a malformed header. It never fails, and notes what it mended."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ossia.harmony.messages import CHANNELS, FINAL, NOT_TOOLS, ROLES, Header, Role
from ossia.harmony.recipients import clean_recipient, is_tool_name, offered_in, resolve
from ossia.harmony.tokens import CHANNEL, CONSTRAIN

Segment = tuple[str, str]
"""A stretch of a header and the marker before it: "" (the role's place), `<|channel|>` or `<|constrain|>`."""
Note = tuple[str, str]
"""A repair: its code and what it was, for people."""

CONTENT_TYPES = frozenset(("json", "code", "text", "xml", "yaml", "markdown", "html"))
"""Words that are a content type wherever they stand, and never a recipient."""

_NOBODY = frozenset((*ROLES, *CHANNELS, "")) - {"assistant", "user"}
"""Never a recipient: the name of a channel, which counts as one, or of a role; nothing."""
_OF_HEADERS = CONTENT_TYPES.union(ROLES, CHANNELS)
_CONTENT_TYPE = re.compile(r"[\w./+-]*[A-Za-z][\w./+-]*")
_MAX_QUOTED = 200  # characters: a header can be as long as a completion
_MAX_NAME_WORDS = 4  # of a tool's name with blanks in it
_ROLE = re.compile(rf"(?P<role>{'|'.join(ROLES)})(?P=role)*(?P<rest>$|:.*|(?:{'|'.join(CHANNELS)}|to=).*)")
_SHORTEST_CHANNEL = 4  # "comm" is commentary that was cut; less could be anything


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


def quoted(text: str) -> str:
    """`text` in quotes, for a repair's message."""
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
        self._in_prose: list[str] = []  # of these, those that stand among other words
        self._constrain: str | None = None
        self._loose: list[str] = []  # other words, until the end
        self._all_words = {word for _, text in segments for word in text.split()}
        self._markers = [marker for marker, _ in segments]
        takes = {CHANNEL: self._take_channel, CONSTRAIN: self._take_constrain}
        for marker, text in segments:
            self._sort(takes.get(marker, self._take_role)(text.split(), text))
            if not marker and not _OF_HEADERS.issuperset(self._loose):
                self._in_prose = self._to[:]
        if self._channels[-1:] == [FINAL]:  # prose in front of an answer names no recipient
            self._to = self._to[len(self._in_prose) :]
        if self._markers.count(CHANNEL) > 1:
            self._note("doubled-channel", "more than one channel: the last known one counts")

    def header(self) -> Header:
        role = self._role or "assistant"
        self._drop_roles()
        recipient = self._recipient() if role == "assistant" else next(filter(None, self._to), None)
        channel = self._channel()
        return Header(role, self._name, recipient, channel, self._content_type(recipient))

    def _note(self, code: str, message: str) -> None:
        self.notes.append((code, message))

    # -- the first word of each place ------------------------------------------------------------------------------

    def _take_role(self, words: list[str], text: str) -> list[str]:
        """Take the role from the front of its place; what is left are words like all others."""
        first = words[0] if words else ""
        if self._role is not None:
            return words[1:] if first == self._role else words
        if found := _ROLE.match(first):
            return self._take_known_role(first, found["role"], found["rest"]) + words[1:]
        tool = resolve(clean_recipient(first), self._tools)
        if self._is_result(first, tool):
            self._role, self._name = "tool", first
            return words[1:]
        self._role = "assistant"
        if tool is not None:
            self._note("tool-as-role", f"the tool {quoted(first)} stood in the role's place: read as the recipient")
            self._to.append(tool)
            return words[1:]
        self._note("missing-role", f"no role but {quoted(first)}: taken for the assistant's")
        return words

    def _is_result(self, name: str, tool: str | None) -> bool:
        """True for a message of the tool `name`. A call of an offered `tool` has a content type, a result never has."""
        named = tool is not None or is_tool_name(name)
        if "to=assistant" in self._all_words:
            return not (tool and self._all_words & CONTENT_TYPES) if named else CHANNEL not in self._markers
        if named and tool is None:
            self._note("tool-without-recipient", f"{quoted(name)} in the role's place: read as a tool's message")
        return named and tool is None

    def _take_known_role(self, word: str, role: str, rest: str) -> list[str]:
        """A word that begins with a role (`assistantfinal`, `user:ann`): what follows in it is a word of its own."""
        self._role = ROLES[role]
        if rest.startswith(":"):
            self._name = rest[1:]
            self._note("named-role", f"the name {quoted(rest[1:])} stood in the role's place")
            return []
        if word != role:
            self._note("glued-role", f"{quoted(word)} in the role's place: read as {quoted(role)}")
        elif role == "tool":
            self._name = role
        return [rest] if rest else []

    def _take_channel(self, words: list[str], text: str) -> list[str]:
        value = words[0] if words else ""
        if value in CHANNELS:
            self._channels.append(value)
            if not text.startswith(value):
                self._note("spaced-channel", "whitespace before the channel")
        elif not value or value.startswith("to="):
            self._note("empty-channel", "a channel marker without a channel")
            return words
        elif value in CONTENT_TYPES:
            self._note("content-type-as-channel", f"the channel {quoted(value)} is a content type")
            return words
        elif tool := self._tool_for_channel(value):
            self._note("tool-as-channel", f"the channel {quoted(value)} is a tool: read as the recipient")
            self._to.append(tool)
            self._channels += [channel for channel in CHANNELS if value.startswith(channel)]
        elif known := known_channel(value):
            self._note("mended-channel", f"the channel {quoted(value)} is read as {quoted(known)}")
            self._channels.append(known)
        elif value in ROLES or not any(char.isalnum() for char in value):
            self._note("header-junk", f"dropped from the header: {quoted(value)}")
        else:
            self._odd_channels.append(value)
        return words[1:]

    def _tool_for_channel(self, value: str) -> str | None:
        """The tool that stands in the place of a channel; one that isn't on offer only if a channel follows, too."""
        named = self._markers.count(CHANNEL) > 1 and is_tool_name(value) and not known_channel(value)
        return offered_in(value, self._tools) or (value if named else None)

    def _take_constrain(self, words: list[str], text: str) -> list[str]:
        value = words[0] if words else ""
        if value in CHANNELS or value.startswith("to="):
            self._note("misplaced-constrain", f"no content type but {quoted(value)} after <|constrain|>")
            return words
        if value not in CONTENT_TYPES and (tool := offered_in(value, self._tools)):
            self._note("misplaced-constrain", f"the content type {quoted(value)} is a tool: read as the recipient")
            self._to.append(tool)
            return words[1:]
        if self._constrain is not None:
            return words
        if value and not text.startswith(value):
            self._note("spaced-constrain", "whitespace between <|constrain|> and the content type")
        self._constrain = CONSTRAIN + value
        return words[1:]

    def _sort(self, words: list[str]) -> None:
        left = words[::-1]
        while left:
            word = left.pop()
            if not word.startswith("to="):
                self._loose.append(word)
                continue
            if self._loose and self._loose[-1] not in CHANNELS:
                self._note("header-order", f"the recipient stood after {quoted(self._loose[-1])}")
            self._to.append(self._with_blanks(word.removeprefix("to="), left))

    def _with_blanks(self, value: str, left: list[str]) -> str:
        """The recipient `value`, with what is taken off the end of `left` if both are a name on offer with blanks."""
        for count in range(min(len(left), _MAX_NAME_WORDS), 0, -1):
            words = left[: -count - 1 : -1]
            for name in (" ".join((value, *words)), f"{value}.{words[0]}" if count == 1 else ""):
                if value and CONTENT_TYPES.isdisjoint(words) and resolve(name, self._tools):
                    del left[-count:]
                    return name
        return value

    # -- what counts -----------------------------------------------------------------------------------------------

    def _drop_roles(self) -> None:
        roles = [word for word in self._loose if word in ROLES]
        if roles:
            self._note("doubled-role", f"dropped from the header: {quoted(' '.join(roles))}")
            self._loose = [word for word in self._loose if word not in ROLES]

    def _channel(self) -> str | None:
        lone = len(self._loose) == 1 and not (self._odd_channels or self._to)
        loose = [word for word in self._loose if word in CHANNELS or (lone and known_channel(word))]
        if loose and not self._channels:
            self._note("unmarked-channel", f"the channel {quoted(loose[-1])} had no marker")
            self._channels = [known for word in loose if (known := known_channel(word))]
            self._loose = [word for word in self._loose if word not in loose]
        if self._channels and self._odd_channels:
            self._note("header-junk", f"dropped from the header: {quoted(' '.join(self._odd_channels))}")
        return next(reversed(self._channels or self._odd_channels), None)

    def _recipient(self) -> str | None:
        """Whom a message of the assistant's is for: the first `to=` that names a tool, else a word that does."""
        values = [name if name in self._tools else clean_recipient(name) for name in self._to]
        if values != self._to:
            self._note("cut-recipient", f"the recipient {quoted(self._to[-1])} is read as {quoted(values[-1])}")
        if len(values) > 1:
            self._note("doubled-recipient", "more than one recipient")
        for value in filter(_NOBODY.__contains__, values):
            code = "channel-as-recipient" if value else "empty-recipient"
            self._note(code, f"the recipient {quoted(value)} is no tool")
            self._channels += [value] if value in CHANNELS else []
        values = [value for value in values if value not in _NOBODY]
        if NOT_TOOLS.issuperset(values) and (tool := self._bare_recipient()):
            return tool
        if self.notes:  # where something is wrong anyway, the model's own name says nothing
            values = [value for value in values if value != "assistant"]
        for value in values:
            if resolved := offered_in(value, self._tools):
                if resolved != value:
                    self._note("resolved-recipient", f"the recipient {quoted(value)} is read as {quoted(resolved)}")
                return resolved
        return self._bare_recipient(whole=True) or next(iter(values), None)

    def _bare_recipient(self, *, whole: bool = False) -> str | None:
        """A loose word that names a tool on offer. `whole`: by its whole name, since another one was addressed."""
        for i, word in enumerate(self._loose):
            if word in CONTENT_TYPES or (whole and word not in self._tools):
                continue
            if tool := offered_in(word, self._tools):
                self._note("bare-recipient", f"the recipient {quoted(word)} had no `to=`: read as {quoted(tool)}")
                del self._loose[i]
                return tool
        return None

    def _content_type(self, recipient: str | None) -> str | None:
        found = self._constrain
        if found is None:
            fitting = [word for word in self._loose if word in CONTENT_TYPES]
            if not fitting and recipient is not None and len(self._loose) == 1 and not self.notes:
                fitting = [word for word in self._loose if _CONTENT_TYPE.fullmatch(word) and word not in CHANNELS]
            if fitting:
                found = fitting[0]
                self._loose.remove(found)
        if self._loose:
            self._note("header-junk", f"dropped from the header: {quoted(' '.join(self._loose))}")
        return found
