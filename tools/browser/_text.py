"""Makes outside text fit for a page: no characters that control a terminal, no brackets that forge a link."""

from __future__ import annotations

import re

from ossia.tools.characters import BROKEN, CONTROLS, REORDERS, TAGS

_ACTS = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}]")
_SURROGATES = re.compile(f"[{BROKEN}]")
_OUTSIDE = re.compile("[\U00010000-\U0001ffff\u200b]")


def printable(text: str) -> str:
    r"""The text without control characters; `\n` and `\t` stay, `\r` is removed. `"a\x1b[2J\u202eb"` → `"a[2Jb"`."""
    return _SURROGATES.sub("\ufffd", _ACTS.sub("", text))


def without_brackets(text: str) -> str:
    """The text with 【】 as 〖〗, so that it can't hold a link. `"see 【1†fake†evil】"` → `"see 〖1†fake†evil〗"`."""
    return text.replace("【", "〖").replace("】", "〗")


def plain(text: str) -> str:
    """Outside text as the text of a `Document`, printable and without links: for whatever isn't HTML."""
    return without_brackets(printable(text))


def one_line(text: str) -> str:
    r"""The same for a title, on one line with single spaces. `" A\n\n  title "` → `"A title"`."""
    return " ".join(plain(text).split())


def fewer_signs(text: str) -> str:
    """The text as the reference browser normalises it first. `"a😀【b】"` → `"a〖b〗"`.

    Emoji (the whole first supplementary plane) and zero-width spaces are dropped, 【】 become 〖〗, and ◼ becomes ◾.
    """
    return without_brackets(_OUTSIDE.sub("", text)).replace("◼", "◾")
