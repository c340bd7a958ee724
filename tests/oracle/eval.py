"""Every task of `ossia eval`: a scripted engine that solves each, and one that gives up on each. Prints the time.

python -m tests.oracle.eval          # all suites
python -m tests.oracle.eval repo     # that one
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from ossia.cli.eval.evaluation import SUITES, chosen
from tests.support.command import start
from tests.support.evaluating import script


def main(suites: list[str]) -> int:
    """Exits with 1 when a right solution failed or a wrong one passed."""
    faults = 0
    for suite in suites:
        for seed in (0, 1):
            tasks = chosen([suite], (), seed=seed, aime=None)
            for wrong in (False, True):
                with tempfile.TemporaryDirectory() as folder:
                    begin = time.monotonic()
                    command = ("eval", suite, "--seed", str(seed), "--json")
                    running = start(*command, "--engine", script(Path(folder), tasks, wrong=wrong))
                    lines = [json.loads(line) for line in running.communicate()[0].splitlines()]
                runs = [line for line in lines if line["type"] == "run"]
                odd = [run for run in runs if run["passed"] == wrong]
                faults += len(odd) + (len(runs) != len(tasks))
                kind, seconds = "wrong" if wrong else "right", time.monotonic() - begin
                print(
                    f"{suite}, seed {seed}: {len(runs)} {kind} ones, {len(odd)} misjudged, {seconds:.0f} s", flush=True
                )
                for run in odd:
                    print(f"  {run['task']}: {run['reason']}")
    return int(faults > 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, XDG_DATA_HOME=home, XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
        sys.exit(main(sys.argv[1:] or list(SUITES)))
