"""The patch format that gpt-oss was trained on (V4A), parsed as models write it: text to sections."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NoReturn

from ossia.tools.calls.patch_commands import BEGIN, END, shell_patch
from ossia.tools.spec import ToolFailed

_ADD, _UPDATE, _DELETE = "*** Add File:", "*** Update File:", "*** Delete File:"
_MOVE, _AT_END = "*** Move to:", "*** End of File"
_SECTIONS = (_ADD, _UPDATE, _DELETE)
_FORM = (
    "A patch is '*** Begin Patch', then for each file '*** Add File: PATH', '*** Update File: PATH' or "
    "'*** Delete File: PATH' with its lines, then '*** End Patch'"
)
_LINE_NUMBERS = re.compile(r"-\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines of an update: `(" ", …)` stays, `("-", …)` is removed, `("+", …)` is added.

    `anchors`: the lines named by `@@ …`, outer ones first. `at_end`: it must match at the end of the file.
    `empty_tail`: how many lines at its end were wholly empty: they may only separate it from what follows. `line`:
    where it begins in the patch, from 1.
    """

    anchors: tuple[str, ...]
    lines: tuple[tuple[Literal[" ", "-", "+"], str], ...]
    at_end: bool
    empty_tail: int
    line: int

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(text for kind, text in self.lines if kind != "+")


@dataclass(frozen=True, slots=True)
class Add:
    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True)
class Update:
    path: str
    move_to: str | None
    hunks: tuple[Hunk, ...]


Section = Add | Delete | Update


def parse(text: str) -> tuple[str, tuple[Section, ...]]:
    """The folder of a `cd` before the patch, "" without one, and the sections, whose paths have it in front.

    What models put around a patch is removed: Markdown fences, `apply_patch <<'EOF' … EOF`, `{"input": …}`,
    `["apply_patch", …]`, prose. A patch that lacks its end is refused: it may have been cut. Raises `ToolFailed`, which
    quotes the wrong line and says what may stand there.
    """
    folder, text = _unwrapped(text)
    sections = tuple(_Reader(list(_own_lines(text)), folder).sections())
    if not sections:
        raise ToolFailed(f"Error: the patch is empty. {_FORM}.")
    return folder, sections


# -- removing what stands around it ------------------------------------------------------------------------------------


def _unwrapped(text: str) -> tuple[str, str]:
    """The folder of a `cd` before the patch, and the text with the patch."""
    stripped = text.strip()
    if stripped.startswith(("{", "[", '"')):
        with suppress(ValueError, RecursionError):
            value = json.loads(stripped)
            strings = value.values() if isinstance(value, dict) else value if isinstance(value, list) else (value,)
            inner = next((item for item in strings if isinstance(item, str) and BEGIN in item), None)
            if inner is not None:
                return _unwrapped(inner)
    if command := shell_patch(text):
        return command.folder, _with_plain_ends(command.text)
    before, begin, _ = text.partition(BEGIN)
    if begin and re.search(r"\bcd\s", before):
        _refuse(
            f"{before.strip()!r} stands before the patch: send the patch alone, its paths counted from the workspace, "
            "without 'cd'"
        )
    return "", _with_plain_ends(text)


def _with_plain_ends(text: str) -> str:
    lines = text.split("\n")
    ends = [line.endswith("\r") for line in lines[:-1]]
    return text.replace("\r\n", "\n") if ends and all(ends) else text


def _own_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines between `*** Begin Patch` and `*** End Patch`, with their numbers; of all patches, if several.

    Blanks before `*** …` are taken off where the line can't be one of the file: not in an update, unless its own
    `*** Update File:` has the same, or the patch ends there.
    """
    inside = begun = False
    lines = _dedented(text.rstrip().split("\n"))
    front: str | None = None  # what may stand before `***`; None: any blanks
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        blanks = line[: len(line) - len(line.lstrip())]
        marked = bare.startswith("*** ") and (front is None or blanks in ("", front))
        if bare == BEGIN:
            inside = begun = True
            front = None
        elif inside and bare == END and (marked or number == len(lines)):
            inside, front = False, None
        elif inside or (not begun and line.startswith(_SECTIONS)):
            inside = begun = True
            if marked and bare.startswith(_SECTIONS):
                front = blanks if bare.startswith(_UPDATE) else None
            yield number, bare if marked else line
    if not begun:
        _refuse(f"no line is {BEGIN!r}. {_FORM}")
    if inside:
        _refuse(f"the last line is not {END!r}: the patch may have been cut. Send it whole")


def _dedented(lines: list[str]) -> list[str]:
    """Without the blanks that stand before every line of the patch, `*** Begin Patch` too."""
    begin = next((line for line in lines if line.strip() == BEGIN), "")
    blanks = begin[: len(begin) - len(begin.lstrip())]
    ends = [at for at, line in enumerate(lines) if line.strip() == END]
    patch = lines[lines.index(begin) : ends[-1] + 1] if blanks and ends else []
    if not all(line.startswith(blanks) for line in patch if line.strip()):
        return lines
    return [line.removeprefix(blanks) for line in lines]


def _refuse(what: str) -> NoReturn:
    raise ToolFailed(f"Error: patch: {what}.")


# -- the sections ------------------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, lines: list[tuple[int, str]], folder: str) -> None:
        self._lines, self._at, self._folder = lines, 0, folder

    def sections(self) -> Iterator[Section]:
        while self._at < len(self._lines):
            number, line = self._take()
            if line.startswith(_ADD):
                yield Add(self._path(line, _ADD, number), tuple(self._added()))
            elif line.startswith(_DELETE):
                yield Delete(self._path(line, _DELETE, number))
            elif line.startswith(_UPDATE):
                yield self._update(self._path(line, _UPDATE, number), number)
            elif line.strip():
                self._unexpected(number, line, f"{_ADD!r}, {_UPDATE!r}, {_DELETE!r} or {END!r}")

    def _take(self) -> tuple[int, str]:
        self._at += 1
        return self._lines[self._at - 1]

    def _peek(self) -> str | None:
        return self._lines[self._at][1] if self._at < len(self._lines) else None

    def _in_section(self) -> bool:
        line = self._peek()
        return line is not None and not line.startswith(_SECTIONS)

    def _path(self, line: str, directive: str, number: int) -> str:
        path = line[len(directive) :].strip()
        if not path:
            _refuse(f"line {number} is {line!r}, and a path is missing behind the colon")
        return posixpath.join(self._folder, path)

    def _unexpected(self, number: int, line: str, expected: str) -> NoReturn:
        _refuse(f"line {number} is {line[:200]!r}, where {expected} was expected")

    def _added(self) -> Iterator[str]:
        empty = 0  # wholly empty lines: part of the file if more of it follows, else they separate two sections
        while self._in_section():
            number, line = self._take()
            if line.startswith("+"):
                yield from [""] * empty
                yield line[1:]
                empty = 0
            elif not line.strip():
                empty += 1
            else:
                self._unexpected(number, line, "a line of the new file, which begins with '+',")

    def _update(self, path: str, number: int) -> Update:
        move_to = None
        if (line := self._peek()) is not None and line.startswith(_MOVE):
            at, line = self._take()
            move_to = self._path(line, _MOVE, at)
        hunks: list[Hunk] = []
        while self._in_section():
            if not hunks and self._only_blanks():
                break
            hunks.append(self._hunk(first=not hunks))
        if not hunks and move_to is None:
            _refuse(f"line {number} updates {path!r} without any change: lines with '-' or '+' were expected")
        return Update(path, move_to, tuple(hunks))

    def _only_blanks(self) -> bool:
        """Skip empty lines; True if the section ends there."""
        at = self._at
        while self._in_section() and not (self._peek() or "").strip():
            self._at += 1
        if self._in_section():
            self._at = at
            return False
        return True

    def _hunk(self, *, first: bool) -> Hunk:
        start = self._lines[self._at][0]
        anchors = tuple(self._anchors())
        if not anchors and not first and not self._lines[self._at - 1][1].startswith(("@@", _AT_END)):
            self._unexpected(start, self._peek() or "", "'@@'")
        lines: list[tuple[Literal[" ", "-", "+"], str]] = []
        empty_tail, at_end = 0, False
        while self._in_section() and not (self._peek() or "").startswith("@@"):
            number, line = self._take()
            if line.rstrip() == _AT_END:
                at_end = True
                self._only_blanks()
                break
            kind = line[:1] or " "
            if kind not in (" ", "-", "+"):
                self._unexpected(number, line, "a line that begins with ' ', '-' or '+'")
            empty_tail = 0 if line else empty_tail + 1
            lines.append((kind, line[1:]))  # type: ignore[arg-type]  # it is one of the three
        if not lines:
            _refuse(f"the hunk at line {start} has no lines: lines that begin with ' ', '-' or '+' were expected")
        return Hunk(anchors, tuple(lines), at_end, empty_tail, start)

    def _anchors(self) -> Iterator[str]:
        while (line := self._peek()) is not None and line.startswith("@@"):
            self._take()
            anchor = line[2:].removeprefix(" ")
            if anchor.strip() not in ("", "@@") and not _LINE_NUMBERS.fullmatch(anchor.rstrip()):
                yield anchor
