"""What every bench prints: its tables under the machine, the load, the versions and the settings; or all of it as JSON.

    parser = options(__doc__)                       # knows --json
    given = parser.parse_args(argv)
    report = Report("codec", "tiktoken")            # takes the load before
    report.settings["repeat"] = given.repeat
    report.row("renders of 100 messages", what="first", ours_ms=20.5, wheel_ms=52.2, ratio=2.5)
    report.print(as_json=given.json)                # takes the load after

A bench that compares ossia with a peer has the cells of `ratios` in its rows: a chart of them stands below the tables.
With `options(__doc__, compares=True)` it knows `--svg`, and `report.print(as_json=…, svg=given.svg)` draws the picture.

No path of the machine gets into a report: a file is told by its name (`file_facts`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size
from statistics import median
from typing import cast

import psutil  # type: ignore[import-untyped]

from ossia.cli import chart
from ossia.cli.chart import Bar, Chart

Value = str | int | float | bool | None
"""What stands in a cell."""

_ALWAYS = ("ossia", "llama-cpp-python", "numpy")
_DIGITS = 4


def options(doc: str | None, *, compares: bool = False) -> argparse.ArgumentParser:
    """A parser of a bench's command line that knows `--json`, and has the bench's docstring as its help.

    `compares`: it knows `--svg FILE`, too.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the same figures as one JSON object")
    if compares:
        parser.add_argument("--svg", type=_new_file, metavar="FILE", help="also draw the ratios into this file")
    return parser


def ratios(ours: Iterable[float], theirs: Iterable[float]) -> dict[str, float]:
    """The cells of ours over theirs, pair by pair: the median, the least and the greatest; none without pairs.

    ratios([2.0, 3.0], [1.0, 2.0])      # {"ratio": 1.75, "ratio_least": 1.5, "ratio_greatest": 2.0}
    """
    found = [mine / other for mine, other in zip(ours, theirs, strict=True)]
    return {"ratio": median(found), "ratio_least": min(found), "ratio_greatest": max(found)} if found else {}


def _new_file(name: str) -> Path:
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, not {name!r}")
    return path


def model_file(name: str) -> Path:
    """The type of an argument that names a model; argparse says so when there is no such file."""
    path = Path(name)
    if not path.is_file():
        raise argparse.ArgumentTypeError(f"expected a GGUF file, {name!r} is none: see tests.bench.synthetic")
    return path


class Report:
    """The figures of one run of a bench. `packages` are those whose versions matter besides llama.cpp's and numpy's.

    `settings` is what the run was asked for, `versions` can be added to (the build of a program measured beside ours).
    """

    def __init__(self, bench: str, *packages: str) -> None:
        self.bench = bench
        self.settings: dict[str, Value] = {}
        self.versions = {"python": platform.python_version()} | {name: version(name) for name in (*_ALWAYS, *packages)}
        self._tables: dict[str, list[dict[str, Value]]] = {}
        self._load_before = load()

    def row(self, table: str, **cells: Value) -> None:
        """Add a row to a table, which the first one makes. The names of cells end in their unit: `ours_ms=0.17`."""
        self._tables.setdefault(table, []).append(cells)

    def say(self, line: str) -> None:
        """Tell on stderr how far a long run is."""
        print(line, file=sys.stderr, flush=True)

    def to_json(self) -> dict[str, object]:
        """The whole report, the load taken once more.

        `{"bench": "codec", "machine": {"cpu": …}, "load": {"before": 0.1, "after": 0.4}, "versions": {"ossia": …},
        "settings": {"repeat": 15}, "tables": {"renders of 100 messages": [{"what": "first", "ours_ms": 20.5, …}]}}`
        """
        return {
            "bench": self.bench,
            "machine": machine(),
            "load": {"before": self._load_before, "after": load()},
            "versions": self.versions,
            "settings": self.settings,
            "tables": {name: [_rounded(row) for row in rows] for name, rows in self._tables.items()},
        }

    def charts(self) -> list[Chart]:
        """A chart for each table with ratios; 1 is marked."""
        found = []
        for name, rows in self._tables.items():
            bars = tuple(_bar(row) for row in rows if row.get("ratio") is not None)
            if bars:
                interval = "least to greatest" if any(bar.low is not None for bar in bars) else ""
                found.append(Chart(f"{self.bench}: {name}", "", bars, interval, mark=1))
        return found

    def print(self, *, as_json: bool, svg: Path | None = None) -> None:
        """Write it to stdout, and the picture of the ratios into the file `svg`."""
        whole = self.to_json()
        if svg is not None:
            svg.write_text(chart.svg(self.charts()), encoding="utf-8")
        if as_json:
            print(json.dumps(whole, ensure_ascii=False, allow_nan=False))
            return
        for part in ("machine", "load", "versions", "settings"):
            facts = whole[part]
            assert isinstance(facts, Mapping)
            if not facts:
                continue
            print(f"{part:<9} " + ", ".join(f"{_heading(name)} {_text(value)}" for name, value in facts.items()))
        for name, rows in self._tables.items():
            print(f"\n{name}")
            for line in _lines(rows):
                print(f"  {line}")
        for one in self.charts():
            ascii = not chart.draws_blocks(sys.stdout.encoding)
            print("", *chart.rows(one, get_terminal_size().columns, ascii=ascii), sep="\n")


def _bar(row: Mapping[str, Value]) -> Bar:
    """The bar of a row with ratios, named by its cells in front of the first figure."""
    names = takewhile(lambda cell: not isinstance(cell[1], float), row.items())
    label = " · ".join(str(value) if isinstance(value, str) else f"{name} {_text(value)}" for name, value in names)
    ratio, least, greatest = (row.get(name) for name in ("ratio", "ratio_least", "ratio_greatest"))
    assert isinstance(ratio, float)
    return Bar(label, ratio, cast("float | None", least), cast("float | None", greatest))


def machine() -> dict[str, Value]:
    """`{"cpu": "Intel(R) Xeon(R) Processor", "cores": 2, "threads": 2, "memory_gib": 23.6, "system": "Linux 6.18"}`"""
    release = re.match(r"\d+(\.\d+)?", platform.release())  # what follows names a distribution's or a host's own build
    return {
        "cpu": _cpu(),
        "cores": psutil.cpu_count(logical=False) or os.cpu_count(),
        "threads": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {release[0] if release else ''}".strip(),
        "architecture": platform.machine(),
    }


def load() -> float | None:
    """How many processes wanted to run, on average over the last minute; None where the system doesn't tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def file_facts(path: Path) -> dict[str, Value]:
    """What is told of a file: `{"model": "mid.gguf", "model_mb": 803.1}`."""
    return {"model": path.name, "model_mb": round(path.stat().st_size / 1e6, 1)}


def _cpu() -> str:
    if sys.platform == "linux":
        found = re.search(r"^(?:model name|Model|Hardware)\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        if found:
            return found[1].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "Apple"
    return platform.processor() or platform.machine()


def _rounded(row: Mapping[str, Value]) -> dict[str, Value]:
    """Six digits: more is noise, and a reader's eyes."""
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}


def _text(value: object) -> str:
    """A cell for reading: four digits of a figure, `–` for none."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        whole_digits = math.floor(math.log10(abs(value))) + 1 if value else 1
        return f"{value:,.{min(3, max(0, _DIGITS - whole_digits))}f}"
    return str(value)


def _lines(rows: Sequence[Mapping[str, Value]]) -> list[str]:
    """The rows under their names, texts to the left and figures to the right."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_heading(name) for name in names], *([_text(row.get(name)) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    left = [any(isinstance(row.get(name), str | bool) for row in rows) for name in names]
    return [
        "  ".join(
            text.ljust(width) if is_left else text.rjust(width)
            for text, width, is_left in zip(line, widths, left, strict=True)
        ).rstrip()
        for line in cells
    ]


def _heading(name: str) -> str:
    """`screen_us` → `screen µs`."""
    return re.sub(r" us\b", " µs", name.replace("_", " "))
