"""What tmux holds after a streamed answer equals the one-shot render, row by row, while keys are typed.

    python -m tests.oracle.scrollback                      # 6,000 tokens: each row once, every key kept
    python -m tests.oracle.scrollback --tokens 3000 --seed 7 --rate 1000
    python -m tests.oracle.scrollback --resize             # the window changes its size all the while

With `--resize` rows that were finished at another width are other rows, so what is compared is the text: nothing of it
may be missing, and what stands there twice is counted and shown.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ossia.agent.vocabulary import tokenizer_for
from ossia.cli import paths
from tests.support.command import OSSIA, write_script
from tests.support.documents import answer, document
from tests.support.pty import IDLE
from tests.support.rendering import render_markdown
from tests.support.tmux import Tmux, tmux_links

_COLUMNS, _ROWS = 80, 24
_KEYS = 400  # as many as the input line shows at once
_WIDTHS, _HEIGHTS = (60, 70, 80, 100, 120), (18, 24, 30)


@dataclass(frozen=True, slots=True)
class Held:
    """What tmux held: `answer` rows, and the keys that were typed and that the input line has."""

    expected: list[str]
    answer: list[str]
    typed: int
    kept: int
    resizes: int


def stream(tokens: int, *, seed: int, rate: float, resize: bool, home: Path) -> Held:
    """Stream a document in tmux, typing all the while."""
    tokenizer = tokenizer_for("etude", paths.host())
    text = document(tokens, seed=seed, count=lambda part: len(tokenizer.encode(part)))
    script = write_script(home, answer(text), tokens_per_s=rate)
    environ = {"HOME": str(home), "XDG_DATA_HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    chance = random.Random(seed)
    typed = resizes = 0
    command = [str(OSSIA), "--engine", script, "--no-tools"]
    with Tmux(command, columns=_COLUMNS, rows=_ROWS, environ=environ) as tmux:
        tmux.until(lambda: tmux.title == IDLE)
        tmux.type("go")
        tmux.keys("Enter")
        tmux.until(lambda: tmux.title != IDLE)
        while tmux.title != IDLE:
            if typed < _KEYS:
                tmux.type("QZ")
                typed += 2
            if resize and chance.random() < 0.3:
                tmux.resize(chance.choice(_WIDTHS), chance.choice(_HEIGHTS))
                resizes += 1
            time.sleep(0.1)
        if resize:
            tmux.resize(_COLUMNS, _ROWS)
        tmux.until(lambda: sum(line.count("Q") for line in tmux.display) * 2 == typed, timeout_s=10)
        lines = tmux.lines
    drawn = render_markdown(text, width=_COLUMNS, colour=True, links=tmux_links())
    rows = ["".join(part.text for part in row).rstrip() for row in drawn]
    begin = lines.index("› go") + 2
    end = next(number for number in range(len(lines) - 1, 0, -1) if lines[number].startswith("› QZ"))
    kept = 2 * sum(line.count("Q") for line in lines[end:])
    return Held(_trimmed(rows), _trimmed(lines[begin:end]), typed, kept, resizes)


def _trimmed(rows: list[str]) -> list[str]:
    """Without the empty ones at the end."""
    while rows and not rows[-1]:
        rows.pop()
    return rows


def squashed(rows: list[str]) -> str:
    """The letters and digits of it: what wrapping can't change."""
    return "".join(char for row in rows for char in row if char.isalnum())


def main() -> None:
    """Stream, compare, say what differs; exits with 1 where something does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=400.0)
    parser.add_argument("--resize", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        held = stream(given.tokens, seed=given.seed, rate=given.rate, resize=given.resize, home=Path(home))
    print(f"keys: {held.kept} of {held.typed} kept")
    if given.resize:
        sys.exit(_resized(held) or held.kept != held.typed)
    same = held.expected == held.answer
    print(f"rows: {len(held.expected)} expected, {len(held.answer)} held, {'equal' if same else 'NOT EQUAL'}")
    for number, (wanted, got) in enumerate(zip(held.expected, held.answer, strict=False)):
        if wanted != got:
            print(f"  row {number}: expected {wanted!r}\n         held {got!r}")
            break
    sys.exit(not same or held.kept != held.typed)


def _resized(held: Held) -> bool:
    """Says what is there twice; True where something is missing."""
    long = [row for row in held.answer if len(row) > 20]
    twice = {row: number - 1 for row, number in Counter(long).items() if number > max(1, held.expected.count(row))}
    stray = [row for row in held.answer if "writing · " in row or "› Q" in row]
    whole = squashed(held.expected)
    missing = [row for row in held.expected if squashed([row]) not in squashed(held.answer)]
    print(f"{held.resizes} resizes; {len(held.answer)} rows, {sum(twice.values())} of them twice, {len(stray)} stray")
    more = len(squashed(held.answer)) - len(whole)
    print(f"text: {len(whole)} characters, {more:+d} held, {len(missing)} rows missing")
    for row in [*list(twice)[:5], *stray[:5], *missing[:5]]:
        print(f"  {row!r}")
    return bool(missing)


if __name__ == "__main__":
    main()
