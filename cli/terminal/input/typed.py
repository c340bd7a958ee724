"""A line as the user sent it."""

from __future__ import annotations

import re
from dataclasses import dataclass

BLOCK = '"""'
_BLANK_LINES = re.compile(r"\A\s*\n")


@dataclass(frozen=True, slots=True)
class Typed:
    '''A line as it was sent, without the `"""` of a block: `shown` with placeholders for pastes, `text` whole.

    `literal`: it is for the model whatever it begins with (`/`, `!`), since it stood in `"""` or behind a blank.
    `waits`: for the end of the turn under way. `skill`: the text of the skill that it calls.
    '''

    shown: str
    text: str
    literal: bool = False
    waits: bool = False
    skill: str = ""


def block_is_open(text: str) -> bool:
    """Does the text begin with unclosed quotes?"""
    start = text.lstrip()
    return start.startswith(BLOCK) and BLOCK not in start[len(BLOCK) :]


def without_quotes(text: str) -> str:
    """The text between the quotes of a block; another text without the blanks around it.

    Of several lines, the first keeps its indentation (pasted code), unless it is there to hide a `/` or `!`.
    """
    start = text.strip()
    inner = start[len(BLOCK) : -len(BLOCK)]
    if start.startswith(BLOCK) and start.endswith(BLOCK) and len(start) >= 2 * len(BLOCK) and BLOCK not in inner:
        return inner.strip("\n")
    if "\n" in start and not start.startswith(("/", "!")):
        return _BLANK_LINES.sub("", text.rstrip())
    return start


def as_text(shown: str) -> str:
    """The line for a text that isn't a command, whatever its beginning: `as_text("/etc")` is `" /etc"`."""
    return f" {shown}" if shown.startswith(("/", "!")) else shown
