"""Completions at the cursor: commands, their arguments, paths. And the menu that shows them."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import CompletionState
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from ossia.cli import paths
from ossia.cli.clean import clean, fitted, one_line
from ossia.cli.mentions import Open, is_odd, lookalike, mentions, open_mention, rank_of, shown_name, standing, written
from ossia.cli.visible import seen_line

Choice = tuple[str, str]
"""A value and its help: `("/model", "use another model")`."""

_MAX_SCANNED, _MAX_FOUND, _MAX_WORDS = 5_000, 200, 5
_LAST = frozenset({"node_modules", "__pycache__", "venv"})
"""Folders of files made by others: they come last."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of completions, asked on the screen's thread; folders are read on another.

    `commands()`: all commands, with their slash. `arguments("/model", "gpt")`: the values that the command takes (the
    menu leaves out those that don't fit), None: paths. `folders()`: paths are relative to them; in commands, to the
    first.
    """

    commands: Callable[[], Sequence[Choice]] = lambda: ()
    arguments: Callable[[str, str], Sequence[Choice] | None] = lambda command, prefix: ()
    folders: Callable[[], Sequence[Path]] = lambda: (Path(),)


class Completions(Completer):
    """prompt_toolkit's side of `Sources`."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def wanted(self, document: Document) -> bool:
        """Should the menu open while this is typed? For commands and mentions; elsewhere only Tab opens it."""
        before = document.text_before_cursor
        return _is_command(before) or ("@" in before[-4000:] and open_mention(before) is not None)

    def possible(self, document: Document) -> bool:
        """Could Tab complete the text?"""
        before = document.text_before_cursor
        return self.wanted(document) or (before.startswith("!") and before[-1:] not in ("!", " ", "\t", "\n"))

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """All at once, on this thread."""
        found = self._found(document.text_before_cursor)
        return found() if callable(found) else found

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """The same; those of a folder are found on another thread, since it may be a slow one."""
        found = self._found(document.text_before_cursor)
        for completion in await asyncio.to_thread(found) if callable(found) else found:
            yield completion

    def _found(self, before: str) -> Sequence[Completion] | Callable[[], Sequence[Completion]]:
        if _is_command(before):
            command, blank, typed = before.partition(" ")
            typed = typed.lstrip(" ") if blank else command
            choices = self._sources.arguments(command, typed) if blank else self._sources.commands()
            if choices is not None:
                return _ranked(typed, choices)
        mention, folders = open_mention(before), tuple(self._sources.folders())
        if _is_command(before):
            return lambda: _as_arguments(typed, folders[:1])
        if mention is not None:
            return lambda: _as_mentions(mention, folders)
        return (lambda: _as_words(before, folders)) if before.startswith("!") else ()


def _is_command(before: str) -> bool:
    return before.startswith("/") and "\n" not in before


def _ranked(typed: str, choices: Sequence[Choice]) -> list[Completion]:
    """The choices with the typed text at their beginning, then anywhere, then in their help."""
    wanted = typed.lower()
    ranks = [
        (0 if value.lower().startswith(wanted) else 1 if wanted in value.lower() else 2, value, help)
        for value, help in choices
        if wanted in value.lower() or (wanted not in ("", "/") and wanted.lstrip("/") in help.lower())
    ]
    if typed.startswith("/"):  # a command is known by its name
        ranks = [rank for rank in ranks if rank[0] == 0] or ranks
    return [
        Completion(value, -len(typed), display=one_line(value), display_meta=one_line(help))
        for _, value, help in sorted(ranks, key=lambda rank: rank[0])
    ]


# -- paths -------------------------------------------------------------------------------------------------------------


def find_paths(typed: str, folders: Sequence[Path]) -> list[str]:
    """The paths in the typed folder that its last part may mean; a folder's ends in `/`. Best first, at most 200.

    find_paths("docs/co", [Path.cwd()])  →  ["docs/confinement.md", …]

    Hidden files only once their dot is typed. A folder that can't be read counts as empty. A name may be typed as it
    looks: composed or not, with other dashes and blanks, with its escapes.
    """
    above, slash, part = typed.rpartition("/")
    base = paths.expanded(above + slash)
    found: dict[str, tuple[int, bool, str]] = {}
    for root in [Path()] if base.is_absolute() else folders:
        folder = lookalike(root / base)
        front = above + slash if folder == root / base else f"{Path(*folder.parts[len(root.parts) :]).as_posix()}/"
        for name, is_folder in _listed(folder):
            rank = rank_of(name, part)
            if rank is not None:
                end = "/" * is_folder
                path = f"{front}{name}{end}" if front or not name.startswith("~") else f"./{name}{end}"
                found.setdefault(path, (rank, name in _LAST, name.lower()))
    best = sorted(found, key=lambda path: found[path])
    return [*([f"{typed}/"] if typed in ("~", ".", "..") else []), *best][:_MAX_FOUND]


def _completion(text: str, typed: int, path: str) -> Completion:
    """A completion shown as the last part of its path, odd characters as escapes."""
    name, slash = path.removesuffix("/").rpartition("/")[2], "/" * path.endswith("/")
    return Completion(text, -typed, display=f"{shown_name(name)}{slash}")


def _listed(folder: Path) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            return [(entry.name, _leads_to_folder(entry)) for entry in islice(entries, _MAX_SCANNED)]
    except (OSError, ValueError):
        return []


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _as_mentions(mention: Open, folders: Sequence[Path]) -> list[Completion]:
    if mention.name.lower().startswith(("http:/", "https:/")):
        return []
    found = next(filter(None, (find_paths(name, folders) for name in mention.readings)), [])
    pairs = ((path, written(path, closed=not path.endswith("/"))) for path in found)
    return [_completion(text, mention.length, path) for path, text in pairs if _opens(text, path, folders)]


def _opens(text: str, path: str, folders: Sequence[Path]) -> bool:
    """Does a mention with escapes mean this path, and not another file with backslashes in its name?"""
    if "\\" not in text:
        return True
    found = next((found for _, found in standing(mentions(text)[0], folders) if found), [])
    return len(found) == 1 and any(found[0] == folder / paths.expanded(path) for folder in folders)


def _as_arguments(typed: str, folders: Sequence[Path]) -> list[Completion]:
    """Paths behind a command: for the whole typed text, or for the words at its end (`/docs add my fol`)."""
    starts = [0, *(found.end() for found in islice(re.finditer(" +", typed), _MAX_WORDS))]
    for start in starts:
        found = find_paths(typed[start:], folders)
        if found:
            return [_completion(path, len(typed) - start, path) for path in found if not is_odd(path)]
    return []


def _as_words(before: str, folders: Sequence[Path]) -> list[Completion]:
    """Paths in a command line, quoted for a shell."""
    typed = before[1:].replace("\n", " ").rpartition(" ")[2]
    found = [path for path in find_paths(typed, folders) if not is_odd(path)]
    return [_completion(_word(path) if path != typed else typed, len(typed), path) for path in found]


def _word(path: str) -> str:
    """A path as a word for a shell: never an option, and its `~/` still means the home."""
    if path.startswith("~"):
        home, slash, rest = path.partition("/")
        return f"{home}{slash}{shlex.quote(rest) if rest else ''}"
    return shlex.quote(f"./{path}" if path.startswith("-") else path)


# -- the menu ----------------------------------------------------------------------------------------------------------


def menu_rows(state: CompletionState, max_rows: int) -> StyleAndTextTuples:
    """The choices around the selected one, a row each with its help, no wider than the screen.

    An arrow in front of the first or last row says that there are more.
    """
    columns = get_app().output.get_size().columns
    count = len(state.completions)
    start = max(0, min((state.complete_index or 0) - max_rows // 2, count - max_rows))
    shown = range(start, min(count, start + max_rows))
    labels = [seen_line(state.completions[index].display_text) for index in shown]
    width = min(max(map(get_cwidth, labels), default=0), max(8, columns // 2))
    rows: StyleAndTextTuples = []
    for index, label in zip(shown, labels, strict=True):
        chosen = index == state.complete_index
        name = fitted(label, width)
        text = fitted(clean(one_line(state.completions[index].display_meta_text)), columns - width - 6)
        rows += [("", "\n")] if rows else []
        more = "↑" if index == shown[0] > 0 else "↓" if index == shown[-1] < count - 1 else " "
        rows += [("bold", f"› {name}")] if chosen else [("dim", more), ("", f" {name}")]
        rows += [("", " " * (width - get_cwidth(name) + 2)), ("dim", text)] if text else []
    return rows
