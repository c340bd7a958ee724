"""Ten turns with six calls: `python -m tests.bench.dialogue [MODEL.gguf] [--llama-server PATH]`.

Which tokens are evaluated, in all and after the moment of sending, when the same dialogue is gone through

    the floor                  each prompt's own part: what its beginning shares with the one before it, and with what
                               came of that, read once and for all
    ossia, reading ahead       our engine, which reads between the turns what the next prompt surely begins with
    ossia, not ahead           the same without
    llama-server               the same ids sent to `/completion`, its cache on (`cache_prompt`), `--no-repack`

The dialogue is written down, so that all go through the same: prompts and completions are real ids of real messages,
rendered as `ossia` renders them, the thoughts of past turns dropped. A completion is decoded as if it had been drawn:
its tokens count nowhere. Seconds are those that are waited after sending, of prompts alone. Without MODEL it is the
étude.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from tests.bench.processes import answer, measure
from tests.bench.report import Report, file_facts, model_file, options
from tests.support.vocabularies import ETUDE

_TABLE = "tokens evaluated of ten turns' prompts"
_READY_S = 600
_CALLS = (0, 2, 3, 5, 7, 8)
"""In these turns a tool is called."""
_THOUGHT = "The user asks about part {n}. " + "I should look at what there is before I answer, step by step. " * 2
_CODE = "for number in range({n}, {n} + 10):\n    print(number, number ** 2)\n"
_RESULT = "{n} of the lines that the program has printed, as they came: 1 2 3 4 5 6 7 8 9. " * 3
_ANSWER = "Part {n} is done. " + "Here is what came of it, in a few words that say enough. " * 2


@dataclass(frozen=True, slots=True)
class _Step:
    """A prompt, what comes of it, and what is known before the user sends: None where nobody sends."""

    prompt: Prompt
    completion: tuple[int, ...]
    ahead: Prompt | None


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("model", type=model_file, nargs="?", default=ETUDE, metavar="MODEL.gguf")
    parser.add_argument("--llama-server", type=Path, metavar="PATH", help="see peers.sh; without it, ours alone")
    parser.add_argument("--child", default="", help="for the bench itself")
    given = parser.parse_args(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    report = Report("dialogue")
    how = {"model": str(given.model.resolve())}
    found = {
        "ossia, reading ahead": measure("tests.bench.dialogue", {**how, "ahead": True}),
        "ossia, not ahead": measure("tests.bench.dialogue", {**how, "ahead": False}),
    }
    if given.llama_server:
        found["llama-server"] = _served(given.llama_server, given.model)
    steps = _dialogue(given.model)
    report.settings |= {**file_facts(given.model), "steps": len(steps)}
    report.row(_TABLE, what="the floor", in_all=_floor(steps), after_sending=None, seconds_after=None)
    for what, counts in found.items():
        report.row(_TABLE, what=what, **counts)
    report.print(as_json=given.json)


def _floor(steps: Sequence[_Step]) -> int:
    """What must be evaluated with a cache that holds one sequence."""
    held: tuple[int, ...] = ()
    count = 0
    for step in steps:
        ids = step.prompt.ids
        shared = next((n for n, (ours, theirs) in enumerate(zip(held, ids, strict=False)) if ours != theirs), None)
        count += len(ids) - (min(len(held), len(ids)) if shared is None else shared)
        held = (*ids, *step.completion)
    return count


# -- the dialogue ------------------------------------------------------------------------------------------------------


class _Recorder:
    """An engine that notes the prompts it gets, and completes them as it is told."""

    name = "recorder"
    context_tokens = 1 << 20
    capabilities = frozenset({"prefill"})

    def __init__(self, tokenizer: Any) -> None:
        from ossia.agent.engine.scripted import Script, ScriptedEngine

        self._script, self._engine, self._tokenizer = Script, ScriptedEngine, tokenizer
        self.vocabulary = tokenizer.vocabulary
        self.steps: list[_Step] = []
        self.completions: list[str] = []
        self._ahead: Prompt | None = None

    def generate(self, task: Task, *, control: Control) -> Any:
        text = self.completions.pop(0)
        once = self._engine(self._script((text,)), self._tokenizer, context_tokens=self.context_tokens)
        items = list(once.generate(task, control=control))
        self.steps.append(_Step(task.prompt, tuple(items), self._ahead))
        self._ahead = None
        again = self._engine(self._script((text,)), self._tokenizer, context_tokens=self.context_tokens)
        return again.generate(task, control=control)

    def prefill(self, prompt: Prompt, **_: Any) -> None:
        self._ahead = prompt

    def close(self) -> None:
        """There is nothing to give back."""


def _dialogue(model: Path) -> list[_Step]:
    """The ten turns, gone through once by the loop itself with a tool that says what is written down."""
    from ossia.agent.control import Control
    from ossia.agent.models.model import open_model
    from ossia.harmony.tokenizer import Tokenizer
    from tests.support.turns import Stage

    tokenizer = Tokenizer(open_model(model).vocabulary())
    stage, recorder = Stage(tokenizer, ()), _Recorder(tokenizer)
    stage.responder.engine = recorder  # type: ignore[assignment]
    results = iter(_RESULT.format(n=number) for number in _CALLS)
    stage.echo.run = lambda args, *, call_id, context: _says(next(results))  # type: ignore[method-assign]
    for number in range(10):
        thought = f"<|channel|>analysis<|message|>{_THOUGHT.format(n=number)}<|end|><|start|>assistant"
        if number in _CALLS:
            call = f"<|channel|>analysis to=python code<|message|>{_CODE.format(n=number)}<|call|>"
            recorder.completions.append(thought + call)
        recorder.completions.append(f"{thought}<|channel|>final<|message|>{_ANSWER.format(n=number)}<|return|>")
        request = stage.session.request_ahead(stage.toolbox.specs)
        stage.responder.prefill(request, control=Control())
        stage.play(f"And now part {number}, please: what does it say, and what comes of it?")
    return recorder.steps


def _says(text: str) -> Iterator[Any]:
    from ossia.tools.spec import ToolResult

    yield from ()
    return ToolResult(text)


# -- those that go through it ------------------------------------------------------------------------------------------


def _child(how: Mapping[str, Any]) -> None:
    """Our engine, in a process of its own."""
    from ossia.agent.control import Control
    from ossia.agent.engine.generation import Prefill
    from tests.bench.native import load_as_ossia

    evaluated, after, seconds = 0, 0, 0.0
    with closing(load_as_ossia(Path(how["model"]))) as engine:
        for step in _dialogue(Path(how["model"])):
            if how["ahead"] and step.ahead is not None:
                before: list[int] = []
                engine.prefill(step.ahead, control=Control(), on_progress=lambda progress: before.append(progress.done))  # noqa: B023
                evaluated += before[-1] - before[0] if before else 0
            prefill = Prefill(step.prompt, engine.lane)
            for _ in prefill:
                pass
            evaluated += prefill.evaluated
            after += prefill.evaluated
            seconds += prefill.seconds
            for token in step.completion[:-1]:  # the last one is drawn, and never decoded
                engine.lane.advance((token,))
    answer(how, {"in_all": evaluated, "after_sending": after, "seconds_after": seconds})


def _served(program: Path, model: Path) -> dict[str, Any]:
    """llama-server. A completion is sent as a prompt's end, in place of being drawn: those tokens aren't counted."""
    evaluated, seconds = 0, 0.0
    with _server(program, model) as ask:
        for step in _dialogue(model):
            timings = ask(step.prompt.ids)
            evaluated, seconds = evaluated + timings["prompt_n"], seconds + timings["prompt_ms"] / 1e3
            ask((*step.prompt.ids, *step.completion[:-1]))
    return {"in_all": evaluated, "after_sending": evaluated, "seconds_after": seconds}


@contextmanager
def _server(program: Path, model: Path) -> Iterator[Callable[[Sequence[int]], Mapping[str, float]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "-m", model, "--port", str(port), "-c", "16384", "-np", "1", "--no-repack"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(port, process)

            def ask(ids: Sequence[int]) -> Mapping[str, float]:
                asked = {"prompt": list(ids), "n_predict": 1, "cache_prompt": True, "temperature": 0}
                found = json.loads(_request(port, "POST", "/completion", json.dumps(asked)))["timings"]
                assert isinstance(found, dict)
                return found

            yield ask
        finally:
            process.kill()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + _READY_S
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            raise RuntimeError(f"expected llama-server to run, it ended with {process.returncode}")
        try:
            if "ok" in _request(port, "GET", "/health"):
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f"llama-server isn't ready after {_READY_S} s")


def _request(port: int, method: str, path: str, body: str | None = None) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=_READY_S)) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        return connection.getresponse().read().decode()


if __name__ == "__main__":
    main()
