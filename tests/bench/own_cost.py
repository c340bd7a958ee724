"""What a token costs besides llama.cpp: `python -m tests.bench.own_cost MODEL.gguf [--tokens 256] [--runs 5]`.

llama_decode is stamped from outside (`tests.bench.native`). What lies between the end of one call and the beginning of
the next is ours: fetching the logits, drawing the id, the parser, the events, the loop, the worker; as wall time, and
as CPU time, which says more where something else runs. Another thread prints meanwhile; its CPU time is told by itself
(where all processors decode it slows llama.cpp down), and so is the time inside llama_decode, which would show it.

The ladder adds a part at a time, each rung a process of its own, all of them in turns; the part that a rung adds is the
median of the differences to the rung below:

    engine greedy        LlamaEngine.generate, ids thrown away
    engine sampled       … at the recommended setting (temperature 1, nothing cut)
    responder            … LocalResponder.respond: the parser and its deltas
    turn                 … run_turn on the worker's thread, the events thrown away by another one
    run into a pipe      ossia run --quiet: all of it
    run on a terminal    ossia run --quiet, the answer being written as it comes

Whatever the model draws, the others see Markdown in `final` (`native.answer_with_markdown`): weights may be random.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Sampling, Task
from ossia.agent.engine.threads import default_threads
from tests.bench.native import answer_with_markdown, load_as_ossia, watch_decoding, watching_costs_ms
from tests.bench.processes import answer, measure
from tests.bench.report import Report, file_facts, model_file, options

_QUESTION = "Say something."
# Without a guide each step of llama.cpp has one token; what the guide costs is told by `tests.bench.guide`.
_RUN = ("run", _QUESTION, "--quiet", "--no-tools", "--seed", "1", "--no-guide")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("model", type=model_file, nargs="?", metavar="MODEL.gguf")
    parser.add_argument("--tokens", type=int, default=256, metavar="N", help="of a run (256)")
    parser.add_argument("--runs", type=int, default=5, metavar="K")
    parser.add_argument("--rungs", default=",".join(_RUNGS), help="some of them (all)")
    parser.add_argument("--child", default="", help="for the bench itself")
    given = parser.parse_args(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    if given.model is None:
        parser.error("expected a model, as in: python -m tests.bench.own_cost mid.gguf")
    rungs = given.rungs.split(",")
    if unknown := set(rungs) - set(_RUNGS):
        parser.error(f"expected some of {', '.join(_RUNGS)}; got {', '.join(sorted(unknown))}")
    report = Report("own_cost")
    report.settings |= {
        **file_facts(given.model),
        "threads": default_threads(),
        "tokens": given.tokens,
        "runs": given.runs,
        "watching_us": 1e3 * watching_costs_ms(),
    }
    how = {"model": str(given.model.resolve()), "tokens": given.tokens}
    found: dict[str, list[dict[str, Any]]] = {rung: [] for rung in rungs}
    for number in range(1, given.runs + 1):
        for rung in rungs:
            figures = measure("tests.bench.own_cost", {**how, "rung": rung}, terminal=rung == _TERMINAL)
            found[rung].append(figures)
            report.say(f"run {number}, {rung}: {figures['gap_ms']:.3f} ms and {figures['decode_ms']:.2f} in llama.cpp")
    _tell(report, found)
    report.print(as_json=given.json)


def _tell(report: Report, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    below: Sequence[float] = ()
    for rung, runs in found.items():
        watching = float(runs[0]["watching_ms"])
        own = [run["gap_ms"] - watching for run in runs]
        report.row(
            "milliseconds a token (medians of the runs)",
            rung=rung,
            own_ms=median(own),
            own_least_ms=min(own),
            own_greatest_ms=max(own),
            adds_ms=median(a - b for a, b in zip(own, below, strict=True)) if below else None,
            own_median_ms=median(run["gap_median_ms"] - watching for run in runs),
            own_cpu_ms=median(run["gap_cpu_ms"] for run in runs),
            llama_decode_ms=median(run["decode_ms"] for run in runs),
            percent_of_a_token=median(
                100 * mine / (mine + run["decode_ms"]) for mine, run in zip(own, runs, strict=True)
            ),
            terminal_thread_cpu_ms=median(run["main_ms"] for run in runs) if runs[0]["main_ms"] is not None else None,
        )
        below = own


# -- the processes that are measured -----------------------------------------------------------------------------------


def _child(how: Mapping[str, Any]) -> None:
    stamps = watch_decoding()
    answer_with_markdown(how["tokens"])
    _RUNGS[how["rung"]](Path(how["model"]), how["tokens"])
    answer(how, {**stamps.figures(how["tokens"]), "watching_ms": watching_costs_ms()})


def _engine(model: Path, tokens: int, sampling: Sampling) -> None:
    with closing(load_as_ossia(model)) as engine:
        task = Task(Prompt(tuple(range(64))), max_tokens=tokens, sampling=sampling)
        generation = engine.generate(task, control=Control())
        for _ in generation:
            pass


def _responder(model: Path, tokens: int) -> None:
    from ossia.agent.request import Request
    from ossia.agent.respond import LocalResponder
    from ossia.harmony.codec import Codec
    from ossia.harmony.messages import Message
    from ossia.harmony.tokenizer import Tokenizer

    with closing(load_as_ossia(model)) as engine:
        codec = Codec(Tokenizer(engine.vocabulary), recipient_position="channel", replay=True)
        request = Request((Message("user", (_QUESTION,)),), sampling=_DRAWN, max_tokens=tokens)
        for _ in LocalResponder(codec, engine).respond(request, control=Control()):
            pass


def _turn(model: Path, tokens: int) -> None:
    from ossia.agent.limits import Limits
    from ossia.agent.loop import run_turn
    from ossia.agent.respond import LocalResponder
    from ossia.agent.sessions.session import Options, Session
    from ossia.agent.turn import Turn
    from ossia.agent.worker import Worker
    from ossia.harmony.codec import Codec
    from ossia.harmony.tokenizer import Tokenizer
    from ossia.tools.approval.policy import Policy
    from ossia.tools.spec import NoStop, ToolContext
    from ossia.tools.toolbox import Toolbox

    with closing(load_as_ossia(model)) as engine:
        codec = Codec(Tokenizer(engine.vocabulary), recipient_position="channel", replay=True)
        context = ToolContext(NoStop(), workspace=None, data_dir=Path(), count_tokens=len)
        worker, control = Worker(), Control()
        events = run_turn(
            Session(Options(sampling=_DRAWN)),
            _QUESTION,
            responder=LocalResponder(codec, engine),
            tools=Toolbox([], policy=Policy(), context=context),
            limits=Limits(max_tokens=tokens),
            control=control,
        )
        turn = Turn(worker, events, control)
        for _ in turn:
            pass
        turn.result()
        worker.close()


def _run(model: Path, tokens: int) -> None:
    from ossia.cli.main import invoke

    invoke([*_RUN, "--model", str(model), "--max-tokens", str(tokens)])


_DRAWN = Sampling(seed=1)
_TERMINAL = "run on a terminal"
_RUNGS: dict[str, Callable[[Path, int], None]] = {
    "engine greedy": lambda model, tokens: _engine(model, tokens, Sampling(temperature=0)),
    "engine sampled": lambda model, tokens: _engine(model, tokens, _DRAWN),
    "responder": _responder,
    "turn": _turn,
    "run into a pipe": _run,
    _TERMINAL: _run,
}


if __name__ == "__main__":
    main()
