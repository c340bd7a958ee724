"""The ids of a completion that came, the messages they made, and the one under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ossia.harmony.mending import Segment
from ossia.harmony.messages import ClosedBy, Delta, Header, Message, Role, Sampled, is_call


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
        """The open message so far; None between messages."""
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


@dataclass(slots=True)
class Draft:
    """A header under way.

    `prose`: no `<|start|>` of its own began it, so its text may turn out to be the message. `stray`: it began with
    text. `repaired`: its ids aren't a faithful form of it. `guessed`: its text is from prose; for an answer, `instead`.
    """

    role: Role | None
    first: int
    prose: bool
    stray: bool = False
    repaired: bool = False
    guessed: bool = False
    instead: Left | None = None
    markers: list[str] = field(default_factory=lambda: [""])
    texts: list[bytearray] = field(default_factory=lambda: [bytearray()])

    @property
    def segments(self) -> list[Segment]:
        texts = (text.decode("utf-8", "replace") for text in self.texts)
        return list(zip(self.markers, texts, strict=True))

    @property
    def blank(self) -> bool:
        return len(self.markers) == 1 and not self.texts[0].strip()


@dataclass(frozen=True, slots=True)
class Left:
    """A message made of a header alone, until it is known whether another one follows."""

    header: Header
    text: str
    first: int
    end: int
