"""Bash's command line: taken apart as bash does, and values written so that bash reads them again."""

from __future__ import annotations

import re
from typing import NamedTuple


class Line(NamedTuple):
    """The words before the cursor without the program's own; `word`: the one at the cursor, without its quotes.

    `quote`: the one that is still open, or "". `redirects`: the word is a file's, behind `<` or `>`.
    """

    words: list[str]
    word: str
    quote: str
    redirects: bool


def read(line: str) -> Line:
    """Take a line apart: `read("ossia run 'a b' --eff")` is `Line(["run", "a b"], "--eff", "", False)`."""
    words: list[str] = []
    word, quote, begun, redirects = "", "", False, False
    chars = iter(f"{line}\0")  # the end
    for char in chars:
        if char == "\\" and quote != "'":
            after = next(chars)
            word += after.strip("\0") if not quote or after in '"\\$`' else char + after
            begun = True
        elif quote and char not in (quote, "\0"):
            word += char
        elif char in "'\"":
            quote, begun = "" if quote else char, True
        elif char == "\0":
            break
        elif char in "<> \t\n":
            if begun and not redirects and not (char in "<>" and word.isdecimal()):
                words.append(word)
            redirects = char in "<>" or (redirects and not begun)
            word, begun = "", False
        else:
            word, begun = word + char, True
    return Line(words[1:], word, quote, redirects)


def quoted(value: str, quote: str = "") -> str:
    """The value as it stands in a line, within an open `quote` or outside: `a$b` is `a\\$b`."""
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote:
        return re.sub(r'(["\\$`])', r"\\\1", value).replace("!", "\"'!'\"")  # `!` would be looked up in the history
    return re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)
