"""Mentions in the user's text: where `@name` begins and ends, and how a path is written as one.

A mention begins at the start of a word (not in `me@example.org`), outside of code (`` `@cache` ``, fenced blocks). The
callers look for the file; a word that names nothing stays a word.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from ossia.cli import paths
from ossia.cli.visible import visible
from ossia.tools.names import escaped, existing, lookalikes, plain

_START = r"(?:^|(?<=[\s(\[{]))@"
_MENTION = re.compile(
    rf"""{_START}(?:"([^"\n]+)"?|'((?:[^'\n]|'\\'')+)'?|((?:\\.|[^\s"'`@\\])(?:\\.|[^\s`\\])*\\?))""", re.MULTILINE
)
_OPEN = re.compile(
    rf"""{_START}(?:"([^"\n]*)|'((?:[^'\n]|'\\'')*)|((?:(?:\\.|[^\s"'`\\])(?:\\.|[^\s`\\])*)?\\?))$"""
)
_CODE = re.compile(
    r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|(?<!`)(`++).+?(?<!`)\2(?!`)", re.DOTALL | re.MULTILINE
)
_DROPPED = re.compile(r"['\"]?/|file:/")
_OPEN_CHARS = 4000
"""Searched before the cursor: no path is longer (PATH_MAX is 4,096 bytes)."""


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


def of_dropped(pasted: str) -> str:
    r"""Mentions of the files that a terminal pasted as dropped ones; "" for any other text, such as a list of lines.

        of_dropped(r"/tmp/my\ notes.md '/tmp/it'")     →  '@"/tmp/my notes.md" @/tmp/it'
        of_dropped("file:///tmp/my%20notes.md")        →  '@"/tmp/my notes.md"'
    """
    text = pasted.strip()
    lines = text.splitlines()
    uris = all(line.startswith("file:/") for line in lines)
    if len(text) > _OPEN_CHARS or not (uris if len(lines) > 1 else _DROPPED.match(text)):
        return ""
    try:
        words = [text] if os.path.lexists(text) else shlex.split(text)
    except ValueError:  # a quote that nothing closes
        return ""
    names = [[name for name in _dropped(word) if re.match("/.*/", name) and os.path.lexists(name)] for word in words]
    return " ".join(written(found[0]) for found in names) if all(names) else ""


def begins_with_path(line: str) -> bool:
    r"""Does a line begin with an existing path, as a terminal inserts it: `/tmp/my\ notes.md`?"""
    found = re.match(r"/(?:\\.|[^\s\\])+", line)
    try:
        return found is not None and any(existing(Path(name)) for name in _dropped(found[0]) if name.count("/") > 1)
    except (OSError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class Open:
    """A mention being typed: `name` so far; `length` counts its `@` and its quote too."""

    name: str
    length: int

    @property
    def readings(self) -> Iterator[str]:
        """The name as typed, and as a terminal or a shell reads it: `my\\ no` is `my no`."""
        yield from _dropped(self.name)
        if self.name.endswith("\\"):  # an escape that has only begun
            yield from _dropped(self.name[:-1])


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
    """The mention that ends at the cursor, if any; `before` is the text in front of it."""
    found = _OPEN.search(before[-_OPEN_CHARS:].rpartition("\n")[2])
    if found is None:
        return None
    return Open(next(part for part in found.groups() if part is not None), len(found[0]))


def standing(mention: Mention, roots: Sequence[Path]) -> Iterator[tuple[str, list[Path]]]:
    """Yields each possible name in a mention, with the paths of that name, or of a lookalike."""
    for name in mention.candidates:
        for find in (lambda path: [path], lookalikes):
            for root in roots:
                with suppress(OSError, ValueError):  # a name too long, a NUL
                    yield name, [path for path in find(root / paths.expanded(name)) if path.exists()]


def written(path: str, *, closed: bool = True) -> str:
    """A path as a mention: quoted, or with escapes where quotes don't do (in a name that goes on, too).

        written("a.md")                       →  '@a.md'
        written("my notes.md")                →  '@"my notes.md"'
        written("my dir/", closed=False)      →  '@my\\ dir/'
        written("a\nb")                       →  '@a\\nb'
    """
    odd = is_odd(path)
    if not odd and not re.search(r"""[\s"'`]|^@|\\$|[.,;:!?)\]}>]$""", path):
        return f"@{path}"
    quote = next((quote for quote in "\"'" if quote not in path), "")
    if quote and closed and not odd and "`" not in path:
        return f"@{quote}{path}{quote}"
    text = escaped(path) if odd else path.replace("\\", "\\\\")
    return "@" + re.sub(r"""[\s"']|^@""", r"\\\g<0>", text).replace("`", r"\x60")


def is_odd(name: str) -> bool:
    """Does a name hold characters unseen in a line?"""
    return visible(name)[1] > 0 or "\n" in name or "\t" in name


def shown_name(name: str) -> str:
    """A name on one line: an odd one with escapes."""
    return escaped(name) if is_odd(name) else name


def lookalike(path: Path) -> Path:
    """The only lookalike of a path, if the path doesn't exist; else the path itself."""
    try:
        return existing(path) or path
    except (OSError, ValueError):
        return path


def rank_of(name: str, part: str) -> int | None:
    """0: the name begins with `part`; 1: apart from case; 2: it holds it. None: no match."""
    if name.startswith(".") and not part.startswith("."):
        return None
    if normalize("NFD", name).startswith(normalize("NFD", part)):
        return 0
    wanted, forms = _alike(part), {_alike(name), _alike(escaped(name))}
    if any(form.startswith(wanted) for form in forms):
        return 1
    return 2 if len(part) > 1 and any(wanted in form for form in forms) else None


def _alike(name: str) -> str:
    return normalize("NFD", plain(name)).lower()
