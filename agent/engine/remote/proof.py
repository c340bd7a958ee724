"""Proof that a server's vocabulary is ours: ids and texts, both ways, before the first prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ossia.agent.control import Control
from ossia.agent.engine.remote.server import IdServer
from ossia.agent.errors import EngineFailed, ServerRefused
from ossia.harmony.tokenizer import Tokenizer
from ossia.harmony.tokens import NAMES

_TEXTS: Final = (
    "The quick brown fox can't, won't and I'LL not jump over 1234567 dogs, 3.14159 times.",
    "  two spaces,   three;\ttabs\t\tand\n\n\nlines \r\n  ",
    "Grüße, naïve Ωmega, Привет, 漢字かな, 한국어, العربية, हिन्दी 🦉👩\u200d🚀",
    'def f(x: int) -> dict[str, int]:\n    return {"a": x ** 2}  # {"city": "Oslo"}',
)
_MOST_IDS: Final = 4096
"""So many of the ordinary tokens are compared, spread over all of them."""


def prove(server: IdServer, tokenizer: Tokenizer, control: Control) -> None:
    """Check that the server's ids mean what ours mean. Raises EngineFailed, which says where they differ.

    The control tokens are asked for, spelled out; then texts with numbers, spaces and many scripts, and ids
    spread over the whole vocabulary. Texts that only look like control tokens must come back as what we sent: as text.
    How a server cuts a text doesn't matter, since it gets ids: llama.cpp cuts some scripts otherwise than tiktoken.
    """
    try:
        _prove(server, tokenizer, control)
    except ServerRefused as error:
        raise EngineFailed(
            f"{error}: without /tokenize and /detokenize nothing proves that its vocabulary is ours"
        ) from error


def _prove(server: IdServer, tokenizer: Tokenizer, control: Control) -> None:
    vocabulary = tokenizer.vocabulary
    own = {name: number for name, number in vocabulary.control.items() if name in NAMES}
    theirs = server.tokenize("".join(own), control)  # all at once: a far server is asked less often
    for (name, number), other in zip(own.items(), theirs, strict=False):
        _same(server, name, number, other)
    _same(server, theirs, "".join(own), server.detokenize(theirs, control))
    for text in _TEXTS:
        _same(server, text, text, tokenizer.decode(server.tokenize(text, control)))
        _same(server, text, text, server.detokenize(tokenizer.encode(text), control))
    spelled = "".join(NAMES)
    _same(server, spelled, spelled, server.detokenize(tokenizer.encode(spelled), control))
    ids = _spread(vocabulary.tokens)
    _same(server, f"{len(ids)} ids", tokenizer.decode(ids), server.detokenize(ids, control))


def _spread(tokens: Sequence[bytes]) -> list[int]:
    """Ids spread over the vocabulary, of tokens that are text by themselves."""
    ids = [number for number, token in enumerate(tokens) if token and _is_text(token)]
    count = min(len(ids), _MOST_IDS)
    return [ids[at * len(ids) // count] for at in range(count)]


def _is_text(token: bytes) -> bool:
    try:
        return bool(token.decode())
    except UnicodeDecodeError:
        return False


def _same(server: IdServer, what: object, ours: object, theirs: object) -> None:
    if ours != theirs:
        is_there = server.client.said(repr(theirs), 40)
        raise EngineFailed(
            f"{server.client.address.name}: its vocabulary isn't ours: {what!r:.40} is {is_there} there, not "
            f"{ours!r:.40}: serve a gpt-oss model there, or name the GGUF that it serves with --model"
        )
