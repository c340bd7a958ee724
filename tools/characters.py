"""Characters that act instead of being read, or that nobody sees, as sets for a regular expression's brackets.

They are treated differently: a terminal shows where they were, a model gets the text without them.
"""

from __future__ import annotations

from typing import Final

CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
r"""C0 but `\t` and `\n`, DEL, C1 (0x9b alone begins an escape sequence)."""

REORDERS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Unicode's bidi marks, embeddings, overrides, isolates."""

TAGS: Final = "\U000e0000-\U000e007f"
"""Tags, an invisible alphabet: text can be hidden in them."""

BROKEN: Final = "\ud800-\udfff"
"""Lone surrogates: they can't be encoded at all."""
