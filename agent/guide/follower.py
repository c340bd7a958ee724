"""A guide: follows one generation through its headers and messages. The compiler makes it from a `Constraint`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ossia.agent.engine.base import Constraint, ConstraintDropped
from ossia.agent.engine.guiding import AllBut, Choice, Mask, OneOf
from ossia.agent.errors import SchemaUnusable
from ossia.agent.guide.schemas import Grammars, Matcher
from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, Channel
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tokens import ControlTokens


@dataclass(frozen=True, slots=True)
class Opened:
    """The facts in a message's header: `Opened("commentary", "functions.f")`."""

    channel: Channel
    recipient: str | None = None


class Node:
    """A place in a header: each id leads to a further place or, for `<|message|>`, to the message.

    `sampled`: the model draws the next id even if only one is possible, since it says which tool is meant. If it were
    forced, a call of a tool that isn't on offer would become a call of one that is.
    """

    __slots__ = ("_choice", "children", "sampled")

    def __init__(self) -> None:
        self.children: dict[int, Node | Opened] = {}
        self.sampled = False
        self._choice: OneOf | None = None

    @property
    def choice(self) -> OneOf:
        """The ids that may come here."""
        if self._choice is None:
            self._choice = OneOf.of(list(self.children))
        return self._choice

    @property
    def only(self) -> int | None:
        """The id that must come here; None when there are more, or when it is to be sampled."""
        return next(iter(self.children)) if len(self.children) == 1 and not self.sampled else None


_PLAIN: tuple[Channel, ...] = (ANALYSIS, COMMENTARY, FINAL)


def headers(names: Iterable[str], tokenizer: Tokenizer, *, plain: Collection[Channel] = _PLAIN) -> Node:
    """The ids that may come after `<|start|>assistant`, calls to `names` included: in either order

        <|channel|>analysis|commentary|final <|message|>
        <|channel|>analysis|commentary to=NAME TYPE? <|message|>
         to=NAME<|channel|>analysis|commentary TYPE? <|message|>

    TYPE is ` code`, ` json` or `<|constrain|>json`, with or without a blank before it; a `final` may have the last one.
    `plain`: the channels of messages that are no calls.
    """
    control, encode = tokenizer.control, tokenizer.encode
    root = Node()
    json = [control.constrain, *encode("json")]
    types: list[list[int]] = [[], encode(" code"), encode(" json"), json, [*encode(" "), *json]]
    channels: dict[Channel, list[int]] = {
        channel: [control.channel, *encode(channel)] for channel in (ANALYSIS, COMMENTARY, FINAL)
    }
    for channel in plain:
        _add(root, [*channels[channel], control.message], Opened(channel))
    for kind in (types[3], types[4]) if FINAL in plain else ():
        _add(root, [*channels[FINAL], *kind, control.message], Opened(FINAL))
    for name in names:
        to, place = _recipient(name, tokenizer)
        for channel in (ANALYSIS, COMMENTARY):
            opened, ids = Opened(channel, name), channels[channel]
            for kind in types:
                _add(root, [*ids, *to, *kind, control.message], opened, sampled=len(ids) + place)
                _add(root, [*to, *ids, *kind, control.message], opened, sampled=place)
    return root


def between(root: Node, tokenizer: Tokenizer) -> Node:
    """The ids that must come after a message that isn't the last: `<|start|>assistant`, then a header."""
    following: Node = root
    for token in reversed((tokenizer.control.start, *tokenizer.encode("assistant"))):
        node = Node()
        node.children[token] = following
        following = node
    return following


def _recipient(name: str, tokenizer: Tokenizer) -> tuple[list[int], int]:
    """` to=functions.f` as ids, and the index of the id in which the tool's own name begins."""
    ids = tokenizer.encode(f" to={name}")
    family = f" to={name.rpartition('.')[0]}.".encode()
    written = b""
    for place, token in enumerate(ids):
        written += tokenizer.token_bytes(token) or b""
        if len(written) > len(family):
            return ids, place
    return ids, 0


def _add(root: Node, ids: Sequence[int], opened: Opened, *, sampled: int | None = None) -> None:
    node = root
    for place, token in enumerate(ids[:-1]):
        node.sampled |= place == sampled
        child = node.children.setdefault(token, Node())
        assert isinstance(child, Node)  # `<|message|>` alone leads to a message, and it is the last
        node = child
    node.children[ids[-1]] = opened


# -- messages ----------------------------------------------------------------------------------------------------------


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


Body = FreeText | JsonText
"""A message being written. `closers`: the control tokens that may end it."""


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
    Thread-safe: the lanes of a model have one compiler. A guide is for one thread.
    """

    def __init__(self, tokenizer: Tokenizer, *, insists: bool = False) -> None:
        self._tokenizer = tokenizer
        self._insists = insists
        self._grammars = Grammars(tokenizer)
        self._headers: tuple[tuple[object, ...], Node] = ((), Node())
        vocabulary = tokenizer.vocabulary
        nothing = (token for token, text in enumerate(vocabulary.tokens) if not text)
        self._stray = frozenset(vocabulary.control.values()).union(nothing)
        self._free: dict[frozenset[int], FreeText] = {}

    def __call__(self, constraint: Constraint) -> Follower:
        control = self._tokenizer.control
        root = self._root(constraint.recipients, (ANALYSIS,) if constraint.must_call else _PLAIN)
        following = headers(constraint.recipients, self._tokenizer, plain=()) if constraint.must_call else root
        bodies = partial(self._body, constraint=constraint)
        return Follower(
            root if constraint.open_with is None else bodies(Opened(constraint.open_with)),
            between=between(following, self._tokenizer),
            bodies=bodies,
            loose=self._free_text(control.generation_stops | control.message_ends),
            control=control,
            insists=self._insists or constraint.must_call,
        )

    def _root(self, names: tuple[str, ...], plain: tuple[Channel, ...]) -> Node:
        """The headers of these tools. The last ones are cached, since the steps of a turn offer the same tools."""
        kept, root = self._headers
        if kept != (names, plain):
            root = headers(names, self._tokenizer, plain=plain)
            self._headers = ((names, plain), root)
        return root

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
