"""Decode and prefill beside llama-bench: `python -m tests.bench.decode MODEL.gguf [--llama-bench PATH] [--busy 2]`.

Both compute the same on the same file with the same threads: tg, 128 ids one after another from an empty context, and
pp, 512 random ids in one batch. What they do for that:

- llama-bench's tg decodes 128 random ids and draws none. Ours generates 128 ids after a prompt of one: 128 decode steps
  as well (that of the prompt, and 127 of drawn ids), and 128 ids drawn at the recommended setting from all that the
  vocabulary has. The time is that of `LlamaEngine.generate` from the call to its end, no stop ends it earlier.
- llama-bench's pp decodes one batch. Ours is the prefill of a prompt that is marked as `ossia` marks one: it
  ends with a checkpoint. (A real prompt has more marks, each of which may cut it into one batch more.)
- Each run is a process of its own that loads the file, computes once what isn't counted (llama-bench: one pp, one id;
  ours the same), then once what is. The runs take turns, every second round the other way round, so that none always
  comes first; the ratios are those of a round, ossia's speed over the other's: their median, least and greatest.
- The same kernels: where ossia loads without llama.cpp's repacked weights (agent/models/needs.py says where and why),
  so does llama-bench; `--repack 1` lets it have them, `--repack 0` never. Both map the file, keep KV in 16 bits and the
  window's alone where there is one. Our context is what ossia takes, theirs 512: that costs memory, not time.

llama-bench runs as it comes. `--busy N` measures all of it once more beside N processes that compute; as it comes
llama.cpp may then take seconds for a token, so it generates `--busy-tokens` only.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.generation import Prefill
from ossia.agent.engine.threads import default_threads
from ossia.agent.models.needs import BATCH_TOKENS
from tests.bench.native import load_as_ossia, watch_repacking
from tests.bench.processes import answer, busy, measure
from tests.bench.report import Report, file_facts, model_file, options, ratios

OURS, PEER = "ossia", "llama-bench"


@dataclass(frozen=True, slots=True)
class _Task:
    """What is computed, by whom ever: `_Task(Path("mid.gguf"), 2, 128, 512)`."""

    model: Path
    threads: int
    decode_tokens: int
    prefill_tokens: int
    peer: Path | None = None
    repack: bool = True


@dataclass(frozen=True, slots=True)
class _Speed:
    """Tokens a second."""

    decode: float
    prefill: float
    build: str = ""
    repack: bool = True


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    given = _options(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    task = _Task(given.model, given.threads, given.tokens, given.prompt_tokens, given.llama_bench)
    first = _ours(replace(task, decode_tokens=1, prefill_tokens=1))  # not counted: it brings the file into memory
    task = replace(task, repack=first.repack if given.repack is None else bool(given.repack))
    report = Report("decode")
    report.settings |= {
        **file_facts(task.model),
        "threads": task.threads,
        "decode_tokens": task.decode_tokens,
        "prefill_tokens": task.prefill_tokens,
        "runs": given.runs,
        "repacking": first.repack,
        "llama_bench_repacking": task.repack,
    }
    contenders = _contenders(task)
    _measure(report, "nothing", contenders, runs=given.runs)
    if given.busy:
        if task.peer:
            report.settings["busy_tokens"] = given.busy_tokens
            contenders[PEER] = _contenders(replace(task, decode_tokens=given.busy_tokens))[PEER]
        with busy(given.busy):
            _measure(report, f"{given.busy} busy", contenders, runs=given.busy_runs or given.runs)
    report.print(as_json=given.json, svg=given.svg)


def _options(argv: Sequence[str] | None) -> Any:
    parser = options(__doc__, compares=True)
    parser.add_argument("model", type=model_file, nargs="?", metavar="MODEL.gguf")
    parser.add_argument("--llama-bench", type=Path, metavar="PATH", help="see peers.sh; without it, ours alone")
    parser.add_argument("--runs", type=int, default=5, metavar="K")
    parser.add_argument("--tokens", type=int, default=128, metavar="N", help="decoded ids of a run (128)")
    parser.add_argument("--prompt-tokens", type=int, default=512, metavar="N", help="ids of a prefill (512)")
    parser.add_argument("--threads", type=int, default=default_threads(), metavar="N")
    parser.add_argument("--repack", type=int, choices=(0, 1), help="may llama-bench repack weights (as ossia does)")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="measure beside N busy processes, too")
    parser.add_argument("--busy-runs", type=int, metavar="K", help="runs of that (as many)")
    parser.add_argument("--busy-tokens", type=int, default=16, metavar="N", help="of llama-bench's there (16)")
    parser.add_argument("--child", default="", help="for the bench itself")
    given = parser.parse_args(argv)
    if not given.child and given.model is None:
        parser.error("expected a model, as in: python -m tests.bench.decode mid.gguf")
    return given


def _contenders(task: _Task) -> dict[str, Callable[[], _Speed]]:
    """Who takes turns, and how each is run."""
    found = {OURS: lambda: _ours(task)}
    if task.peer is not None:
        found[PEER] = lambda: _peer(task)
    return found


def _measure(report: Report, beside: str, contenders: dict[str, Callable[[], _Speed]], *, runs: int) -> None:
    """Let them take turns; a row for each with its medians and its ratios, and one for each run."""
    speeds: dict[str, list[_Speed]] = {name: [] for name in contenders}
    for number in range(1, runs + 1):
        for name in contenders if number % 2 else reversed(contenders):
            speed = contenders[name]()
            speeds[name].append(speed)
            report.say(f"{beside}, run {number}, {name}: tg {speed.decode:.2f}, pp {speed.prefill:.1f} tok/s")
    for what in ("decode", "prefill"):
        ours = [getattr(speed, what) for speed in speeds[OURS]]
        for name, found in speeds.items():
            theirs = [getattr(speed, what) for speed in found]
            report.row(
                f"{what}, tokens a second; ratios: ossia over the other, pair by pair",
                beside=beside,
                what=name,
                median=median(theirs),
                least=min(theirs),
                greatest=max(theirs),
                **(ratios(ours, theirs) if name != OURS else {}),
            )
    for number, at_once in enumerate(zip(*speeds.values(), strict=True), 1):
        for name, speed in zip(speeds, at_once, strict=True):
            report.row(
                "each run, tokens a second",
                beside=beside, run=number, what=name, decode=speed.decode, prefill=speed.prefill,
            )  # fmt: skip
            if speed.build:
                report.versions["llama-bench"] = speed.build


# -- the two ---------------------------------------------------------------------------------------------------------


def _peer(task: _Task) -> _Speed:
    """One run of llama-bench."""
    assert task.peer is not None
    command = [
        *(str(task.peer), "--model", str(task.model), "--threads", str(task.threads), "--repetitions", "1"),
        *("--n-prompt", str(task.prefill_tokens), "--n-gen", str(task.decode_tokens), "--output", "json"),
        *("--batch-size", str(BATCH_TOKENS), "--ubatch-size", str(BATCH_TOKENS), "--repack", str(int(task.repack))),
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"llama-bench ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    prefill, decode = sorted(json.loads(done.stdout), key=lambda test: int(test["n_gen"]))
    build = f"build {decode['build_number']} ({decode['build_commit']})"
    return _Speed(float(decode["avg_ts"]), float(prefill["avg_ts"]), build)


def _ours(task: _Task) -> _Speed:
    how = {
        "model": str(task.model.resolve()),
        "threads": task.threads,
        "decode_tokens": task.decode_tokens,
        "prefill_tokens": task.prefill_tokens,
    }
    return _Speed(**measure("tests.bench.decode", how))


def _child(how: Mapping[str, Any]) -> None:
    """The process that is measured."""
    draw, repacking = random.Random(7), watch_repacking()
    with closing(load_as_ossia(Path(how["model"]), threads=how["threads"])) as engine:

        def ids(count: int) -> tuple[int, ...]:
            return tuple(draw.randrange(engine.vocabulary.size) for _ in range(count))

        def prefill() -> None:
            count = how["prefill_tokens"]
            for _ in Prefill(Prompt(ids(count), marks=(count,)), engine.lane):
                pass

        def decode(count: int) -> None:
            generation = engine.generate(Task(Prompt(ids(1)), max_tokens=count), control=Control())  # fmt: skip
            drawn = sum(isinstance(item, int) for item in generation)
            if drawn != count:
                raise RuntimeError(f"expected {count} ids, got {drawn}")

        prefill()
        pp = _seconds(prefill)
        decode(1)
        tg = _seconds(lambda: decode(how["decode_tokens"]))
    answer(how, {"decode": how["decode_tokens"] / tg, "prefill": how["prefill_tokens"] / pp, "repack": any(repacking)})


def _seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
