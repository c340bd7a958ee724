"""What `@name` means in what the user types: where a mention begins and ends, and how a path is written as one.

A mention begins at the start of a word (`me@example.org` is none), outside of code (`` `@cache` ``, fenced blocks).
The callers look whether something of that name exists; a word that names nothing stays a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.names import existing

_START = r"(?:^|(?<=[\s(\[{]))@"
_MENTION = re.compile(
    rf"""{_START}(?:"([^"\n]+)"?|'((?:[^'\n]|'\\'')+)'?|((?:\\.|[^\s"'`@\\])(?:\\.|[^\s`\\])*\\?))""", re.MULTILINE
)
_OPEN = re.compile(rf"""{_START}(?:"([^"\n]*)|'([^'\n]*)|([^\s"'`]*))$""")
_CODE = re.compile(
    r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|(`+)(?!`).+?(?<!`)\2(?!`)", re.DOTALL | re.MULTILINE
)
_OPEN_CHARS = 4000
"""How much before the cursor is looked at while typing: no path is longer (PATH_MAX is 4,096 bytes)."""


@dataclass(frozen=True, slots=True)
class Mention:
    """`@docs/a.md` as it was typed: `name` is `docs/a.md`; `quoted`: no punctuation of the sentence can be in it."""

    name: str
    quoted: bool = False

    @property
    def is_url(self) -> bool:
        return self.name.lower().startswith(("http://", "https://"))

    @property
    def candidates(self) -> Iterator[str]:
        """The name, then the name without its last punctuation mark, and so on: `a.md),`, `a.md)`, `a.md`.

        Each also as the name that a terminal inserts for a dropped file: `my\\ notes.md`, `file:///tmp/my%20notes.md`.
        """
        name = self.name
        yield from _dropped(name)
        while not self.quoted and name.strip(".") and name[-1] in ".,;:!?)]}>\"'" and name[:-1]:
            name = name[:-1]
            yield from _dropped(name)


def _dropped(name: str) -> Iterator[str]:
    yield name
    if name.lower().startswith("file:"):
        address = urlsplit(name)
        if address.netloc in ("", "localhost"):
            yield unquote(name.partition(":")[2].removeprefix(f"//{address.netloc}"))
    elif "\\" in name:
        yield re.sub(r"\\(.)", r"\1", name.replace("'\\''", "'"))


def begins_with_path(line: str) -> bool:
    r"""Does a line begin with the path of something that exists, as a terminal inserts it: `/tmp/my\ notes.md`?"""
    found = re.match(r"/(?:\\.|[^\s\\])+", line)
    try:
        return found is not None and any(existing(Path(name)) for name in _dropped(found[0]) if name.count("/") > 1)
    except (OSError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class Open:
    """A mention that is being typed: `name` is what there is of it, `length` counts its `@` and its quote too."""

    name: str
    length: int


def mentions(text: str) -> tuple[Mention, ...]:
    """The mentions of a text, each once, in order.

    mentions('see @a.md and @"my notes.md"')  →  (Mention("a.md"), Mention("my notes.md", quoted=True))
    """
    if "@" not in text:
        return ()
    prose = _CODE.sub(lambda code: " " * len(code[0]), text) if "`" in text or "~~~" in text else text
    found = (Mention(m[3]) if m[3] else Mention(m[1] or m[2], quoted=True) for m in _MENTION.finditer(prose))
    return tuple(dict.fromkeys(found))


def open_mention(before: str) -> Open | None:
    """The mention that ends at the cursor; `before` is the text in front of it. None: the cursor is in none."""
    found = _OPEN.search(before[-_OPEN_CHARS:].rpartition("\n")[2])
    if found is None:
        return None
    return Open(next(part for part in found.groups() if part is not None), len(found[0]))


def written(path: str, *, closed: bool = True) -> str | None:
    """A path as a mention, quoted where it must be; None if it can't be (it has a line end, or both quotes).

        written("a.md")                       →  '@a.md'
        written("my notes.md")                →  '@"my notes.md"'
        written("my dir/", closed=False)      →  '@"my dir/'
    """
    if any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000 for char in path):
        return None
    if not re.search(r"""[\s"'`]|^@|[.,;:!?)\]}>]$""", path):
        return f"@{path}"
    quote = next((quote for quote in "\"'" if quote not in path), None)
    return None if quote is None else f"@{quote}{path}{quote if closed else ''}"
