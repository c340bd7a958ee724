"""Thinking, a call or an edit on one row of `width` columns; a shortened message."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from ossia.cli.clean import clean, fitted
from ossia.cli.runtime.failures import LEAST_MS
from ossia.cli.terminal.input.line import is_long
from ossia.cli.visible import seen_line
from ossia.cli.words import count, length_of, short_arguments, size_words
from ossia.tools.outcome import outcome_of
from ossia.tools.spec import ToolCall, ToolFinished

_ARGUMENT_CHARS, _RESULT_CHARS = 200, 60
_LEAST_ARGUMENT_CELLS = 12
_SAID_CHARS, _RECALLED_LINES, _RECALLED_CHARS = 4_000, 3, 400
_LISTED_CALLS = 30  # of one tool in a row


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


def call_row(calls: Sequence[ToolFinished], *, keys: bool, width: int) -> str:
    """`▸ python  print(2) · 1.1 s · 2`: the arguments, cut to fit beside the outcome.

    Where not even their beginning fits, the outcome is left out, then the time, too.
    Several calls of one tool are one row, too: `▸ python ×2  print(2), print(3) · 2.0 s · 2, 3 · Ctrl-O shows each`.
    """
    ms, times = sum(done.ms for done in calls), f" ×{len(calls)}" if len(calls) > 1 else ""
    took = f" · {ms / 1000:.1f} s" if ms >= LEAST_MS else ""
    head = f"▸ {seen_line(calls[0].call.name)}{times}"
    tail = clean(f"{took} · {_outcome(calls, min(_RESULT_CHARS, width // 2))}")
    least = min(_LEAST_ARGUMENT_CELLS, cell_len(_arguments(calls, width)))
    for end in (tail, took, "") if least else ():
        room = width - cell_len(head) - cell_len(end) - 2
        if room >= least:
            head, tail = f"{head}  {_arguments(calls, room)}", end
            break
    return _with_key(f"{head}{tail}", "Ctrl-O shows each" if keys and times else "", width)


def running_row(call: ToolCall, seconds: float, *, width: int) -> str:
    """`▸ running pytest -q · 12 s`."""
    took = f" · {seconds:.0f} s"
    what = short_arguments(call.name, call.arguments, _ARGUMENT_CHARS) or seen_line(call.name)
    return fitted(f"▸ running {what}", width - cell_len(took)) + took


def edit_row(name: str, stat: str, *, keys: bool, width: int) -> str:
    """`▸ repo_browser.apply_patch  a.py +3 −1 · Ctrl-O shows the diff`: the changed files."""
    row = f"▸ {seen_line(name)}  {seen_line(stat)}"
    return _with_key(row, "Ctrl-O shows the diff" if keys else "", width)


def _with_key(row: str, key: str, width: int) -> str:
    """The row with the meaning of a key, if both fit."""
    more = f"{row} · {key}"
    return more if key and cell_len(more) <= width else fitted(row, width)


def _arguments(calls: Sequence[ToolFinished], room: int) -> str:
    """The calls' arguments: all that fit whole, or the beginning of the first."""
    texts = [short_arguments(done.call.name, done.call.arguments, _ARGUMENT_CHARS) for done in calls[:_LISTED_CALLS]]
    for shown in range(len(texts), 0, -1):
        text = ", ".join([*texts[:shown], *(["…"] if shown < len(calls) else [])])
        if cell_len(text) <= room:
            return text
    return fitted(texts[0], room)


def _outcome(calls: Sequence[ToolFinished], max_chars: int) -> str:
    """The results if each is one short line, else their size."""
    results = [outcome_of(done) for done in calls]
    stripped = [result.strip() for result in results]
    short = ", ".join(stripped)
    if all(stripped) and len(short) <= max_chars and "\n" not in short:
        return short
    return size_words("".join(results))
