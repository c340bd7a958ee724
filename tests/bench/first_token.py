"""Time to the first token: `python -m tests.bench.first_token [MODEL.gguf] [--prompt-tokens 1000] [--runs 5]`.

One question of about that many tokens, then a second one in the same conversation:

    new process, cold                     ossia run: the start, the weights, the whole prompt
    new process, resumed, cache kept      ossia run --continue: the prompt is there, but for the new question
    new process, resumed, no cache        the same without the kept KV cache: the whole prompt again
    same process, cold                    the responder alone: the whole prompt
    same process, warm prefix             … the second question: the prompt is there, but for that

In a new process the time is that from its start to the first token in our pipe (`--raw`). The weights' file is in the
page cache: the first round isn't counted. Without MODEL it is the étude.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.threads import default_threads
from tests.bench.native import load_as_ossia
from tests.bench.processes import answer, first_byte_s, measure, own_home
from tests.bench.report import Report, file_facts, model_file, options
from tests.support.vocabularies import ETUDE

_TABLE = "milliseconds to the first token"
_NEXT = "And the second one?"
_WORDS = "What stands here is long so that reading it takes a while, whatever it says. "
_ANSWER_TOKENS = 8
_NEW, _KEPT, _LOST = "new process, cold", "new process, resumed, cache kept", "new process, resumed, no cache"
_COLD, _WARM = "same process, cold", "same process, warm prefix"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("model", type=model_file, nargs="?", default=ETUDE, metavar="MODEL.gguf")
    parser.add_argument("--prompt-tokens", type=int, default=1000, metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="K")
    parser.add_argument("--child", default="", help="for the bench itself")
    given = parser.parse_args(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    report = Report("first_token")
    report.settings |= {**file_facts(given.model), "threads": default_threads(), "runs": given.runs}
    how = {"model": str(given.model.resolve()), "prompt_tokens": given.prompt_tokens}
    found: dict[str, list[float]] = {}
    tokens: dict[str, Any] = {}
    for number in range(given.runs + 1):
        inside = measure("tests.bench.first_token", how)
        tokens = inside.pop("tokens")
        question = inside.pop("question")
        for what, seconds in (_new_processes(how["model"], question) | inside).items():
            if number:
                found.setdefault(what, []).append(1e3 * seconds)
        report.say(f"round {number} of {given.runs}")
    for what, times in found.items():
        prompt, reused = tokens.get(what, (None, None))
        report.row(
            _TABLE,
            what=what, median_ms=median(times), best_ms=min(times), prompt_tokens=prompt, reused_tokens=reused,
        )  # fmt: skip
    report.print(as_json=given.json)


def _new_processes(model: str, question: str) -> dict[str, float]:
    """Seconds from the start of each to its first token."""
    run = ["run", "--raw", "--quiet", "--no-tools", "--model", model, "--max-tokens", str(_ANSWER_TOKENS)]
    with tempfile.TemporaryDirectory() as folder:
        home = own_home(Path(folder))
        cold, _ = first_byte_s([*run, "--save", question], home)
        kept, _ = first_byte_s([*run, "--continue", _NEXT], home)
        caches = list(Path(folder).rglob("kv"))
        if not caches:
            raise RuntimeError("expected a kept KV cache beside the stored session, found none")
        for cache in caches:
            shutil.rmtree(cache)
        lost, _ = first_byte_s([*run, "--continue", _NEXT], home)
    return {_NEW: cold, _KEPT: kept, _LOST: lost}


def _child(how: Mapping[str, Any]) -> None:
    """Both questions in one process; their times, their tokens, and the first one's text."""
    from ossia.agent.request import Request
    from ossia.agent.respond import LocalResponder
    from ossia.harmony.codec import Codec
    from ossia.harmony.messages import Message
    from ossia.harmony.tokenizer import Tokenizer

    with closing(load_as_ossia(Path(how["model"]))) as engine:
        tokenizer = Tokenizer(engine.vocabulary)
        responder = LocalResponder(Codec(tokenizer, recipient_position="channel", replay=True), engine)
        question = _WORDS * (how["prompt_tokens"] // len(tokenizer.encode(_WORDS)))
        first = (Message("user", (question,)),)
        second = (*first, Message("assistant", ("Yes.",), channel="final"), Message("user", (_NEXT,)))
        figures: dict[str, Any] = {"question": question, "tokens": {}}
        for what, history in ((_COLD, first), (_WARM, second)):
            figures[what], stats = _timed(responder, Request(history, max_tokens=1))
            figures["tokens"][what] = stats
    answer(how, figures)


def _timed(responder: Any, request: Any) -> tuple[float, tuple[int, int]]:
    """Seconds of a generation of one token; the tokens of its prompt, and how many of them were there already."""
    from ossia.agent.events import Stats

    begin = time.perf_counter()
    events = list(responder.respond(request, control=Control()))
    seconds = time.perf_counter() - begin
    (stats,) = (event.step for event in events if isinstance(event, Stats))
    return seconds, (stats.prompt_tokens, stats.reused_tokens)


if __name__ == "__main__":
    main()
