"""How long a GGUF's vocabulary takes to become a tokenizer: `python -m tests.bench.vocabulary`.

From the 201,088 strings of gpt-oss, as the header reader hands them over, to the first `encode`. Wanted: 0.45 s.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ossia.harmony.tokenizer import Tokenizer, vocabulary_from_byte_level
from tests.bench.report import Report, options
from tests.support.vocabularies import as_gguf, load_o200k

WANTED_S = 0.45


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--repeat", type=int, default=7, metavar="K")
    given = parser.parse_args(argv)
    report = Report("vocabulary", "tiktoken")
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, _ = load_o200k(Path(folder))
    strings, types = as_gguf(vocabulary)
    report.settings |= {"repeat": given.repeat, "strings": len(strings), "wanted_s": WANTED_S}
    wall_s, cpu_s = [], []
    for _ in range(given.repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        Tokenizer(vocabulary_from_byte_level(strings, token_types=types)).encode("hello")
        wall_s.append(time.perf_counter() - wall)
        cpu_s.append(time.process_time() - cpu)
    report.row(
        "from the strings to the first encode", median_s=statistics.median(wall_s), cpu_s=statistics.median(cpu_s)
    )
    report.print(as_json=given.json)


if __name__ == "__main__":
    main()
