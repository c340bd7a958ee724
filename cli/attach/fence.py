"""How outside text stands in a message: its heading, its fence, its bounds."""

from __future__ import annotations

import re

from ossia.tools.names import escaped

HEAD_SHARE = 2 / 3
"""How much of what is kept of a long text is its beginning: that says what it is, the end how it came out."""


def block(heading: str, content: str) -> str:
    """A heading and a fence around the content, longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{heading}\n{fence}\n{content}{'' if content.endswith(chr(10)) else chr(10)}{fence}"


def shortened(text: str, max_bytes: int) -> tuple[str, int]:
    """The text cut to its bound, and how many characters its middle lost; a line there says so."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text, 0
    split = int(max_bytes * HEAD_SHARE)
    head = up_to_line_end(data[:split].decode("utf-8", "ignore"))
    tail = from_line_start(data[len(data) - (max_bytes - split) :].decode("utf-8", "ignore"))
    omitted = len(text) - len(head) - len(tail)
    return f"{head}\n[… {omitted:,} characters left out here …]\n{tail}", omitted


def up_to_line_end(text: str) -> str:
    """Without the part of a line at its end, unless that is most of it."""
    head, end, _ = text.rpartition("\n")
    return head if end and len(head) > len(text) // 2 else text


def from_line_start(text: str) -> str:
    """Without the part of a line at its beginning, unless that is most of it."""
    _, end, tail = text.partition("\n")
    return tail if end and len(tail) > len(text) // 2 else text


def in_heading(name: str) -> str:
    """A name on one line, whatever its maker put into it: the model can open it as it stands there."""
    return "".join(char if char.isprintable() else escaped(char) for char in name)
