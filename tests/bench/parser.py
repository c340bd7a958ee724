"""How fast the parser is, beside the reference's: `python -m tests.bench.parser [--json]`.

Microseconds of CPU time a token, deltas included, for one message of 1k to 64k tokens: the median of the repetitions,
in each of which ours and the wheel's run one after the other. The wheel's part is `process` and `last_content_delta`,
the least that says what ours does.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import openai_harmony

from ossia.harmony.parse import StreamParser
from ossia.harmony.tokenizer import Tokenizer
from tests.bench.codec import WORDS
from tests.bench.report import Report, options
from tests.support.streams import harmony_ids
from tests.support.vocabularies import load_o200k, wheel_vocabulary

SIZES = (1_000, 4_000, 16_000, 64_000)
WANTED_US = 10


@dataclass(frozen=True, slots=True)
class Size:
    """Microseconds a token for a message of `tokens` tokens."""

    tokens: int
    ours_us: float
    wheel_us: float


def completion(tokenizer: Tokenizer, length: int) -> list[int]:
    """One final message of `length` tokens of content."""
    content = tokenizer.encode(" ".join(WORDS) + " ")
    content = (content * (length // len(content) + 1))[:length]
    return [*harmony_ids(tokenizer, "<|channel|>final<|message|>"), *content, tokenizer.control.return_]


def ours(tokenizer: Tokenizer, ids: list[int]) -> int:
    """Parse it all; the number of characters that came as deltas."""
    parser = StreamParser(tokenizer)
    push = parser.push
    count = 0
    for token in ids:
        for delta in push(token):
            count += len(delta.text)  # type: ignore[union-attr]
    parser.flush()
    return count


def reference(wheel: openai_harmony.HarmonyEncoding, ids: list[int]) -> int:
    """The same with the wheel's parser."""
    parser = openai_harmony.StreamableParser(wheel, openai_harmony.Role.ASSISTANT)
    process = parser.process
    count = 0
    for token in ids:
        process(token)
        count += len(parser.last_content_delta or "")
    parser.process_eos()
    return count


def measure(tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding, length: int, *, repeat: int) -> Size:
    """The medians for one length. Raises AssertionError when the parsers don't bring the same text."""
    ids = completion(tokenizer, length)
    runs: list[Callable[[], int]] = [
        lambda: ours(tokenizer, ids),
        lambda: reference(wheel, ids),
    ]
    if len({run() for run in runs}) != 1:
        raise AssertionError("the parsers bring different texts: the times would say nothing")
    times = [[_us(run) / len(ids) for run in runs] for _ in range(repeat)]
    medians = [round(statistics.median(column), 3) for column in zip(*times, strict=True)]
    return Size(length, *medians)


def _us(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return (time.process_time() - started) * 1_000_000


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--repeat", type=int, default=7, metavar="K")
    given = parser.parse_args(argv)
    report = Report("parser", "tiktoken", "openai-harmony")
    report.settings |= {"repeat": given.repeat, "wanted_us": WANTED_US}
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, wheel = load_o200k(Path(folder))
    tokenizer = Tokenizer(wheel_vocabulary(vocabulary))
    for length in SIZES:
        report.row("microseconds a token", **asdict(measure(tokenizer, wheel, length, repeat=given.repeat)))
    report.print(as_json=given.json)


if __name__ == "__main__":
    main()
