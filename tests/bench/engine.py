"""What the engine adds to llama.cpp: `python -m tests.bench.engine`.

The way to the first token on the étude, its speed beside a plain loop of llama.cpp's calls (taken in turns, so that
another load of the machine meets both), what drawing an id from gpt-oss's 201,088 costs, and a checkpoint.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

_FIRST_TOKEN = """
import time; start = time.perf_counter()
def lap(name):
    global start
    print(f"  {name:<22} {(time.perf_counter() - start) * 1e3:6.1f} ms"); start = time.perf_counter()
import numpy; lap("import numpy")
import llama_cpp; lap("import llama_cpp")
from tests.support.engines import ETUDE, load_engine, Prompt, generate; lap("import the rest")
engine = load_engine(ETUDE, context_tokens=4096); lap("header, load, context")
generate(engine, Prompt(tuple(range(600))), 1); lap("600 ids, first token")
"""


def main() -> None:
    """Print the figures, with the load of the machine before and after."""
    _load()
    print("first token on the étude, a new process:")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", _FIRST_TOKEN], check=True)
    _speed()
    _sampling()
    _checkpoint()
    _load()


def _speed() -> None:
    from agent.engine.base import Prompt
    from tests.support.engines import ETUDE, generate, load_engine, plain_greedy

    engine = load_engine(ETUDE)
    ids = tuple(range(64))
    ours, plain = [], []
    for _ in range(7):
        ours.append(_seconds(lambda: generate(engine, Prompt(ids), 400)))
        plain.append(_seconds(lambda: plain_greedy(ETUDE, ids, 400)))
    engine.close()
    print(
        f"étude, 400 greedy ids on one thread: engine {400 / median(ours):.0f}/s, "
        f"plain loop (with loading, 10 ms) {400 / median(plain):.0f}/s"
    )


def _sampling() -> None:
    import numpy as np

    from agent.engine.base import Sampling
    from agent.engine.sampling import Sampler

    logits = (np.random.default_rng(0).standard_normal(201_088) * 3).astype(np.float32)
    print("an id from 201,088 normal logits (nearly flat: the worst case for top-p):")
    for settings in (
        Sampling(),
        Sampling(temperature=0),
        Sampling(top_k=40),
        Sampling(top_p=0.95),
        Sampling(min_p=0.05),
    ):
        sampler = Sampler(settings, len(logits))
        times = [_seconds(lambda sampler=sampler: sampler.pick(logits)) for _ in range(50)]  # type: ignore[misc]
        print(f"  {settings!s:<86} {median(times) * 1e3:6.3f} ms")


def _checkpoint() -> None:
    from agent.engine.base import Prompt
    from tests.support.engines import ETUDE, load_engine, prefill

    engine = load_engine(ETUDE)
    prefill(engine, Prompt(tuple(range(600))))
    saved = engine.native.save_window()
    assert saved is not None
    save = median(_seconds(engine.native.save_window) for _ in range(20))
    restore = median(_seconds(lambda: engine.native.restore_window(saved)) for _ in range(20))
    engine.close()
    print(
        f"a checkpoint of the étude: {len(saved):,} bytes, {save * 1e3:.2f} ms to save, {restore * 1e3:.2f} to restore"
    )


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def _load() -> None:
    if hasattr(os, "getloadavg"):
        print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
