"""What Markdown costs as it streams: `python -m tests.bench.markdown [--json] [--tokens 20000]`.

Microseconds of CPU time a token for Segmenter, Painter and ANSI over a long answer, each eighth of it by itself (flat
is what counts); a live view of the open rest 12 times a second at 100 tokens/s, in milliseconds a frame; and the texts
that are worst for block parsers, 1 MB or so, in pieces of 2,000 characters: seconds in all, the slowest step.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from ossia.cli.terminal.markdown.paint import Painter
from ossia.cli.terminal.markdown.segment import Segmenter
from tests.bench.report import Report, options

WANTED_US = 1000  # a token: 1 ms at 100 tokens/s is a tenth of a core
WANTED_STEP_MS = 50
TOKENS_A_FRAME = 8  # 100 tokens/s, 12 frames/s
PARTS = 8
_STEP_CHARS = 2000

_WORDS = ("the", "llama", "runs", "over", "weights", "every", "token", "falls", "漢字", "かな", "🙂", "naïve", "Straße")
_MARKS = ("*", "[", "![", "$", "<", "\\(", "_a", "**a*")
WORST = {
    "1 MB of words": "word " * 200_000,
    "1 MB without a blank": "x" * 1_000_000,
    **{f"1 MB of {mark!r}": mark * (1_000_000 // len(mark)) for mark in _MARKS},
    "100k one-word lines": "word\n" * 100_000,
    "60k one-letter lines": "a\n" * 60_000,
    "a table of 20k rows": "|a|b|\n|-|-|\n" + "|1|2|\n" * 20_000,
    "a table of 300 columns": "|" + "a|" * 300 + "\n|" + "-|" * 300 + "\n" + ("|" + "b|" * 300 + "\n") * 300,
    "one item of 20k lines": "- a\n" + "  b\n" * 20_000,
    "a fence of 20k lines in an item": "- a\n  ```py\n" + "  x = 1\n" * 20_000,
    "20k items": "- a\n" * 20_000,
    "a quote of 20k lines": "> a b c\n" * 20_000,
    "1 MB of '> '": "> " * 500_000,
    "200 KB of '- '": "- " * 100_000,
    "500 levels of lists": "".join("  " * level + "- a\n" for level in range(500)),
    "Python, 10k lines": "```python\n" + "def f(x): return x * 2  # hi\n" * 10_000,
    "a line of code of 1 MB": "```python\n" + "x = " * 250_000 + "\n```\n",
    "50k links": "[a](http://b.c) " * 50_000,
    "half a link, 250k times": "[a](" * 250_000,
    "100k entities": "&#x202e;" * 100_000,
    "500k marks over one letter": "Z" + "\u0301" * 500_000,
}


@dataclass(frozen=True, slots=True)
class Worst:
    """CPU seconds in all; the slowest step of 2,000 characters, and one live view at the end, in milliseconds."""

    what: str
    cpu_s: float
    slowest_step_ms: float
    live_ms: float
    rows: int


def answer(rng: random.Random, n_tokens: int) -> list[str]:
    """Markdown of `n_tokens` pieces, about as long as tokens, with every kind of block in turns."""
    pieces: list[str] = []
    kinds: list[Callable[[random.Random], str]] = [_prose, _items, _prose, _code, _numbers, _table, _prose, _quote]
    while len(pieces) < n_tokens:
        for kind in kinds:
            pieces += re.findall(r" ?\w{1,5}|\s+|[^\w\s]", kind(rng) + "\n")
    return pieces[:n_tokens]


def _sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words)).capitalize() + "."


def _prose(rng: random.Random) -> str:
    link = "With **bold**, `code`, $a_1$ and [a link](https://example.org/x?y=1)."
    return f"## {_sentence(rng, 3)}\n\n{_sentence(rng, rng.randrange(20, 90))} {link}\n"


def _items(rng: random.Random) -> str:
    return "".join(f"- {_sentence(rng, 8)}\n" for _ in range(rng.randrange(3, 12)))


def _numbers(rng: random.Random) -> str:
    return "".join(f"{number}. {_sentence(rng, 12)}\n\n" for number in range(1, rng.randrange(3, 9)))


def _code(rng: random.Random) -> str:
    functions = (f"def f{number}(x):\n    return x * {number}  # {_sentence(rng, 3)}\n\n" for number in range(20))
    return f"```python\n{''.join(functions)}```\n"


def _table(rng: random.Random) -> str:
    rows = (f"| row {number} | {number * number} | {_sentence(rng, 2)} |\n" for number in range(rng.randrange(3, 40)))
    return f"| name | value | note |\n|---|--:|---|\n{''.join(rows)}"


def _quote(rng: random.Random) -> str:
    return f"> {_sentence(rng, 30)}\n"


def streamed(pieces: list[str], parts: int) -> Iterator[tuple[float, float]]:
    """For each part of the answer: microseconds a token until it is final, milliseconds a live frame."""
    segmenter, painter = Segmenter(), Painter(80)
    each = len(pieces) // parts
    for start in range(0, each * parts, each):
        final = live = 0.0
        for number, piece in enumerate(pieces[start : start + each]):
            begin = time.process_time()
            for chunk in segmenter.feed(piece):
                for row in painter.chunk(chunk):
                    painter.ansi(row)
            final += time.process_time() - begin
            if number % TOKENS_A_FRAME == 0:
                begin = time.process_time()
                if chunk_now := segmenter.live(20):
                    painter.fragments(painter.chunk(chunk_now))
                live += time.process_time() - begin
        yield round(final / each * 1e6, 1), round(live / (each / TOKENS_A_FRAME) * 1e3, 2)


def worst(name: str, text: str) -> Worst:
    """One of the worst texts."""
    segmenter, painter, rows, slowest = Segmenter(), Painter(80), 0, 0.0
    begin = time.process_time()
    for at in range(0, len(text), _STEP_CHARS):
        started = time.process_time()
        for chunk in segmenter.feed(text[at : at + _STEP_CHARS]):
            rows += sum(1 for row in painter.chunk(chunk) if painter.ansi(row) is not None)
        slowest = max(slowest, time.process_time() - started)
    started = time.process_time()
    if chunk_now := segmenter.live(20):
        painter.fragments(painter.chunk(chunk_now))
    live = time.process_time() - started
    rows += sum(len(painter.chunk(chunk)) for chunk in segmenter.finish())
    seconds = time.process_time() - begin
    return Worst(name, round(seconds, 2), round(slowest * 1e3, 1), round(live * 1e3, 1), rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--tokens", type=int, default=20_000, metavar="N")
    given = parser.parse_args(argv)
    report = Report("markdown", "rich", "pygments", "markdown-it-py")
    report.settings |= {"tokens": given.tokens, "wanted_us": WANTED_US, "wanted_step_ms": WANTED_STEP_MS}
    list(streamed(answer(random.Random(1), 2000), 1))  # imports, caches
    for part, (final_us, live_ms) in enumerate(streamed(answer(random.Random(2), given.tokens), PARTS), 1):
        report.row("an answer as it streams, in eighths", part=part, until_final_us=final_us, live_frame_ms=live_ms)
    for name, text in WORST.items():
        one = worst(name, text)
        late = one.slowest_step_ms > WANTED_STEP_MS
        report.row("the worst texts, in steps of 2,000 characters", **asdict(one), late=late)
    report.print(as_json=given.json)


if __name__ == "__main__":
    main()
