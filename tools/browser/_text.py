"""Makes outside text fit for a page: no characters that control a terminal, no brackets that forge a link."""

from __future__ import annotations

import re

from tools.characters import BROKEN, CONTROLS, REORDERS, TAGS

_ACTS = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}]")
_SURROGATES = re.compile(f"[{BROKEN}]")
_OUTSIDE = re.compile("[\U00010000-\U0001ffff\u200b]")
_SIGNS = re.compile("[【】◼]")
_PLAINER = {"【": "〖", "】": "〗", "◼": "◾"}
_BRACKETS = str.maketrans({"【": "〖", "】": "〗"})


def printable(text: str) -> str:
    r"""The text without control characters; `\n` and `\t` stay, `\r` is removed. `"a\x1b[2J\u202eb"` → `"a[2Jb"`."""
    return _SURROGATES.sub("\ufffd", _ACTS.sub("", text))


def plain(text: str) -> str:
    """Outside text as the text of a `Document`: printable, with 【】 as 〖〗, so that it can't hold a link.

    For text files, PDFs, snippets: whatever isn't HTML. `"see 【1†fake†evil】"` → `"see 〖1†fake†evil〗"`.
    """
    return printable(text).translate(_BRACKETS)


def one_line(text: str) -> str:
    r"""The same for a title, on one line with single spaces. `" A\n\n  title "` → `"A title"`."""
    return " ".join(plain(text).split())


def fewer_signs(text: str) -> str:
    """The text as the reference browser normalises it first. `"a😀【b】"` → `"a〖b〗"`.

    Emoji (the whole first supplementary plane) and zero-width spaces are dropped, 【】 become 〖〗, and ◼ becomes ◾.
    """
    return _SIGNS.sub(lambda sign: _PLAINER[sign[0]], _OUTSIDE.sub("", text))
