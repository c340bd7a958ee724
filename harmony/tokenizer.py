"""Text ⇄ ids for whatever vocabulary is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a model: `tokens[id]` are the bytes of an ordinary token (b"" where there is none).

    `control` maps names to ids: `{"<|start|>": 200006, …}`. `digest` is a hash over both: two vocabularies with one
    digest split every text alike. `size` is the number of logits.
    """

    tokens: Sequence[bytes] = field(repr=False)
    control: Mapping[str, int]
    digest: str
    size: int
