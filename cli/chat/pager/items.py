"""One thing of a session as a person reads it: something said, thought, called or noted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ossia.agent.events import Delta
from ossia.harmony.messages import Message, Sampled, is_call
from ossia.tools.spec import Attachment, ToolCall, ToolFinished, ToolResult
from ossia.tools.work.result import for_people

ItemKind = Literal["user", "thinking", "preamble", "answer", "call", "note", "summary"]
ItemState = Literal["open", "asked", "running", "done"]
"""open: still being written; asked: the user is asked about this call; running: the call runs; done: all is there."""

TAIL_CHARS = 4_000


class Pieces:
    """A text that grows: adding costs only as much as the piece is long; reading joins what came."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[str] = []

    def add(self, piece: str) -> None:
        """Append this piece."""
        self._parts.append(piece)

    def set(self, text: str) -> None:
        """Put the whole text in place of all pieces."""
        self._parts = [text]

    @property
    def text(self) -> str:
        """All pieces as one."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""


@dataclass(slots=True, eq=False)
class Item:
    """One thing that happened. `text` is raw outside text: the user's, the model's, or a call's result.

    `turn` counts from 0; -1: before the first. `cut`: it was never closed. `tokens` and `seconds` (of generation) are
    None when nobody knows them. `attached`: what a user's message holds beside what they typed. `attachments`: files
    that a call made. `name`: a call's whole recipient; for a note on how a turn ended, that end; "" for others.

    A call has `arguments` (as the model wrote them; `ran` if the user changed them), an `id` once it is known,
    `answered` once it has its result, `ms` spent in the tool (None: not known, or it runs), and while it runs `output`:
    the end of what it printed, `TAIL_CHARS` at the most. `diff`: what it changes in files; a stored call has none.
    `lost`: why a call that was cut never ran, or why there is no result, once its turn is over.

        Item("call", turn=0, name="python").arguments    # 'print(6*7)'
    """

    kind: ItemKind
    turn: int = -1
    name: str = ""
    state: ItemState = "done"
    cut: bool = False
    error: bool = False
    tokens: int | None = None
    seconds: float | None = None
    attached: str = ""
    attachments: tuple[Attachment, ...] = ()
    id: str = ""
    answered: bool = False
    ms: int | None = None
    output: str = ""
    ran: str | None = None
    diff: str = ""
    lost: str = ""
    since: float = 0.0  # the clock when it began
    version: int = 0  # grows with each change
    result: str = ""  # of a call, as the model reads it
    said: Pieces = field(default_factory=Pieces)  # a call's arguments, anything else's text

    @property
    def text(self) -> str:
        """What it says; of a call, what came back."""
        return for_people(self.result, self.name) if self.kind == "call" else self.said.text

    @property
    def arguments(self) -> str:
        """Of a call; "" for anything else."""
        return self.said.text if self.kind == "call" else ""

    @property
    def failed(self) -> bool:
        """Of a call: it gave an error, or never came to its end."""
        return self.error or bool(self.lost)

    def finished(self) -> ToolFinished:
        """A call of the past as it ended."""
        result = ToolResult(self.lost or self.result, error=self.failed)
        return ToolFinished(ToolCall("", self.name, "" if self.lost else self.arguments), result, self.ms or 0)


def tokens_of(sampled: Sampled) -> int:
    """How many tokens of text it has: `<|start|>assistant<|channel|>analysis<|message|>` are 5, and 1 closes it."""
    return max(0, len(sampled.ids) - 5 - (sampled.closed_by is not None))


def item_name(message: Message | Delta) -> str:
    """A call's recipient; "" for anything else."""
    return message.recipient or "" if is_call(message) else ""
