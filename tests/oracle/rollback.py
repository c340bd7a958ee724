"""How near a rolled-back prompt's logits are to a fresh prefill's: `python -m tests.oracle.rollback [COUNT]`.

For each model: the largest difference of any logit, over COUNT random prompts (25), between

- restored: 300 ids, 300 generated, back to the 300 by their checkpoint, 20 others; and the same 320 prefilled afresh;
- splits: two fresh prefills, in batches that are cut at other places: the noise that nothing can be better than;
- naive: as restored, but without the checkpoint, as `llama_memory_seq_rm` alone leaves it.

Models with a choice of experts have rare jumps (a rounding turns the choice) in the first two alike.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ossia.agent.engine.base import Prompt
from ossia.agent.engine.cache import PrefixCache
from ossia.agent.engine.generation import Lane, Prefill
from tests.support.engines import ETUDE, Logits, generate, load_engine, prefill
from tests.support.toy_gguf import write_toy_gguf

_BATCH = 64


def main() -> None:
    """Print a line for each model: minimum, median and maximum of each difference."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    with tempfile.TemporaryDirectory() as folder:
        smooth = write_toy_gguf(Path(folder) / "smooth.gguf", layers=4, experts=2, quantized=False)
        toy = write_toy_gguf(Path(folder) / "toy.gguf", layers=4)
        for name, path, below in (
            ("toy, F32, 2 of 2 experts", smooth, 250),
            ("toy, MXFP4", toy, 250),
            ("étude", ETUDE, 2500),
        ):
            rows = [_differences(path, below, seed) for seed in range(count)]
            for kind, values in zip(("restored", "splits", "naive"), zip(*rows, strict=True), strict=True):
                low, middle, high = np.quantile(values, [0, 0.5, 1])
                print(f"{name:<26} {kind:<9} min {low:6.3f}  median {middle:6.3f}  max {high:6.3f}")


def _differences(path: Path, below: int, seed: int) -> tuple[float, float, float]:
    source = random.Random(seed)
    first = tuple(source.randrange(below) for _ in range(300))
    second = first + tuple(source.randrange(below) for _ in range(20))
    fresh = _fresh(path, Prompt(second))
    return (
        _largest(_restored(path, first, second), fresh),
        _largest(_fresh(path, Prompt(second, marks=(100, 300))), fresh),
        _largest(_naive(path, first, second), fresh),
    )


def _largest(one: Logits, other: Logits) -> float:
    return float(np.abs(one - other).max())


def _fresh(path: Path, prompt: Prompt) -> Logits:
    engine = load_engine(path, batch_tokens=_BATCH)
    logits, _ = prefill(engine, prompt)
    engine.close()
    return logits


def _restored(path: Path, first: Sequence[int], second: Sequence[int]) -> Logits:
    engine = load_engine(path, batch_tokens=_BATCH)
    generate(engine, Prompt(tuple(first), marks=(100, 300)), 300)
    logits, reused = prefill(engine, Prompt(tuple(second)))
    assert reused == 300
    engine.close()
    return logits


def _naive(path: Path, first: Sequence[int], second: Sequence[int]) -> Logits:
    engine = load_engine(path, batch_tokens=_BATCH)
    generated = generate(engine, Prompt(tuple(first)), 300)
    trusting = PrefixCache(engine.memory, window=0, max_bytes=0)
    trusting.extend([*first, *generated[:-1]])
    work = Prefill(Prompt(tuple(second)), Lane(engine.native, trusting))
    for _ in work:
        pass
    assert work.logits is not None
    logits = work.logits.copy()
    engine.close()
    return logits


if __name__ == "__main__":
    main()
