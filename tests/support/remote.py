"""What tests of remote engines share: the étude's tokenizer, and texts with control tokens as ids."""

from __future__ import annotations

import re
from functools import cache

from harmony.tokenizer import Tokenizer
from tests.support.engines import ETUDE


@cache
def etude_tokenizer() -> Tokenizer:
    """The tokenizer of the built-in model."""
    from agent.models.model import open_model

    return Tokenizer(open_model(ETUDE, origin="built-in").vocabulary())


def complete_text(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text, with the control tokens that it spells out as such: what a server's tokenizer makes of it."""
    ids: list[int] = []
    for piece in re.split(r"(<\|[a-z]+\|>)", text):
        number = tokenizer.vocabulary.control.get(piece)
        ids += tokenizer.encode(piece) if number is None else [number]
    return ids
