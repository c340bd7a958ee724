"""The difference between two versions of a file, for people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import Match, SequenceMatcher

from ossia.tools.decoding import decode, describe

_CONTEXT = 3
_WINDOW, _MAX_WINDOW, _RUN, _MAX_COMPARED = 500, 32_000, 3, 200_000
"""A window is made larger until it holds a run of equal lines. What is left at the end counts as replaced."""
_MAX_CHARS = 400_000


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff of one file, and how many lines were added and removed in all, even if the text is cut."""

    text: str = ""
    added: int = 0
    removed: int = 0


def unified(before: bytes | None, after: bytes | None, *, name: str, new_name: str | None = None) -> Diff:
    """The difference; its text is `""` for equal contents of one name. None: the file doesn't exist.

    A binary file is described. A diff of more than 400,000 characters is cut, and says so. In large texts
    that have little in common more may be shown as changed than was.
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
    for group in _Matcher(None, a, b).get_grouped_opcodes(_CONTEXT):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(a1, a2)} +{_range(b1, b2)} @@\n"
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                yield from (f" {line}" for line in a[i1:i2])
            else:
                yield from (f"-{line}" for line in a[i1:i2])
                yield from (f"+{line}" for line in b[j1:j2])


class _Matcher(SequenceMatcher[str]):
    """difflib's matcher, but it compares a window of lines at a time, and no more than `_MAX_COMPARED` in all.

    difflib's time for whole texts grows with lines times changes: 500 changes in 50,000 lines took 6 s.
    """

    def get_matching_blocks(self) -> list[Match]:
        a, b = list(self.a), list(self.b)
        blocks: list[Match] = []
        i = j = compared = 0
        size = _WINDOW
        while i < len(a) and j < len(b) and size <= _MAX_WINDOW and compared < _MAX_COMPARED:
            start = i
            while i < len(a) and j < len(b) and a[i] == b[j]:
                i, j = i + 1, j + 1
            if i > start:
                blocks.append(Match(start, start + j - i, i - start))
            found = SequenceMatcher(None, a[i : i + size], b[j : j + size]).get_matching_blocks()[:-1]
            compared += size
            is_rest = i + size >= len(a) and j + size >= len(b)
            if is_rest or max((block.size for block in found), default=0) >= _RUN:
                whole = found if is_rest else found[:-1]  # the last one may go on behind the window
                blocks += [Match(i + block.a, j + block.b, block.size) for block in whole]
                i, j = (len(a), len(b)) if is_rest else (i + found[-1].a, j + found[-1].b)
                size = _WINDOW
            else:
                size *= 8
        return [*blocks, Match(len(a), len(b), 0)]


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"
