"""A session as a text for others: Markdown and HTML to read, JSON to go on with; and the file that this goes into."""

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
from ossia.cli.paths import expanded
from ossia.harmony.chat_writer import conversation_to_chat
from ossia.harmony.conversation import conversation_to_json
from ossia.harmony.messages import Message
from ossia.tools.files import write_whole

Form = Literal["md", "json", "html", "harmony", "chat"]
"""json: ours, without loss; harmony: openai-harmony's conversation; chat: the Chat API's."""

FORMS: tuple[Form, ...] = get_args(Form)
_SURROGATE = re.compile("[\ud800-\udfff]")


def export(
    session: Session, info: SessionInfo | None, form: Form, thinking: bool = False, *, replaced: Sequence[Entry] = ()
) -> str:
    """The whole session in a form, with a newline at its end. `info` is None for a session that isn't stored.

    `thinking`: with the analysis; json and harmony always have it, since nobody could go on without. `replaced`: what
    a retry or an edit replaced (md and html).

        export(session, store.find("k7m2v9xq"), "md")     # "# What is 48*17?\\n\\n…"
    """
    match form:
        case "md":
            from ossia.cli.export.markdown import to_markdown

            return _encodable(to_markdown(session, info, thinking=thinking, replaced=replaced))
        case "html":
            from ossia.cli.export.html import to_html

            return _encodable(to_html(session, info, thinking=thinking, replaced=replaced))
        case "json":
            return _escaped(dump_session(session, title=info.title if info else ""))
        case "harmony":
            return _dumped(conversation_to_json(_whole(session)))
        case "chat":
            return _dumped(conversation_to_chat(_whole(session), thinking=thinking))


def _whole(session: Session) -> tuple[Message, ...]:
    """Every message, and before them what the model was told: effort, date, instructions."""
    told = compose(replace(session.request(()), history=()))
    return (*told, *session.messages)


def default_form(name: str) -> Form:
    """The form that a file's name asks for: `notes.html` is html, `x.json` json, anything else md."""
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
    r"""JSON that can be encoded: lone surrogates, from file names that aren't UTF-8, are written like `\udcff`."""
    return _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def _encodable(text: str) -> str:
    return _SURROGATE.sub("\ufffd", text)
