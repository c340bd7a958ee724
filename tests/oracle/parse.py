"""The strict parser beside the reference's, token by token: `python -m tests.oracle.parse --count 5000 --seed 1`.

Prints each difference and ends with 1 when there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import openai_harmony

from ossia.harmony.conversation import message_to_json
from ossia.harmony.errors import HarmonyError
from ossia.harmony.messages import Role
from ossia.harmony.parse import StreamParser
from ossia.harmony.tokenizer import Tokenizer
from tests.support.streams import ROLES, Streams
from tests.support.vocabularies import load_o200k, wheel_vocabulary


def differences(
    tokens: Sequence[int], role: Role | None, tokenizer: Tokenizer, wheel: openai_harmony.HarmonyEncoding
) -> list[str]:
    """What differs between both parsers, after which token: fields, deltas, messages, error texts."""
    ours = StreamParser(tokenizer, role=role, strict=True)
    theirs = openai_harmony.StreamableParser(wheel, openai_harmony.Role(role) if role else None, strict=True)
    for i, token in enumerate([*tokens, None]):
        errors = _step(ours, theirs, token)
        states = (_ours(ours), _theirs(theirs))
        if errors[0] != errors[1] or states[0] != states[1]:
            return [f"after token {i} of {list(tokens)} (role {role}):", *_unequal(errors, states)]
    return []


def random_case(streams: Streams, seed: int) -> tuple[list[int], Role | None]:
    """The stream and the role of one seed."""
    rng = random.Random(seed)
    return streams.hostile(rng), rng.choice((None, "assistant", *ROLES))


def _step(ours: StreamParser, theirs: openai_harmony.StreamableParser, token: int | None) -> tuple[str, str]:
    mine = reference = ""
    try:
        ours.flush() if token is None else ours.push(token)
    except HarmonyError as error:
        mine = str(error)
    try:
        theirs.process_eos() if token is None else theirs.process(token)
    except openai_harmony.HarmonyError as error:
        reference = str(error)
    return mine, reference


def _ours(parser: StreamParser) -> dict[str, object]:
    return {
        "state": parser.state,
        "role": parser.current_role,
        "channel": parser.current_channel,
        "recipient": parser.current_recipient,
        "content_type": parser.current_content_type,
        "content": parser.current_content,
        "delta": parser.last_content_delta,
        "messages": [message_to_json(message) for message in parser.messages],
        "tokens": list(parser.tokens),
    }


def _theirs(parser: openai_harmony.StreamableParser) -> dict[str, object]:
    return {
        "state": parser.state.value,
        "role": parser.current_role.value if parser.current_role else None,
        "channel": parser.current_channel,
        "recipient": parser.current_recipient,
        "content_type": parser.current_content_type,
        "content": parser.current_content,
        "delta": parser.last_content_delta,
        "messages": [message.to_dict() for message in parser.messages],
        "tokens": parser.tokens,
    }


def _unequal(errors: tuple[str, str], states: tuple[dict[str, object], dict[str, object]]) -> list[str]:
    ours, theirs = states
    lines = [f"  error: {errors[0]!r} != {errors[1]!r}"] if errors[0] != errors[1] else []
    return lines + [f"  {key}: {ours[key]!r} != {theirs[key]!r}" for key in ours if ours[key] != theirs[key]]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=5000)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        encoding, wheel = load_o200k(Path(folder))
    tokenizer = Tokenizer(wheel_vocabulary(encoding))
    streams = Streams(tokenizer)
    tokens = failed = 0
    for seed in range(options.seed * 1_000_000, options.seed * 1_000_000 + options.count):
        case, role = random_case(streams, seed)
        found = differences(case, role, tokenizer, wheel)
        tokens += len(case)
        failed += bool(found)
        if found:
            print(f"seed {seed}", *found, sep="\n")
    print(f"{options.count} streams, {tokens} tokens: {failed} streams differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
