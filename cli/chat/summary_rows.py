"""Thinking on one row of `width` columns; a shortened message."""

from __future__ import annotations

from ossia.cli.terminal.input.line import is_long
from ossia.cli.words import count, length_of

_SAID_CHARS, _RECALLED_LINES, _RECALLED_CHARS = 4_000, 3, 400


def beginning(said: str) -> str:
    """A sent message; of a very long one the beginning."""
    return _cut(said, _SAID_CHARS, "in all") if len(said) > _SAID_CHARS else said


def recalled(said: str, *, keys: bool) -> str:
    """A message of a resumed session; of a long one the first lines."""
    first = "\n".join(said.split("\n", _RECALLED_LINES)[:_RECALLED_LINES])
    shown = "in all, Ctrl-O shows them" if keys else "in all"
    return _cut(said, min(len(first), _RECALLED_CHARS), shown) if is_long(said) else said


def _cut(said: str, chars: int, note: str) -> str:
    return f"{said[:chars].rstrip()}… ({length_of(said)} {note})"


def thought_row(thought: str, tokens: int | None, *, keys: bool, width: int) -> str:
    """`thought for 2.0 s · 40 tokens · Ctrl-O shows it`; too little room drops the tokens, then the key."""
    key = "Ctrl-O shows it" if keys else ""
    parts = [part for part in (thought, count(tokens, "token") if tokens else "", key) if part]
    while len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop(1)
    return " · ".join(parts)
