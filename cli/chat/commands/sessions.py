"""/new, /sessions, /resume, /search, /title, /fork, /save, /export, /private: conversations, stored and as files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.conversation import OpenSession
from ossia.agent.errors import SessionMissing, SessionUnclear
from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionInfo, SessionStore
from ossia.cli import paths
from ossia.cli.chat.commands.common import Block, Choice, CommandError, must_be, no_argument, path_of, turn_of
from ossia.cli.chat.welcome import recall, still_planning
from ossia.cli.export.forms import Form, default_form, export, write_text
from ossia.cli.runtime.session import following, fresh_options, moved_from, session_store
from ossia.cli.terminal.question import Question
from ossia.cli.words import count, moment, titled

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
_SHOWN = 15
_MAX_SHOWN = 200


def new(talk: Chat, face: Face, argument: str) -> None:
    """`/new`: a new conversation with the same settings and tools."""
    no_argument(argument, "send the text as the first line of the new conversation")
    before = talk.opened
    session = Session(fresh_options(talk.resolved, talk.folder))
    session_id = _keep(talk, talk.store, session) if talk.store else None
    talk.switch(OpenSession(session, talk.store, session_id))
    talk.conversation.forget_variables()
    back = f" · /resume {before.session_id} goes back" if before.session_id and before.session.entries else ""
    face.note(f"new conversation{back}")


def sessions(talk: Chat, face: Face, argument: str) -> None:
    """`/sessions [N]`: the stored sessions, the last used first."""
    if argument and not (argument.isdecimal() and int(argument)):
        must_be("the number of sessions to list", argument, "/search TEXT finds one")
    with _reading(talk) as store:
        found = store.list(limit=min(int(argument or _SHOWN), _MAX_SHOWN))
    return _show(talk, face, "Sessions", found) if found else face.note("no stored sessions yet")


def _show(talk: Chat, face: Face, head: str, found: Sequence[SessionInfo]) -> None:
    block = Block(face, head)
    facts = [(moment(info.updated), count(info.turns, "turn")) for info in found]
    wide = [max(map(len, column)) for column in zip(*facts, strict=True)]
    for info, (when, turns) in zip(found, facts, strict=True):
        mark = "›" if info.id == talk.opened.session_id else " "
        block.row(f"{mark} {info.id}  {when:>{wide[0]}}  {turns:>{wide[1]}}  {titled(info)}")
    block.row("  /resume ID continues one, /search TEXT finds one", "dim")
    block.show()


def resume(talk: Chat, face: Face, argument: str) -> None:
    """`/resume [ID|TEXT]`: continue a stored session; alone: list them."""
    if not argument:
        return sessions(talk, face, "")
    with _reading(talk) as store:
        try:
            info = store.find(argument)
        except SessionUnclear as error:
            return _show(talk, face, str(error), error.found[:_MAX_SHOWN])
        if info.id == talk.opened.session_id:
            raise CommandError(f"you are already in {info.id}: /sessions lists the others")
        session = store.resume(info.id) if talk.store else store.load(info.id)
    session_id = info.id if talk.store else None
    session.options = following(session.options, talk.folder)
    talk.switch(OpenSession(session, talk.store, session_id, resumed=True))
    talk.conversation.forget_variables()
    face.note(f"{session_id or 'not stored'}: {info.title}")
    if moved := moved_from(info.workspace, talk.folder, chat=True):
        face.note(moved, "yellow")
    still_planning(talk, face)
    return recall(talk, face)


def search(talk: Chat, face: Face, argument: str) -> None:
    """`/search TEXT`: the stored sessions with this text."""
    if not argument:
        raise CommandError("needs words to look for, as in /search llamas")
    with _reading(talk) as store:
        hits = store.search(argument, limit=_SHOWN)
    if not hits:
        return face.note(f"no stored session contains {argument!r}")
    block = Block(face, f"Sessions with {argument!r}")
    for hit in hits:
        more = f" · {count(hit.matches, 'message')}" if hit.matches > 1 else ""
        block.row(f"  {hit.info.id}  {moment(hit.info.updated):>10}  {titled(hit.info)}{more}")
        if hit.kind != "title":
            block.row(f"            {hit.kind}: {hit.snippet}", "dim")
    block.row("  /resume ID continues one", "dim")
    return block.show()


def title(talk: Chat, face: Face, argument: str) -> None:
    """`/title [TEXT]`: set this conversation's title; alone: show it."""
    store, session_id = _stored(talk)
    if not talk.session.entries:
        raise CommandError("nothing has been said yet: the title can be set after the first turn")
    if argument:
        store.rename(session_id, argument)
    face.note(f"{session_id} is called {store.find(session_id).title!r}")


def fork(talk: Chat, face: Face, argument: str) -> None:
    """`/fork [TURN]`: a copy of this session up to TURN."""
    store, session_id = _stored(talk)
    turns = turn_of(talk, argument) + 1
    fewer = turns < len(talk.session.ends)
    forked = store.fork(session_id, turns=turns)
    talk.switch(OpenSession(store.resume(forked), store, forked, resumed=True))
    if fewer:
        recall(talk, face, 1)
    face.note(f"this is now {forked}, a copy of {count(turns, 'turn')} · /resume {session_id} goes back")


def private(talk: Chat, face: Face, argument: str) -> None:
    """`/private [off]`: store nothing from now on; off: store the conversation again."""
    if argument == "off":
        return _store_again(talk, face)
    if argument not in ("", "on"):
        must_be("off, or nothing", argument)
    if talk.store is None:
        return face.note("this chat isn't stored: /private off stores it")
    opened, entries = talk.opened, talk.session.entries
    talk.store.release(talk.session)
    talk.store.close()
    before = (opened.session_id, entries) if opened.session_id and entries else None
    talk.store_as(OpenSession(opened.session, resumed=opened.resumed, before=before), private=True)
    said = f"; what was said so far stays stored: `ossia sessions rm {opened.session_id}` deletes it" if before else ""
    return face.note(f"private: nothing is stored from now on{said}")


def stored_sessions(talk: Chat, prefix: str) -> Sequence[Choice]:
    """Completions of `/resume`."""
    with _reading(talk) as store:
        return [(info.id, f"{moment(info.updated)} · {titled(info)}") for info in store.list(limit=50)]


# -- a session as a file -----------------------------------------------------------------------------------------------


def save(talk: Chat, face: Face, argument: str) -> None:
    """`/save FILE`: write md, html or json, by FILE's suffix."""
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
    """Completions of `/export`; None: paths."""
    return None if " " in prefix else FORMS


def _form_by(path: Path) -> Form:
    """The format behind a file's suffix; Markdown without one."""
    if path.suffix.lower() not in ("", ".md", ".markdown", ".txt", ".html", ".htm", ".json"):
        must_be("a name that ends in .md, .html or .json", path.name)
    return default_form(path.name)


def _write(talk: Chat, face: Face, path: Path, form: Form, *, thinking: bool) -> None:
    if not talk.session.entries:
        raise CommandError("nothing has been said yet")
    to_file(talk, face, path, lambda: _write_now(talk, face, path, form, thinking=thinking))


def to_file(talk: Chat, face: Face, path: Path, write: Callable[[], None]) -> None:
    """Call `write`, after a question if the file exists. Raises CommandError if it can't be one."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder: give it a file name")
    if not path.parent.is_dir():
        raise CommandError(f"folder {path.parent} doesn't exist")
    if not path.exists():
        return write()
    if talk.control is not None:
        raise CommandError(f"{path} already exists: use another name, or try again after this turn")
    return talk.ask(
        Question(f"Overwrite {path}?", "it already exists", keys=(("y", "overwrite"), ("n", "keep it"))),
        lambda key: write() if key == "y" else face.note("not saved"),
    )


def _write_now(talk: Chat, face: Face, path: Path, form: Form, *, thinking: bool) -> None:
    write_text(str(path), export(talk.session, _info(talk), form, thinking))
    more = " with its thinking" if thinking or form in ("json", "harmony") else ""
    face.note(f"saved{more}: {path.absolute()}")


def _info(talk: Chat) -> SessionInfo | None:
    """The stored facts of the session; None for a private one."""
    if talk.store is None or talk.opened.session_id is None:
        return None
    try:
        return talk.store.find(talk.opened.session_id)
    except SessionMissing:
        return None


def _name_of(talk: Chat, form: Form) -> str:
    """`what-is-48-17.md`, from the title or the first line; `-2` and so on if that file exists."""
    info = _info(talk)
    users = (entry for entry in talk.session.entries if entry.message.role == "user")
    first = next(((entry.typed or entry.message.text) for entry in users), "")
    words = re.findall(r"[^\W_]+", (info.title if info else first).lower())
    stem, suffix = "-".join(words)[:48].strip("-") or "conversation", form if form in ("md", "html") else "json"
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.{suffix}" for number in range(1, 1000))
    return next(name for name in names if not Path(name).exists())


# -- within ------------------------------------------------------------------------------------------------------------


def _keep(talk: Chat, store: SessionStore, session: Session) -> str:
    workspace = str(talk.folder.workspace.root) if talk.folder else None
    return store.keep(session, workspace=workspace, folder=str(paths.here()))


def _stored(talk: Chat) -> tuple[SessionStore, str]:
    if talk.store is None or talk.opened.session_id is None:
        raise CommandError("this chat isn't stored: /private off stores it")
    return talk.store, talk.opened.session_id


def _reading(talk: Chat) -> AbstractContextManager[SessionStore]:
    """The chat's store, or for a private chat one to read from."""
    return nullcontext(talk.store) if talk.store else closing(session_store())


def _store_again(talk: Chat, face: Face) -> None:
    """Store the conversation again; private turns only with the user's consent."""
    if talk.store is not None:
        return face.note(f"this chat is already stored, as {talk.opened.session_id}")
    before, entries = talk.opened.before, talk.session.entries
    if before and before[1] == entries:
        store = session_store()
        try:
            stored = store.resume(before[0])
        except SessionMissing:  # removed meanwhile: it is stored anew, with the user's consent
            store.close()
        else:
            stored.options = talk.session.options
            return _store_in(talk, face, OpenSession(stored, store, before[0], resumed=True))
    if not entries:
        return _store_all(talk, face)
    turns = count(len(talk.session.ends), "turn")
    talk.ask(
        Question(
            "Store this whole conversation, including what was said in private?",
            f"it has {turns}, and can only be stored as a whole",
            keys=(("y", "store it"), ("n", "keep it private")),
        ),
        lambda key: _store_all(talk, face) if key == "y" else face.note("it stays private"),
    )
    return None


def _store_all(talk: Chat, face: Face) -> None:
    store = session_store()
    session_id = _keep(talk, store, talk.session)
    _store_in(talk, face, OpenSession(talk.session, store, session_id, resumed=talk.opened.resumed))


def _store_in(talk: Chat, face: Face, opened: OpenSession) -> None:
    talk.store_as(opened, private=False)
    face.note(f"stored from now on, as {opened.session_id}")
