"""A session as a text for others: Markdown and HTML to read, JSON to continue; and its file."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from ossia.agent.prompt import compose
from ossia.agent.sessions.json import dump_session
from ossia.agent.sessions.session import Entry, Session
from ossia.agent.sessions.store import SessionInfo
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.export.parts import Part, replaced_parts, title_and_facts, turns_of
from ossia.cli.footnotes import lines
from ossia.cli.paths import expanded
from ossia.harmony.chat_form import conversation_to_chat
from ossia.harmony.conversation import conversation_to_json
from ossia.harmony.messages import Message
from ossia.tools.files import write_whole

Form = Literal["md", "json", "html", "harmony", "chat"]
"""json: ours, without loss; harmony: openai-harmony's conversation; chat: the Chat API's."""
FORMS: tuple[Form, ...] = get_args(Form)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TICKS = re.compile("`+")
_MARKS = re.compile(r"([\\`*_\[\]<>#|~])")


def export(
    session: Session, info: SessionInfo | None, form: Form, thinking: bool = False, *, replaced: Sequence[Entry] = ()
) -> str:
    """The whole session in a form, with a newline at its end. `info` is None for a session that isn't stored.

    `thinking`: with the analysis; json and harmony always have it. `replaced`: entries replaced by a retry or an edit
    (md and html).

        export(session, store.find("k7m2v9xq"), "md")     # "# What is 48*17?\\n\\n…"
    """
    match form:
        case "md":
            return _SURROGATE.sub("\ufffd", to_markdown(session, info, thinking=thinking, replaced=replaced))
        case "html":
            from ossia.cli.export.html import to_html

            return _SURROGATE.sub("\ufffd", to_html(session, info, thinking=thinking, replaced=replaced))
        case "json":
            return _escaped(dump_session(session, title=info.title if info else ""))
        case "harmony":
            return _dumped(conversation_to_json(_whole(session)))
        case "chat":
            return _dumped(conversation_to_chat(_whole(session), thinking=thinking))


def _whole(session: Session) -> tuple[Message, ...]:
    """Every message, behind those for the model: effort, date, instructions."""
    return (*compose(replace(session.request(()), history=())), *session.messages)


def default_form(name: str) -> Form:
    """The form for a file's name: `notes.html` is html, `x.json` json, anything else md."""
    suffix = name.rpartition(".")[2].lower()
    return "html" if suffix in ("html", "htm") else "json" if suffix == "json" else "md"


def write_text(name: str, text: str) -> None:
    """Write a file for its owner only, whole or not at all. Raises ExitError."""
    try:
        write_whole(expanded(name), text)
    except OSError as error:
        raise ExitError(f"can't write {name}: {error.strerror}", ExitCode.FAILED) from None


def _dumped(data: object) -> str:
    return _escaped(json.dumps(data, ensure_ascii=False, indent=1))


def _escaped(text: str) -> str:
    r"""The JSON with lone surrogates, from file names in other encodings, written like `\udcff`."""
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


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
            blocks += [f"*{_plain(part.said)}* ({_plain(part.name)}):", _fenced(part.text, part.language)]
        case "result":
            blocks += [f"*{'Failed' if part.failed else 'Result'}:*", _fenced(part.text, "")]
        case "other":
            blocks += [f"*{_plain(part.name or 'Instructions')}:*", part.text.strip("\n")]
    blocks += [f"*File: {_plain(name)}*" for name in part.files]
    blocks += ["*(cut here)*"] if part.cut else []
    notes = "\n".join(f"- {_plain(line)}" for line in lines(part.notes, links=False))
    return [block for block in [*blocks, notes] if block]


def _fenced(text: str, language: str) -> str:
    """The text in a fence longer than any in it."""
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{text.rstrip(chr(10))}\n{ticks}"


def _plain(text: str) -> str:
    """The text on one line, escaped so that Markdown shows it as it is."""
    return _MARKS.sub(r"\\\1", " ".join(text.split()))
