"""How long a GGUF's vocabulary takes to become a tokenizer: `python -m tests.bench.vocabulary`.

From the 201,088 strings of gpt-oss, as the header reader hands them over, to the first `encode`. Wanted: 0.45 s.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from harmony import Tokenizer, vocabulary_from_byte_level, vocabulary_from_tiktoken
from tests.bench.codec import machine
from tests.support.vocabularies import as_gguf, load_o200k


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        encoding, _ = load_o200k(Path(folder))
    strings, types = as_gguf(vocabulary_from_tiktoken(encoding))
    wall_s, cpu_s = [], []
    for _ in range(options.repeat):
        wall, cpu = time.perf_counter(), time.process_time()
        Tokenizer(vocabulary_from_byte_level(strings, token_types=types)).encode("hello")
        wall_s.append(time.perf_counter() - wall)
        cpu_s.append(time.process_time() - cpu)
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print(
        f"{len(strings)} strings: {statistics.median(wall_s):.3f} s (wanted: 0.45), "
        f"of which {statistics.median(cpu_s):.3f} s on the CPU"
    )


if __name__ == "__main__":
    main()
