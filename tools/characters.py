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

PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000", " "),
    }
)
"""Typographic dashes, quotes and blanks, and the plain one that people and models type in their place."""
