"""Each flag of `ossia run` in each failure, all of them: `python -m tests.oracle.failures [--only FAILURE]`.

The suite has a quarter. Prints what is wrong, a line each; then it ends with 1. It takes a minute and a half.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tests.support.failures import FAILURES, FLAGS, cells, fault, prepare


def main(given: argparse.Namespace) -> int:
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="ossia-") as home:
        for name in [name for name in os.environ if name.startswith(("OSSIA_", "XDG_", "PYTHON", "LC_"))]:
            del os.environ[name]
        os.environ.update(HOME=home, LANG="C.UTF-8", TERM="dumb")
        here, chosen = prepare(Path(home)), [cell for cell in cells(1) if given.only in (None, cell[1])]
        for flag, failure in chosen:
            if found := fault(here, FLAGS[flag], FAILURES[failure]):
                wrong += 1
                print(f"{flag} × {failure}: {found}", flush=True)
    print(f"{len(chosen)} runs, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=FAILURES, metavar="FAILURE")
    sys.exit(main(parser.parse_args()))
