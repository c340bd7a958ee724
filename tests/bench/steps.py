"""How many ids of a prompt go through the network at once: `python -m tests.bench.steps FILE [--sizes 16 32 …]`.

`agent.engine.threads.step_tokens` goes by these figures: what a step of each size brings a second of the processor's
time, on one thread, so that other programs hardly matter; and how long one lasts.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ossia.agent.engine.llama import LlamaEngine, LlamaSettings
from ossia.agent.models.model import open_model
from tests.bench.report import Report, file_facts, model_file, options

_SIZES = (16, 32, 64, 128, 256, 512)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("file", type=model_file)
    parser.add_argument("--sizes", type=int, nargs="+", default=_SIZES, metavar="N", help="512 at most")
    parser.add_argument("--ids", type=int, default=512, metavar="N", help="that many with each size, a step at least")
    parser.add_argument("--repack", action="store_true", help="with llama.cpp's repacked weights")
    given = parser.parse_args(argv)
    report = Report("steps")
    report.settings |= file_facts(given.file) | {"ids": given.ids, "repacked": given.repack}
    engine = _load(given.file, repack=given.repack)
    _seconds(engine, 64, 64)  # the first ones bring the weights into memory
    for size in given.sizes:
        steps = _seconds(engine, size, max(given.ids, size))
        report.row(
            "a prompt in steps of so many ids, one thread",
            step=size,
            ids_per_cpu_s=size * len(steps) / sum(steps),
            step_cpu_s=median(steps),
        )
    engine.close()
    report.print(as_json=given.json)


def _load(path: Path, *, repack: bool) -> LlamaEngine:
    model = open_model(path)
    settings = LlamaSettings(2048, gpu_layers=0, threads=1, repack=repack)
    return LlamaEngine.load(path, vocabulary=model.vocabulary(), name=model.name, settings=settings)[0]


def _seconds(engine: LlamaEngine, size: int, count: int) -> list[float]:
    """The processor's time for each step, of a prompt of about `count` random ids."""
    source, lane, took = random.Random(0), engine.lane, []
    lane.cache.clear()
    for _ in range(count // size):
        ids = [source.randrange(engine.vocabulary.size) for _ in range(size)]
        began = time.process_time()
        lane.advance(ids, logits=False)
        took.append(time.process_time() - began)
    return took


if __name__ == "__main__":
    main()
