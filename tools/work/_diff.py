"""The difference between two versions of a file, for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from ossia.tools.decoding import decode, describe

_CONTEXT = 3
_MAX_PAIRS = 5_000_000
"""The most pairs of equal lines that difflib gets. It leaves out lines that make up 1 % of a text or more."""
_TOO_DIFFERENT = "[too different to show]\n"
_MAX_CHARS = 400_000

@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff of one file, and how many lines were added and removed in all, even if the text is cut."""

    text: str = ""
    added: int = 0
    removed: int = 0


def unified(before: bytes | None, after: bytes | None, *, name: str, new_name: str | None = None) -> Diff:
    """The difference; its text is `""` for equal contents of one name. None: the file doesn't exist.

    A binary file is described. A diff of more than 400,000 characters is cut, and says so. Large texts that have little
    in common are "too different to show".
    """
    if before == after and new_name in (None, name):
        return Diff()
    old = f"a/{name}" if before is not None else "/dev/null"
    new = f"b/{new_name or name}" if after is not None else "/dev/null"
    lines: list[str] = [f"--- {old}\n", f"+++ {new}\n"]
    texts = [None if data is None else decode(data) for data in (before, after)]
    if texts[0] is not None and texts[0].guessed and after is not None:  # of what was changed, no other guess
        texts[1] = replace(texts[0], text=after.decode(texts[0].encoding, "surrogateescape"))
    for data, text, verb in ((before, texts[0], "is gone"), (after, texts[1], "comes")):
        if data is not None and text is None:
            lines.append(f"{describe(data)}: {verb}\n")
    a, b = (_lines([] if text is None else _pieces(text.shown)) for text in texts)
    hunks = list(_hunks(a, b))
    if hunks[-1:] == [_TOO_DIFFERENT]:
        return Diff("".join((*lines, *hunks)), len(b), len(a))
    added, removed = (sum(hunk.startswith(sign) for hunk in hunks) for sign in "+-")
    return Diff(_bounded("".join((*lines, *hunks))), added, removed)


def _bounded(text: str) -> str:
    if len(text) <= _MAX_CHARS:
        return text
    return f"{text[:_MAX_CHARS]}\n[... {len(text) - _MAX_CHARS} characters of the diff are not shown]\n"


def _pieces(text: str) -> list[str]:
    r"""Split where lines end; `\r\n` leaves its `\r`, so that a change of line ends is one."""
    return re.split(r"\n|(?<=\r)(?!\n)", text)


def _lines(pieces: list[str]) -> list[str]:
    r"""Lines with their ends; a last line without one is marked, as `diff` does."""
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    if pieces and pieces[-1]:
        lines.append(f"{pieces[-1]}\n\\ No newline at end of file\n")
    return lines


def _hunks(a: list[str], b: list[str]) -> Iterator[str]:
    """The hunks. difflib gets only what lies between a common start and a common end."""
    start = _common(a, b)
    end = _common(a[start:][::-1], b[start:][::-1])
    start, end = max(start - _CONTEXT, 0), max(end - _CONTEXT, 0)
    a, b = a[start : len(a) - end], b[start : len(b) - end]
    counts = Counter(b)
    if sum(counts[line] for line in a if counts[line] <= max(len(b) // 100, 200)) > _MAX_PAIRS:
        yield f"@@ -{_range(start, start + len(a))} +{_range(start, start + len(b))} @@\n"
        yield _TOO_DIFFERENT
        return
    for group in SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(start + a1, start + a2)} +{_range(start + b1, start + b2)} @@\n"
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                yield from (f" {line}" for line in a[i1:i2])
            else:
                yield from (f"-{line}" for line in a[i1:i2])
                yield from (f"+{line}" for line in b[j1:j2])


def _common(a: list[str], b: list[str]) -> int:
    """The number of lines that both begin with."""
    return next((at for at, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b)))


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"
