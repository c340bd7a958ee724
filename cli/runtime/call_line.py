"""A finished call on one row, in people's words, and the lines that stand below it."""

from __future__ import annotations

from collections.abc import Sequence

from ossia.cli.clean import clean, fitted, widest
from ossia.cli.visible import seen_line
from ossia.tools.outcome import Outcome, count_of

LEAST_MS = 1_000
"""A call that took less doesn't say how long: nobody waited for it."""
_LINES, _LINES_OF_FAILED = 3, 5
_LEAST_CELLS = 24  # of the words for the call; else the end of the row is left out
_SAID_CHARS = 600


def call_line(outcomes: Sequence[Outcome], ms: int, width: int) -> tuple[str, list[str]]:
    """The row of a call that ended, or of several of one kind, and the lines below it; of at most `width` columns.

        ▸ ran python3 -m unittest · exit 1 · 34 lines · 2.1 s
        ▸ Read a.md, b.md and 3 more · 212 lines
    """
    first = outcomes[0]
    parts, below = [*first.words], list(first.lines)[-(_LINES_OF_FAILED if first.failed else _LINES) :]
    if len(outcomes) > 1:
        parts = [count_of(sum(outcome.count for outcome in outcomes), first.unit)]
    elif first.printed == 1 and not first.cut:
        whole = " · ".join((f"▸ {said_line(first.said)}", *parts, clean(below[0])))
        parts += [below.pop()] if widest(clean(below[0])) <= width // 2 and widest(whole) <= width else []
    elif first.cut or first.printed > len(below):
        parts.append(first.size)
    parts += [seconds(ms)] if ms >= LEAST_MS else []
    parts = [fitted(clean(part), width // 2) for part in parts]
    room = width - 2
    while True:
        tail = "".join(f" · {part}" for part in parts)
        said = _said(outcomes, room - widest(tail))
        if len(parts) < 2 or room - widest(tail) >= _LEAST_CELLS or not said.endswith("…"):
            break
        parts.pop()
    return fitted(f"▸ {said}{tail}", width), [fitted(f"    {clean(line)}", width) for line in below]


def said_line(said: str, max_chars: int = _SAID_CHARS) -> str:
    """The words for a call, clean, with nothing hidden in them; cut to `max_chars`."""
    return seen_line(said, max_chars)


def running_line(said: str, seconds_so_far: float, width: int) -> str:
    """The row of a running call: `▸ running pytest -q · 12 s`."""
    took = f" · {seconds_so_far:.0f} s"
    return fitted(f"▸ {running(said)}", width - widest(took)) + took


def running(said: str) -> str:
    """The words for a running call: `running pytest -q` for `Run pytest -q`; others stay."""
    return said_line(f"running {said.removeprefix('Run ')}" if said.startswith("Run ") else said)


def seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s"


def _said(outcomes: Sequence[Outcome], room: int) -> str:
    """The words for the calls, those of one kind together: as many as fit, and the number of the others."""
    first, *others = (said_line(outcome.said) for outcome in outcomes)
    others = [said.removeprefix(f"{outcomes[0].kind} ") for said in others]
    for shown in range(len(others), -1, -1):
        more = f" and {len(others) - shown} more" if shown < len(others) else ""
        text = ", ".join([first, *others[:shown]]) + more
        if widest(text) <= room:
            return text
    return fitted(first, max(room - widest(more), 1)) + more
