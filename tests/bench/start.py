"""How long the command takes to start, and with what: `python -m tests.bench.start [--model M] [--runs 20]`.

Wall time of whole commands in new processes, of those that load no model and of those that answer; then the phases of
an answer's way to its first token, in the order in which `ossia run` goes through them, each in a process that did
nothing else before. (`ossia run` reads the header while another thread loads the library: the sum is a bit more than
its time.) Files are in the page cache: the first run isn't counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.processes import first_byte_s, measure, own_home
from tests.bench.report import Report, options
from tests.support.command import OSSIA

_QUESTION = ("run", "What is 48*17?", "--raw", "--seed", "1")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--model", default="etude", metavar="PATH|NAME", help="what answers (étude)")
    parser.add_argument("--runs", type=int, default=20, metavar="K", help="of a command; half as many of an answer")
    given = parser.parse_args(argv)
    report = Report("start", "typer")
    few = max(1, given.runs // 2)
    report.settings |= {"model": Path(given.model).name, "runs": given.runs}
    for args in (["--version"], ["--help"], ["run", "--help"], ["config", "show"]):
        _tell(report, f"ossia {' '.join(args)}", _repeat(given.runs, lambda args=args: [_wall_s(args)])[0])  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as home:
        first, end = _repeat(few, lambda: _run_s(given.model, Path(home)))
        _tell(report, "ossia run: first token", first)
        _tell(report, "ossia run: to the end", end)
        if os.name == "posix":
            prompt, ready = _repeat(few, lambda: _chat_s(given.model, Path(home)))
            _tell(report, "ossia: prompt that takes a key", prompt)
            _tell(report, "ossia: model ready", ready)
    _tell_phases(report, given.model, few)
    report.print(as_json=given.json)


def _repeat(count: int, run: Callable[[], Sequence[float]]) -> list[tuple[float, ...]]:
    """The times of `count` runs after one that isn't counted; a tuple for each moment that a run tells."""
    run()
    return list(zip(*(run() for _ in range(count)), strict=True))


def _tell(report: Report, what: str, walls_s: Sequence[float]) -> None:
    report.row("commands", what=what, best_ms=1e3 * min(walls_s), median_ms=1e3 * median(walls_s))


def _wall_s(args: Sequence[str]) -> float:
    begin = time.perf_counter()
    subprocess.run([OSSIA, *args], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def _run_s(model: str, home: Path) -> tuple[float, float]:
    """Seconds until the first token is in our pipe, and until the process has ended."""
    return first_byte_s([*_QUESTION, "--model", model], own_home(home))


def _chat_s(model: str, home: Path) -> tuple[float, float]:
    """Seconds until the chat shows a key that was pressed, and until its title says that the model is there."""
    import pexpect  # type: ignore[import-untyped]

    env: Any = {**os.environ, **own_home(home), "TERM": "xterm-256color"}
    begin = time.perf_counter()
    chat = pexpect.spawn(str(OSSIA), ["--model", model], env=env, dimensions=(24, 80), timeout=30, encoding="utf-8")
    chat.delaybeforesend = None
    chat.expect_exact("›")
    chat.send("q")
    chat.expect_exact("q")
    prompt = time.perf_counter() - begin
    chat.expect_exact("ossia: idle")
    ready = time.perf_counter() - begin
    chat.send("\x7f\x04")
    chat.expect(pexpect.EOF)
    chat.close()
    return prompt, ready


def _tell_phases(report: Report, model: str, runs: int) -> None:
    python_s = _repeat(runs, lambda: [_python_s()])[0]
    report.row("phases of a run", phase="Python itself", best_ms=1e3 * min(python_s), median_ms=1e3 * median(python_s))
    found = [measure("tests.bench.start_phases", {"model": model}) for _ in range(runs + 1)][1:]
    for phase in found[0]:
        times = [run[phase] for run in found]
        report.row("phases of a run", phase=phase, best_ms=1e3 * min(times), median_ms=1e3 * median(times))


def _python_s() -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
