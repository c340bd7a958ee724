"""`python -m tests.bench.python_tool`: what the confined python costs: start, `1+1`, floods, stops; and the load."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from tests.support.kernels import NO_BWRAP, StopByHand, run
from tests.test_tools_confinement import Growth
from tools import sandbox
from tools.python import PythonTool

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


def main() -> None:
    interpreter = sandbox.inspect()
    for program in (None, NO_BWRAP):
        found = sandbox.choose(interpreter, bwrap=program)
        print(f"{found.name}, load {os.getloadavg()[0]:.1f}")
        with tempfile.TemporaryDirectory() as folder:
            _measure(lambda found=found, folder=folder: PythonTool(
                data_dir=Path(folder), confinement=found, interpreter=interpreter))  # fmt: skip


def _measure(make) -> None:  # type: ignore[no-untyped-def]
    starts = []
    for _ in range(STARTS):
        tool = make()
        starts.append(_seconds(tool, ""))
        tool.close()
    tool = make()
    run(tool, "")
    calls = [_seconds(tool, "1+1") for _ in range(CALLS)]
    print(f"  start {statistics.median(starts):.3f} s, 1+1 {1000 * statistics.median(calls):.2f} ms (medians)")
    for name, code in FLOODS.items():
        with Growth() as growth:
            ran = run(tool, code)
        print(f"  {name}: grew by {growth.bytes / 1e6:.1f} MB, {len(ran.text)} characters for the model")
    for name, code in STOPS.items():
        run(tool, "1")
        stop = StopByHand()
        stop.stop_after(0.5)
        print(f"  code that {name}: stopped in {_seconds(tool, code, stop) - 0.5:.2f} s")
    tool.close()


def _seconds(tool: PythonTool, code: str, stop: StopByHand | None = None) -> float:
    started = time.perf_counter()
    run(tool, code, stop)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
