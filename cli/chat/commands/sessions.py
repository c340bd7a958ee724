"""/new, /sessions, /resume, /search, /title, /fork, /private: which conversation this is, and where it is stored."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from ossia.agent.conversation import OpenSession
from ossia.agent.errors import SessionMissing
from ossia.agent.sessions.session import Session
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.chat.commands.common import Block, Choice, CommandError, must_be, no_argument, turn_of
from ossia.cli.chat.welcome import recall, still_planning
from ossia.cli.runtime.session import moved_from
from ossia.cli.terminal.question import Question
from ossia.cli.words import count

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

_SHOWN = 15
_MAX_SHOWN = 200


def new(talk: Chat, face: Face, argument: str) -> None:
    """`/new`: a conversation without what was said before; settings and tools stay as they are."""
    from ossia.cli.runtime.session import fresh_options

    no_argument(argument, "send the text as the first line of the new conversation")
    before = talk.opened
    session = Session(fresh_options(talk.resolved, talk.folder))
    workspace = str(talk.folder.workspace.root) if talk.folder else None
    session_id = talk.store.keep(session, workspace=workspace) if talk.store else None
    talk.switch(OpenSession(session, talk.store, session_id))
    back = f" · /resume {before.session_id} goes back" if before.session_id and before.session.entries else ""
    face.note(f"new conversation{back}")


def sessions(talk: Chat, face: Face, argument: str) -> None:
    """`/sessions [N]`: the stored ones, the last used first."""
    if argument and not (argument.isdecimal() and int(argument)):
        must_be("the number of sessions to list", argument, "/search TEXT finds one")
    shown = min(int(argument or _SHOWN), _MAX_SHOWN)
    with _reading(talk) as store:
        found = store.list(limit=shown)
    if not found:
        return face.note("no stored sessions yet")
    block = Block(face, "Sessions")
    facts = [(_when(info.updated), count(info.turns, "turn")) for info in found]
    wide = [max(map(len, column)) for column in zip(*facts, strict=True)]
    for info, (when, turns) in zip(found, facts, strict=True):
        mark = "›" if info.id == talk.opened.session_id else " "
        block.row(f"{mark} {info.id}  {when:>{wide[0]}}  {turns:>{wide[1]}}  {info.title}")
    block.row("  /resume ID continues one, /search TEXT finds one", "dim")
    return block.show()


def resume(talk: Chat, face: Face, argument: str) -> None:
    """`/resume [ID|TEXT]`: go on with a stored one; alone it lists them."""
    from ossia.cli.runtime.session import following

    if not argument:
        return sessions(talk, face, "")
    with _reading(talk) as store:
        info = store.find(argument)
        if info.id == talk.opened.session_id:
            raise CommandError(f"you are already in {info.id}: /sessions lists the others")
        session = store.resume(info.id) if talk.store else store.load(info.id)
    session_id = info.id if talk.store else None
    session.options = following(session.options, talk.folder)
    talk.switch(OpenSession(session, talk.store, session_id, resumed=True))
    face.note(f"{session_id or 'not stored'}: {info.title}")
    if moved := moved_from(info.workspace, talk.folder, chat=True):
        face.note(moved, "yellow")
    still_planning(talk, face)
    return recall(talk, face)


def search(talk: Chat, face: Face, argument: str) -> None:
    """`/search TEXT`: the stored sessions in which something was said."""
    if not argument:
        raise CommandError("needs words to look for, as in /search llamas")
    with _reading(talk) as store:
        hits = store.search(argument, limit=_SHOWN)
    if not hits:
        return face.note(f"no stored session contains {argument!r}")
    block = Block(face, f"Sessions with {argument!r}")
    for hit in hits:
        more = f" · {count(hit.matches, 'message')}" if hit.matches > 1 else ""
        block.row(f"  {hit.info.id}  {_when(hit.info.updated):>10}  {hit.info.title}{more}")
        if hit.kind != "title":
            block.row(f"            {hit.kind}: {hit.snippet}", "dim")
    block.row("  /resume ID continues one", "dim")
    return block.show()


def title(talk: Chat, face: Face, argument: str) -> None:
    """`/title [TEXT]`: give this conversation a title; alone it tells the title."""
    store, session_id = _stored(talk)
    if not talk.session.entries:
        raise CommandError("nothing has been said yet: the title can be set after the first turn")
    if argument:
        store.rename(session_id, argument)
    face.note(f"{session_id} is called {store.find(session_id).title!r}")


def fork(talk: Chat, face: Face, argument: str) -> None:
    """`/fork [TURN]`: a new session with the turns up to this one; the old one stays as it is."""
    store, session_id = _stored(talk)
    turns = turn_of(talk, argument) + 1
    fewer = turns < len(talk.session.ends)
    forked = store.fork(session_id, turns=turns)
    talk.switch(OpenSession(store.resume(forked), store, forked, resumed=True))
    if fewer:
        recall(talk, face, 1)
    face.note(f"this is now {forked}, a copy of {count(turns, 'turn')} · /resume {session_id} goes back")


def private(talk: Chat, face: Face, argument: str) -> None:
    """`/private [off]`: from now on nothing is stored; off: the conversation is stored again."""
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
    """What `/resume` can be completed with."""
    with _reading(talk) as store:
        return [(info.id, f"{_when(info.updated)} · {info.title}") for info in store.list(limit=50)]


# -- within ------------------------------------------------------------------------------------------------------------


def _stored(talk: Chat) -> tuple[SessionStore, str]:
    if talk.store is None or talk.opened.session_id is None:
        raise CommandError("this chat isn't stored: /private off stores it")
    return talk.store, talk.opened.session_id


@contextmanager
def _reading(talk: Chat) -> Iterator[SessionStore]:
    """The chat's store; for a chat that isn't stored, one that is opened only to look things up."""
    if talk.store:
        yield talk.store
        return
    store = SessionStore(paths.sessions_file(), now=time.time)
    try:
        yield store
    finally:
        store.close()


def _store_again(talk: Chat, face: Face) -> None:
    """Store the conversation again. What was said in private is stored with it only if the user says so."""
    if talk.store is not None:
        return face.note(f"this chat is already stored, as {talk.opened.session_id}")
    before, entries = talk.opened.before, talk.session.entries
    if before and before[1] == entries:
        store = SessionStore(paths.sessions_file(), now=time.time)
        try:
            again = store.resume(before[0])
        except SessionMissing:  # removed meanwhile: it is stored anew, if the user says so
            store.close()
        else:
            again.options = talk.session.options
            return _stored_from_now(talk, face, OpenSession(again, store, before[0], resumed=True))
    if not entries:
        return _keep_all(talk, face)
    turns = count(len(talk.session.ends), "turn")
    talk.ask(
        Question(
            "Store this whole conversation, including what was said in private?",
            f"it has {turns}, and can only be stored as a whole",
            keys=(("y", "store it"), ("n", "keep it private")),
        ),
        lambda key: _keep_all(talk, face) if key == "y" else face.note("it stays private"),
    )
    return None


def _keep_all(talk: Chat, face: Face) -> None:
    store = SessionStore(paths.sessions_file(), now=time.time)
    workspace = str(talk.folder.workspace.root) if talk.folder else None
    session_id = store.keep(talk.session, workspace=workspace)
    _stored_from_now(talk, face, OpenSession(talk.session, store, session_id, resumed=talk.opened.resumed))


def _stored_from_now(talk: Chat, face: Face, opened: OpenSession) -> None:
    talk.store_as(opened, private=False)
    face.note(f"stored from now on, as {opened.session_id}")


def _when(seconds: float) -> str:
    """`14:02` today, `Nov 20` this year, `2024-03-01` before."""
    then, now = datetime.fromtimestamp(seconds), datetime.now()
    if then.date() == now.date():
        return f"{then:%H:%M}"
    return f"{then:%b} {then.day}" if then.year == now.year else f"{then:%Y-%m-%d}"
