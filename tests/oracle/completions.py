"""How many recorded completions are read as they were meant: `python -m tests.oracle.completions FILE`.

A line of the file is `{"n": 24, "completion": "<|channel|>…", "tools": ["python", …], "intended": [{"channel",
"recipient", "content_type", "text_starts", "text_len"}, …]}`, or has `ids` for the completion. Every message must be
there and no other, each field the same, and the text begin and be as long as it says. `meant` is the channel of a
message whose header names none (before an answer it may be left open), an `alt` with "assistant" in it lets the text
begin with that word. Prints what is read otherwise and ends with 1 when there is any.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
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
    parser.flush()
    return parser.messages, parser.repairs


def is_as_meant(message: Message, meant: Row) -> bool:
    """Is this the message that was meant?"""
    text = message.text
    if "assistant" in meant.get("alt", "") and not text.startswith(meant["text_starts"]):
        text = text.removeprefix("assistant ")
    inferred = meant.get("meant", meant["channel"])
    channels = (inferred, None) if inferred == FINAL and meant["channel"] is None else (inferred,)
    return (
        message.role == (meant.get("role") or ["assistant"])[0]
        and message.channel in channels
        and (message.recipient, message.content_type) == (meant["recipient"], meant["content_type"])
        and text.startswith(meant["text_starts"])
        and len(text) == meant.get("text_len", len(text))
    )


def is_right(row: Row, tokenizer: Tokenizer) -> bool:
    """Are these the messages that were meant, and no other?"""
    messages, _ = read(row, tokenizer)
    return len(messages) == len(row["intended"]) and all(map(is_as_meant, messages, row["intended"]))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    rows = [json.loads(line) for line in arguments.parse_args().file.read_text(encoding="utf-8").splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = Tokenizer(wheel_vocabulary(load_o200k(Path(folder))[0]))
    wrong = [row for row in rows if not is_right(row, tokenizer)]
    for row in wrong:
        print(
            f"{row['n']}: {row.get('completion', '')[-300:]!r}",
            *(f"  {one}" for one in read(row, tokenizer)[0]),
            sep="\n",
        )
    mended = sum(bool(read(row, tokenizer)[1]) for row in rows)
    print(f"{len(rows) - len(wrong)} of {len(rows)} read as meant; {mended} had to be mended")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
