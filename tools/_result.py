"""The text of a result as a model gets it: without characters that act instead of being read, and not too long."""

from __future__ import annotations

import re
from collections.abc import Callable

from tools.characters import CONTROLS, REORDERS, TAGS

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\))"  # colours and moves; titles, clipboards, links
)
_ACTS = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}]")
_CHARS_PER_TOKEN = 16
"""More than that a token seldom has (o200k's mean is 4): beyond it, what is too long is seen without counting."""


def readable(text: str) -> str:
    r"""The same text without terminal sequences, controls (but `\n`, `\t`), bidi controls, tags, halves of surrogates.

    `\r\n` and `\r` end a line. `readable("\x1b[31mred\x1b[0m\r\n")` is `"red\n"`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    return _ACTS.sub("", text).encode("utf-8", "replace").decode("utf-8")


def bounded(text: str, max_tokens: int, count_tokens: Callable[[str], int]) -> str:
    """The text, or its head and its tail around `[... N characters omitted]` where it has more than `max_tokens`.

    Three quarters are head; cut by characters in proportion, so it may be a little shorter than it could be.
    """
    if len(text) <= max_tokens and len(text.encode()) <= max_tokens:  # a token has at least one byte
        return text
    keep = min(len(text), max_tokens * _CHARS_PER_TOKEN)
    while keep:
        head, tail = (keep, 0) if keep == len(text) else (keep * 3 // 4, keep // 4)
        kept = text[:head], text[len(text) - tail :] if tail else ""
        tokens = count_tokens("".join(kept))
        if tokens <= max_tokens:
            return text if keep == len(text) else f"\n[... {len(text) - head - tail} characters omitted]\n".join(kept)
        keep = min(keep * max_tokens // tokens, keep - 1)
    return f"[... {len(text)} characters omitted]"
