"""A KV cache that outlives its process: the same logits, nothing read again, and nothing believed that isn't whole."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.llama import LlamaEngine, processor_features
from ossia.agent.models.needs import reason_against
from tests.support.engines import ETUDE, GREEDY, load_engine

MIB = 1 << 20


def _engine(context: int = 2048) -> LlamaEngine:
    return load_engine(ETUDE, context_tokens=context)


def _answer(engine: LlamaEngine, prompt: Prompt, tokens: int = 24) -> tuple[list[int], int]:
    """Greedy ids, and how many ids of the prompt needed no reading."""
    generation = engine.generate(Task(prompt, max_tokens=tokens, sampling=GREEDY), control=Control())
    ids = [item for item in generation if isinstance(item, int)]
    return ids, generation.stats.reused_tokens


FIRST = Prompt(tuple(range(100, 500)), marks=(60, 390, 400))


def _second(first: list[int]) -> Prompt:
    """The next turn, most of the first answer left out: the cache must go back, further than its window reaches."""
    ids = (*FIRST.ids, *first[:5], *range(700, 730))
    return Prompt(ids, marks=(60, 390, len(ids)))


def test_a_later_process_goes_on_where_this_one_stood(tmp_path: Path) -> None:
    folder = tmp_path / "kv" / "one"
    before = _engine()
    first, _ = _answer(before, FIRST, tokens=200)
    assert before.save_cache(folder, max_bytes=64 * MIB) > 0
    same, _ = _answer(before, _second(first))
    before.close()
    assert before.save_cache(folder, max_bytes=64 * MIB) == before.save_prompts() == 0  # what it stored stays
    after = _engine()
    assert after.load_cache(folder) == 400 + 199  # the last id was sampled, and never decoded
    assert _answer(after, _second(first)) == (same, 400)
    after.close()
    fresh = _engine()
    assert _answer(fresh, _second(first)) == (same, 0)
    fresh.close()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (folder, folder.parent)] == [0o700, 0o700]


def _cut(folder: Path) -> None:
    path = folder / "state"
    path.write_bytes(path.read_bytes()[:-100])


def _flipped(name: str) -> Callable[[Path], None]:
    def flip(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[len(data) // 2] ^= 1
        (folder / name).write_bytes(data)

    return flip


def _made_up(**values: object) -> Callable[[Path], None]:
    """Whole by its digest, and yet nothing that we wrote."""

    def write(folder: Path) -> None:
        _, line, blobs = (folder / "marks").read_bytes().split(b"\n", 2)
        rest = json.dumps({**json.loads(line), **values}).encode() + b"\n" + blobs
        (folder / "marks").write_bytes(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)

    return write


def _nested(folder: Path) -> None:
    rest = b"[" * 100_000
    (folder / "marks").write_bytes(hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest)


@pytest.mark.parametrize(
    "harm",
    [
        _cut,
        _flipped("state"),
        _flipped("marks"),
        lambda folder: (folder / "state").unlink(),
        lambda folder: (folder / "marks").write_bytes(b""),
        _made_up(ids=[float("inf")]),
        _made_up(ids=None),
        _made_up(checkpoints=[[None, None, None]]),
        _made_up(checkpoints=[[1, 2, 1 << 40]]),
        _nested,
    ],
    ids=["cut", "state", "marks", "no state", "no marks", "infinite", "no ids", "no lengths", "no logits", "nested"],
)
def test_what_is_torn_is_of_no_use_and_no_harm(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    engine = _engine()
    expected, _ = _answer(engine, FIRST)
    engine.save_cache(tmp_path / "one", max_bytes=64 * MIB)
    engine.close()
    harm(tmp_path / "one")
    again = _engine()
    assert again.load_cache(tmp_path / "one") == 0
    assert _answer(again, FIRST) == (expected, 0)
    again.close()


def test_it_is_for_this_model_and_a_context_that_holds_it(tmp_path: Path) -> None:
    engine = _engine()
    _answer(engine, FIRST)
    engine.save_cache(tmp_path / "one", max_bytes=64 * MIB)
    engine.native.fingerprint += " of another file"
    assert engine.load_cache(tmp_path / "one") == 0
    assert len(engine.lane.cache) > 400  # what was held is still held
    engine.close()
    small = _engine(context=256)
    assert small.load_cache(tmp_path / "one") == 0
    small.close()


def _fingerprint(**settings: Any) -> str:
    engine = load_engine(ETUDE, **settings)
    engine.close()
    return engine.native.fingerprint


def test_it_is_for_this_way_of_computing(tmp_path: Path) -> None:
    plain = _fingerprint()
    assert re.fullmatch("[0-9a-f]{32}", plain)
    assert _fingerprint(context_tokens=4096) == plain, "a longer context is no other one"
    copy = shutil.copyfile(ETUDE, tmp_path / ETUDE.name)
    others = [_fingerprint(batch_tokens=256)]
    if not reason_against(processor_features()):
        others.append(_fingerprint(repack=True))
    engine = load_engine(copy)
    engine.close()
    assert len({plain, *others, engine.native.fingerprint}) == len(others) + 2


def test_more_than_is_allowed_is_not_kept_nor_is_what_was_there(tmp_path: Path) -> None:
    engine = _engine()
    _answer(engine, FIRST)
    assert engine.save_cache(tmp_path / "one", max_bytes=64 * MIB) > 0
    assert engine.save_cache(tmp_path / "one", max_bytes=1000) == 0
    assert list(tmp_path.iterdir()) == []
    engine.close()


def test_an_empty_cache_is_not_kept(tmp_path: Path) -> None:
    engine = _engine()
    assert engine.save_cache(tmp_path / "one", max_bytes=64 * MIB) == 0
    assert list(tmp_path.iterdir()) == []
    engine.close()
