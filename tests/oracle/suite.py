"""The suite over and over, beside busy processes: `python -m tests.oracle.suite [--runs 10] [--busy 2] [--no-bwrap]`.

Every test must come out the same each time. Prints each run's counts as it ends, and at last every test that failed or
whose outcome differed, with what it said; then it ends with 1. `--no-bwrap` hides bubblewrap, which leaves Landlock.
Arguments behind `--` go to pytest.
"""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from contextlib import ExitStack
from pathlib import Path

from tests.bench.processes import busy
from tests.support.command import ROOT

_WITHOUT_BWRAP = (sys.executable, "-m", "tests.without_bwrap")
Outcomes = dict[str, tuple[str, str]]
"""Of each test: passed, failed, error or skipped, and what it said."""


def main(given: argparse.Namespace) -> int:
    seen: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    said: dict[str, str] = {}
    with ExitStack() as stack:
        if given.busy:
            stack.enter_context(busy(given.busy))
        for number in range(1, given.runs + 1):
            begin = time.monotonic()
            outcomes = run_once(given.pytest, bwrap=not given.no_bwrap)
            counts = collections.Counter(outcome for outcome, _ in outcomes.values())
            load = os.getloadavg()[0]
            print(f"run {number}: {dict(sorted(counts.items()))} in {time.monotonic() - begin:.0f} s, load {load:.1f}")
            sys.stdout.flush()
            for test, (outcome, text) in outcomes.items():
                seen[test][outcome] += 1
                if outcome in ("failed", "error"):
                    said[test] = text
                    print(f"  {outcome}: {test}", flush=True)
    same = [{"passed": given.runs}, {"skipped": given.runs}]
    odd = {test: counts for test, counts in seen.items() if counts not in same}
    for test, counts in sorted(odd.items()):
        print(f"\n== {test}: {dict(counts)}\n{said.get(test, '')[-3000:]}")
    print(f"\n{len(seen)} tests, {given.runs} runs, {len(odd)} that failed or came out differently")
    return 1 if odd or not seen else 0


def run_once(arguments: list[str], *, bwrap: bool) -> Outcomes:
    """One run of the suite in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [*(() if bwrap else _WITHOUT_BWRAP), sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
        with Path(folder, "output.txt").open("w+b") as output:
            subprocess.run([*command, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            if not report.exists():
                output.seek(0)
                raise SystemExit(output.read().decode(errors="replace")[-3000:])
        return {_name(case): _outcome(case) for case in ElementTree.parse(report).iter("testcase")}


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    for found, outcome in (("failure", "failed"), ("error", "error"), ("skipped", "skipped")):
        element = case.find(found)
        if element is not None:
            return outcome, element.text or element.get("message") or ""
    return "passed", ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--busy", type=int, default=2, help="processes that compute beside it")
    parser.add_argument("--no-bwrap", action="store_true")
    parser.add_argument("pytest", nargs="*", help="for pytest, behind --")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(_arguments()))
