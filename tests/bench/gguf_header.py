"""From a GGUF with gpt-oss's vocabulary to its tokenizer, in milliseconds: `python -m tests.bench.gguf_header [FILE]`.

Without FILE a toy network with the real vocabulary is written first. The gguf package's reader is timed beside ours.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import gguf

from ossia.agent.models.gguf import read_header
from ossia.agent.models.model import open_model
from ossia.harmony.tokenizer import Tokenizer
from tests.bench.report import Report, file_facts, options
from tests.support.toy_gguf import write_toy_gguf

_T = TypeVar("_T")
_ROUNDS = 7


def _best(report: Report, name: str, run: Callable[[], _T], rounds: int = _ROUNDS) -> _T:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        result = run()
        times.append(1e3 * (time.perf_counter() - started))
    report.row("milliseconds", what=name, best_ms=min(times), median_ms=statistics.median(times), rounds=rounds)
    return result


def _all(path: Path) -> Tokenizer:
    return Tokenizer(open_model(path).vocabulary())


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE")
    given = parser.parse_args(argv)
    report = Report("gguf_header", "gguf")
    with tempfile.TemporaryDirectory() as folder:
        path = given.file or write_toy_gguf(Path(folder) / "real.gguf", vocabulary="real", layers=1, embd=32)
        report.settings |= file_facts(path)
        _measure(report, path)
    report.print(as_json=given.json)


def _measure(report: Report, path: Path) -> None:
    _best(report, "read the header", lambda: read_header(path))
    model = _best(report, "read and check it", lambda: open_model(path))
    vocabulary = _best(report, "its vocabulary", model.vocabulary)
    _best(report, "the tokenizer", lambda: Tokenizer(vocabulary))
    _best(report, "all three, from the file", lambda: _all(path))
    _best(report, "the gguf package's reader", lambda: gguf.GGUFReader(path), rounds=1)


if __name__ == "__main__":
    main()
