"""The common words for sizes, times, the end of a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ossia.cli.clean import one_line
from ossia.cli.streams import stdout

if TYPE_CHECKING:
    from ossia.agent.events import TurnEnd
    from ossia.agent.sessions.store import SessionInfo
    from ossia.tools.undo.restore import Undone
    from ossia.tools.undo.turns import Turn

ENDS: dict[TurnEnd | None, str] = {
    "silent": "no answer came",
    "called": "it waits for the result of a call",
    "stopped": "stopped",
    "tokens": "cut off: the token limit was reached",
    "time": "cut off: the time was up",
    "context": "cut off: the context is full",
    "loop": "cut off: the model repeated itself",
    "steps": "the step limit was reached: the answer is from what was found until then",
    "error": "it broke off",
    None: "unfinished: the program was closed",
}
"""The end of a turn without an answer. None: it was never recorded."""

FORCED = "⟨⟩"
"""The brackets around ids that weren't sampled, in text for people."""

_LINE_ENDS = {ord(char): f"\\u{ord(char):04x}" for char in "\x85\u2028\u2029"}


def count(number: int, what: str) -> str:
    """`1 turn`, `1,204 turns`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listed(words: Sequence[str]) -> str:
    """`"read"`, `"read and run"`, `"read, run and write"`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def files_of(turn: Turn) -> str:
    """The number of files that a turn changed: `"2 files"`."""
    return count(len(turn.paths), "file") if turn.paths else "only git"


def undone_or_not(undone: Undone, *, skipping: bool = False, dry_run: bool = False) -> str:
    """The head of undo's report, `"nothing was restored"` if every file was skipped, or only git has changed."""
    if undone.restored or undone.removed or not (undone.skipped or undone.git):
        part = " in part" if undone.skipped else ""
        return f"this would be undone{part}" if dry_run else f"undone{part}"
    if skipping:
        return "this would be forgotten" if dry_run else "forgotten"
    return "nothing would be restored" if dry_run else "nothing was restored"


def may_force(undone: Undone) -> bool:
    """Would `--force` restore a file that was left as it is?"""
    from ossia.tools.undo.restore import CHANGED

    return any(one.reason == CHANGED for one in undone.skipped)


def git_stays(undone: Undone) -> str:
    """The line before `Undone.git`, which may hold nothing but comments."""
    stays = "git's branches and commits are not undone"
    if all(line.startswith("#") for line in undone.git):
        return f"{stays}:"
    return f"{stays}: run this in the workspace to restore them:"


def when(seconds: float) -> str:
    """A moment in local time: `2026-11-22 02:27`."""
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def moment(seconds: float) -> str:
    """`14:02` today, `Nov 20` this year, `2024-03-01` before."""
    then, now = datetime.fromtimestamp(seconds), datetime.now()
    if then.date() == now.date():
        return f"{then:%H:%M}"
    return f"{then:%b} {then.day}" if then.year == now.year else f"{then:%Y-%m-%d}"


def titled(info: SessionInfo) -> str:
    """A session's title, on one line, and of a fork its origin: `↳ fork at turn 3 of "What is 48*17?"`."""
    if info.parent is None:
        return one_line(info.title)
    at = "" if info.forked is None else f" at turn {info.forked}"
    origin = f'"{one_line(info.parent_title)}"' if info.parent_title is not None else f"{info.parent} (removed)"
    return f"{'' if info.title == info.parent_title else f'{one_line(info.title)}  '}↳ fork{at} of {origin}"


def bytes_of(text: str) -> int:
    """A text's length as UTF-8."""
    return len(text.encode("utf-8", "replace"))


def length_of(text: str) -> str:
    """The length of a text: `"213 lines"`; of a single line, `"1,200 characters"`."""
    lines = _lines(text)
    return count(lines, "line") if lines > 1 else count(len(text), "character")


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def thinking_cut(tokens: int) -> str:
    """The notice of reasoning at its limit."""
    return f"the thinking was cut at {count(tokens, 'token')} (think-tokens): it answers now"


def speed_of(tokens_per_s: float) -> str:
    """`7.3 tok/s`, `1,200 tok/s`."""
    return f"{tokens_per_s:,.{0 if tokens_per_s >= 100 else 1}f} tok/s"


def wrapped(text: str, first: str, others: str, width: int) -> list[str]:
    """The text on lines of `width` characters (40 at least), broken between words, never inside a path.

    The lines begin with `first` and `others`. A wide character counts as one: `cli.terminal.fold` counts columns, but
    breaks between wide characters, also in a path.
    """
    import textwrap

    return textwrap.wrap(
        one_line(text), max(width, 40), initial_indent=first, subsequent_indent=others, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def json_line(value: object, *, in_file: bool = False) -> str:
    """JSON on one line, for stdout. On a terminal, everything it could obey is escaped: still the same JSON.

    So are, everywhere, the characters that some programs take for the end of a line (Python's `splitlines`).
    `in_file`: it goes into a file.
    """
    if not in_file and stdout().isatty():
        return json.dumps(value).replace("\x7f", "\\u007f")
    return json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS)


def short(number: int) -> str:
    """`999`, `3.1k`, `131k`."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 10_000 else f"{number // 1000}k"


def reason_in(line: str) -> str:
    """The reason in a refusal: `n use pytest`, `no, use pytest`; "" for every other line."""
    found = re.fullmatch(r"no?(?:[,:;.]\s*|\s+)(\S.*)", line.strip(), re.IGNORECASE)
    return found[1] if found else ""
