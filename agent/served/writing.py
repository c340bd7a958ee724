"""A server's answer becomes Harmony messages, as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ossia.agent.served.wire import Called, Names, Reasoning, Said
from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, Delta, Message, Sampled, is_call

_MOST_NAME_CHARS = 256


@dataclass(slots=True)
class _Open:
    """The message that is being written. `key`: that of a call; `name`: its name with the server, so far."""

    kind: type[Reasoning] | type[Said] | type[Called]
    key: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list)


class Writing:
    """The messages of one step. A call's arguments are streamed; raw text in them only comes as a whole, at the end."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._messages: list[Message] = []
        self._open: _Open | None = None

    @property
    def answers_or_calls(self) -> bool:
        """True once an answer or a call has begun."""
        begun = self._open is not None and self._open.kind is not Reasoning
        return begun or any(message.channel != ANALYSIS or is_call(message) for message in self._messages)

    @property
    def prose(self) -> str | None:
        """The text of the open message; None: it is a call."""
        return None if self._open is None or self._in_call else "".join(self._open.text)

    def has_other_call(self, piece: Called) -> bool:
        """True if there is another call than this one.

        It has a name, and another number, or what came before it is whole. Ids say nothing: some servers give two calls
        the same, some each piece another; and some repeat the name in each piece.
        """
        if any(map(is_call, self._messages)):
            return True
        if self._open is None or not self._in_call or not piece.name:
            return False
        if self._open.key != piece.key or self._is_whole:
            return True
        return piece.name != self._open.name and bool(self._open.text)

    def has_endless_name(self, piece: Called) -> bool:
        """Would the call's name be longer than that of any tool?"""
        there = self._open.name if self._open is not None and self._in_call else ""
        return len(there) + len(piece.name) > _MOST_NAME_CHARS

    def take(self, piece: Reasoning | Said | Called) -> Iterator[Delta]:
        """Add a piece; yields the new text."""
        if self._open is None or self._open.kind is not type(piece):
            yield from self.close()
            self._open = _Open(type(piece), piece.key if isinstance(piece, Called) else "")
        if isinstance(piece, Called) and piece.name != self._open.name:
            held_back = self._is_held_back
            self._open.name += piece.name
            if held_back and not self._is_held_back and self._open.text:  # it is another tool's after all
                yield self._delta(self._text)
        if piece.text:
            self._open.text.append(piece.text)
            if not self._is_held_back:
                yield self._delta(piece.text)

    def close(self) -> Iterator[Delta]:
        """End the open message; yields what was held back of it."""
        if self._open is None:
            return
        if self._is_held_back or not self._open.text:
            yield self._delta(self._text)
        self._messages.append(replace(self._header(), content=(self._text,)))
        self._open = None

    def messages(self, *, cut: bool) -> tuple[Message, ...]:
        """The messages so far, up to the first call. `cut`: the last one isn't whole.

        What was said before a call is a preamble, and no answer, although its deltas couldn't tell.
        """
        calls = [n for n, message in enumerate(self._messages) if is_call(message)]
        messages = self._messages[: calls[0] + 1] if calls else list(self._messages)
        if calls:
            messages = [replace(one, channel=COMMENTARY) if one.channel == FINAL else one for one in messages]
        if cut and messages:
            messages[-1] = replace(messages[-1], sampled=Sampled((), None))
        return tuple(messages)

    @property
    def _in_call(self) -> bool:
        return self._open is not None and self._open.kind is Called

    @property
    def _is_whole(self) -> bool:
        """True once the call's arguments are complete: another name can then only be another call's."""
        assert self._open is not None
        text = "".join(self._open.text) if self._open.text and self._open.text[-1].rstrip().endswith("}") else ""
        try:
            return isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            return False

    @property
    def _is_held_back(self) -> bool:
        return self._in_call and self._names.takes_text(self._header().recipient or "")

    @property
    def _text(self) -> str:
        assert self._open is not None
        text = "".join(self._open.text)
        return self._names.text_back(text) if self._is_held_back else text

    def _header(self) -> Message:
        assert self._open is not None
        if self._open.kind is not Called:
            return Message("assistant", channel=ANALYSIS if self._open.kind is Reasoning else FINAL)
        recipient = self._names.back(self._open.name)
        channel, content_type = self._names.header(recipient)
        return Message("assistant", recipient=recipient, channel=channel, content_type=content_type)

    def _delta(self, text: str) -> Delta:
        header = self._header()
        return Delta(
            len(self._messages),
            text,
            recipient=header.recipient,
            channel=header.channel,
            content_type=header.content_type,
        )
