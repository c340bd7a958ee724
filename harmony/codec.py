"""All that the rest of the program sees of Harmony: a conversation becomes ids, ids become messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ossia.harmony.messages import Message, Role
from ossia.harmony.parse import StreamParser
from ossia.harmony.render import (
    DropPolicy,
    RecipientPosition,
    declares_functions,
    drop_before_last_final,
    is_final,
    render_message,
)
from ossia.harmony.tokenizer import Tokenizer

Purpose = Literal["completion", "training"]
_Key = tuple[Message | int, int, bool]

_RENDERS_KEPT = 64  # several turns of a session: what leaves the prompt meanwhile costs little memory
_IDS_KEPT = 1 << 20  # twice that, at 36 bytes: several prompts that fill the context


@dataclass(frozen=True, slots=True)
class Rendered:
    """A conversation as ids, in a new list.

    `ends` has a pair for each message in the prompt: its index in the conversation, and the offset in `ids` just after
    it. The ids after the last offset open the message to be generated.
    """

    ids: list[int]
    ends: tuple[tuple[int, int], ...]


class Codec:
    """Messages ⇄ ids in one vocabulary.

    `recipient_position`: see `harmony.render`. With `replay`, a message that a model generated (`Message.sampled`),
    whole and without repairs, is written as the ids it was sampled as, its `<|return|>` as `<|end|>`; so the prompt is
    what the model wrote, and what its cache holds. The sampled ids must be of this vocabulary.

    The ids of messages are cached, so rendering a conversation that grew takes as long as its new messages do. A
    prompt's mappings (its schemas) must not change once it was rendered.

        codec = Codec(tokenizer)
        codec.render([Message("user", ("hi",))], purpose="completion").ids
        # [200006, 1428, 200008, 3686, 200007, 200006, 173781]: "<|start|>user<|message|>hi<|end|><|start|>assistant"
    """

    def __init__(
        self, tokenizer: Tokenizer, *, recipient_position: RecipientPosition = "role", replay: bool = False
    ) -> None:
        self.tokenizer = tokenizer
        self._recipient_position = recipient_position
        self._replay = replay
        self._known: dict[_Key, tuple[Message, list[int]]] = {}
        self._known_before: dict[_Key, tuple[Message, list[int]]] = {}
        self._renders = self._count = 0  # the count: of the ids in `_known`

    def render(
        self,
        messages: Sequence[Message],
        *,
        purpose: Purpose | None = None,
        role: Role = "assistant",
        drop: DropPolicy = drop_before_last_final,
    ) -> Rendered:
        """The ids of a conversation, less what `drop` leaves out. No message is ever added.

        `purpose` "completion" opens a message of `role` at the end (`<|start|>assistant`); "training" ends a last
        `final` of the assistant with `<|return|>`, as the model is to learn it. Raises `RenderError` when a message
        can't be written.
        """
        control = self.tokenizer.control
        has_functions = declares_functions(messages)
        ids: list[int] = []
        ends = []
        self._renders += 1
        if self._renders % _RENDERS_KEPT == 0:
            self._forget()
        for index in drop(messages):
            ids += self._ids(messages[index], has_functions)
            ends.append((index, len(ids)))
        if purpose == "completion":
            ids += [control.start, *self.tokenizer.encode(role)]
        elif purpose == "training" and ends and ends[-1][0] == len(messages) - 1 and is_final(messages[-1]):
            ids[-1] = control.return_
        return Rendered(ids, tuple(ends))

    def parser(self, *, tools: frozenset[str] = frozenset(), opening: Sequence[int] = ()) -> StreamParser:
        """A parser of what is generated after a render for completion; see `StreamParser`."""
        return StreamParser(self.tokenizer, tools=tools, opening=opening)

    def _ids(self, message: Message, has_functions: bool) -> list[int]:
        key = _key(message, has_functions)
        if kept := self._known.get(key):
            return kept[1]
        kept = self._known_before.get(key) or (message, self._fresh(message, has_functions))
        if len(kept[1]) <= _IDS_KEPT:
            self._known[key] = kept
            self._count += len(kept[1])
        if self._count > _IDS_KEPT:
            self._forget()
        return kept[1]

    def _forget(self) -> None:
        """Drop what wasn't used since the last time."""
        self._known_before, self._known, self._count = self._known, {}, 0

    def _fresh(self, message: Message, has_functions: bool) -> list[int]:
        sampled = message.sampled
        if not self._replay or sampled is None or sampled.repaired or sampled.closed_by is None:
            where = self._recipient_position
            return render_message(message, self.tokenizer, has_functions=has_functions, recipient_position=where)
        control = self.tokenizer.control
        if sampled.ids[-1] != control.end and not (sampled.ids[-1] == control.call and message.recipient is not None):
            return [*sampled.ids[:-1], control.end]  # what ended the generation isn't what ends this message
        return list(sampled.ids)


def _key(message: Message, has_functions: bool) -> _Key:
    """The key under which the ids of a message are cached: equal texts share one, prompts are compared by identity.

    Prompts hold schemas, in which 1, 1.0 and True are equal to Python but not to the model. `Message.sampled` is left
    out when messages are compared, but counts here. An `id()` stays valid, since the cached message stays alive.
    """
    if all(isinstance(item, str) for item in message.content):
        return message, id(message.sampled), False
    return id(message), 0, has_functions
