"""`python -m tests.bench.python_tool`: what the confined python costs: start, `1+1`, floods, stops."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ossia.tools import sandbox
from ossia.tools.python.tool import PythonTool
from tests.bench.report import Report, options
from tests.support.kernels import NO_BWRAP, StopByHand, run
from tests.tools.sandbox.test_confinement import Growth

STARTS, CALLS = 7, 60
FLOODS = {
    "print for 2 s": "import time; t = time.monotonic()\nwhile time.monotonic() < t + 2: print('z' * 10_000)",
    "repr of 200 MB": "'r' * (200 << 20)",
    "a child's 50 MB": "import subprocess; subprocess.run(['head', '-c', '50000000', '/dev/zero']) and None",
    "200 x 20 MB to the socket": "s = get_ipython().kernel.iopub_thread\n"
    "for _ in range(200): s.send_multipart([b'x' * (20 << 20)])",
}
STOPS = {
    "obeys": "import time; time.sleep(60)",
    "is killed": "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    given = options(__doc__).parse_args(argv)
    report = Report("python_tool", "ipykernel", "jupyter-client")
    report.settings |= {"starts": STARTS, "calls": CALLS}
    interpreter = sandbox.inspect()
    for program in (None, NO_BWRAP):
        found = sandbox.choose(interpreter, bwrap=program)
        with tempfile.TemporaryDirectory() as folder:
            _measure(report, found.name, lambda found=found, folder=folder: PythonTool(
                data_dir=Path(folder), confinement=found, interpreter=interpreter))  # type: ignore[misc]  # fmt: skip
    report.print(as_json=given.json)


def _measure(report: Report, confinement: str, make: Callable[[], PythonTool]) -> None:
    starts = []
    for _ in range(STARTS):
        tool = make()
        starts.append(1e3 * _seconds(tool, ""))
        tool.close()
    tool = make()
    run(tool, "")
    calls = [1e3 * _seconds(tool, "1+1") for _ in range(CALLS)]
    for what, times in (("the start", starts), ("1+1", calls)):
        report.row("calls", confinement=confinement, what=what, median_ms=statistics.median(times), most_ms=max(times))
    for name, code in FLOODS.items():
        with Growth() as growth:
            ran = run(tool, code)
        grew_mb, characters = growth.bytes / 1e6, len(ran.text)
        report.row("floods", confinement=confinement, what=name, we_grew_mb=grew_mb, for_the_model_chars=characters)
    for name, code in STOPS.items():
        run(tool, "1")
        stop = StopByHand()
        stop.stop_after(0.5)
        stopped_s = _seconds(tool, code, stop) - 0.5
        report.row("stops", confinement=confinement, what=f"code that {name}", stopped_ms=1e3 * stopped_s)
    tool.close()


def _seconds(tool: PythonTool, code: str, stop: StopByHand | None = None) -> float:
    started = time.perf_counter()
    run(tool, code, stop)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
