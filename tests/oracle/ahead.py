"""Sends in the middle of reading ahead: `python -m tests.oracle.ahead [--moments 50]`.

A chat with the étude begins to read ahead; at one of so many moments, spread over the prompt, a question is sent. The
greedy answer must be that of a chat that doesn't read ahead, token for token, and no more may be read than that leaves.
Prints what differs; exits with 1 if anything does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bench.processes import own_home
from tests.support.screen import ChatScreen, chatting

_QUESTIONS = ("What is 48*17?", "Who are you?", "What is 12*12?")


def main(argv: Sequence[str] | None = None) -> int:
    """Ask at every moment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=50, metavar="N")
    given = parser.parse_args(argv)
    expected = {question: _answer(question, None) for question in _QUESTIONS}
    wrong = 0
    for moment in range(given.moments):
        question = _QUESTIONS[moment % len(_QUESTIONS)]
        ids, held = _answer(question, moment / given.moments)
        if ids != expected[question][0]:
            wrong += 1
            print(f"moment {moment}, {held} ids held: {question!r} is answered otherwise")
    print(f"{given.moments} moments, {wrong} answers that differ")
    return 1 if wrong else 0


def _answer(question: str, share: float | None) -> tuple[list[tuple[int, ...]], int]:
    """The sampled ids of the turn, and how many ids were held when it was sent. `share` None: nothing is read ahead."""
    found: list[tuple[int, ...]] = []
    held = 0

    async def case() -> None:
        nonlocal held
        ahead = "off" if share is None else "on"
        async with ChatScreen(
            prefill_ahead=ahead, temperature=0.0, no_tools=None, threads=1, private=True, loaded=False
        ) as stage:
            await stage.until(lambda: stage.talk.loaded is not None)
            cache = stage.talk.loaded.model.engine.lane.cache  # type: ignore[union-attr, attr-defined]
            await stage.until(lambda: stage.talk.use is not None)
            total = stage.talk.use.used_tokens  # type: ignore[union-attr]
            await stage.until(lambda: len(cache) >= (share or 0) * total)
            held = len(cache)
            await stage.type(f"{question}\r")
            await stage.until(lambda: stage.talk.tally.chat.turns and stage.talk.control is None)
            await stage.settle()
            messages = stage.talk.session.messages
            found.extend(tuple(message.sampled.ids) for message in messages if message.sampled)

    chatting(case)
    return found, held


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name, value in own_home(Path(folder)).items():
            patch.setenv(name, value)
        code = main()
    sys.exit(code)
