"""The pieces of a server's answer, through either API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Some of the reasoning text."""

    text: str


@dataclass(frozen=True, slots=True)
class Said:
    """Some of the answer, or of what the model says before it calls a tool."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """Some of a call. `key` tells calls of one answer apart; name and arguments may come in several pieces."""

    key: str
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The server's figures: the prompt's tokens, those of them that its cache held, and those of the answer.

    `cached_tokens` None: it doesn't say.
    """

    prompt_tokens: int
    cached_tokens: int | None
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is whole, or cut at a limit of tokens."""

    how: Literal["stop", "tokens"]


@dataclass(frozen=True, slots=True)
class Failed:
    """The server broke off, and says why, in raw text."""

    why: str


Piece = Reasoning | Said | Called | Usage | Ended | Failed
