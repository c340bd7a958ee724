"""Titles: what was asked, in one line that tells a conversation from the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from ossia.agent.sessions._rows import storable

TITLE_CHARS: Final = 80
_ENDS_LINES: Final = 3  # of a long text, this many lines at either end: what is between them was rather pasted
_LOOKED_AT_CHARS: Final = 2_000  # at either end of a text

_ASKS: Final = re.compile(
    r"(?:what|why|how|who|whom|whose|when|where|which|is|are|was|were|do|does|did|can|could|would|should|will|shall"
    r"|explain|fix|find|write|make|translate|summari[sz]e|show|tell|give|list|compare|describe|review|rewrite|refactor"
    r"|implement|add|debug|convert|compute|calculate|help|check|suggest|create|generate|improve|solve|prove|please)"
    r"(?:[ ,]|$)",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(r"\S \S*[?？](?: |$)")
_QUESTIONS: Final = re.compile(r".*?\S[?？](?: [^\W\d_][^?？]*[?？])*(?= )")
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")


def title_of(text: str) -> str:
    """The first line with anything in it, on one line of at most 80 characters."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    flat = " ".join(storable(line).split())
    return flat if len(flat) <= TITLE_CHARS else f"{flat[: TITLE_CHARS - 1]}…"


def asked_in(text: str) -> str:
    """The question in a message, as a title: not its greeting, nor what was pasted around it.

    "" for one that only greets.

        asked_in("hi\\nplease help: why does it crash?")     # 'why does it crash?'
    """
    if len(text) > 2 * _LOOKED_AT_CHARS:
        text = f"{text[:_LOOKED_AT_CHARS]}\n{text[-_LOOKED_AT_CHARS:]}"
    lines = [" ".join(line.split()) for line in _outside_fences(text)]
    ends = lines if len(lines) <= 2 * _ENDS_LINES else [*lines[:_ENDS_LINES], *lines[-_ENDS_LINES:]]
    asking = [line for line in ends if _asks(line)]
    chosen = asking[0] if asking else next(iter(lines), "")
    return title_of(_asking_part(chosen))


def title_from(messages: Iterable[str]) -> str:
    """The title of a conversation in which the user said this: of the first message with any text."""
    said = list(messages)
    asked = next(filter(None, map(asked_in, said)), "")
    return asked or next(filter(None, map(title_of, said)), "")


def _outside_fences(text: str) -> list[str]:
    """The lines with anything in them, without fenced code if there is anything else."""
    sides: tuple[list[str], list[str]] = ([], [])
    fenced = False
    for line in filter(str.strip, text.splitlines()):
        if _FENCE.match(line):
            fenced = not fenced
        else:
            sides[fenced].append(line)
    outside, inside = sides
    return outside or inside


def _asks(line: str) -> bool:
    return line[:1].isalpha() and bool(_ASKS.match(line) or _QUESTION.search(line))


def _asking_part(line: str) -> str:
    """The line up to its questions' end, or, of one that is too long for a title, from the first sentence on that asks.

    What follows a question on its line may be the first line of what was pasted behind it.
    """
    questions = _QUESTIONS.match(line)
    line = questions[0] if questions else line
    if len(line) <= TITLE_CHARS:
        return line
    starts = [0, *(found.end() for found in re.finditer(r"[.!?。？！]\s+", line)), len(line)]
    sentences = ((begin, line[begin:end]) for begin, end in pairwise(starts))
    return line[next((begin for begin, sentence in sentences if _asks(sentence)), 0) :]
