"""What both parsers share: the ids that came, the messages they made, the one under way."""

from __future__ import annotations

from collections.abc import Sequence

from ossia.harmony.header import Header
from ossia.harmony.messages import ClosedBy, Delta, Message, Sampled, is_call


class Assembly:
    """The messages of one completion, in the making. Each step costs the same, however long the message is.

    `prefix` are the ids that the prompt ended with, which begin the first message.
    """

    def __init__(self, prefix: Sequence[int]) -> None:
        self.tokens: list[int] = []
        self.messages: list[Message] = []
        self.call_ended = False
        self.header: Header | None = None
        self.parts: list[str] = []
        self.repaired = False
        self._headless = False
        self._prefix = tuple(prefix)
        self._first = 0
        self._delta = Delta(0, "")

    def open(self, header: Header, first: int, *, repaired: bool = False, headless: bool = False) -> Delta:
        """Begin a message whose ids start at `tokens[first]`; the delta announces it."""
        self.header, self._first, self.repaired, self._headless = header, first, repaired, headless
        self.parts = []
        self._delta = Delta(
            len(self.messages), "", header.role, header.name, header.recipient, header.channel, header.content_type
        )
        return self._delta

    def add(self, text: str) -> Delta:
        """More text of the open message."""
        self.parts.append(text)
        last = self._delta
        return Delta(last.index, text, last.role, last.name, last.recipient, last.channel, last.content_type)

    def close(self, closed_by: ClosedBy | None, end: int) -> None:
        """Finish the open message, whose ids end before `tokens[end]`."""
        message = self.snapshot(closed_by, end)
        assert message is not None
        self.messages.append(message)
        self.header = None
        self.parts = []
        if is_call(message):
            self.call_ended = True

    def snapshot(self, closed_by: ClosedBy | None, end: int) -> Message | None:
        """The open message as it stands, None when there is none."""
        header = self.header
        if header is None:
            return None
        ids = tuple(self.tokens[self._first : end])
        if self._first == 0 and not self.messages and ids[:1] != self._prefix[:1]:  # some models repeat their opening
            ids = self._prefix + ids
        return Message(
            header.role,
            ("".join(self.parts),),
            name=header.name,
            recipient=header.recipient,
            channel=header.channel,
            content_type=header.content_type,
            sampled=Sampled(ids, closed_by, self.repaired, self._headless),
        )

    def begin_after_opening(self) -> None:
        """Forget the ids fed so far: they were the opening, which the prefix holds."""
        self.tokens.clear()
        self._first = 0
