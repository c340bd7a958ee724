"""A session as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ossia.agent.citations import Footnote
from ossia.agent.sessions.session import Entry, Session
from ossia.agent.sessions.store import SessionInfo
from ossia.cli.export.parts import Part, replaced_parts, title_and_facts, turns_of
from ossia.cli.footnotes import lines

_TICKS = re.compile("`+")
_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")


def to_markdown(session: Session, info: SessionInfo | None, *, thinking: bool, replaced: Sequence[Entry] = ()) -> str:
    """The conversation under headings; calls and results as fenced code."""
    title, facts = title_and_facts(session, info)
    blocks = [f"# {_plain(title)}", _plain(facts)]
    for turn in turns_of(session, thinking=thinking):
        blocks += [block for part in turn.parts for block in _blocks(part)]
        blocks += [f"*({turn.end})*"] if turn.end else []
    if replaced:
        blocks.append("# Replaced by a retry or an edit")
        blocks += [block for part in replaced_parts(replaced, thinking=thinking) for block in _blocks(part)]
    return "\n\n".join(blocks) + "\n"


def _blocks(part: Part) -> list[str]:
    blocks = [f"## {_plain(part.model or 'Assistant')}"] if part.first else []
    match part.kind:
        case "user":
            blocks += ["## You", part.text.strip("\n")]
        case "answer" | "preamble":
            blocks.append(part.text.strip("\n"))
        case "thinking":
            blocks += ["*Thinking:*", "\n".join(f"> {line}".rstrip() for line in part.text.splitlines())]
        case "call":
            blocks += [f"*Call of {_plain(part.name)}:*", _fenced(part.text, part.language)]
        case "result":
            blocks += [f"*{'Failed' if part.failed else 'Result'}:*", _fenced(part.text, "")]
        case "other":
            blocks += [f"*{_plain(part.name or 'Instructions')}:*", part.text.strip("\n")]
    blocks += [f"*File: {_plain(name)}*" for name in part.files]
    blocks += ["*(cut here)*"] if part.cut else []
    return [block for block in [*blocks, *_notes(part.notes)] if block]


def _notes(notes: Sequence[Footnote]) -> list[str]:
    return ["\n".join(f"- {_plain(line)}" for line in lines(notes, links=False))] if notes else []


def _fenced(text: str, language: str) -> str:
    """A fence that nothing in the text closes."""
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{text.rstrip(chr(10))}\n{ticks}"


def _plain(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it as it is."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))
