"""To the first word: `python -m tests.bench.first_word [MODEL.gguf] [--llama-cli PATH] [--runs 3] [--wait 60,20]`.

    run, nothing kept              ossia run "hi" with all default tools, and nothing kept yet: the day's first one
    run, kept                      the same once more: what the prompt begins with is on disk
    run, kept, another question    … asked something else
    chat, sent after 60 s          the chat, left alone for so long, then "hi"; the second time it is started
    llama-cli --no-repack          the same words, without a prompt of tools: until it has ended, after one token

Each is a process of its own, its time that from its start to its first token in our pipe (`--raw`). The chat's is that
from sending to the end of a turn of one token, in a chat that draws into a terminal emulator. They take turns; the
weights' file is in the page cache, since the first round isn't counted. `evaluated` is what was read after sending, of
a prompt of `prompt_tokens`. Without MODEL it is the étude.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.processes import answer, first_byte_s, measure, own_home
from tests.bench.report import Report, file_facts, model_file, options, ratios
from tests.support.command import OSSIA
from tests.support.vocabularies import ETUDE

_SECONDS, _DISK = "seconds to the first token; ratios: llama-cli over ossia, round by round", "on disk"
_PEER = "llama-cli --no-repack"
_KEPT, _OTHER = "run, kept", "run, kept, another question"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    given = _options(argv)
    if given.child:
        _child(json.loads(given.child))
        return
    report = Report("first_word")
    report.settings |= {**file_facts(given.model), "runs": given.runs}
    found: dict[str, list[float]] = {}
    counts: dict[str, Mapping[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        home = own_home(Path(folder))
        took, counts["run, nothing kept"] = _run("hi", given.model, home)
        found["run, nothing kept"] = [took]
        report.row(_DISK, **_on_disk(Path(folder)))
        for number in range(given.runs + 1):
            for what, contender in _contenders(given, home).items():
                seconds, counts[what] = contender()
                if number:
                    found.setdefault(what, []).append(seconds)
            report.say(f"round {number} of {given.runs}")
    for what, times in found.items():
        usage = counts[what]
        report.row(
            _SECONDS,
            what=what, median_s=median(times), best_s=min(times), worst_s=max(times),
            prompt_tokens=usage.get("prompt_tokens"), evaluated=usage.get("evaluated_tokens"),
            **(ratios(found[_PEER], times) if what != _PEER and len(found.get(_PEER, ())) == len(times) else {}),
        )  # fmt: skip
    report.print(as_json=given.json, svg=given.svg)


def _options(argv: Sequence[str] | None) -> Any:
    parser = options(__doc__, compares=True)
    parser.add_argument("model", type=model_file, nargs="?", default=ETUDE, metavar="MODEL.gguf")
    parser.add_argument("--llama-cli", type=Path, metavar="PATH", help="see peers.sh; without it, ours alone")
    parser.add_argument("--runs", type=int, default=3, metavar="K")
    parser.add_argument("--wait", default="60", metavar="S[,S…]", help="seconds that a chat is left alone for (60)")
    parser.add_argument("--child", default="", help="for the bench itself")
    return parser.parse_args(argv)


def _contenders(given: Any, home: Mapping[str, str]) -> dict[str, Callable[[], tuple[float, Mapping[str, int]]]]:
    contenders = {
        _KEPT: lambda: _run("hi", given.model, home),
        _OTHER: lambda: _run("What is the capital of France?", given.model, home),
    }
    for wait in given.wait.split(","):
        how = {"model": str(given.model.resolve()), "wait_s": float(wait), "home": home}
        contenders[f"chat, sent after {wait} s"] = lambda how=how: _chat(how)
    if given.llama_cli:
        contenders[_PEER] = lambda: _llama_cli(given.llama_cli, given.model)
    return contenders


def _run(question: str, model: Path, home: Mapping[str, str]) -> tuple[float, Mapping[str, int]]:
    """The time of one run; and what it read, from one that isn't timed, unless that would keep the prompt for it."""
    flags = ["--model", str(model), "--max-tokens", "1", "--quiet"]
    kept = any(Path(home["XDG_CACHE_HOME"]).rglob("prompt-*"))
    counted = {} if not kept else _usage(["run", question, *flags, "--json"], home)
    seconds, _ = first_byte_s(["run", question, *flags, "--raw"], home)
    return seconds, counted


def _usage(arguments: Sequence[str], home: Mapping[str, str]) -> Mapping[str, int]:
    done = subprocess.run(
        [OSSIA, *arguments], stdin=subprocess.DEVNULL, capture_output=True, env={**os.environ, **home}, check=False
    )
    usage = json.loads(done.stdout)["usage"]
    assert isinstance(usage, dict)
    return usage


def _chat(how: Mapping[str, Any]) -> tuple[float, Mapping[str, int]]:
    found = measure("tests.bench.first_word", how)
    return found["seconds"], found["usage"]


def _llama_cli(program: Path, model: Path) -> tuple[float, Mapping[str, int]]:
    """Its way to end after one token of one turn; what it prints is dropped."""
    command = [program, "-m", model, "-p", "hi", "-n", "1", "-st", "--no-repack"]
    begin = time.perf_counter()
    subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - begin, {}


def _on_disk(folder: Path) -> dict[str, Any]:
    """What the first run has kept."""
    kept = sorted(folder.rglob("prompt-*"))
    size = sum(file.stat().st_size for one in kept for file in one.iterdir())
    return {"kept": len(kept), "tokens": [int(one.name.split("-")[1]) for one in kept][-1], "megabytes": size / 1e6}


def _child(how: Mapping[str, Any]) -> None:
    """A chat that is left alone, and then sent a word."""
    os.environ.update(how["home"])  # what the run before has kept is there
    from tests.support import screen

    figures: dict[str, Any] = {}
    screen.TIMEOUT_S = 3600.0

    async def case() -> None:
        flags = {"model": how["model"], "no_tools": None, "max_tokens": 1, "prefill_ahead": "on"}
        async with screen.ChatScreen(loaded=False, **flags) as stage:  # type: ignore[arg-type]
            await asyncio.sleep(how["wait_s"])
            begin = time.perf_counter()
            await stage.type("hi\r")
            await stage.until(lambda: stage.talk.tally.turn.steps and stage.talk.control is None)
            figures["seconds"] = time.perf_counter() - begin
            turn = stage.talk.tally.turn
            figures["usage"] = {"prompt_tokens": turn.prompt, "evaluated_tokens": turn.evaluated}

    screen.chatting(case)
    answer(how, figures)


if __name__ == "__main__":
    main()
