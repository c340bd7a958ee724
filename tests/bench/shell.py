"""`python -m tests.bench.shell [--files 2000] [--ignored 0]`: what a confined shell call costs, and what undo adds.

`true` in a workspace of 2,000 files and 50 MB, and as much that git ignores if it is asked for: plain (`bash -c true`),
confined without a journal, and confined with one; the first call of a session copies the files, later ones only look at
them. Medians, in ms; beside the wall time the processor time of a call, ours and that of the processes it starts.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import NoStop, Stop, ToolCall, ToolContext, ToolOutput
from ossia.tools.toolbox import Toolbox
from ossia.tools.undo.journal import Journal
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.bench.report import Report, options
from tests.support.kernels import NO_BWRAP, StopByHand, count_tokens

BYTES, CALLS = 50_000_000, 40


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--files", type=int, default=2_000, metavar="N")
    parser.add_argument("--ignored", type=int, default=0, metavar="N", help="more files, which git ignores")
    given = parser.parse_args(argv)
    report = Report("shell")
    report.settings |= {"files": given.files, "ignored": given.ignored, "workspace_mb": BYTES // 1_000_000}
    report.settings["calls"] = CALLS
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "ws").resolve()
        _fill(root, given.files)
        _fill(root / "build", given.ignored)
        (root / ".gitignore").write_text("build/\n")
        plain = _timed(lambda: subprocess.run(["bash", "-c", "true"], cwd=root, check=True))
        _tell(report, "bash -c true, plain", *plain)
        for program in (None, NO_BWRAP):
            tool = Exec(confinement=sandbox.choose(bwrap=program))
            _measure(report, tool, root, folder)
            _stop_and_flood(report, tool, root, folder)
    report.print(as_json=given.json)


def _measure(report: Report, tool: Exec, root: Path, folder: str) -> None:
    name = tool.confinement.name
    _tell(report, f"{name}, no journal", *_timed(_caller(tool, root, None, folder)))
    journal = Journal(Path(folder, f"data-{name}"), root)
    started = time.perf_counter()
    _caller(tool, root, journal, folder)()
    _tell(report, f"{name}, journal, first call", (time.perf_counter() - started) * 1000)
    _tell(report, f"{name}, journal, later calls", *_timed(_caller(tool, root, journal, folder)))
    fresh = Journal(Path(folder, f"data-{name}"), root)
    started = time.perf_counter()
    fresh.commands_cannot_be_undone()
    _tell(report, f"{name}, journal, first look of a next session", (time.perf_counter() - started) * 1000)


def _stop_and_flood(report: Report, tool: Exec, root: Path, folder: str) -> None:
    name = tool.confinement.name
    for what, command in (("obeys", "echo; sleep 100"), ("ignores SIGTERM", "trap '' TERM; echo; sleep 99 & sleep 99")):
        stop = StopByHand()
        words, context = ["bash", "-lc", command], _context(root, None, folder, stop)
        running = tool.run({"command": words}, call_id="c", context=context)
        next(running)
        started = time.perf_counter()
        stop.stop()
        _exhaust(running)
        _tell(report, f"{name}, a stop, it {what}", (time.perf_counter() - started) * 1000)
    before = _peak_kib()
    started = time.perf_counter()
    _exhaust(tool.run({"command": ["bash", "-lc", "head -c 1000000000 /dev/zero | tr '\\0' x"]}, call_id="c",
                      context=_context(root, None, folder, NoStop())))  # fmt: skip
    _tell(report, f"{name}, 1 GB of output ({(_peak_kib() - before) / 1024:.0f} MB more at the peak)",
          (time.perf_counter() - started) * 1000)  # fmt: skip


def _exhaust(running) -> None:  # type: ignore[no-untyped-def]
    for output in running:
        assert isinstance(output, ToolOutput)


def _fill(root: Path, files: int) -> None:
    source = random.Random(1)
    for number in range(files):
        path = root / f"d{number % 40}" / f"e{number % 7}" / f"f{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.randbytes(BYTES // files))


def _context(root: Path, journal: Journal | None, folder: str, stop: Stop) -> ToolContext:
    return ToolContext(stop, Workspace(root, True, journal), Path(folder, "data"), count_tokens)


def _caller(tool: Exec, root: Path, journal: Journal | None, folder: str) -> Callable[[], object]:
    context = _context(root, journal, folder, NoStop())
    toolbox = Toolbox([tool], policy=Policy([Rule("*", "allow")]), context=context)

    def call() -> None:
        for _ in toolbox.run(ToolCall("c", "container.exec", '{"command": ["bash", "-c", "true"]}'), stop=NoStop()):
            pass

    return call


def _timed(action: Callable[[], object]) -> tuple[float, float, float]:
    """Medians in ms: wall time, this process's own processor time, and that of the processes it started."""
    rows = []
    for _ in range(CALLS):
        started, used, theirs = time.perf_counter(), time.process_time(), _childrens_s()
        action()
        rows.append((time.perf_counter() - started, time.process_time() - used, _childrens_s() - theirs))
    wall, ours, started_ones = (statistics.median(column) * 1000 for column in zip(*rows, strict=True))
    return wall, ours, started_ones


def _childrens_s() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _tell(
    report: Report, what: str, wall_ms: float, ours_ms: float | None = None, theirs_ms: float | None = None
) -> None:
    report.row("a call", what=what, wall_ms=wall_ms, our_cpu_ms=ours_ms, their_cpu_ms=theirs_ms)


def _peak_kib() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
