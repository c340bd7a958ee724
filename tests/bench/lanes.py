"""Several conversations at once: `python -m tests.bench.lanes [MODEL.gguf] [--llama-server PATH] [--lanes 1 2 4 8]`.

ossia's lanes beside the slots of llama-server (`--parallel`), with 1, 2, 4 and 8 of them. Measured are

    written       tokens a second of all lanes together: each writes after a prompt of its own
    read          tokens a second of all lanes together: each reads a long prompt of its own
    first word    seconds to the first token of a short prompt in one lane, while another one reads a long prompt

Both get the same random ids, the same file, threads, context for each lane, batch size and temperature, and neither
stops before it has written as many tokens as asked for. llama-server is asked over loopback (`/completion` with ids, a
client for each slot, one answer as a whole), without repacked weights, prompt cache and checkpoints. Ours are engines
as `ossia serve` has them, each on the thread of its worker. The programs take turns in rounds, each time as a process
of its own that has answered once before; ratios are those of a round.

Beside other programs use `--threads 1`, and compare tokens for a second of processor time (`of_cpu`): with more threads
each waits for the others, which counts, too. Without MODEL it is the étude.
"""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil  # type: ignore[import-untyped]

from ossia.agent.engine.threads import default_threads
from ossia.agent.models.needs import BATCH_TOKENS
from tests.bench.processes import answer, measure
from tests.bench.report import Report, file_facts, model_file, options, ratios
from tests.support.vocabularies import ETUDE

OURS, PEER = "ossia", "llama-server"
_SHORT_TOKENS, _LONG_TOKENS = 16, 2000
_LATER_S = 0.05  # another lane is reading by then

Ask = Callable[[int, Sequence[int], int], None]
"""Have a lane write so many tokens after these ids, and wait for the last one."""


@dataclass(frozen=True, slots=True)
class _Task:
    """The settings of both programs: `_Task("mid.gguf", lanes=4, threads=2, …)`."""

    model: str
    lanes: int
    threads: int
    context_tokens: int
    tokens: int
    prompt_tokens: int
    temperature: float


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__, compares=True)
    parser.add_argument("model", type=model_file, nargs="?", default=ETUDE, metavar="MODEL.gguf")
    parser.add_argument("--llama-server", type=Path, metavar="PATH", help="see peers.sh; without it, ours alone")
    parser.add_argument("--lanes", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N", help="1 2 4 8")
    parser.add_argument("--runs", type=int, default=3, metavar="K")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="written by each lane (64)")
    parser.add_argument("--prompt-tokens", type=int, default=512, metavar="N", help="read by each lane (512)")
    parser.add_argument("--context", type=int, default=4096, metavar="N", help="of each lane (4096)")
    parser.add_argument("--threads", type=int, default=default_threads(), metavar="N")
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T", help="0 is greedy (1)")
    parser.add_argument("--child", default="", help="for the bench itself")
    given = parser.parse_args(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    report = Report("lanes")
    report.settings |= file_facts(given.model)
    for lanes in given.lanes:
        task = _Task(
            str(given.model.resolve()), lanes, given.threads, given.context, given.tokens, given.prompt_tokens,
            given.temperature,
        )  # fmt: skip
        report.settings |= {name: value for name, value in asdict(task).items() if name not in ("model", "lanes")}
        contenders = {OURS: lambda task=task: measure("tests.bench.lanes", asdict(task))}
        if given.llama_server:
            contenders[PEER] = lambda task=task: _served(given.llama_server, task)
        _measure(report, lanes, contenders, runs=given.runs)
    report.print(as_json=given.json, svg=given.svg)


def _measure(report: Report, lanes: int, contenders: Mapping[str, Callable[[], Any]], *, runs: int) -> None:
    """Let them take turns; a row for each in each table: its medians, and the median of its ratios."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for number in range(runs):
        for name in reversed(contenders) if number % 2 else contenders:
            found[name].append(contenders[name]())
            report.say(f"{lanes} lanes, run {number + 1}, {name}: {found[name][-1]}")
    for name, figures in found.items():
        pairs = list(zip(found[OURS], figures, strict=True)) if name != OURS else []
        for table, unit in (("written", "tokens_per_s"), ("read", "tokens_per_s"), ("first word", "seconds")):
            if table not in figures[0]:
                continue
            cells = {unit: median(one[table] for one in figures)}
            if f"{table}, of CPU" in figures[0]:
                cells |= {"of_cpu": median(one[f"{table}, of CPU"] for one in figures)}
            report.row(
                f"{table}, {unit.replace('_per_s', ' a second')}; ratios: ossia over the other, pair by pair",
                lanes=lanes,
                what=name,
                **cells,
                **ratios((ours[table] for ours, _ in pairs), (theirs[table] for _, theirs in pairs)),
            )


def _figures(task: _Task, ask: Ask, cpu_s: Callable[[], float]) -> dict[str, float]:
    """The figures of one program: tokens a second, of wall time and of its CPU time; seconds to a first word."""
    draw, found = random.Random(7), dict[str, float]()

    def prompt(size: int) -> list[int]:
        return [draw.randrange(2000) for _ in range(size)]

    def rate(name: str, size: int, count: int, each: int) -> None:
        jobs = [(prompt(size), count, 0.0) for _ in range(task.lanes)]
        began = cpu_s()
        wall_s = max(_at_once(ask, jobs))
        found[name] = task.lanes * each / wall_s
        found[f"{name}, of CPU"] = task.lanes * each / (cpu_s() - began)

    _at_once(ask, [(prompt(_SHORT_TOKENS), 4, 0.0) for _ in range(task.lanes)])
    rate("written", _SHORT_TOKENS, task.tokens, task.tokens)
    rate("read", task.prompt_tokens, 1, task.prompt_tokens)
    if task.lanes > 1:
        long, short = (prompt(_LONG_TOKENS), 1, 0.0), (prompt(_SHORT_TOKENS), 1, _LATER_S)
        found["first word"] = _at_once(ask, [long, short])[1]
    return found


def _at_once(ask: Ask, jobs: Sequence[tuple[Sequence[int], int, float]]) -> list[float]:
    """Give each lane a prompt, a number of tokens, and the seconds to wait before; returns each one's seconds after."""
    start = threading.Barrier(len(jobs))

    def run(lane: int) -> float:
        ids, count, later_s = jobs[lane]
        start.wait()
        time.sleep(later_s)
        began = time.perf_counter()
        ask(lane, ids, count)
        return time.perf_counter() - began

    with ThreadPoolExecutor(len(jobs)) as pool:
        return list(pool.map(run, range(len(jobs))))


# -- the two ---------------------------------------------------------------------------------------------------------


def _child(how: Mapping[str, Any]) -> None:
    """Ours, in a process of its own."""
    task = _Task(**{name: value for name, value in how.items() if name != "out"})
    with _lanes(task) as ask:
        answer(how, _figures(task, ask, time.process_time))


@contextmanager
def _lanes(task: _Task) -> Iterator[Ask]:
    from ossia.agent.build import models
    from ossia.agent.control import Control
    from ossia.agent.engine.base import Prompt, Sampling, Task
    from ossia.agent.models.spec import ModelSpec
    from ossia.tools.host import silent
    from tests.support.host import host_in

    spec = ModelSpec(
        task.model, context=task.context_tokens, threads=task.threads, repack="off", private=True, lanes=task.lanes
    )
    with tempfile.TemporaryDirectory() as folder, ExitStack() as after:
        lanes = models(spec, host_in(Path(folder)), silent, lanes=task.lanes)
        for lane in lanes:
            after.callback(lambda lane=lane: lane.close().result())

        def ask(number: int, ids: Sequence[int], count: int) -> None:
            sampling = Sampling(temperature=task.temperature)
            wanted = Task(Prompt(tuple(ids), marks=(len(ids),)), max_tokens=count, sampling=sampling)

            def write() -> int:
                generation = lanes[number].engine.generate(wanted, control=Control())
                return sum(isinstance(item, int) for item in generation)

            _require(lanes[number].worker.submit(write).result(), count)

        yield ask


def _served(program: Path, task: _Task) -> dict[str, float]:
    """llama-server."""
    from tests.oracle.engine import LlamaServer

    flags = {
        "--parallel": task.lanes, "--batch-size": BATCH_TOKENS, "--ubatch-size": BATCH_TOKENS, "--verbosity": 1,
        "--threads-http": task.lanes + 1,
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        server = LlamaServer(
            program,
            Path(task.model),
            log=Path(folder, "log"),
            threads=task.threads,
            context_tokens=task.context_tokens * task.lanes,
            more=[str(part) for flag in flags.items() for part in flag],
        )
        with server:
            process = psutil.Process(server.pid)

            def ask(number: int, ids: Sequence[int], count: int) -> None:
                asked = {
                    "prompt": list(ids), "n_predict": count, "temperature": task.temperature, "ignore_eos": True,
                    "samplers": ["temperature"], "cache_prompt": False, "id_slot": number,
                }  # fmt: skip
                _require(server.complete(asked)["tokens_predicted"], count)

            return _figures(task, ask, lambda: sum(process.cpu_times()[:2]))


def _require(written: int, count: int) -> None:
    if written != count:
        raise RuntimeError(f"expected {count} tokens, got {written}")


if __name__ == "__main__":
    main()
