"""Footnotes as lines: `[1] Capy — facts — http://a.test/capy (lines 9–11)`, with a terminal's hyperlink on it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ossia.agent.citations import Footnote
from ossia.cli.clean import clean, clean_url, one_line

_MAX_TITLE_CHARS = 160


def lines(notes: Iterable[Footnote], *, links: bool) -> list[str]:
    """One line for each footnote, safe for a terminal. `links`: the terminal takes OSC 8 hyperlinks."""
    return [_line(note, links=links) for note in notes]


def _line(note: Footnote, *, links: bool) -> str:
    cursor = f"cursor {note.cursor}"
    if note.problem == "no such page":
        return f"[{note.number}] unverified: no such page ({cursor})"
    title = _shown(note.title)
    parts = [title if len(title) <= _MAX_TITLE_CHARS else title[: _MAX_TITLE_CHARS - 1] + "…"]
    if note.url.startswith(("http://", "https://")):
        target, shown = clean_url(note.url) if links else None, _shown(note.url)
        parts.append(f"\x1b]8;;{target}\x1b\\{shown}\x1b]8;;\x1b\\" if target else shown)
    elif not note.url:
        parts = [f"search: {parts[0]}"]
    elif Path(note.url).is_absolute():  # a file of the local library
        parts.append(_shown(note.url))
    text = " — ".join(part for part in parts if part) or cursor
    where = ""
    if note.first_line is not None:
        same = note.first_line == note.last_line
        where = f" (line {note.first_line})" if same else f" (lines {note.first_line}–{note.last_line})"
    doubt = f" unverified: {note.problem}" if note.problem else ""
    return f"[{note.number}] {text}{where}{doubt}"


def _shown(text: str) -> str:
    return one_line(clean(text))
