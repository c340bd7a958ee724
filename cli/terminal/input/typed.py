"""A line as the user sent it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Typed:
    '''A line as it was sent, the `"""` of a block taken off: `shown` with placeholders for pastes, `text` whole.

    `literal`: it is said to the model whatever it begins with (`/`, `!`), since it stood in `"""` or behind a blank.
    '''

    shown: str
    text: str
    literal: bool = False


def as_text(shown: str) -> str:
    """What to put into the line for a text that is said whatever it begins with: `as_text("/etc")` is `" /etc"`."""
    return f" {shown}" if shown.startswith(("/", "!")) else shown
