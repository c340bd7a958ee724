"""Training goes on from a finished model: what it knows is there, whatever the vocabulary and the size of experts."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ossia.agent.models.gguf import read_header
from ossia.agent.models.gguf_parts import StringArray
from ossia.harmony.tokenizer import Tokenizer
from tests.agent.etude.test_recipe import random_weights
from tests.etude.export import Array, read_tokens, write_gguf
from tests.etude.shape import Shape
from tests.etude.start import started, vocabulary_of
from tests.support.engines import ETUDE, fresh_logits
from tests.support.gguf_vocabulary import Tokens, small_tokens

pytestmark = pytest.mark.own_job

OLD = small_tokens()
SHAPE = Shape(len(OLD.texts), width=64, layers=2, heads=4, kv_heads=2, head_width=32, experts=4, hidden=32)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write_gguf(path := tmp_path / "small.gguf", random_weights(SHAPE), SHAPE, OLD)
    return path


def _tokens_of(path: Path) -> Tokens:
    entries = read_header(path).metadata
    texts, merges = (entries[f"tokenizer.ggml.{name}"].value for name in ("tokens", "merges"))
    types = entries["tokenizer.ggml.token_type"].value
    assert isinstance(texts, StringArray) and isinstance(merges, StringArray) and isinstance(types, np.ndarray)
    return Tokens(texts.texts(), types.tolist(), merges.texts())


def test_no_token_of_the_shipped_model_is_lost() -> None:
    assert set(_tokens_of(ETUDE).texts) <= set(read_tokens().texts)


def test_a_word_ends_in_the_same_token_with_a_blank_before_it() -> None:
    tokens = read_tokens()
    tokenizer = Tokenizer(vocabulary_of(tokens))
    number = {text: at for at, text in enumerate(tokens.texts)}
    words = [text for text in tokens.texts if re.fullmatch("[A-Za-z]+", text)]

    assert len(words) > 850
    for word in words:
        spaced = (number["Ġ" + word],) if "Ġ" + word in number else (number["Ġ"], number[word])
        assert (tokenizer.encode(word), tokenizer.encode(" " + word)) == ([number[word]], [*spaced])


def test_the_shipped_model_comes_back_as_it_is(tmp_path: Path) -> None:
    tokens = _tokens_of(ETUDE)

    weights, shape = started(ETUDE, vocabulary_of(tokens))
    write_gguf(tmp_path / "again.gguf", weights, shape, tokens)

    assert (tmp_path / "again.gguf").read_bytes() == ETUDE.read_bytes()


def test_a_token_keeps_its_rows_and_a_new_one_has_those_that_spelled_it(small: Path) -> None:
    control = OLD.texts[-9:]
    texts = [*OLD.texts[:-9], "the", "Ġth", *reversed(control)]
    new = Tokens(texts, [1] * (len(texts) - 9) + [3] * 9, [*OLD.merges, "th e", "Ġ th"])

    before, _ = started(small, vocabulary_of(OLD))
    after, shape = started(small, vocabulary_of(new))

    def row(weights: dict[str, Array], name: str, tokens: Tokens, text: str) -> Array:
        found: Array = weights[name][tokens.texts.index(text)]
        return found

    assert shape.vocabulary == len(texts) == len(after["embedding"]) == len(after["output"])
    for name in ("embedding", "output"):
        for text in OLD.texts:
            assert np.array_equal(row(after, name, new, text), row(before, name, OLD, text))
    for text, spelled in (("the", ("th", "e")), ("Ġth", ("Ġ", "th"))):
        assert np.array_equal(row(after, "embedding", new, text), row(before, "embedding", OLD, spelled[-1]))
        mean = np.mean([row(before, "output", OLD, part) for part in spelled], 0)
        assert np.allclose(row(after, "output", new, text), mean)
    rest = after.keys() - {"embedding", "output"}
    assert all(np.array_equal(after[name], before[name]) for name in rest)


def test_larger_experts_say_the_same_at_first(small: Path, tmp_path: Path) -> None:
    weights, shape = started(small, vocabulary_of(OLD), hidden=64)
    write_gguf(tmp_path / "larger.gguf", weights, shape, OLD)

    assert (weights["1.up"].shape, weights["1.down"].shape, shape.hidden) == ((4, 128, 64), (4, 64, 64), 64)
    ids = tuple(range(40))
    assert np.allclose(fresh_logits(tmp_path / "larger.gguf", ids), fresh_logits(small, ids), atol=1e-5)
