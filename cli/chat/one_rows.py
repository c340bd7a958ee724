"""What the chat says of a thought, a call or an edit, on one row of `width` columns."""

from __future__ import annotations

from rich.cells import cell_len

from cli.clean import clean, one_line
from cli.runtime.progress import fitted
from cli.words import count, short_arguments, size_words
from tools.work.result import for_people

_ARGUMENT_CHARS, _RESULT_CHARS = 200, 60
_LEAST_ARGUMENT_CELLS = 6


def thought_row(thought: str, tokens: int | None, *, keys: bool, width: int) -> str:
    """`thought for 2.0 s · 40 tokens · Ctrl-O shows it`; without room first the tokens are left out, then the key."""
    told = [thought, count(tokens, "token") if tokens else "", "Ctrl-O shows it" if keys else ""]
    parts = [part for part in told if part]
    while len(parts) > 1 and len(" · ".join(parts)) > width:
        parts.pop(1)
    return " · ".join(parts)


def call_row(name: str, arguments: str, result: str, *, ms: int | None, width: int) -> str:
    """`▸ python  print(2) · 1.1 s · 2`: as much of the arguments as fits beside the outcome."""
    took = f"{ms / 1000:.1f} s · " if ms else ""
    head = clean(f"▸ {one_line(name)}")
    tail = clean(f" · {took}{_outcome(result, min(_RESULT_CHARS, width // 2))}")
    room = width - cell_len(head) - cell_len(tail) - 2
    made_with = fitted(clean(short_arguments(arguments, _ARGUMENT_CHARS)), max(room, 1))
    head += f"  {made_with}" if made_with and room >= _LEAST_ARGUMENT_CELLS else ""
    return fitted(f"{head}{tail}", width)


def edit_row(name: str, stat: str, *, keys: bool, width: int) -> str:
    """`▸ repo_browser.apply_patch  a.py +3 −1 · Ctrl-O shows the diff`: which files were changed, and by how much."""
    row = clean(f"▸ {one_line(name)}  {one_line(stat)}")
    more = f"{row} · Ctrl-O shows the diff"
    return more if keys and cell_len(more) <= width else fitted(row, width)


def _outcome(result: str, max_chars: int) -> str:
    """A result in a few words: itself when it is one short line, else its size."""
    shown = for_people(result)
    stripped = shown.strip()
    short = stripped and len(stripped) <= max_chars and "\n" not in stripped
    return stripped if short else size_words(shown)
