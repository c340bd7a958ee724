"""A day in one chat: `python -m tests.oracle.long_day --turns 500`. Does it grow, does it get slower?

Scripted turns (thinking, Markdown, now and then a call of a tool that isn't there) in one chat in this process, its
keys from a pipe, its screen an emulator that keeps no history. The session is stored. Told after each tenth: memory of
the process, the time from a key to its echo in the input line, and from Enter to the beginning of the turn. Fails when
memory grew by 50 MB or more after the first tenth, or the echo got twice as slow (and slower than 50 ms).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

from tests.support.command import write_script
from tests.support.documents import answer, document, thought
from tests.support.screen import ChatScreen

GROWTH_BYTES = 50_000_000
_SLOW_S = 0.05
_CALL = "<|channel|>commentary to=functions.none <|constrain|>json<|message|>{}<|call|>"


@dataclass(frozen=True, slots=True)
class Tenth:
    """What was measured in a tenth of the day: seconds are medians."""

    turns: int
    rss_bytes: int
    echo_s: float
    first_row_s: float


async def day(turns: int, folder: Path, *, tokens: int = 250, frame_s: float = 1 / 60) -> list[Tenth]:
    """Live through it, each answer of about as many `tokens`. The folder is for the script."""
    script = write_script(folder, *(step for turn in range(turns) for step in _steps(turn, tokens)))
    tenths, size = [], max(1, turns // 10)
    process = psutil.Process()
    async with ChatScreen(engine=script, context=2_000_000, frame_s=frame_s) as stage:
        echoes, firsts = [], []
        for turn in range(1, turns + 1):
            stage.terminal.forget()
            begin = time.perf_counter()
            await stage.type(f"turn {turn}")
            await stage.until(lambda turn=turn: f"› turn {turn}" in stage.terminal.display)
            echoes.append(time.perf_counter() - begin)
            before, begin = stage.face.view.tokens, time.perf_counter()
            await stage.type("\r")
            await stage.until(lambda before=before: stage.face.view.busy or stage.face.view.tokens != before)
            firsts.append(time.perf_counter() - begin)
            await stage.settle()
            if turn % size == 0:
                gc.collect()
                tenths.append(Tenth(turn, process.memory_info().rss, median(echoes), median(firsts)))
                echoes, firsts = [], []
        assert len(stage.talk.session.ends) == turns
    return tenths


def _steps(turn: int, tokens: int) -> list[str]:
    said = thought(document(tokens // 4, seed=turn)) + answer(document(tokens, seed=turn))
    return [_CALL, said] if turn % 5 == 0 else [said]


def main() -> None:
    """Run and print; exits with 1 when it grew or got slower."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=500)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, XDG_DATA_HOME=home, XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
        begin = time.perf_counter()
        tenths = asyncio.run(day(turns, Path(home)))
    print(f"{turns} turns in {time.perf_counter() - begin:.0f} s")
    print("turns   memory   key to echo   Enter to the turn")
    for tenth in tenths:
        megabytes = tenth.rss_bytes / 1e6
        print(f"{tenth.turns:5} {megabytes:6.1f} MB {1e3 * tenth.echo_s:8.1f} ms {1e3 * tenth.first_row_s:14.1f} ms")
    first, last = tenths[0], tenths[-1]
    grown = last.rss_bytes - first.rss_bytes
    print(f"grown by {grown / 1e6:.1f} MB after the first tenth; load {os.getloadavg()[0]:.2f}")
    sys.exit(grown >= GROWTH_BYTES or last.echo_s > max(_SLOW_S, 2 * first.echo_s))


if __name__ == "__main__":
    main()
