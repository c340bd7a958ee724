"""The étude on another build of llama.cpp beside the usual one: `python -m tests.backends.beside PYTHON [COUNT]`.

PYTHON is that of an environment whose llama.cpp was compiled for a GPU (`vulkan.sh` makes one); it answers in a process
of its own, with all layers on that GPU. The usual one is the processor's, of the environment that this runs in. Both
are asked for the greedy ids after COUNT prompts (50), as `tests.oracle.engine` asks llama-server: where the ids part,
it is decided whether that is a near tie, which a rounding turns, or a fault. Exits with 1 after a fault, with 2 if the
other build sees no GPU.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.backends.answers import answer_of, load
from tests.bench.report import Report
from tests.oracle.engine import ANSWER_TOKENS, Tally, compare, two_engines
from tests.oracle.engine import report as tally_report
from tests.support.engines import ETUDE

ROOT = Path(__file__).parents[2]
_PROMPT_TOKENS, _ROUNDS = 512, 3  # of a measured answer


class Other:
    """The other build, in a process of its own. `with closing(Other(python)) as other: other.greedy(ids, 48)`"""

    def __init__(self, python: Path | str) -> None:
        command = [str(python), "-m", "tests.backends.answers"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        self.build: dict[str, Any] = self._answer()

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        """The first `count` greedy ids after `ids`; nothing of the prompts before is remembered."""
        return list(self.ask(ids, count)["ids"])

    def ask(self, ids: Sequence[int], count: int) -> dict[str, Any]:
        """`{"ids", "prefill_s", "decode_s"}`."""
        assert self._process.stdin
        print(json.dumps({"ids": list(ids), "count": count}), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise EOFError(f"the other build ended (exit status {self._process.wait()}): what it said stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def alike(other: Other, count: int) -> Tally:
    """What came of asking both for what follows `count` prompts."""
    with two_engines(ETUDE) as engines:
        return compare(*engines, other.greedy, count=count)


def _speeds(other: Other, name: str) -> list[dict[str, Any]]:
    """A row for each: tokens per second, the best of some rounds. The first round may compile shaders."""
    ids = list(range(100, 100 + _PROMPT_TOKENS))
    with closing(load()) as engine:
        asked = {
            "the processor": lambda: answer_of(engine, ids, ANSWER_TOKENS),
            name: lambda: other.ask(ids, ANSWER_TOKENS),
        }
        found = {what: [ask() for _ in range(_ROUNDS)] for what, ask in asked.items()}
    return [
        {
            "what": what,
            "prefill_tok_per_s": _PROMPT_TOKENS / min(one["prefill_s"] for one in rounds),
            "decode_tok_per_s": ANSWER_TOKENS / min(one["decode_s"] for one in rounds),
        }
        for what, rounds in found.items()
    ]


def main(arguments: Sequence[str]) -> int:
    """Compare and measure; returns the exit code."""
    python, count = arguments[0], int(arguments[1]) if len(arguments) > 1 else 50
    report = Report("backends")
    report.settings |= {"date": f"{datetime.now():%Y-%m-%d %H:%M}", "prompts": count}
    with closing(Other(python)) as other:
        gpus = other.build["gpus"]
        if not gpus:
            print(f"error: {python} sees no GPU; it was compiled for {other.build['backends']}", file=sys.stderr)
            return 2
        report.settings |= {"gpu": gpus[0], "backends": " ".join(other.build["backends"])}
        tally = alike(other, count)
        print(tally_report(f"étude on {gpus[0]}", tally), flush=True)
        for row in _speeds(other, gpus[0]):
            report.row("étude", **row)
    report.print(as_json=False)
    return 0 if tally.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
