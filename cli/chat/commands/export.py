"""/save, /export: the conversation as a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.errors import SessionMissing
from ossia.agent.sessions.store import SessionInfo
from ossia.cli.chat.commands.common import Choice, CommandError, must_be, path_of
from ossia.cli.export.forms import Form, default_form, export, write_text
from ossia.cli.terminal.question import Question

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

FORMS: Sequence[Choice] = (
    ("md", "Markdown, to read"),
    ("html", "a web page, to read"),
    ("json", "everything, to continue later: ossia sessions import"),
    ("harmony", "a conversation as openai-harmony writes it"),
    ("chat", "Chat API messages"),
)


def save(talk: Chat, face: Face, argument: str) -> None:
    """`/save FILE`: as md, html or json, by the suffix of the name."""
    if not argument:
        raise CommandError("needs a file name: /save talk.md (or .html, .json)")
    path = path_of(argument)
    _write(talk, face, path, _form_by(path), thinking=False)


def export_(talk: Chat, face: Face, argument: str) -> None:
    """`/export [FORMAT] [FILE] [thinking]`: FORMAT by FILE's suffix, else md; FILE in the current folder."""
    words = argument.split(" ") if argument else []
    thinking = bool(words) and words[-1] == "thinking"
    words = words[:-1] if thinking else words
    known = {name for name, _ in FORMS}
    form: Form | None = words.pop(0) if words and words[0] in known else None  # type: ignore[assignment]
    name = " ".join(words).strip()
    if name and "." not in name and form is None:
        must_be(f"{', '.join(sorted(known))} or a file name", name)
    path = path_of(name) if name else Path(_name_of(talk, form or "md"))
    _write(talk, face, path, form or _form_by(path), thinking=thinking)


def forms(talk: Chat, prefix: str) -> Sequence[Choice] | None:
    """What `/export` can be completed with; None: paths."""
    return None if " " in prefix else FORMS


# -- within ------------------------------------------------------------------------------------------------------------


def _form_by(path: Path) -> Form:
    """The format that the name asks for; a name without a suffix, or with one for text, asks for Markdown."""
    if path.suffix.lower() not in ("", ".md", ".markdown", ".txt", ".html", ".htm", ".json"):
        must_be("a name that ends in .md, .html or .json", path.name)
    return default_form(path.name)


def _write(talk: Chat, face: Face, path: Path, form: Form, *, thinking: bool) -> None:
    if not talk.session.entries:
        raise CommandError("nothing has been said yet")
    if path.is_dir():
        raise CommandError(f"{path} is a folder: give it a file name")
    if not path.parent.is_dir():
        raise CommandError(f"folder {path.parent} doesn't exist")
    if not path.exists():
        return _write_now(talk, face, path, form, thinking=thinking)
    if talk.control is not None:
        raise CommandError(f"{path} already exists: use another name, or try again after this turn")
    return talk.ask(
        Question(f"Overwrite {path}?", "it already exists", keys=(("y", "overwrite"), ("n", "keep it"))),
        lambda key: _write_now(talk, face, path, form, thinking=thinking) if key == "y" else face.note("not saved"),
    )


def _write_now(talk: Chat, face: Face, path: Path, form: Form, *, thinking: bool) -> None:
    write_text(str(path), export(talk.session, _info(talk), form, thinking))
    told = " with its thinking" if thinking or form in ("json", "harmony") else ""
    face.note(f"saved{told}: {path.absolute()}")


def _info(talk: Chat) -> SessionInfo | None:
    """What the store knows of the session; None for one that isn't stored."""
    if talk.store is None or talk.opened.session_id is None:
        return None
    try:
        return talk.store.find(talk.opened.session_id)
    except SessionMissing:
        return None


def _name_of(talk: Chat, form: Form) -> str:
    """`what-is-48-17.md`, from the title or the first line; with the next free number where that file exists."""
    info = _info(talk)
    users = (entry for entry in talk.session.entries if entry.message.role == "user")
    first = next(((entry.typed or entry.message.text) for entry in users), "")
    words = re.findall(r"[^\W_]+", (info.title if info else first).lower())
    stem, suffix = "-".join(words)[:48].strip("-") or "conversation", form if form in ("md", "html") else "json"
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.{suffix}" for number in range(1, 1000))
    return next(name for name in names if not Path(name).exists())
