"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Area = Literal[
    "ossia", "config", "llama.cpp", "devices", "models", "sandbox", "terminal", "sessions", "disk", "caches", "network"
]
State = Literal["fault", "warning", "ok"]
"""Something that ossia needs doesn't work; it works, but less or slower than it could; nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `fix` says what to do, `command` is what to type for it; "": nothing.

    Finding("network", "warning", "EXA_API_KEY isn't set", "set it to your key")
    """

    area: Area
    state: State
    text: str
    fix: str = ""
    command: str = ""
