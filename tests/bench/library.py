"""The local library, 10,000 documents: `python -m tests.bench.library [--documents N] [FOLDER…]`.

Documents per second and how long queries take, with the load beside it. The documents are Markdown of words as they
are in the standard library's sources, by their frequency, and some in Chinese; FOLDERs of real HTML are added to them
(`/usr/share/doc`), conversion included. CPU seconds are this process's own; the converters have theirs.
"""

from __future__ import annotations

import collections
import random
import re
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ossia.tools.convert.converter import Converter
from ossia.tools.library.indexing import Failed, Indexed, index_root
from ossia.tools.library.library import Library
from tests.bench.report import Report, load, options

_ROUNDS = 5
_TARGET_MS = 50
_CHINESE_SHARE = 0.1


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--documents", type=int, default=10_000, metavar="N")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    given = parser.parse_args(argv)
    report = Report("library")
    report.settings |= {"documents": given.documents, "rounds": _ROUNDS, "wanted_ms": _TARGET_MS}
    chance = random.Random(7)
    words = _words()
    with tempfile.TemporaryDirectory() as folder:
        library, made = Library(Path(folder) / "library.sqlite"), Path(folder) / "made"
        made.mkdir()
        for number, text in enumerate(_texts(chance, words, given.documents)):
            (made / f"{number}.md").write_text(text)
        _index(report, library, made, "made")
        _index(report, library, made, "again, nothing changed")
        for real in given.folders:
            _index(report, library, real, real.name)
        _size(report, library)
        _query(report, library, chance, words)
    report.print(as_json=given.json)


def _size(report: Report, library: Library) -> None:
    on_disk = sum(path.stat().st_size for path in library.path.parent.glob("library.sqlite*"))
    characters = sum(root.characters for root in library.roots())
    report.row("in all", documents=library.count(), characters=characters, on_disk_mb=on_disk / 1e6)


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


def _index(report: Report, library: Library, folder: Path, name: str) -> None:
    started, cpu = time.perf_counter(), time.process_time()
    root = library.add_root("folder", str(folder.resolve()))
    events = list(index_root(library, root, converter=Converter, web=None))
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    indexed = sum(isinstance(event, Indexed) for event in events)
    failed = sum(isinstance(event, Failed) for event in events)
    report.row(
        "indexing",
        what=name,
        documents=indexed,
        failed=failed,
        wall_s=seconds,
        documents_per_s=indexed / seconds,
        cpu_s=cpu,
        load=load(),
    )


def _query(report: Report, library: Library, chance: random.Random, words: collections.Counter[str]) -> None:
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
    everything: list[tuple[float, float]] = []
    for kind, queries in kinds.items():
        taken = [_timed(library, query) for _ in range(_ROUNDS) for query in queries]
        _tell(report, kind, taken)
        everything += taken
    _tell(report, "all", everything)


def _timed(library: Library, query: str) -> tuple[float, float]:
    """Milliseconds of wall time and of CPU."""
    started, cpu = time.perf_counter(), time.thread_time()
    library.find(query, limit=20)
    return 1000 * (time.perf_counter() - started), 1000 * (time.thread_time() - cpu)


def _tell(report: Report, kind: str, taken: Sequence[tuple[float, float]]) -> None:
    wall, cpu = [one[0] for one in taken], [one[1] for one in taken]
    report.row(
        "queries",
        what=kind,
        count=len(taken),
        median_ms=statistics.median(wall),
        most_ms=max(wall),
        median_cpu_ms=statistics.median(cpu),
        most_cpu_ms=max(cpu),
        late=sum(one > _TARGET_MS for one in wall),
    )


if __name__ == "__main__":
    main()
