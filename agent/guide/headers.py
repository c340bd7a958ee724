"""The headers that may come, as a trie of ids.

After `<|start|>assistant` the model writes, in either order (`|` is a choice, `?` what may be left out):

    <|channel|>analysis|commentary|final <|message|>
    <|channel|>analysis|commentary to=NAME TYPE? <|message|>
     to=NAME<|channel|>analysis|commentary TYPE? <|message|>

TYPE is ` code`, ` json` or `<|constrain|>json`, with or without a blank before it; a `final` may have the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ossia.agent.engine.guiding import OneOf
from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, Channel
from ossia.harmony.tokenizer import Tokenizer


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


def headers(names: Iterable[str], tokenizer: Tokenizer) -> Node:
    """The ids that may come after `<|start|>assistant`, calls to `names` included."""
    control, encode = tokenizer.control, tokenizer.encode
    root = Node()
    json = [control.constrain, *encode("json")]
    types: list[list[int]] = [[], encode(" code"), encode(" json"), json, [*encode(" "), *json]]
    channels: dict[Channel, list[int]] = {
        channel: [control.channel, *encode(channel)] for channel in (ANALYSIS, COMMENTARY, FINAL)
    }
    for channel, ids in channels.items():
        _add(root, [*ids, control.message], Opened(channel))
    for kind in (types[3], types[4]):
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
