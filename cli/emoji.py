"""Emoji of several characters: families, which U+200D joins, skin tones, flags.

Terminals differ. A family takes 2 columns in kitty, WezTerm, iTerm2 and tmux 3.3, and 6 in VTE, which draws its members
side by side; a thumb with a tone takes 2, but 4 in tmux; a flag 2 or 4. prompt_toolkit adds up the characters. So:

- A finished row keeps the cluster as it was written: the row is printed once, and nothing is drawn over it. Rows are
  broken as if each member was drawn, so that they fit everywhere, and never inside a cluster.
- What is drawn again (the input line, the open block, the pager) shows what takes the same columns everywhere, or the
  cursor would be elsewhere than where it is thought to be: members without joiners and tones, a flag as its letters.
  The text itself stays as it was typed.
"""

from __future__ import annotations

import re

from ossia.cli.clean import clean

_JOINERS = "\u200d\ufe0f"
_TONES = "\U0001f3fb-\U0001f3ff"
_FLAGS = "\U0001f1e6-\U0001f1ff"
EMOJI = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf\u2934-\u2b55\u3030\u303d\u3297"
    "\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
CLUSTER = f"[{_FLAGS}]{{2}}|{EMOJI}[{_TONES}]?\ufe0f?(?:\u200d{EMOJI}[{_TONES}]?\ufe0f?){{1,8}}|{EMOJI}[{_TONES}]"
"""Characters that are one sign, as a pattern."""

_PARTS = re.compile(f"[{_JOINERS}{_TONES}{_FLAGS}]")
_KEPT = re.compile(f"([{_JOINERS}{_FLAGS}]+)")
_CLUSTER = re.compile(f"({CLUSTER})")
_PIECE = re.compile(f"{CLUSTER}|.", re.DOTALL)
_TONE = re.compile(f"(?<={EMOJI})[{_TONES}]")


def clean_parts(text: str) -> str:
    """As `clean`, but what can join emoji stays: text that comes in pieces may end inside a cluster.

    `clean_row` has the last word on them.
    """
    if text.isascii() or not _PARTS.search(text):
        return clean(text)
    return "".join(part if number % 2 else clean(part) for number, part in enumerate(_KEPT.split(text)))


def clean_row(text: str) -> str:
    """As `clean`, but whole clusters stay as they are."""
    if text.isascii() or not _PARTS.search(text):
        return clean(text)
    return "".join(part if number % 2 else clean(part) for number, part in enumerate(_CLUSTER.split(text)))


def clean_flat(text: str) -> str:
    """As `clean`, and of the emoji only what takes the same columns everywhere.

    clean_flat("👨‍👩‍👧 👍🏽 🇩🇪")   → "👨👩👧 👍 DE"
    """
    return _TONE.sub("", clean(text))


def pieces(text: str) -> list[str]:
    """The characters and clusters that the text consists of."""
    return list(text) if text.isascii() or not _PARTS.search(text) else _PIECE.findall(text)


def widest(text: str) -> int:
    """The columns that the text takes at the most, whoever draws it."""
    from rich.cells import cell_len

    if text.isascii() or not _PARTS.search(text):
        return cell_len(text)
    return cell_len(re.sub(f"[{_TONES}{_FLAGS}]", "漢", re.sub(f"[{_JOINERS}]", "", text)))
