"""From a `Constraint` to a guide."""

from __future__ import annotations

from functools import partial

from ossia.agent.engine.base import Constraint
from ossia.agent.errors import SchemaUnusable
from ossia.agent.guide.follower import Body, Follower, FreeText, JsonText, closers_of
from ossia.agent.guide.headers import Node, Opened, between, headers
from ossia.agent.guide.schemas import Grammars, Matcher
from ossia.harmony.messages import FINAL
from ossia.harmony.tokenizer import Tokenizer


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
