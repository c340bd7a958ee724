"""What could stand at the cursor: commands, their arguments, paths. And the menu that shows it."""

from __future__ import annotations

import asyncio
import os
import re
import stat
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

from cli import paths
from cli.clean import clean, one_line
from cli.mentions import open_mention, written

Choice = tuple[str, str]
"""A value and what to say about it: `("/model", "use another model")`."""

_MAX_SCANNED, _MAX_FOUND, _MAX_WORDS = 5_000, 200, 5
_LAST = frozenset({"node_modules", "__pycache__", "venv"})
"""Folders that hold what others made: they come last."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where completions come from. All is asked on the screen's thread; folders are read on another.

    `commands()` are all commands, with their slash. `arguments("/model", "gpt")` are the values that the command could
    have (the menu leaves out those that don't fit what is typed), None: paths. `folders()`: what paths are
    relative to; those in commands are relative to the first.
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
        """Is there something that Tab could complete?"""
        before = document.text_before_cursor
        return self.wanted(document) or (before.startswith("!") and before[-1:] not in ("!", " ", "\t", "\n"))

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """All at once, on this thread."""
        find = self._finder(document.text_before_cursor)
        return find() if callable(find) else find

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """The same; a folder is read on another thread: it may be a slow one."""
        find = self._finder(document.text_before_cursor)
        for completion in await asyncio.to_thread(find) if callable(find) else find:
            yield completion

    def _finder(self, before: str) -> Sequence[Completion] | Callable[[], Sequence[Completion]]:
        if _is_command(before):
            return self._of_command(before)
        mention = open_mention(before)
        folders = tuple(self._sources.folders())
        if mention is not None:
            return lambda: _as_mentions(mention.name, mention.length, folders)
        if before.startswith("!"):
            return lambda: _as_words(before, folders)
        return ()

    def _of_command(self, before: str) -> Sequence[Completion] | Callable[[], Sequence[Completion]]:
        command, blank, typed = before.partition(" ")
        if not blank:
            return _ranked(command, self._sources.commands())
        typed = typed.lstrip(" ")
        choices = self._sources.arguments(command, typed)
        if choices is not None:
            return _ranked(typed, choices)
        folders = tuple(self._sources.folders())[:1]
        return lambda: _as_arguments(typed, folders)


def _is_command(before: str) -> bool:
    return before.startswith("/") and "\n" not in before


def _ranked(typed: str, choices: Sequence[Choice]) -> list[Completion]:
    """Those that begin with what is typed, then those that hold it, then those whose help does."""
    wanted = typed.lower()
    ranks = [
        (0 if value.lower().startswith(wanted) else 1 if wanted in value.lower() else 2, value, told)
        for value, told in choices
        if wanted in value.lower() or (wanted not in ("", "/") and wanted.lstrip("/") in told.lower())
    ]
    if typed.startswith("/"):  # a command is known by its name
        ranks = [rank for rank in ranks if rank[0] == 0] or ranks
    return [
        Completion(value, -len(typed), display=one_line(value), display_meta=one_line(told))
        for _, value, told in sorted(ranks, key=lambda rank: rank[0])
    ]


# -- paths -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A path that could be meant: as it is to be written (a folder's ends in `/`), and its last part to show."""

    path: str
    label: str


def find_paths(typed: str, folders: Sequence[Path]) -> list[Found]:
    """What could be meant in the folder that is being typed, not below it. Best first, 200 at the most.

    find_paths("docs/co", [Path.cwd()])  →  [Found("docs/confinement.md", "confinement.md"), …]

    Hidden files only once their dot is typed. A folder that can't be read counts as empty.
    """
    above, _, part = typed.rpartition("/")
    above = f"{above}/" if "/" in typed else ""
    if typed in ("~", ".", ".."):
        return [Found(f"{typed}/", f"{typed}/")]
    base = paths.expanded(above)
    found: dict[str, tuple[int, bool, str, Found]] = {}
    for folder in [base] if base.is_absolute() else [folder / base for folder in folders]:
        for name, is_folder in _listed(folder):
            rank = _rank(name, part)
            if rank is not None:
                path = f"{above}{name}{'/' * is_folder}"
                shown = Found(path, f"{name}{'/' * is_folder}")
                found.setdefault(path, (rank, name in _LAST, name.lower(), shown))
    return [shown for *_, shown in sorted(found.values(), key=lambda one: one[:3])[:_MAX_FOUND]]


def _listed(folder: Path) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as entries:
            return [(entry.name, _leads_to_folder(entry)) for entry in islice(entries, _MAX_SCANNED)]
    except (OSError, ValueError):
        return []


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir() if not entry.is_symlink() else stat.S_ISDIR(entry.stat().st_mode)
    except OSError:
        return False


def _rank(name: str, part: str) -> int | None:
    """0: the name begins with `part`; 1: it does, apart from case; 2: it holds it. None: it isn't meant."""
    if name.startswith(".") and not part.startswith("."):
        return None
    if name.startswith(part):
        return 0
    if name.lower().startswith(part.lower()):
        return 1
    return 2 if len(part) > 1 and part.lower() in name.lower() else None


def _as_mentions(typed: str, length: int, folders: Sequence[Path]) -> list[Completion]:
    if typed.lower().startswith(("http:", "https:")):
        return []
    pairs = ((found, written(found.path, closed=not found.path.endswith("/"))) for found in find_paths(typed, folders))
    return [Completion(text, -length, display=found.label) for found, text in pairs if text is not None]


def _as_arguments(typed: str, folders: Sequence[Path]) -> list[Completion]:
    """Paths behind a command: for all that is typed, or for the words at its end (`/docs add my fol`)."""
    starts = [0, *(found.end() for found in islice(re.finditer(" +", typed), _MAX_WORDS))]
    for start in starts:
        found = find_paths(typed[start:], folders)
        if found:
            kept = (one for one in found if one.path.isprintable())
            return [Completion(one.path, start - len(typed), display=one.label) for one in kept]
    return []


def _as_words(before: str, folders: Sequence[Path]) -> list[Completion]:
    """Paths in a command line, quoted for a shell."""
    import shlex

    typed = before[1:].replace("\n", " ").rpartition(" ")[2]
    return [
        Completion(shlex.quote(found.path) if found.path != typed else typed, -len(typed), display=found.label)
        for found in find_paths(typed, folders)
        if found.path.isprintable()
    ]


# -- the menu ----------------------------------------------------------------------------------------------------------


def menu_rows(state: CompletionState, max_rows: int) -> StyleAndTextTuples:
    """The choices around the selected one, a row each, with their help behind them; no wider than the screen.

    An arrow in front of the first or last row says that there are more.
    """
    columns = get_app().output.get_size().columns
    shown = _window(len(state.completions), state.complete_index, max_rows)
    labels = [clean(one_line(state.completions[index].display_text)) for index in shown]
    width = min(max(map(get_cwidth, labels), default=0), max(8, columns // 2))
    rows: StyleAndTextTuples = []
    for index, label in zip(shown, labels, strict=True):
        chosen = index == state.complete_index
        told = clean(one_line(state.completions[index].display_meta_text))
        name = fitted(label, width)
        text = fitted(told, columns - width - 6)
        rows += [("", "\n")] if rows else []
        more = "↑" if index == shown[0] > 0 else "↓" if index == shown[-1] < len(state.completions) - 1 else " "
        rows += [("bold", f"› {name}")] if chosen else [("dim", more), ("", f" {name}")]
        rows += [("", " " * (width - get_cwidth(name) + 2)), ("dim", text)] if text else []
    return rows


def _window(count: int, selected: int | None, max_rows: int) -> range:
    start = max(0, min((selected or 0) - max_rows // 2, count - max_rows))
    return range(start, min(count, start + max_rows))


def fitted(text: str, columns: int) -> str:
    """The text, cut with an ellipsis if wider than `columns`, as counted by prompt_toolkit, which draws it."""
    if get_cwidth(text) <= columns:
        return text
    text = text[: 4 * max(0, columns)]
    while text and get_cwidth(text) > columns - 1:
        text = text[:-1]
    return f"{text}…" if columns > 0 else ""
