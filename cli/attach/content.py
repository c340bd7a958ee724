"""Texts as they stand in a message: each under its heading, in a fence, cut where there is too little room."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from ossia.agent.models.memory import size_text
from ossia.cli.exits import MAX_TEXT_BYTES
from ossia.cli.words import bytes_of
from ossia.tools.names import escaped
from ossia.tools.spec import Taint
from ossia.tools.text import fair_limit

Cut = Literal["head", "tail", "middle"]
"""The part to leave out of a text that is too long."""
CUTS: dict[Cut, str] = {"head": "cut at the beginning", "tail": "cut at the end", "middle": "cut in the middle"}
HEAD_SHARE: dict[Cut, float] = {"head": 0.0, "tail": 1.0, "middle": 2 / 3}
"""The share of the beginning in a text that is cut."""
STDIN = ("-", "/dev/stdin")
"""The names of standard input as something to attach."""
_TRIES = 5
_BYTES_PER_TOKEN = 8
"""No text has more, but for long runs of one character."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attachment. `text` is for the model, with heading and fence; `shown` is one clean line for the screen.

    `doubtful`: its encoding was guessed, or some of its bytes were invalid.

    Attachment("Attached file notes.md (3.1 kB):\n```\n…\n```", "@notes.md · 3.1 kB")
    """

    text: str
    shown: str
    taints: frozenset[Taint] = frozenset({"private"})
    cut: bool = False
    doubtful: bool = False

    @property
    def size(self) -> int:
        """Bytes of UTF-8."""
        return bytes_of(self.text)

    def within(self, max_bytes: int, cut: Cut) -> Attachment:
        """The attachment, cut if it is too long."""
        text, omitted = shortened(self.text, max_bytes, cut)
        if not omitted:
            return self
        note = "" if any(said in self.shown for said in CUTS.values()) else f", {CUTS[cut]}"
        return replace(self, text=text, shown=self.shown + note, cut=True)


class Source(Protocol):
    """Something to attach, as long as there is room."""

    def within(self, max_bytes: int, cut: Cut) -> Attachment:
        """The attachment in about so many bytes."""


@dataclass(frozen=True, slots=True)
class Content:
    """A text, or its beginning and its end; `omitted` bytes of its middle weren't read. `remark`: on its encoding."""

    head: str
    tail: str = ""
    omitted: int = 0
    remark: str = ""

    def within(self, max_bytes: int, cut: Cut) -> tuple[str, str, bool]:
        """The text, its size in words (`"128 kB of 4.2 MB, cut in the middle"`), and True if it is cut."""
        if self.omitted:
            text, is_cut = self._ends(max_bytes, cut), True
        else:
            text, omitted = shortened(self.head, max_bytes, cut)
            is_cut = omitted > 0
        whole = size_text(bytes_of(self.head) + self.omitted + bytes_of(self.tail))
        size = f"{size_text(bytes_of(text))} of {whole}, {CUTS[cut]}" if is_cut else whole
        return text, f"{size}, {self.remark}" if self.remark else size, is_cut

    def _ends(self, max_bytes: int, cut: Cut) -> str:
        split = int(max_bytes * HEAD_SHARE[cut])
        head, tail = beginning(self.head, split), ending(self.tail, max_bytes - split)
        left_out = self.omitted + bytes_of(self.head) - bytes_of(head) + bytes_of(self.tail) - bytes_of(tail)
        return _with_gap(head, f"about {left_out:,} bytes", tail)


@dataclass(frozen=True, slots=True)
class TextSource:
    """A file, a page or standard input. `label`: its name on the screen; `heading`: that for the model, "" for none.

    TextSource("@notes.md", "Attached file notes.md", Content("hello"))
    """

    label: str
    heading: str
    content: Content
    taints: frozenset[Taint] = frozenset({"private"})

    def within(self, max_bytes: int, cut: Cut) -> Attachment:
        text, size, is_cut = self.content.within(max_bytes, cut)
        text = block(f"{self.heading} ({size}):", text) if self.heading else text
        return Attachment(text, f"{self.label} · {size}", self.taints, is_cut, bool(self.content.remark))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one attachment and of all, by `count`: bytes of UTF-8, or tokens. `files`: those of a folder.

    `cut`: the part left out of what is too long.
    """

    one: int = 128_000
    all: int = 256_000
    files: int = 100
    cut: Cut = "middle"
    count: Callable[[str], int] = bytes_of

    @classmethod
    def within(cls, tokens: int) -> Bounds:
        """Bounds in bytes for a context with room for `tokens` more, two thirds of them for one thing."""
        usual, room = cls(), 3 * tokens
        return cls(min(usual.one, room * 2 // 3), min(usual.all, room))

    @property
    def in_bytes(self) -> bool:
        return self.count is bytes_of

    @property
    def max_bytes(self) -> int:
        """The most to read of one thing."""
        return self.one if self.in_bytes else min(self.one * _BYTES_PER_TOKEN, MAX_TEXT_BYTES)

    @property
    def things(self) -> int:
        """The number of attachments that there is room for: with less than this, a part of one says nothing."""
        return self.all // (500 if self.in_bytes else 150)


def fit(sources: Sequence[Source], bounds: Bounds) -> tuple[Attachment, ...]:
    """The attachments within the bounds: the short ones whole, the long ones with equal shares of what is left."""
    whole = [source.within(bounds.max_bytes, bounds.cut) for source in sources]
    sizes = [bounds.count(attachment.text) for attachment in whole]
    limit = fair_limit([min(size, bounds.one) for size in sizes], bounds.all)
    parts = zip(sources, whole, sizes, strict=True)
    return tuple(one if size <= limit else _shrunk(source, one, size, limit, bounds) for source, one, size in parts)


def _shrunk(source: Source, one: Attachment, size: int, limit: int, bounds: Bounds) -> Attachment:
    if bounds.in_bytes:
        return source.within(limit, bounds.cut)
    max_bytes = one.size
    for _ in range(_TRIES):  # the beginning of a text may have other tokens than its end
        max_bytes = int(max_bytes * limit / size * 0.97)
        one = source.within(max_bytes, bounds.cut)
        size = bounds.count(one.text)
        if size <= limit:
            break
    return one


def block(heading: str, content: str) -> str:
    """A heading and a fence around the content, longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{heading}\n{fence}\n{content}{'' if content.endswith(chr(10)) else chr(10)}{fence}"


def shortened(text: str, max_bytes: int, cut: Cut = "middle") -> tuple[str, int]:
    """The text without a part, where a line says so, and the number of characters left out; 0: it fits."""
    if bytes_of(text) <= max_bytes:
        return text, 0
    split = int(max_bytes * HEAD_SHARE[cut])
    head, tail = beginning(text, split), ending(text, max_bytes - split)
    omitted = len(text) - len(head) - len(tail)
    return _with_gap(head, f"{omitted:,} characters", tail), omitted


def beginning(text: str, max_bytes: int) -> str:
    """The first lines within so many bytes; a part of a line if that is most of it."""
    text = text[:max_bytes].encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore")
    head, end, _ = text.rpartition("\n")
    return head if end and len(head) > len(text) // 2 else text


def ending(text: str, max_bytes: int) -> str:
    """The last lines within so many bytes; a part of a line if that is most of it."""
    if max_bytes <= 0:
        return ""
    text = text[-max_bytes:].encode("utf-8", "replace")[-max_bytes:].decode("utf-8", "ignore")
    _, end, tail = text.partition("\n")
    return tail if end and len(tail) > len(text) // 2 else text


def _with_gap(head: str, left_out: str, tail: str) -> str:
    return "\n".join(filter(None, [head, f"[… {left_out} left out here …]", tail]))


def in_heading(name: str) -> str:
    """A name on one line, unprintable characters as escapes: the model can open it as it stands there."""
    return "".join(char if char.isprintable() else escaped(char) for char in name)
