"""A session as the parts for a reader, in order: the common ground of Markdown and HTML."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ossia.agent.citations import Cited, Footnote, cite, lookup_in
from ossia.agent.events import TurnEnd
from ossia.agent.kinds import Kind, kind_of
from ossia.agent.sessions.session import Entry, Session
from ossia.agent.sessions.store import SessionInfo, title_from
from ossia.cli.words import ENDS, count, when
from ossia.harmony.messages import COMMENTARY
from ossia.tools.present import present_of
from ossia.tools.python.tool import code_of
from ossia.tools.saying import saying
from ossia.tools.work.result import for_people


@dataclass(frozen=True, slots=True)
class Part:
    """One part. `text` is exact; an answer's citations are numbers in it, which stand for `notes`.

    `name` is a call's tool, `said` the call in words, `language` that of its arguments. `files`: the names of the files
    that it made. `first`: the model's first part after the user's. `model`: its name, if known.
    """

    kind: Kind
    text: str
    notes: tuple[Footnote, ...] = ()
    name: str = ""
    language: str = ""
    files: tuple[str, ...] = ()
    cut: bool = False
    failed: bool = False
    first: bool = False
    model: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class Shown:
    """A turn: its parts, and its end ("" for an answer)."""

    parts: tuple[Part, ...]
    end: str = ""


def turns_of(session: Session, *, thinking: bool) -> list[Shown]:
    """The turns of a session; `thinking`: with the analysis."""
    lookup = lookup_in(session.states)
    ends: dict[int, TurnEnd | None] = dict(enumerate(session.ends))
    entries: dict[int, list[Entry]] = {}
    for entry in session.entries:
        entries.setdefault(entry.turn, []).append(entry)
    return [
        Shown(tuple(_parts(said, lookup, thinking=thinking)), _end(ends.get(turn))) for turn, said in entries.items()
    ]


def replaced_parts(entries: Sequence[Entry], *, thinking: bool) -> tuple[Part, ...]:
    """The parts replaced by a retry or an edit."""
    lookup = lookup_in([entry.state for entry in entries if entry.state is not None])
    return tuple(_parts(entries, lookup, thinking=thinking))


def title_and_facts(session: Session, info: SessionInfo | None) -> tuple[str, str]:
    """The headline, and the line below it: `k7m2v9xq · 2026-11-22 02:27 · gpt-oss-20b · 3 turns`."""
    said = (entry.typed or entry.message.text for entry in session.entries if entry.message.role == "user")
    title = (info.title if info else title_from(said)) or "A conversation"
    facts = [info.id, when(info.created)] if info else []
    models = dict.fromkeys(entry.model for entry in session.entries if entry.model)
    facts += [", ".join(models)] if models else []
    return title, " · ".join([*facts, count(len(session.ends), "turn")])


def _parts(entries: Sequence[Entry], lookup: Callable[[int], Cited | None], *, thinking: bool) -> Iterator[Part]:
    first = True
    for entry in entries:
        kind = kind_of(entry.message)
        if kind == "thinking" and not thinking:
            continue
        opens = first and entry.message.role == "assistant"
        first = (first and not opens) or kind == "user"
        yield _part(entry, kind, lookup, first=opens)


def _part(entry: Entry, kind: Kind, lookup: Callable[[int], Cited | None], *, first: bool) -> Part:
    message = entry.message
    text, name, language, said = message.text, message.name or "", "", ""
    notes: tuple[Footnote, ...] = ()
    if kind == "call":
        name = message.recipient or ""
        said = saying(name, text)
        text, language = _arguments(name, text)
    elif kind == "result":
        text = for_people(text, name)
    elif kind == "answer":
        text, notes = cite(text, lookup)
    elif kind == "other" and message.role == "assistant":
        name = message.channel or COMMENTARY
    files = tuple(attached.path.name for attached in entry.attachments)
    return Part(kind, text, notes, name, language, files, entry.cut, entry.error, first, entry.model or "", said)


def _arguments(name: str, text: str) -> tuple[str, str]:
    """A call's arguments in their most readable form, and its language."""
    present = present_of(name)
    if present.argument == "":
        return code_of(text), present.language
    try:
        value = json.loads(text)
        shown = present.text(value)
        rest = {key: other for key, other in value.items() if key != present.argument} if shown is not None else {}
        if shown is not None and (present.is_command or not rest):
            return f"{shown}\n# {json.dumps(rest, ensure_ascii=False)}" if rest else shown, present.language
        return json.dumps(value, ensure_ascii=False, indent=2), "json"
    except (ValueError, RecursionError):
        return text, ""


def _end(end: TurnEnd | None) -> str:
    if end is None:
        return "not finished"
    return "" if end == "answered" else ENDS[end]
