"""How many recorded completions are read as they were meant: `python -m tests.oracle.completions FILE`.

A line of the file is `{"n": 24, "completion": "<|channel|>…", "tools": ["python", …], "intended": [{"channel",
"recipient", "content_type", "text_starts", "text_len"}, …]}`, or has `ids` for the completion; `cut`: it wasn't the
model that ended. Every message must be there and no other, for the right one on the right channel, and its text begin
as it says. A content type counts where the line has one, a length where it is more than that of the text's beginning.
`meant` is the channel of a message whose header names none (before an answer it may be left open), an `alt` with
"assistant" in it lets the text begin with that word. A text may end with the ` to=…` of the message after it, which was
passed on before its marker came; that is printed. Prints each completion that is read otherwise, with what is wrong,
and ends with 1 when there is any.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from ossia.harmony.codec import Codec
from ossia.harmony.messages import FINAL, Message, Repaired
from ossia.harmony.tokenizer import Tokenizer
from tests.support.streams import harmony_ids
from tests.support.vocabularies import load_o200k, wheel_vocabulary

Row = Mapping[str, Any]


def read(row: Row, tokenizer: Tokenizer) -> tuple[Sequence[Message], Sequence[Repaired]]:
    """The messages of one completion, and what had to be mended."""
    parser = Codec(tokenizer).parser(tools=frozenset(row["tools"]))
    for token in row.get("ids") or harmony_ids(tokenizer, row["completion"]):
        parser.push(token)
    parser.flush(cut=row.get("cut", False))
    return parser.messages, parser.repairs


def faults(row: Row, tokenizer: Tokenizer) -> list[str]:
    """What is read otherwise than it was meant, a line each."""
    messages, _ = read(row, tokenizer)
    if len(messages) != len(row["intended"]):
        return [f"{len(messages)} messages, not {len(row['intended'])}"]
    tails = (*map(_to, messages[1:]), "")[: len(messages)]
    pairs = zip(messages, row["intended"], tails, strict=True)
    return [f"message {i}: {fault}" for i, pair in enumerate(pairs) for fault in _faults_of(*pair)]


def _to(message: Message) -> str:
    return f" to={message.recipient}"


def _faults_of(message: Message, meant: Row, tail: str) -> list[str]:
    text = message.text.removesuffix(tail)
    if "assistant" in meant.get("alt", "") and not text.startswith(meant["text_starts"]):
        text = text.removeprefix("assistant ")
    channel = meant.get("meant", meant["channel"])
    left_open = message.channel is None is meant["channel"] and channel == FINAL
    begins, length = meant["text_starts"], meant.get("text_len", 0)
    fields = {
        "role": (message.role, (meant.get("role") or ["assistant"])[0]),
        "channel": (message.channel, None if left_open else channel),
        "recipient": (message.recipient, meant["recipient"]),
        "content type": (message.content_type, meant["content_type"] or message.content_type),
        "text begins": (text[: len(begins)], begins),
        "length": (len(text), length if length > len(begins) else len(text)),
    }
    return [f"{name} {ours!r}, not {theirs!r}" for name, (ours, theirs) in fields.items() if ours != theirs]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    rows = [json.loads(line) for line in arguments.parse_args().file.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Tokenizer(wheel_vocabulary(load_o200k(Path(folder))[0]))
    wrong = [(row, found) for row in rows if (found := faults(row, tokenizer))]
    for row, found in wrong:
        print(f"{row['n']}: {row.get('completion', '')[-300:]!r}", *found, sep="\n  ")
    for row in rows:
        if any(one.text.endswith(_to(after)) for one, after in pairwise(read(row, tokenizer)[0])):
            print(f"{row['n']}: a text ends with the recipient of the message after it")
    mended = sum(bool(read(row, tokenizer)[1]) for row in rows)
    print(f"{len(rows) - len(wrong)} of {len(rows)} read as meant; {mended} had to be mended")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
