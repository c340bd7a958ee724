"""What the chat costs in speed: `python -m tests.bench.chat_decode MODEL.gguf [--tokens 256] [--runs 5]`.

The same question, model and number of tokens in the chat, in a pseudo-terminal of 80 by 24, and through `ossia run
--quiet`, into a pipe and on a terminal; in turns, each in a new process. Tokens a second are those from the first
call of llama_decode to the last (`tests.bench.native`), so that everything in between counts, on whatever thread. The
ratios are those of neighbours, the chat's speed over the other's. What is read from the terminal is dropped: a real
one needs some of a processor, too.

Whatever the model draws, the others see Markdown in `final` (`native.answer_with_markdown`): weights may be random.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ossia.agent.engine.threads import default_threads
from tests.bench.native import answer_with_markdown, watch_decoding
from tests.bench.processes import answer, measure, own_home
from tests.bench.report import Report, file_facts, model_file, options, ratios
from tests.support.pty import PtyChat

_MODULE = "tests.bench.chat_decode"
_QUESTION = "Say something."
_CHAT, _PIPE, _TERMINAL = "the chat", "run --quiet, into a pipe", "run --quiet, on a terminal"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__, compares=True)
    parser.add_argument("model", type=model_file, nargs="?", metavar="MODEL.gguf")
    parser.add_argument("--tokens", type=int, default=256, metavar="N")
    parser.add_argument("--runs", type=int, default=5, metavar="K")
    parser.add_argument("--child", default="", help="for the bench itself")
    given = parser.parse_args(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    if given.model is None:
        parser.error("expected a model, as in: python -m tests.bench.chat_decode mid.gguf")
    report = Report("chat_decode", "prompt-toolkit", "rich")
    report.settings |= {
        **file_facts(given.model), "threads": default_threads(), "tokens": given.tokens, "runs": given.runs
    }  # fmt: skip
    how = {"model": str(given.model.resolve()), "tokens": given.tokens}
    found: dict[str, list[dict[str, Any]]] = {_CHAT: [], _PIPE: [], _TERMINAL: []}
    for number in range(1, given.runs + 1):
        found[_CHAT].append(_chat(how))
        found[_PIPE].append(measure(_MODULE, {**how, "chat": False}))
        found[_TERMINAL].append(measure(_MODULE, {**how, "chat": False}, terminal=True))
        speeds = ", ".join(f"{what} {runs[-1]['tokens_per_s']:.2f}" for what, runs in found.items())
        report.say(f"run {number}: {speeds} tok/s")
    _tell(report, found)
    report.print(as_json=given.json, svg=given.svg)


def _tell(report: Report, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    for what, runs in found.items():
        speeds = [run["tokens_per_s"] for run in runs]
        report.row(
            "decode, tokens a second; ratios: the chat over the other, pair by pair",
            what=what,
            median=median(speeds),
            least=min(speeds),
            greatest=max(speeds),
            **(ratios((chat["tokens_per_s"] for chat in found[_CHAT]), speeds) if what != _CHAT else {}),
            llama_decode_ms=median(run["decode_ms"] for run in runs),
            between_ms=median(run["gap_ms"] for run in runs),
            terminal_thread_cpu_ms=None if runs[0]["main_ms"] is None else median(run["main_ms"] for run in runs),
        )


def _chat(how: Mapping[str, Any]) -> dict[str, Any]:
    """One turn in the chat, asked as a person asks."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "answer.json")
        asked = json.dumps({**how, "chat": True, "out": str(out)})
        command = [sys.executable, "-m", _MODULE, "--child", asked]
        with PtyChat(command=command, environ=own_home(Path(folder))) as chat:
            chat.idle()
            chat.sent = b""
            chat.press(f"{_QUESTION}\r")
            chat.over()
            chat.press("\x04")
            chat.wait()
        figures = json.loads(out.read_text())
    assert isinstance(figures, dict)
    return figures


def _child(how: Mapping[str, Any]) -> None:
    stamps = watch_decoding()
    answer_with_markdown(how["tokens"])
    from ossia.cli.main import invoke

    asked = [] if how["chat"] else ["run", _QUESTION, "--quiet"]
    given = ["--no-tools", "--model", how["model"], "--max-tokens", str(how["tokens"]), "--seed", "1", "--no-guide"]
    invoke([*asked, *given])
    answer(how, stamps.figures(how["tokens"]))


if __name__ == "__main__":
    main()
