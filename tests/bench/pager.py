"""`python -m tests.bench.pager`: opening and scrolling the transcript of a long session; CPU time, and the load."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import subprocess
import sys
import time

from agent.events import MessageAdded, ToolFinished, ToolStarted, TurnEnded
from cli.transcript import Transcript
from harmony.messages import Delta, Message
from tests.support.paging import PagerScreen
from tools.spec import ToolCall, ToolResult

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


async def measure(what: str, transcript: Transcript) -> None:
    """Open, scroll to and fro, jump, search, stream."""
    began, wall = time.process_time(), time.perf_counter()
    async with PagerScreen(transcript, columns=100, rows=40, poll_s=60) as stage:
        print(f"{what}: {sum(len(item.text) for item in transcript.items) / 1e6:.1f} MB")
        print(f"  {'opening it':42} {_ms(began):6.0f} ms CPU, {(time.perf_counter() - wall) * 1e3:.0f} ms")
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
            await _report(stage, name, keys)
        began = time.process_time()
        await stage.press("home", "/", *"naïve line", "enter")
        print(f"  {'the first search':42} {_ms(began):6.1f} ms     {stage.pager._foot().split(' · ')[2]}")
        await _report(stage, "the next hit", ["n"] * 20)
        began = time.process_time()
        await stage.resize(80, 30)
        print(f"  {'another width':42} {_ms(began):6.1f} ms")
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
        print(f"  {'a look at the stream, 20 tokens':42} {statistics.median(times):6.1f} ms     max {max(times):.0f}")


async def _report(stage: PagerScreen, name: str, keys: list[str]) -> None:
    times = []
    for key in keys:
        began = time.process_time()
        await stage.press(key)
        times.append(_ms(began))
    print(f"  {name:42} {statistics.median(times):6.1f} ms     max {max(times):.0f}")


def _ms(began: float) -> float:
    return (time.process_time() - began) * 1e3


def main() -> None:
    if "--cold" in sys.argv:
        return asyncio.run(measure("cold", long_session(3, 200, random.Random(1))))
    print(f"load {os.getloadavg()[0]:.1f}; CPU time of a key and all that it draws, median")
    asyncio.run(measure("3 turns", long_session(3, 200, random.Random(1))))
    asyncio.run(measure(f"{TURNS} turns of 40 tokens", long_session(TURNS, 40, random.Random(1))))
    asyncio.run(measure(f"{TURNS} turns of 400 tokens", long_session(TURNS, 400, random.Random(1))))
    asyncio.run(measure(f"one answer of {ANSWER_TOKENS:,} tokens", long_session(1, ANSWER_TOKENS, random.Random(1))))
    print("in a fresh process, with every import that drawing needs:")
    return print(subprocess.run([sys.executable, "-m", "tests.bench.pager", "--cold"], capture_output=True, text=True)
                 .stdout.split("\n")[1])  # fmt: skip


if __name__ == "__main__":
    main()
