"""The parser beside the reference's on well-formed streams: `python -m tests.oracle.parse --count 10000 --seed 1`.

Prints each difference and ends with 1 when there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

import openai_harmony

from ossia.harmony.conversation import message_to_json
from ossia.harmony.messages import Delta, Role
from ossia.harmony.parse import StreamParser
from ossia.harmony.tokenizer import Tokenizer
from tests.support.streams import RECIPIENTS, Streams
from tests.support.vocabularies import load_o200k, wheel_vocabulary


def differences(seed: int, streams: Streams, tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding) -> list[str]:
    """What differs on the stream of a seed: headers and text after each token, deltas, messages, their ids."""
    rng = random.Random(seed)
    role: Role | None = rng.choice(("assistant", None))
    tools = frozenset(rng.choice(((), RECIPIENTS)))
    tokens = streams.well_formed(rng, completion=role is not None)
    ours = StreamParser(tokenizer, role=role, tools=tools)
    theirs = openai_harmony.StreamableParser(wheel, openai_harmony.Role(role) if role else None, strict=True)
    out = []
    for i, token in enumerate(tokens):
        out += ours.push(token)
        theirs.process(token)
        if not _is_same_so_far(ours, theirs):
            return [f"after token {i} of {tokens}: {ours.open_message} != {_open(theirs)}"]
    theirs.process_eos()
    out += ours.flush()
    opening = [] if role is None else [tokenizer.control.start, *tokenizer.encode(role)]
    texts = ["".join(item.text for item in out if isinstance(item, Delta) and item.index == i) for i in range(len(out))]
    pairs = {
        "messages": ([message_to_json(one) for one in ours.messages], [one.to_dict() for one in theirs.messages]),
        "ids": ([i for one in ours.messages if one.sampled for i in one.sampled.ids], [*opening, *tokens]),
        "deltas": (texts[: len(ours.messages)], [one.text for one in ours.messages]),
        "repairs": (ours.repairs, ()),
    }
    return [f"{what} of {tokens}: {mine!r} != {other!r}" for what, (mine, other) in pairs.items() if mine != other]


def _open(theirs: openai_harmony.StreamableParser) -> tuple[str | None, str | None, str | None, str | None, str] | None:
    """The reference's open message."""
    if theirs.state.value != "Content":
        return None
    role = theirs.current_role.value if theirs.current_role else None
    return (role, theirs.current_recipient, theirs.current_channel, theirs.current_content_type, theirs.current_content)


def _is_same_so_far(ours: StreamParser, theirs: openai_harmony.StreamableParser) -> bool:
    """Is it the same header, and the same text as far as both have it? Broken characters come at another token."""
    mine, other = ours.open_message, _open(theirs)
    if mine is None or other is None:
        return mine is other
    *header, text = other
    same_text = mine.text.startswith(text) or text.startswith(mine.text)
    return [mine.role, mine.recipient, mine.channel, mine.content_type] == header and same_text


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, wheel = load_o200k(Path(folder))
    tokenizer = Tokenizer(wheel_vocabulary(vocabulary))
    streams = Streams(tokenizer)
    failed = 0
    for seed in range(options.seed * 1_000_000, options.seed * 1_000_000 + options.count):
        found = differences(seed, streams, tokenizer, wheel)
        failed += bool(found)
        if found:
            print(f"seed {seed}", *found, sep="\n")
    print(f"{options.count} streams: {failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
