"""The étude's vocabulary: `python -m tests.etude.tokenizer [--anew]` makes `tokenizer.json`, a part of the model.

Byte-level BPE under gpt-4o's splitting, as gpt-oss has it, made so that copying is easy: a number is split into the
same tokens of up to three digits wherever it stands; letters are merged first and a blank before a frequent word of the
prompts (not of what they are about) last, so that " Paris", "Paris" and "(Paris" end in the same tokens; marks are
merged only where templates have them. `twins` are the pairs of tokens that differ by that blank alone.

A vocabulary that is there grows by what shortens today's prompts; no token goes, so that its model can be trained on
(`start` tells tokens by their text). New letters come behind the old letters and not behind all: else a blank would be
merged before them.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import accumulate, islice, pairwise
from pathlib import Path

import regex
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from ossia.harmony.tokenizer import O200K
from tests.etude.dialogues import make_dialogue
from tests.etude.prompts import make_prefix
from tests.etude.words.values import CITIES, NAMES, Values, words

PATH = Path(__file__).with_name("tokenizer.json")

CONTROL = tuple(
    f"<|{name}|>"
    for name in ("startoftext", "endoftext", "return", "constrain", "channel", "start", "end", "message", "call")
)
_LETTERS, _MORE_LETTERS = 850, 120  # made anew; grown by
_SPACED, _MORE_SPACED = 200, 130
_LEAST = 40  # times that what it grows by stands in `_texts`
_MARKS = (
    '{"', '"}', '":"', '","', '"', '":', "\n\n", "//", "?:", "};", "=>", " =>", " {", " }", " =", "(_:", " (_:", "**",
    "()", '"]}', '":["', '":{"', '"},"', '"}}', '":{"', " //", "【", "】", "†", "é", '":["', '"]', "###",
    ";\n\n//", " {\n\n//", "</", ">\n",
)  # fmt: skip
_WORD = regex.compile(r"([^\r\n\p{L}\p{N}]?)(\p{L}.*)")
_CONTROL = regex.compile(r"<\|\w+\|>")

Pair = tuple[str, str]


@cache
def load() -> Tokenizer:
    """The shipped vocabulary."""
    return Tokenizer.from_file(str(PATH))


def pieces() -> list[str]:
    """The tokens that are letters and nothing else: what odd words are glued from."""
    return sorted(token for token in load().get_vocab() if regex.fullmatch("[A-Za-z]+", token))


def twins() -> list[tuple[int, int]]:
    """The ids of tokens and of the same with a blank before: `("Paris", " Paris")`."""
    vocabulary = load().get_vocab()
    spaced = ((token[1:], number) for token, number in vocabulary.items() if token.startswith("Ġ") and len(token) > 1)
    return sorted((vocabulary[plain], number) for plain, number in spaced if plain in vocabulary)


class _NoWords(Values):
    """Numbers for words: what is left are those of the prompts, the questions and the answers themselves."""

    def word(self) -> str:
        return str(self.random.randrange(10**6))


def _make(old: Sequence[str]) -> Tokenizer:
    """From the ordinary tokens that there were, in their order, or from none."""
    templates, spaced = _count(_texts(_NoWords(7)))
    if old:
        first_mark = old.index(_chain(_MARKS[0])[0])
        before, after = list(old[:first_mark]), old[first_mark:]
        parts = [(load().encode(word).tokens, times) for word, times in templates.items()]
        before += _learnt(parts, _MORE_LETTERS, _LEAST)
    else:
        counts, _ = _count(_texts(Values(7)))
        for word in words()[:1500]:
            counts[word] += 2
        letters = _letters_of_bytes()
        before, after = [*(letters[byte] for byte in range(256)), *_numbers()], ()
        before += _learnt([(list(_visible(word)), times) for word, times in counts.items()], _LETTERS, 3)
    tokens = [*before, *after, *(part for mark in _MARKS for part in _chain(mark))]
    tokens += [_visible(" " + mark) for mark in "【†"]
    tokens += [_visible(mark) * length for mark in " -" for length in (2, 4, 8, 16)]
    known, names = set(before[256:]), {*CITIES, *NAMES}
    words_after = (word for word, times in spaced.most_common() if not old or times >= _LEAST)
    frequent = (_visible(" " + word) for word in words_after if _visible(word) in known and word not in names)
    tokens += islice((word for word in frequent if word not in old), _MORE_SPACED if old else _SPACED)
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    return _tokenizer(vocabulary, _every_split(vocabulary))


def _every_split(vocabulary: dict[str, int]) -> list[Pair]:
    """All ways to merge two tokens into a third, in the order of the ids: so tiktoken does it, who knows no merges."""
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    halves = ((token[:at], token[at:]) for token in tokens for at in range(1, len(token)))
    return [(left, right) for left, right in halves if left in vocabulary and right in vocabulary]


def _tokenizer(vocabulary: dict[str, int], merges: list[Pair]) -> Tokenizer:
    made = Tokenizer(models.BPE(vocabulary, merges))
    split = pre_tokenizers.Split(Regex(O200K), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in CONTROL])
    return made


def _texts(values: Values) -> Iterator[str]:
    for number in range(500):
        prefix = make_prefix(values, "structured" if number % 8 == 0 else None)
        yield prefix.text
        for _ in range(8):
            yield "".join(text for text, _ in make_dialogue(values, prefix).segments)


def _count(texts: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """How often each run of letters stands there, and how often after a blank."""
    counts: Counter[str] = Counter()
    spaced: Counter[str] = Counter()
    split = regex.compile(O200K)
    for text in texts:
        for part in _CONTROL.split(text):
            for chunk in split.findall(part):
                if found := _WORD.fullmatch(chunk):
                    counts[found[2]] += 1
                    spaced[found[2]] += found[1] == " "
    return counts, spaced


def _numbers() -> Iterator[str]:
    for digits in (2, 3):
        yield from (f"{number:0{digits}}" for number in range(10**digits))


def _learnt(split: list[tuple[list[str], int]], count: int, least: int) -> Iterator[str]:
    """The most frequent pair in words (parts, times), merged, and again."""
    for _ in range(count):
        pairs: Counter[Pair] = Counter()
        for parts, times in split:
            for pair in pairwise(parts):
                pairs[pair] += times
        (best, times) = pairs.most_common(1)[0]
        if times < least:
            return
        yield "".join(best)
        split = [(_merged(parts, best), times) for parts, times in split]


def _merged(parts: list[str], pair: Pair) -> list[str]:
    if pair[0] not in parts:
        return parts
    merged: list[str] = []
    for part in parts:
        if merged and (merged[-1], part) == pair:
            merged[-1] += part
        else:
            merged.append(part)
    return merged


def _chain(mark: str) -> list[str]:
    """A mark, merged from the left."""
    return list(accumulate(_visible(mark)))[1:]


@cache
def _letters_of_bytes() -> dict[int, str]:
    """GPT-2's way to write bytes as letters."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + place) for place, byte in enumerate(others)}


def _visible(text: str) -> str:
    return "".join(_letters_of_bytes()[byte] for byte in text.encode())


def main() -> None:
    """Make the file, and say how long things are in it."""
    parser = argparse.ArgumentParser(prog="python -m tests.etude.tokenizer", description="Make or grow the vocabulary.")
    parser.add_argument("--anew", action="store_true", help="from nothing: no model can be trained on with it")
    anew = parser.parse_args().anew or not PATH.exists()
    if not anew:
        _tell()
    file = json.loads(_make([] if anew else _ordinary()).to_str())
    PATH.write_text(json.dumps(file, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n")
    load.cache_clear()
    _tell()


def _ordinary() -> list[str]:
    """The tokens of the vocabulary that is there, in the order of their ids."""
    numbers: dict[str, int] = json.loads(PATH.read_text())["model"]["vocab"]
    return sorted(numbers, key=numbers.__getitem__)


def _tell() -> None:
    values, tokenizer = Values(99, "values"), load()
    prefixes = [make_prefix(values) for _ in range(100)]
    lengths = [len(tokenizer.encode(prefix.text).ids) for prefix in prefixes]
    told: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for prefix in prefixes:
        for dialogue in (make_dialogue(values, prefix) for _ in range(8)):
            told[dialogue.skill] += sum(len(tokenizer.encode(text).ids) for text, _ in dialogue.segments)
            times[dialogue.skill] += 1
    print(f"{tokenizer.get_vocab_size()} tokens, {len(twins())} twins; a prompt's static part {sum(lengths) / 100:.0f}")
    print(f"the longest {max(lengths)}; a dialogue: " + ", ".join(f"{key} {told[key] // times[key]}" for key in told))


if __name__ == "__main__":
    main()
