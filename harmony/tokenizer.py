"""Text ⇄ ids for whatever vocabulary is in use."""

from __future__ import annotations

import base64
import codecs
import hashlib
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import tiktoken

from ossia.harmony.errors import VocabularyError
from ossia.harmony.tokens import ControlTokens


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens of a model: `tokens[id]` are the bytes of an ordinary token (b"" for other ids).

    `control` maps names to ids: `{"<|start|>": 200006, …}`. `digest` is a hash over both: two vocabularies with one
    digest split every text alike. `size` is the number of logits.
    """

    tokens: Sequence[bytes] = field(repr=False)
    control: Mapping[str, int]
    digest: str
    size: int


def vocabulary_from_byte_level(tokens: Sequence[str], *, token_types: Sequence[int]) -> Vocabulary:
    """The vocabulary that a GGUF holds: `tokens` as they stand there (GPT-2's byte-level text: "Ġthe" is b" the").

    `token_types` are GGUF's: 1 is an ordinary token; 3 and 4 (control, user-defined) are control tokens, whose text
    is their name; the rest (unknown, unused, byte) stand for nothing. Raises `VocabularyError` when a token isn't
    byte-level text, or when both lists differ in length.
    """
    if len(tokens) != len(token_types):
        raise VocabularyError(f"{len(tokens)} tokens, but {len(token_types)} token types: the file is damaged")
    control = {tokens[i]: i for i, kind in enumerate(token_types) if kind in _CONTROL_TYPES}
    ordinary = [text if kind == _NORMAL_TYPE else "" for text, kind in zip(tokens, token_types, strict=True)]
    try:
        joined, _ = codecs.charmap_encode("".join(ordinary), "strict", _BYTE_OF)
    except UnicodeEncodeError as error:
        raise VocabularyError(
            f"tokens must be in GPT-2's byte-level alphabet, which has no {error.object[error.start]!r}: "
            "the file isn't a gpt-oss model"
        ) from None
    # One character is one byte, so the tokens lie in the joined bytes where they lay in the joined text.
    offsets = accumulate(map(len, ordinary), initial=0)
    return _vocabulary([joined[a:b] for a, b in pairwise(offsets)], control)


def vocabulary_from_o200k(file: bytes) -> Vocabulary:
    """gpt-oss's vocabulary `o200k_harmony`, from tiktoken's file `o200k_base.tiktoken`: `IQ== 0`, `Ig== 1`, …

    Its lines are the ordinary tokens in base64, each with its id. Raises `ValueError` for another file.
    """
    lines = (line.split() for line in file.splitlines())
    ids = {int(token_id): base64.b64decode(token, validate=True) for token, token_id in lines}
    control = {f"<|{_O200K_CONTROL.get(i, f'reserved_{i}')}|>": i for i in range(199_998, 201_088)}
    return _vocabulary([ids.get(i, b"") for i in range(201_088)], control)


class Tokenizer:
    """Text ⇄ ids in one vocabulary, split as gpt-oss's `o200k_harmony` splits.

    Text never becomes a control token: `encode("<|start|>")` gives ordinary tokens. Raises `VocabularyError` when the
    vocabulary lacks a Harmony control token or a single byte (then not every text could be written).

        tokenizer = Tokenizer(vocabulary_from_o200k(Path("o200k_base.tiktoken").read_bytes()))
        tokenizer.encode("hello world")           # [24912, 2375]
        tokenizer.decode([200006, 1428, 200008])  # "<|start|>user<|message|>"
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.control = ControlTokens.of(vocabulary.control)
        ranks = {token: token_id for token_id, token in enumerate(vocabulary.tokens) if token}
        missing = sum(bytes((byte,)) not in ranks for byte in range(256))
        if missing:
            raise VocabularyError(f"no token for {missing} of the 256 bytes: the file isn't a gpt-oss model")
        # No special tokens: tiktoken would only need them for what is never done here, reading them out of text.
        self._encoding = tiktoken.Encoding("harmony", pat_str=O200K, mergeable_ranks=ranks, special_tokens={})
        self._bytes: list[bytes | None] = [token or None for token in vocabulary.tokens]
        self._bytes += [None] * (max(vocabulary.control.values()) + 1 - len(self._bytes))
        for name, token_id in vocabulary.control.items():
            self._bytes[token_id] = name.encode()

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; every text has some, and ordinary ones only.

        The same as tiktoken's `encode_ordinary`, where a lone surrogate becomes U+FFFD; but that one panics on a run of
        a million whitespace characters, which is cut here.
        """
        if len(text) <= _LONGEST_RUN:
            return self._encoding.encode_ordinary(text)
        # What tiktoken does to a str that isn't valid Unicode: pairs of surrogates become their character.
        valid = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        pieces = _cut_long_runs(valid, _LONGEST_RUN, _RUN_PIECE)
        return [token_id for piece in pieces for token_id in self._encoding.encode_ordinary(piece)]

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of a token, which may end mid-character; a control token's are its name. None: no such token."""
        return self._bytes[token_id] if 0 <= token_id < len(self._bytes) else None

    def decode(self, token_ids: Iterable[int]) -> str:
        """The text of `token_ids`, control tokens by name. Lossy: what isn't UTF-8, and an unknown id, is U+FFFD."""
        known = (self.token_bytes(token_id) for token_id in token_ids)
        return b"".join(_NOT_UTF8 if token is None else token for token in known).decode("utf-8", "replace")


def _vocabulary(tokens: list[bytes], control: Mapping[str, int]) -> Vocabulary:
    """Lengths, bytes and control tokens are hashed separately, so two vocabularies never hash the same bytes."""
    digest = hashlib.sha256(array("Q", map(len, tokens)).tobytes())
    digest.update(b"".join(tokens))
    for name, token_id in sorted(control.items()):
        digest.update(f"\0{token_id}\0{name}".encode("utf-8", "surrogatepass"))
    return Vocabulary(tokens, control, digest.hexdigest(), len(tokens))


def _cut_long_runs(text: str, longest: int, piece: int) -> Iterator[str]:
    """`text` in pieces, none with more than `longest` whitespace characters in a row, unless a newline ends them.

    A run is first cut where the pattern ends a match anyway (before the run, or after a newline). Its last piece stays
    with the text after it, since the last space of a run belongs to the word that follows.
    """
    done = 0
    for run in re.finditer(f"{_SPACE}{{{longest + 1},}}+(?![\r\n])", text):
        for cut in range(run.start(), run.end(), piece):
            if cut > done:
                yield text[done:cut]
                done = cut
    yield text[done:]


def _byte_level_alphabet() -> str:
    """The 256 characters that stand for the bytes 0…255 in GPT-2's byte-level text: printable ones for themselves."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(spare)) for byte in range(256))


_BYTE_OF = codecs.charmap_build(_byte_level_alphabet())
_NORMAL_TYPE = 1  # llama.cpp's LLAMA_TOKEN_TYPE_NORMAL, …_CONTROL and …_USER_DEFINED
_CONTROL_TYPES = frozenset((3, 4))
_O200K_CONTROL = {
    199_998: "startoftext",
    199_999: "endoftext",
    200_002: "return",
    200_003: "constrain",
    200_005: "channel",
    200_006: "start",
    200_007: "end",
    200_008: "message",
    200_012: "call",
    200_018: "endofprompt",
}  # as tiktoken has them (tiktoken_ext/openai_public.py)
_NOT_UTF8 = b"\xff"  # decodes to one U+FFFD

# The pattern of tiktoken's o200k_base (tiktoken_ext/openai_public.py), which gpt-oss was trained with.
O200K = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

# Whitespace as the pattern's \s means it (Unicode White_Space; Python's \s adds U+001C…U+001F), newlines left out.
_SPACE = "[\t\x0b\x0c \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_LONGEST_RUN = 999_998  # one more overflows the backtracking stack of tiktoken's regex engine (measured, tiktoken 0.14)
_RUN_PIECE = 1 << 17  # a multiple of every run of spaces that is a token, so a cut run has the ids of one in one piece
