"""rich's console, which writes nowhere: the rows are taken from it."""

from __future__ import annotations

import io
from functools import lru_cache

from rich.console import Console


@lru_cache(4)
def console(width: int) -> Console:
    """A console of this width that takes text as text: no markup, no `:emoji:`, no guesses from the environment."""
    return Console(
        file=io.StringIO(),
        force_terminal=True,
        width=width,
        color_system="standard",
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
