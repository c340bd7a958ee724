"""From a GGUF with gpt-oss's vocabulary to its tokenizer, in seconds: `python -m tests.bench.gguf_header [FILE]`.

Without FILE a toy network with the real vocabulary is written first. The gguf package's reader is timed beside ours.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import gguf

from agent.models.gguf import read_header
from agent.models.model import open_model
from harmony.tokenizer import Tokenizer
from tests.support.toy_gguf import write_toy_gguf

_T = TypeVar("_T")
_ROUNDS = 7


def _best(name: str, run: Callable[[], _T], rounds: int = _ROUNDS) -> _T:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - started)
    times.sort()
    print(f"| {name} | {times[0]:.3f} | {times[len(times) // 2]:.3f} |")
    return result


def _all(path: Path) -> Tokenizer:
    return Tokenizer(open_model(path).vocabulary())


def main(path: Path) -> None:
    print(f"load {os.getloadavg()[0]:.1f}\n\n| | best | median of {_ROUNDS} |\n|---|---|---|")
    _best("read the header", lambda: read_header(path))
    model = _best("read and check it", lambda: open_model(path))
    vocabulary = _best("its vocabulary", model.vocabulary)
    _best("the tokenizer", lambda: Tokenizer(vocabulary))
    _best("all three, from the file", lambda: _all(path))
    _best("the gguf package's reader", lambda: gguf.GGUFReader(path), rounds=1)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(write_toy_gguf(Path(folder) / "real.gguf", vocabulary="real", layers=1, embd=32))
