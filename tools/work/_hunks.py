"""Finds where the hunks of an update fit in a file, and applies them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from itertools import takewhile
from typing import NoReturn
from unicodedata import normalize

from ossia.tools.text import BROKEN, CONTROLS, PLAIN, REORDERS, TAGS, readable
from ossia.tools.work._v4a import Hunk

_UNSEEN = re.compile(f"[{CONTROLS}{REORDERS}{TAGS}\u200b-\u200f\u2060-\u2069\ufeff]")
"""A model isn't shown these, or can't see them: its patch won't have them."""
_BROKEN = re.compile(f"[{BROKEN}]")  # bytes that are no text are shown as U+FFFD
_LINE_END = re.compile(r"(\r\n|\r|\n)")


def _plain(line: str) -> str:
    return _UNSEEN.sub("", readable(_BROKEN.sub("\ufffd", _composed(line)))).translate(PLAIN).strip()


def _composed(line: str) -> str:
    return normalize("NFC", line).strip()


_LEVELS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip, _composed, _plain)
"""The ways to compare lines, in this order, as Codex does it: as they are, without trailing blanks, without blanks on
either side; then composed and decomposed characters are the same, and typographic dashes, quotes and blanks are taken
as plain ones. The first level that fits anywhere is used."""

_MAX_SEARCHED, _MAX_COMPARED = 4_000, 200
"""The lines of a file, and characters of each, that are searched for the line nearest to a missing one."""
_SHOWN = 160


class Misfit(Exception):
    """A hunk doesn't fit; the message quotes the file."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A hunk's place: the line where it begins, from 0, and the level on which it fits."""

    hunk: Hunk
    at: int
    level: int


class _File:
    """A file as lines and their ends, which are `\\r\\n`, `\\n` or `\\r`, as they are shown."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        pieces = _LINE_END.split(text)
        self.ended = pieces[-1] == ""
        self.lines = pieces[: -1 if self.ended else None : 2]
        self.ends = pieces[1::2] + [""] * (not self.ended)
        self._at_level: dict[int, list[str]] = {}
        self._indexes: dict[int, dict[str, list[int]]] = {}

    def at_level(self, level: int) -> list[str]:
        if level not in self._at_level:
            self._at_level[level] = [_LEVELS[level](line) for line in self.lines]
        return self._at_level[level]

    def _index(self, level: int) -> dict[str, list[int]]:
        """For each line the places where it stands. An index, since a large file's patch can have many hunks."""
        if level not in self._indexes:
            index = self._indexes[level] = {}
            for at, line in enumerate(self.at_level(level)):
                index.setdefault(line, []).append(at)
        return self._indexes[level]

    def places(self, old: Sequence[str], start: int, level: int, *, at_end: bool = False) -> list[int]:
        """Every place at or after line `start` where `old` fits, in order."""
        wanted = [_LEVELS[level](line) for line in old]
        lines, size = self.at_level(level), len(wanted)
        first = max(start, len(lines) - size) if at_end else start
        begins = self._index(level).get(wanted[0], [])
        return [at for at in begins[bisect_left(begins, first) :] if lines[at : at + size] == wanted]

    def end_near(self, at: int) -> str:
        """The line end for a new line before line `at`: that of the line before it, else of the one after."""
        near = (self.ends[line] for line in (at - 1, at - 2, at) if 0 <= line < len(self.ends))
        return next(filter(None, near), "\n")


def apply_hunks(text: str, hunks: Sequence[Hunk], name: str) -> str:
    """`text` with the hunks applied. Its line ends stay, and so does a missing one at the end.

    A hunk's context lines stay as the file has them. A new line gets the end of the line before it. If the hunk fits
    except for its indentation, it also gets the file's indentation. Raises `Misfit` for a hunk that fits nowhere, or in
    more than one place.
    """
    file = _File(text, name)
    gone: set[int] = set()
    new: dict[int, list[str]] = {}  # new lines, by the line of the file that they go before
    start = changed = 0  # the line after the last hunk; the one after its last change
    for hunk in hunks:
        found = _find(file, hunk, start, changed)
        indent = _indentation(file, found)
        at = found.at
        for kind, line in found.hunk.lines:
            if kind == "+":
                new.setdefault(at, []).append(indent(line))
                continue
            if kind == "-":
                gone.add(at)
            at += 1
        start = at
        changed = at - sum(1 for _ in takewhile(lambda entry: entry[0] == " ", reversed(found.hunk.lines)))
    joined = _joined(file, gone, new)
    if ("\r", "", "\n") in zip(joined, joined[1:], joined[2:], strict=False):  # CR and LF would be one line end
        raise Misfit(f"{name}: an empty line can't stand where its line ends change from CR to LF. Leave it out")
    return "".join(joined)


def _joined(file: _File, gone: set[int], new: dict[int, list[str]]) -> list[str]:
    """Lines and their ends, in turn."""
    result: list[str] = []
    for at in range(len(file.lines) + 1):
        for line in new.get(at, ()):
            end = file.end_near(at)
            result += (line.removesuffix("\r") if end == "\r\n" else line, end)
        if at < len(file.lines) and at not in gone:
            result += (file.lines[at], file.ends[at] or file.end_near(at))
    if result and not file.ended:
        result.pop()
    return result


# -- finding the place -------------------------------------------------------------------------------------------------


def _find(file: _File, hunk: Hunk, start: int, changed: int) -> _Found:
    """The one place of a hunk after the previous one, with which it may share context."""
    starts = (start,) if changed == start else (start, changed)
    for begin in starts:
        for form in (hunk, _without_empty_tail(hunk)):
            found = _search(file, form, begin)
            if found is not None:
                return found
    raise _misfit(file, hunk, start)


def _without_empty_tail(hunk: Hunk) -> Hunk:
    """Without empty lines that only separate it from the next part; at the file's end, without blank context too."""
    drop = hunk.empty_tail
    if hunk.at_end:
        drop = max(drop, sum(1 for _ in takewhile(lambda entry: entry == (" ", ""), reversed(hunk.lines))))
    return replace(hunk, lines=hunk.lines[: len(hunk.lines) - drop]) if drop < len(hunk.lines) else hunk


def _search(file: _File, hunk: Hunk, start: int) -> _Found | None:
    begins = _behind_anchors(file, hunk, start) if hunk.anchors else None
    if not hunk.old:
        return _Found(hunk, _insertion(file, hunk, begins), 0)
    for shift in (0, 1) if begins else (0,):  # 1: the hunk's first line may repeat the anchor
        for level in range(len(_LEVELS)):
            places = file.places(hunk.old, start, level, at_end=hunk.at_end)
            if begins is not None:
                firsts = {bisect_left(places, begin - shift) for begin in begins}
                places = [places[first] for first in sorted(firsts) if first < len(places)]
            if len(places) == 1:
                return _Found(hunk, places[0], level)
            if places:
                _ambiguous(file, hunk, places)
    return None


def _behind_anchors(file: _File, hunk: Hunk, start: int) -> list[int]:
    """The lines after those that the anchors name; several if an anchor occurs more than once.

    An anchor that earlier hunks have already passed (a second `@@ class A`) doesn't move the search.
    """
    begins = [start]
    for anchor in hunk.anchors:
        here = _anchor_places(file, anchor, begins[0])
        if here:
            begins = [at + 1 for at in here]
        elif not _anchor_places(file, anchor, 0):
            near = _nearest(file, anchor)
            raise Misfit(f"{file.name}: the line that '@@ {_cut(anchor)}' names isn't in the file{near}")
    return begins


def _anchor_places(file: _File, anchor: str, start: int) -> list[int]:
    for text in (anchor, anchor.rstrip().removesuffix("@@")):
        for level in range(len(_LEVELS)):
            if text.strip() and (places := file.places([text], start, level)):
                return places
    return []


def _insertion(file: _File, hunk: Hunk, begins: list[int] | None) -> int:
    """The place for lines without any context."""
    if begins is not None:
        if len(begins) > 1:
            _ambiguous(file, hunk, begins)
        return begins[0]
    if hunk.at_end or not file.lines:
        return len(file.lines)
    raise Misfit(
        f"{file.name}: the hunk at line {hunk.line} of the patch has only '+' lines, which doesn't say where they go. "
        "Add the line before them, with a blank in front"
    )


# -- explaining a misfit ----------------------------------------------------------------------------------------------


def _ambiguous(file: _File, hunk: Hunk, places: Sequence[int]) -> NoReturn:
    shown = ", ".join(str(at + 1) for at in places[:5]) + (", …" if len(places) > 5 else "")
    raise Misfit(
        f"{file.name}: the hunk at line {hunk.line} of the patch fits at more than one place (lines {shown}). "
        "Add lines of context around the change, or an '@@' line with the text of a line above it"
    )


def _misfit(file: _File, hunk: Hunk, start: int) -> Misfit:
    """An error with the place where the hunk fits best, and the first line there that differs."""
    what = f"{file.name}: the hunk at line {hunk.line} of the patch doesn't fit"
    last = len(_LEVELS) - 1
    elsewhere = file.places(hunk.old, 0, last)
    if elsewhere and elsewhere[0] < start:
        return Misfit(f"{what} behind the one before it, but at line {elsewhere[0] + 1}. Keep the file's order")
    if elsewhere:
        place = "at the end of the file" if hunk.at_end else "behind its '@@' line"
        return Misfit(f"{what} {place}, but at line {elsewhere[0] + 1}. Leave that line out, or name another")
    lines, wanted = file.at_level(last), [_LEVELS[last](line) for line in hunk.old]
    best_size, best_at = 0, 0
    for at, line in enumerate(lines):
        if line == wanted[0] and any(wanted[: best_size + 1]):
            size = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines[at:], wanted, strict=False)))
            best_size, best_at = max((best_size, best_at), (size, at), key=lambda fit: fit[0])
    if not best_size or not any(wanted[:best_size]):
        missing = next((line for line in hunk.old if line.strip()), "")
        return Misfit(f"{what}: no line of the file is {_cut(missing)!r}{_nearest(file, missing)}")
    at = best_at + best_size
    theirs = f"the file ends at line {at}"
    if at < len(lines):
        theirs = f"line {at + 1} of the file is {_cut(file.lines[at])!r}"
    return Misfit(f"{what}: {theirs}, where the patch has {_cut(hunk.old[best_size])!r}")


def _nearest(file: _File, line: str) -> str:
    candidates = file.at_level(len(_LEVELS) - 1)[:_MAX_SEARCHED]
    close = get_close_matches(_plain(line)[:_MAX_COMPARED], [line[:_MAX_COMPARED] for line in candidates], 1, 0.6)
    if not close:
        return ""
    at = next(at for at, candidate in enumerate(candidates) if candidate[:_MAX_COMPARED] == close[0])
    return f"; the nearest is line {at + 1}, {_cut(file.lines[at])!r}"


def _cut(line: str) -> str:
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


# -- the indentation of new lines --------------------------------------------------------------------------------------


def _indentation(file: _File, found: _Found) -> Callable[[str], str]:
    """A function that gives new lines the file's indentation, derived from the lines that patch and file share."""
    pairs: dict[str, str] = {}
    even = True  # each indentation of the patch corresponds to only one of the file
    for offset, old in enumerate(found.hunk.old):
        if old.strip():
            theirs = _indent(file.lines[found.at + offset])
            even = pairs.setdefault(_indent(old), theirs) == theirs and even
    if even and all(ours == theirs for ours, theirs in pairs.items()):
        return str
    wanted = {_indent(line) for kind, line in found.hunk.lines if kind == "+" and line.strip()}
    mapped = {ours: _mapped(ours, pairs) if even else None for ours in wanted}
    if None not in mapped.values():
        return lambda line: f"{mapped[_indent(line)]}{line[len(_indent(line)) :]}" if line.strip() else line
    raise Misfit(
        f"{file.name}: the hunk at line {found.hunk.line} of the patch fits at line {found.at + 1} but for its "
        f"indentation, and that of the new lines isn't clear. Line {found.at + 1} of the file is "
        f"{_cut(file.lines[found.at])!r}. Send the lines with the file's own blanks and tabs"
    )


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _mapped(indent: str, pairs: dict[str, str]) -> str | None:
    """The file's indentation for one of the patch's; None if the known pairs don't determine it.

    The file may be deeper by the same everywhere, less deep by the same, or use other units: tabs for blanks, four
    blanks for two.
    """
    if indent in pairs:
        return pairs[indent]
    less = _front((theirs, ours) for ours, theirs in pairs.items())
    shallower = indent.removeprefix(less) if less is not None and indent.startswith(less) else None
    more = _front(pairs.items())
    found = {None if more is None else more + indent, shallower, _in_units(indent, pairs)} - {None}
    return found.pop() if len(found) == 1 else None


def _front(pairs: Iterable[tuple[str, str]]) -> str | None:
    r"""The one text by which each second one is longer at its front: `"  "` for `("", "  "), ("\t", "  \t")`."""
    fronts = {long.removesuffix(short) if long.endswith(short) else None for short, long in pairs}
    front = fronts.pop()
    return None if fronts else front


def _in_units(indent: str, pairs: dict[str, str]) -> str | None:
    """`"        "` becomes `"\\t\\t"` if `"    "` is `"\\t"`."""
    known = {(ours, theirs) for ours, theirs in pairs.items() if ours or theirs}
    kinds = {frozenset(ours) for ours, _ in known} | {frozenset(indent)} - {frozenset()}
    units = {frozenset(theirs) for _, theirs in known}
    ratios = {Fraction(len(theirs), len(ours)) if ours else None for ours, theirs in known}
    if len(kinds) != 1 or len(units) != 1 or len(ratios) != 1:
        return None
    ratio, (unit,) = ratios.pop(), tuple(units)
    size = None if ratio is None else ratio * len(indent)
    return None if size is None or size.denominator != 1 or len(unit) != 1 else "".join(unit) * size.numerator
