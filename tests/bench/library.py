"""The local library, 10,000 documents: `python -m tests.bench.library [--documents N] [FOLDER…]`.

Documents per second and how long queries take, with the load beside it. The documents are Markdown of words as they
are in the standard library's sources, by their frequency, and some in Chinese; FOLDERs of real HTML are added to them
(`/usr/share/doc`), conversion included. CPU seconds are this process's own; the converters have theirs.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import re
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.browser.indexing import Failed, Indexed, Indexer
from tools.browser.library import Library
from tools.convert import Converter

_ROUNDS = 5
_TARGET_MS = 50
_CHINESE_SHARE = 0.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    chance = random.Random(7)
    words = _words()
    with tempfile.TemporaryDirectory() as folder:
        library, made = Library(Path(folder) / "library.sqlite"), Path(folder) / "made"
        made.mkdir()
        for number, text in enumerate(_texts(chance, words, options.documents)):
            (made / f"{number}.md").write_text(text)
        print(f"load {os.getloadavg()[0]:.1f}")
        _index(library, made, "made")
        _index(library, made, "again, nothing changed")
        for real in options.folders:
            _index(library, real, str(real))
        size = sum(path.stat().st_size for path in library.path.parent.glob("library.sqlite*"))
        text_size = sum(root.characters for root in library.roots())
        print(f"{library.count()} documents, {text_size / 1e6:.1f} million characters, {size / 1e6:.1f} MB on disk\n")
        _query(library, chance, words)


def _words() -> collections.Counter[str]:
    """Words of the standard library's sources, with how often they are there."""
    counted: collections.Counter[str] = collections.Counter()
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        counted.update(re.findall(r"[A-Za-z]{2,}", path.read_text("utf-8", "replace")))
    return counted


def _texts(chance: random.Random, words: collections.Counter[str], count: int) -> Iterator[str]:
    """Documents of 100 to 2,000 words, 10 % of them in Chinese characters (the first are the most frequent)."""
    names, weights = list(words), list(words.values())
    characters = [chr(0x4E00 + number) for number in range(3_000)]
    falling = [1 / (rank + 10) for rank in range(3_000)]
    for number in range(count):
        length = int(100 * 20 ** chance.random())
        if number < count * _CHINESE_SHARE:
            yield f"# 文档 {number}\n" + "，".join(
                "".join(chance.choices(characters, falling, k=12)) for _ in range(length // 12)
            )
        else:
            chosen = chance.choices(names, weights, k=length)
            lines = [" ".join(chosen[at : at + 12]) for at in range(0, length, 12)]
            yield f"# {' '.join(chosen[:4])}\n\n" + "\n".join(lines)


def _index(library: Library, folder: Path, name: str) -> None:
    started, cpu = time.perf_counter(), time.process_time()
    root = library.add_root("folder", str(folder.resolve()))
    events = list(Indexer(library, converter=Converter, web=None).run(root))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    indexed = sum(isinstance(event, Indexed) for event in events)
    failed = sum(isinstance(event, Failed) for event in events)
    speed = f"{indexed / seconds:.0f}/s; CPU {cpu:.1f} s; load {os.getloadavg()[0]:.1f}"
    print(f"{name}: {indexed} documents ({failed} failed) in {seconds:.1f} s, {speed}")


def _query(library: Library, chance: random.Random, words: collections.Counter[str]) -> None:
    by_frequency = [word for word, _ in words.most_common()]
    common, rare = by_frequency[:40], by_frequency[len(by_frequency) // 2 :]
    kinds = {
        "one common word": [chance.choice(common) for _ in range(10)],
        "two words": [" ".join(chance.choices(by_frequency[:2_000], k=2)) for _ in range(20)],
        "a question": [f"how to {' '.join(chance.choices(by_frequency[:500], k=6))} in the file" for _ in range(20)],
        "twelve common words": [" ".join(chance.sample(common, 12)) for _ in range(10)],
        "rare words": [" ".join(chance.choices(rare, k=2)) for _ in range(20)],
        "the beginning of a word": [word[:3] for word in chance.choices(by_frequency[:500], k=20)],
        "Chinese": ["一丁", "七万丈", "如何使用函数调用工具", "一丁丂七丄丅丆万丈三上下"],
        "junk (row 14)": ['" OR 1=1', "a " * 5_000, "x" * 10_000, "工" * 10_000, " ".join(by_frequency[:2_000])],
    }
    print("| query | median ms | max ms | median CPU ms | max CPU ms |\n|---|---|---|---|---|")
    everything: list[tuple[float, float]] = []
    for kind, queries in kinds.items():
        taken = [_timed(library, query) for _ in range(_ROUNDS) for query in queries]
        print(f"| {kind} | {_figures(taken)} |")
        everything += taken
    print(f"| all | {_figures(everything)} |")
    over = sum(wall > _TARGET_MS for wall, _ in everything)
    print(f"\n{over} of {len(everything)} took more than {_TARGET_MS} ms; load {os.getloadavg()[0]:.1f}")


def _timed(library: Library, query: str) -> tuple[float, float]:
    """Milliseconds of wall time and of CPU."""
    started, cpu = time.perf_counter(), time.thread_time()
    library.find(query, limit=20)
    return 1000 * (time.perf_counter() - started), 1000 * (time.thread_time() - cpu)


def _figures(taken: list[tuple[float, float]]) -> str:
    wall, cpu = [one[0] for one in taken], [one[1] for one in taken]
    return f"{statistics.median(wall):.1f} | {max(wall):.1f} | {statistics.median(cpu):.1f} | {max(cpu):.1f}"


if __name__ == "__main__":
    main()
