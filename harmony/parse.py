"""Ids → messages, one id at a time."""

from __future__ import annotations

from collections.abc import Sequence

from ossia.harmony.header import Header
from ossia.harmony.messages import Completion, CompletionEnd, Delta, Message, Repaired, Role
from ossia.harmony.strict import State, StrictMachine
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tolerant import TolerantMachine


class StreamParser:
    """Makes messages out of sampled ids, and deltas while they come.

    Tolerant (the default): takes any ids, never raises, and reports what it mended as `Repaired`. `strict`: accepts
    exactly what the reference library accepts and raises `ParseError` with its texts; the state after an error is the
    reference's too, so parsing can go on.

    `role` is whose message the prompt has begun: "assistant" for a completion; None when the ids begin with
    `<|start|>`. `tools` are the recipients on offer (`functions.f`, `python`), which the tolerant parser matches
    misspelt ones with. `opening` are the ids that the prompt ended with, from `<|start|>` on; needed when the prompt
    goes further than the role, as in `<|start|>assistant<|channel|>final<|message|>`. Without it, it is taken to be
    `<|start|>` and the role.

        parser = StreamParser(tokenizer)
        for token in tokenizer_ids:      # <|channel|>final<|message|>Hello<|return|>
            for delta in parser.push(token):
                print(delta.text, end="")
        parser.flush()
        parser.messages                  # (Message("assistant", ("Hello",), channel="final"),)
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        role: Role | None = "assistant",
        strict: bool = False,
        tools: frozenset[str] = frozenset(),
        opening: Sequence[int] = (),
    ) -> None:
        begun = 0 if role is None else 1 + len(tokenizer.encode(role))
        prefix = tuple(opening) or (() if role is None else (tokenizer.control.start, *tokenizer.encode(role)))
        self._machine: StrictMachine | TolerantMachine
        if strict:
            self._machine = StrictMachine(tokenizer, role, prefix)
        else:
            self._machine = TolerantMachine(tokenizer, role, prefix, tools)
        for token in prefix[begun:]:
            self._machine.push(token)
        self._machine.begin_after_opening()
        self._assembly = self._machine.assembly

    def push(self, token: int) -> Sequence[Delta | Repaired]:
        """What `token` adds: at most one delta, except between messages. Costs the same at any length.

        Strict: raises `ParseError`; the token is recorded all the same.
        """
        return self._machine.push(token)

    def flush(self, *, cut: bool = False) -> Sequence[Delta | Repaired]:
        """What the end of the ids adds: held-back bytes, repairs. The open message becomes the last of `messages`.

        `cut`: it wasn't the model that ended (a token limit, a stop), so a header that is only half there is dropped
        without a word. Strict: raises `ParseError` in the middle of a header.
        """
        if isinstance(self._machine, StrictMachine):
            return self._machine.flush()
        return self._machine.flush(cut=cut)

    def completion(self, *, end: CompletionEnd) -> Completion:
        """Everything that came so far; a message still open is the last one, closed by None."""
        last = self.open_message
        messages = (*self._assembly.messages, last) if last else self.messages
        return Completion(messages, end, self.repairs, len(self._assembly.tokens))

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages finished so far."""
        return tuple(self._assembly.messages)

    @property
    def open_message(self) -> Message | None:
        """The message under way with the text it has; None between messages and inside a header. O(its length)."""
        return self._assembly.snapshot(None, len(self._assembly.tokens))

    @property
    def repairs(self) -> tuple[Repaired, ...]:
        """Every repair so far; strict makes none."""
        return () if isinstance(self._machine, StrictMachine) else tuple(self._machine.repairs)

    @property
    def call_ended(self) -> bool:
        """A message addressed to a tool has been closed, whatever closed it."""
        return self._assembly.call_ended

    # -- what the reference's StreamableParser shows as well -------------------------------------------------------

    @property
    def state(self) -> State:
        """`"ExpectStart"`, `"Header"` or `"Content"`."""
        return self._machine.state

    @property
    def tokens(self) -> Sequence[int]:
        """Every id pushed, rejected ones included; not to be changed."""
        return self._assembly.tokens

    @property
    def last_content_delta(self) -> str | None:
        """The text that the last id completed; None when it completed none."""
        return self._machine.last_content_delta

    @property
    def current_role(self) -> Role | None:
        """The open message's role; before its content, the role that the prompt gave."""
        return self._machine.role

    @property
    def current_channel(self) -> str | None:
        """The open message's channel."""
        return self._header.channel

    @property
    def current_recipient(self) -> str | None:
        """The open message's recipient."""
        return self._header.recipient

    @property
    def current_content_type(self) -> str | None:
        """The open message's content type."""
        return self._header.content_type

    @property
    def current_content(self) -> str:
        """The open message's text so far. O(its length)."""
        return "".join(self._assembly.parts)

    @property
    def _header(self) -> Header:
        return self._assembly.header or Header("assistant")
