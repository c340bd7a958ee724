"""How fast the codec is, paired with the reference library in one run: `python -m tests.bench.codec [--json]`.

Each repetition times ours and the wheel's right after each other; the figures are medians, the ratio is the median of
the pairs' ratios, so that a load that comes and goes weighs on both alike.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import openai_harmony

from ossia.harmony.codec import Codec
from ossia.harmony.messages import Message, SystemPrompt
from ossia.harmony.tokenizer import Tokenizer
from tests.bench.report import Report, options, ratios
from tests.support.reference import as_json
from tests.support.vocabularies import load_o200k

WORDS = (
    *("the", "model", "reads", "a", "file", "and", "writes", "code", "which", "returns", "data", "from", "an", "index"),
    *("def", "result:", "=", "(value,", "None)", "[0]", "{'key':", "3.14}", "\n   ", "return", "if", "not", "2026"),
    *("https://example.org/a?b=c", "π", "naïve", "日本語", "Checkpoint", "window", "sampling", "12345", "of", "words"),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """One comparison: milliseconds of ours, of the wheel's, and how many times faster ours is, pair by pair."""

    what: str
    ours_ms: float
    wheel_ms: float
    ratio: float
    ratio_least: float
    ratio_greatest: float
    wanted_times: float


def conversation(count: int, words: int) -> list[Message]:
    """`count` messages: a system message, then questions and answers of about `words` words each."""
    source = random.Random(7)
    messages = [Message("system", (SystemPrompt(date="2026-01-01"),))]
    while len(messages) < count:
        text = " ".join(source.choices(WORDS, k=words))
        odd = len(messages) % 2
        messages.append(Message("user", (text,)) if odd else Message("assistant", (text,), channel="final"))
    return messages


def pair(
    name: str, prepare: Callable[[], Callable[[], object]], wheel: Callable[[], object], *, repeat: int, wanted: float
) -> Pair:
    """Time both in turn, `repeat` times; `prepare` makes what is timed as ours, anew each time."""
    times = [(_ms(prepare()), _ms(wheel)) for _ in range(repeat)]
    return Pair(
        name,
        statistics.median(mine for mine, _ in times),
        statistics.median(theirs for _, theirs in times),
        **ratios((theirs for _, theirs in times), (mine for mine, _ in times)),
        wanted_times=wanted,
    )


def _ms(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return (time.perf_counter() - started) * 1000


def render_pairs(tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding, *, repeat: int) -> tuple[int, list[Pair]]:
    """The prompt's tokens, and the renders of 100 messages: the first, and another after one more message."""
    longer = conversation(101, 325)
    messages = longer[:-1]

    def ours(codec: Codec, some: list[Message]) -> Callable[[], object]:
        return lambda: codec.render(some, purpose="completion")

    def warm() -> Callable[[], object]:
        codec = Codec(tokenizer)
        codec.render(messages, purpose="completion")
        return ours(codec, longer)

    def theirs(some: list[Message]) -> Callable[[], list[int]]:
        as_theirs = [openai_harmony.Message.from_dict(as_json(message)) for message in some]
        conversation = openai_harmony.Conversation.from_messages(as_theirs)
        return lambda: wheel.render_conversation_for_completion(conversation, openai_harmony.Role.ASSISTANT)

    ids = Codec(tokenizer).render(messages, purpose="completion").ids
    if ids != theirs(messages)():
        raise AssertionError("ours and the wheel's renders differ: the times would say nothing")
    return len(ids), [
        pair("first render", lambda: ours(Codec(tokenizer), messages), theirs(messages), repeat=repeat, wanted=2),
        pair("second render, one message more", warm, theirs(longer), repeat=repeat, wanted=50),
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__, compares=True)
    parser.add_argument("--repeat", type=int, default=15, metavar="K")
    given = parser.parse_args(argv)
    report = Report("codec", "tiktoken", "openai-harmony")
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, wheel = load_o200k(Path(folder))
    tokenizer = Tokenizer(vocabulary)
    tokens, pairs = render_pairs(tokenizer, wheel, repeat=given.repeat)
    report.settings |= {"repeat": given.repeat, "prompt_tokens": tokens}
    for one in pairs:
        report.row("renders of 100 messages, beside the wheel's", **asdict(one))
    report.print(as_json=given.json, svg=given.svg)


if __name__ == "__main__":
    main()
