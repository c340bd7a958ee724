"""Counting tokens: in the model's vocabulary, and pages in gpt-oss's, where that is on the machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.vocabulary import TokenCounter, own_tokenizer
from ossia.harmony.tokenizer import Tokenizer
from tests.support.host import host_in
from tests.support.vocabularies import O200K_CACHE_NAME

PAGE = "An unusual page about llamas."


def test_pages_are_counted_in_what_was_downloaded(
    tmp_path: Path, o200k_dir: Path, etude_tokenizer: Tokenizer, o200k_tokenizer: Tokenizer
) -> None:
    count = TokenCounter(etude_tokenizer, host_in(tmp_path, TIKTOKEN_CACHE_DIR=str(o200k_dir)))
    own, theirs = len(etude_tokenizer.encode(PAGE)), len(o200k_tokenizer.encode(PAGE))
    assert own != theirs
    assert (count(PAGE), count.pages(PAGE), count.warning()) == (own, theirs, None)
    count.tokenizer = o200k_tokenizer
    assert (count(PAGE), count.pages(PAGE)) == (theirs, theirs)


def test_pages_are_counted_in_the_models_own_where_there_is_no_other(
    tmp_path: Path, o200k_dir: Path, etude_tokenizer: Tokenizer, o200k_tokenizer: Tokenizer
) -> None:
    """A file with the name and the size of tiktoken's is another one by its hash."""
    forged = (o200k_dir / O200K_CACHE_NAME).read_bytes().replace(b"IQ== 0\n", b"Ig== 0\n", 1)
    (tmp_path / O200K_CACHE_NAME).write_bytes(forged)
    host = host_in(tmp_path, TIKTOKEN_CACHE_DIR=str(tmp_path))
    count = TokenCounter(etude_tokenizer, host)
    assert count.warning() is None
    assert count.pages(PAGE) == len(etude_tokenizer.encode(PAGE))
    assert "pages are measured with the model's own" in (count.warning() or "")
    assert count.warning() is None, "it is said once"
    gpt_oss = TokenCounter(o200k_tokenizer, host)
    assert (gpt_oss.pages(PAGE), gpt_oss.warning()) == (len(o200k_tokenizer.encode(PAGE)), None)


def test_a_model_on_the_machine_lends_its_vocabulary(tmp_path: Path, etude_tokenizer: Tokenizer) -> None:
    there = tmp_path / "data" / "models" / "gpt-oss-20b-mxfp4.gguf"
    there.parent.mkdir(parents=True)
    shutil.copy(ETUDE_PATH, there)
    host = host_in(tmp_path, TIKTOKEN_CACHE_DIR=str(tmp_path))
    assert own_tokenizer(None, host).vocabulary.digest == etude_tokenizer.vocabulary.digest
