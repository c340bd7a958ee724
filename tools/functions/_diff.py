"""The difference of two versions of a file, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher

from tools.functions._text import decode, describe

_CONTEXT = 3
_MAX_COMPARED = 4_000_000
"""Lines of the one times lines of the other, that difflib compares in some seconds at the worst."""
_MAX_CHARS = 400_000

_Op = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Diff:
    """A unified diff of one file, and how many lines come and go in all, also where the text is cut."""

    text: str = ""
    added: int = 0
    removed: int = 0


def unified(before: bytes | None, after: bytes | None, *, name: str, new_name: str | None = None) -> Diff:
    """The difference; its text is `""` for equal contents of one name. None: the file isn't there.

    Of a binary file it says what it is. A text of more than 400,000 characters is cut, and says so.
    """
    if before == after and new_name in (None, name):
        return Diff()
    old = f"a/{name}" if before is not None else "/dev/null"
    new = f"b/{new_name or name}" if after is not None else "/dev/null"
    lines: list[str] = [f"--- {old}\n", f"+++ {new}\n"]
    texts = [None if data is None else decode(data) for data in (before, after)]
    for data, text, verb in ((before, texts[0], "is gone"), (after, texts[1], "comes")):
        if data is not None and text is None:
            lines.append(f"{describe(data)}: {verb}\n")
    a, b = (_lines([] if text is None else text.text.split("\n")) for text in texts)
    hunks = list(_hunks(a, b))
    added, removed = (sum(hunk.startswith(sign) for hunk in hunks) for sign in "+-")
    return Diff(_bounded("".join((*lines, *hunks))), added, removed)


def _bounded(text: str) -> str:
    if len(text) <= _MAX_CHARS:
        return text
    return f"{text[:_MAX_CHARS]}\n[... {len(text) - _MAX_CHARS} characters of the diff are not shown]\n"


def _lines(pieces: list[str]) -> list[str]:
    r"""With their ends; a last line without one says so, as `diff` does."""
    lines = [f"{piece}\n" for piece in pieces[:-1]]
    if pieces and pieces[-1]:
        lines.append(f"{pieces[-1]}\n\\ No newline at end of file\n")
    return lines


def _hunks(a: list[str], b: list[str]) -> Iterator[str]:
    for group in _groups(_operations(a, b)):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        yield f"@@ -{_range(a1, a2)} +{_range(b1, b2)} @@\n"
        for kind, i1, i2, j1, j2 in group:
            if kind == "equal":
                yield from (f" {line}" for line in a[i1:i2])
            else:
                yield from (f"-{line}" for line in a[i1:i2])
                yield from (f"+{line}" for line in b[j1:j2])


def _range(start: int, end: int) -> str:
    return f"{start + 1 if end > start else start},{end - start}"


def _operations(a: list[str], b: list[str]) -> list[_Op]:
    """difflib's, for what is left between a common start and a common end: it is slow, and most changes are small."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    i2, j2 = len(a) - end, len(b) - end
    middle: list[_Op] = [("replace", 0, i2 - start, 0, j2 - start)]
    if (i2 - start) * (j2 - start) <= _MAX_COMPARED:
        middle = list(SequenceMatcher(None, a[start:i2], b[start:j2], autojunk=False).get_opcodes())
    operations: list[_Op] = [("equal", 0, start, 0, start)]
    operations += [(kind, x1 + start, x2 + start, y1 + start, y2 + start) for kind, x1, x2, y1, y2 in middle]
    operations.append(("equal", i2, len(a), j2, len(b)))
    return [op for op in operations if op[2] > op[1] or op[4] > op[3]]


def _groups(operations: list[_Op]) -> Iterator[list[_Op]]:
    """Changes with three equal lines around them; what is further apart stands in hunks of its own."""
    group: list[_Op] = []
    for kind, i1, i2, j1, j2 in operations:
        if kind != "equal":
            group.append((kind, i1, i2, j1, j2))
            continue
        before, after = min(_CONTEXT, i2 - i1), min(_CONTEXT, i2 - i1)
        if group and i2 - i1 <= 2 * _CONTEXT and (i1, i2) != (operations[-1][1], operations[-1][2]):
            group.append((kind, i1, i2, j1, j2))
            continue
        if group:
            yield [*group, (kind, i1, i1 + after, j1, j1 + after)]
        group = [(kind, i2 - before, i2, j2 - before, j2)]
    if any(op[0] != "equal" for op in group):
        yield group
