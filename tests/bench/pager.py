"""`python -m tests.bench.pager`: opening and scrolling the transcript of a long session, in CPU time."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial

from ossia.agent.events import MessageAdded, ToolFinished, ToolStarted, TurnEnded
from ossia.cli.chat.pager.transcript import Transcript
from ossia.harmony.messages import Delta, Message
from ossia.tools.spec import ToolCall, ToolResult
from tests.bench.report import Report, options
from tests.support.paging import PagerScreen

_TABLE = "CPU time"
TURNS, ANSWER_TOKENS, STREAM_TOKENS = 500, 20_000, 400
WORDS = ("the", "llama", "runs", "over", "weights", "and", "every", "token", "falls", "line", "naïve", "漢字", "🙂")


def markdown(tokens: int, source: random.Random) -> str:
    """About so many tokens of every kind of block."""
    blocks: list[str] = []
    while sum(map(len, blocks)) < tokens * 3:
        prose = " ".join(source.choices(WORDS, k=60))
        code = "".join(f"def f{i}(x):\n    return x * {i}  # {source.choice(WORDS)}\n\n" for i in range(20))
        rows = "".join(f"| row {i} | {i * i} |\n" for i in range(12))
        items = "".join(f"- {prose[:80]}\n" for _ in range(6))
        kinds = (f"## Part {len(blocks)}\n\n{prose} **bold** `code`", f"```python\n{code}```", items.rstrip(), prose)
        blocks.append(source.choice((*kinds, f"| name | value |\n|---|--:|\n{rows}".rstrip())))
    return "\n\n".join(blocks)


def long_session(turns: int, answer_tokens: int, source: random.Random) -> Transcript:
    """Turns with thinking, a call with a long result, and an answer."""
    transcript = Transcript()
    thought, answer = " ".join(source.choices(WORDS, k=120)), markdown(answer_tokens, source)
    result = "\n".join(f"{i} {i * i}" for i in range(300))
    for number in range(turns):
        call = ToolCall(f"call_{number}", "python", "for i in range(300):\n    print(i, i * i)")
        for event in (
            MessageAdded(Message("user", (f"Question {number}",))),
            MessageAdded(Message("assistant", (thought,), channel="analysis")),
            MessageAdded(Message("assistant", (call.arguments,), recipient="python", channel="analysis")),
            ToolStarted(call),
            ToolFinished(call, ToolResult(result), 1200),
            MessageAdded(Message("tool", (result,), name="python", channel="analysis")),
            MessageAdded(Message("assistant", (answer,), channel="final")),
            TurnEnded("answered"),
        ):
            transcript.see(event)
    return transcript


async def measure(report: Report, session: str, transcript: Transcript) -> None:
    """Open, scroll to and fro, jump, search, stream."""
    began, wall = time.process_time(), time.perf_counter()
    async with PagerScreen(transcript, columns=100, rows=40, poll_s=60) as stage:
        _tell(report, session, "opening it", [_ms(began)])
        characters = sum(len(item.text) for item in transcript.items)
        opened_ms = 1e3 * (time.perf_counter() - wall)
        report.row("the sessions", session=session, characters=characters, opened_in_ms=opened_ms)
        setattr(stage.terminal._stream, "feed", lambda text: None)  # the emulator costs more than the pager  # noqa: B010
        for name, keys in {
            "a row up": ["up"] * 40,
            "a page up": ["pageup"] * 40,
            "a turn up": ["["] * 20,
            "to the top": ["home"],
            "a page down": ["pagedown"] * 40,
            "thinking off and on": ["t"] * 2,
            "results off and on": ["o"] * 2,
            "to the end": ["end"],
        }.items():
            _tell(report, session, name, await _press(stage, keys))
        began = time.process_time()
        await stage.press("home", "/", *"naïve line", "enter")
        _tell(report, session, "the first search", [_ms(began)])
        _tell(report, session, "the next hit", await _press(stage, ["n"] * 20))
        began = time.process_time()
        await stage.resize(80, 30)
        _tell(report, session, "another width", [_ms(began)])
        await stage.press("/", "escape", "end")
        source, times = random.Random(3), []
        pieces = markdown(STREAM_TOKENS, source).split(" ")
        for number in range(0, len(pieces), 20):  # what 100 tokens a second bring from one look to the next
            began = time.process_time()
            transcript.see(Delta(0, " ".join(pieces[number : number + 20]), channel="final"))
            assert stage.app is not None
            stage.app.invalidate()
            await stage.drawn()
            times.append(_ms(began))
        _tell(report, session, "a look at the stream, 20 tokens", times)


async def _press(stage: PagerScreen, keys: Sequence[str]) -> list[float]:
    """CPU milliseconds of each key."""
    times = []
    for key in keys:
        began = time.process_time()
        await stage.press(key)
        times.append(_ms(began))
    return times


def _tell(report: Report, session: str, what: str, times: Sequence[float]) -> None:
    report.row(_TABLE, session=session, what=what, median_ms=statistics.median(times), most_ms=max(times))


def _ms(began: float) -> float:
    return (time.process_time() - began) * 1e3


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print. `--cold` is for the bench itself: the first session alone, in a process that drew nothing."""
    parser = options(__doc__)
    parser.add_argument("--cold", action="store_true", help="only the first session")
    given = parser.parse_args(argv)
    report = Report("pager", "prompt-toolkit", "rich")
    short = partial(measure, report, "3 turns", long_session(3, 200, random.Random(1)))
    if given.cold:
        asyncio.run(short())
    else:
        command = [sys.executable, "-m", "tests.bench.pager", "--cold", "--json"]
        cold = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        report.row(_TABLE, **{**json.loads(cold.stdout)["tables"][_TABLE][0], "session": "3 turns, with the imports"})
        asyncio.run(short())
        for session, (turns, tokens) in {
            f"{TURNS} turns of 40 tokens": (TURNS, 40),
            f"{TURNS} turns of 400 tokens": (TURNS, 400),
            f"one answer of {ANSWER_TOKENS:,} tokens": (1, ANSWER_TOKENS),
        }.items():
            asyncio.run(measure(report, session, long_session(turns, tokens, random.Random(1))))
    report.print(as_json=given.json)


if __name__ == "__main__":
    main()
