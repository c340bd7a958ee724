"""How long the command takes to start: `python -m tests.bench.start`. Best of twenty, and the load of the machine."""

from __future__ import annotations

import os
import subprocess
import time

from tests.support.command import OSSIA

_RUNS = 20


def main() -> None:
    """Print the best and the median wall time of commands that load no model, in milliseconds."""
    for args in (["--version"], ["--help"], ["run", "--help"], ["config", "show"]):
        walls_s = sorted(_wall_s(args) for _ in range(_RUNS))
        print(f"ossia {' '.join(args):<12} best {walls_s[0] * 1e3:4.0f} ms, median {walls_s[_RUNS // 2] * 1e3:4.0f} ms")
    if hasattr(os, "getloadavg"):
        print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")


def _wall_s(args: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run([OSSIA, *args], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
