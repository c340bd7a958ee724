"""A guide: follows one generation through its headers and messages. The compiler makes it from a `Constraint`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ossia.agent.engine.base import Constraint, ConstraintDropped
from ossia.agent.engine.guiding import AllBut, Choice, Mask
from ossia.agent.errors import SchemaUnusable
from ossia.agent.guide.headers import Node, Opened, between, headers
from ossia.agent.guide.schemas import Grammars, Matcher
from ossia.harmony.messages import FINAL
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tokens import ControlTokens


class Body(Protocol):
    """A message being written. `closers`: the control tokens that may end it."""

    @property
    def closers(self) -> frozenset[int]: ...

    def next(self) -> Choice: ...

    def take(self, token: int) -> None: ...

    def forced(self) -> Sequence[int]: ...

    def dropped(self) -> ConstraintDropped | None: ...


@dataclass(frozen=True, slots=True)
class FreeText:
    """Anything but control tokens that would stray in it: reasoning, preambles, answers, code."""

    closers: frozenset[int]
    choice: AllBut
    bits: NDArray[np.uint32]  # the same ids

    @classmethod
    def of(cls, closers: frozenset[int], stray: frozenset[int], size: int) -> FreeText:
        """Free text for a vocabulary of `size` ids, of which `stray` aren't text."""
        choice = AllBut.of(stray - closers)
        return cls(closers, choice, choice.bits(size))

    def next(self) -> Choice:
        return self.choice

    def take(self, token: int) -> None:
        """Does nothing: free text has no state."""

    def forced(self) -> Sequence[int]:
        return ()

    def dropped(self) -> ConstraintDropped | None:
        return None


class JsonText:
    """A value by its schema, then one of `closers`. Once the grammar can't follow any more, the rest is free.

    If `matcher` is a text, it says why there is no matcher, and the whole value is free.
    """

    def __init__(self, matcher: Matcher | str, free: FreeText, what: Literal["arguments", "answer"]) -> None:
        self.closers = free.closers
        self._matcher = matcher if isinstance(matcher, Matcher) else None
        self._free = free
        self._what = what
        self._dropped = None
        if isinstance(matcher, str):
            self._dropped = ConstraintDropped(what, f"its schema can't be followed: {matcher}")

    def next(self) -> Choice:
        matcher = self._matcher
        words = matcher.mask() if matcher else None
        if matcher is None or words is None:
            self._drop()
            return self._free.choice
        words &= self._free.bits
        if matcher.whole:
            for token in self.closers:
                words[token >> 5] |= np.uint32(1 << (token & 31))
        elif not words.any():
            self._drop()
            return self._free.choice
        return Mask(words)

    def take(self, token: int) -> None:
        if self._matcher:
            self._matcher.take(token)

    def forced(self) -> Sequence[int]:
        return self._matcher.forced() if self._matcher else ()

    def dropped(self) -> ConstraintDropped | None:
        dropped, self._dropped = self._dropped, None
        return dropped

    def _drop(self) -> None:
        if self._matcher:
            reason = self._matcher.stuck or "nothing can follow"
            self._dropped = ConstraintDropped(self._what, f"its schema can't be followed any further: {reason}")
            self._matcher = None


@dataclass(slots=True)
class Follower:
    """A guide (`agent.engine.guiding.Guide`): in a header, in a message, or (after a stop) nowhere.

    `at` None: in a header that is no longer guided, or after the end. `bodies` makes the body of a message that a
    header opened. `loose` is the body after a header that was no longer guided.
    """

    at: Node | Body | None
    between: Node
    bodies: Callable[[Opened], Body]
    loose: FreeText
    control: ControlTokens
    insists: bool = False

    def next(self) -> Choice:
        at = self.at
        if at is None:
            return None
        return at.choice if isinstance(at, Node) else at.next()

    def unlikely(self) -> ConstraintDropped | None:
        if self.insists or not isinstance(self.at, Node):
            return None
        self.at = None
        return ConstraintDropped("header", "the model wants another header than any that is valid here")

    def take(self, token: int) -> Sequence[int]:
        self._step(token)
        following: list[int] = []
        while more := self._forced():
            for forced in more:
                self._step(forced)
            following += more
        return following

    def dropped(self) -> ConstraintDropped | None:
        return None if self.at is None or isinstance(self.at, Node) else self.at.dropped()

    def _forced(self) -> Sequence[int]:
        at = self.at
        if isinstance(at, Node):
            return () if at.only is None else (at.only,)
        return at.forced() if at is not None else ()

    def _step(self, token: int) -> None:
        at = self.at
        if isinstance(at, Node):
            child = at.children[token]
            self.at = self.bodies(child) if isinstance(child, Opened) else child
        elif at is None:
            self._step_loosely(token)
        elif token in at.closers:
            self.at = self.between if token == self.control.end else None
        else:
            at.take(token)

    def _step_loosely(self, token: int) -> None:
        if token == self.control.message:
            self.at = self.loose
        elif token == self.control.end:
            self.at = self.between
        elif token == self.control.start:
            self.at = self.between.children[token]  # type: ignore[assignment]


def closers_of(opened: Opened, control: ControlTokens) -> frozenset[int]:
    """The ids that may end a message: a call ends with `<|call|>`, reasoning and preambles with `<|end|>`."""
    if opened.recipient is not None:
        return frozenset((control.call,))
    return frozenset((control.return_, control.end) if opened.channel == FINAL else (control.end,))


class GuideCompiler:
    """Makes guides for one vocabulary. What several of them need (headers of the same tools, grammars) is made once.

        guide = GuideCompiler(tokenizer)(Constraint(("python", "functions.f"), {"functions.f": {…}}))

    `insists`: never stops guiding a header, however unlikely the valid ones are: for models with random weights.
    """

    def __init__(self, tokenizer: Tokenizer, *, insists: bool = False) -> None:
        self._tokenizer = tokenizer
        self._insists = insists
        self._grammars = Grammars(tokenizer)
        self._headers: tuple[tuple[str, ...], Node] = ((), Node())
        vocabulary = tokenizer.vocabulary
        nothing = (token for token, text in enumerate(vocabulary.tokens) if not text)
        self._stray = frozenset(vocabulary.control.values()).union(nothing)
        self._free: dict[frozenset[int], FreeText] = {}

    def __call__(self, constraint: Constraint) -> Follower:
        control = self._tokenizer.control
        root = self._root(constraint.recipients)
        bodies = partial(self._body, constraint=constraint)
        return Follower(
            root if constraint.open_with is None else bodies(Opened(constraint.open_with)),
            between=between(root, self._tokenizer),
            bodies=bodies,
            loose=self._free_text(control.generation_stops | control.message_ends),
            control=control,
            insists=self._insists,
        )

    def _root(self, names: tuple[str, ...]) -> Node:
        """The headers of these tools. The last ones are cached, since the steps of a turn offer the same tools."""
        if self._headers[0] != names or not self._headers[1].children:
            self._headers = (names, headers(names, self._tokenizer))
        return self._headers[1]

    def _body(self, opened: Opened, constraint: Constraint) -> Body:
        free = self._free_text(closers_of(opened, self._tokenizer.control))
        if opened.recipient is not None:
            schema = constraint.arguments.get(opened.recipient)
        else:
            schema = constraint.answer if opened.channel == FINAL else None
        if schema is None:
            return free
        try:
            matcher: Matcher | str = self._grammars.matcher(schema)
        except SchemaUnusable as error:
            matcher = str(error)
        return JsonText(matcher, free, "answer" if opened.recipient is None else "arguments")

    def _free_text(self, closers: frozenset[int]) -> FreeText:
        if closers not in self._free:
            self._free[closers] = FreeText.of(closers, self._stray, self._tokenizer.vocabulary.size)
        return self._free[closers]
