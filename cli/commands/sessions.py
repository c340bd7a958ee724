"""`ossia sessions`: the stored sessions, listed, read, searched, carried elsewhere."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ossia.cli import paths
from ossia.cli.commands import Json, exit_error, group, read_text
from ossia.cli.streams import say, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ossia.agent.sessions.session import Entry, Session
    from ossia.agent.sessions.store import SessionInfo, SessionStore

VERSION = 1
"""The version of what `--json` prints."""

app = group(
    """Manage stored conversations: list, show, search, export.

    A chat stores its session as it goes, unless it is --private; `ossia run` stores one with --save. To continue one:
    ossia --continue, ossia --resume ID.
    """
)

Ref = Annotated[str, typer.Argument(metavar="ID|TEXT", help="Its id, the beginning of its id, or part of its title.")]
Thinking = Annotated[bool, typer.Option("--thinking", help="Include the thinking.")]


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="At most N sessions; 0: all.")] = 20,
    json: Json = False,
) -> None:
    """Print the sessions, the latest first: id, time, turns, title."""
    with opened_sessions() as store:
        infos = store.list(limit=limit or None)
    if json:
        _print_json({"sessions": [asdict(info) for info in infos]})
        return
    if not infos:
        say("no session is stored yet; a chat stores its own: start one with ossia")
        return
    print(f"{'ID':<8}  {'LAST USED':<16}  {'TURNS':>5}  TITLE")
    for info in infos:
        print(shown(row_of(info)))


@app.command()
def show(
    ref: Ref,
    thinking: Thinking = False,
    all_: Annotated[bool, typer.Option("--all", help="Include what a retry or an edit replaced.")] = False,
) -> None:
    """Print a session as Markdown."""
    from ossia.cli.export.forms import export

    session, info, replaced = _stored(ref, replaced=all_)
    print(shown(export(session, info, "md", thinking, replaced=replaced)), end="")


@app.command()
def search(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words or parts of words; all must be in one message.")],
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="At most N sessions.")] = 20,
    thinking: Annotated[bool, typer.Option("--thinking", help="Search the thinking, too.")] = False,
    json: Json = False,
) -> None:
    """Search the messages and titles of all sessions. Prints the best match of each."""
    from ossia.cli.clean import one_line
    from ossia.cli.words import titled, when

    with opened_sessions() as store:
        hits = store.search(text, limit=limit, thinking=thinking)
    if json:
        found = [{**asdict(hit.info), "kind": hit.kind, "snippet": hit.snippet, "matches": hit.matches} for hit in hits]
        _print_json({"query": text, "results": found})
        return
    if not hits:
        say("nothing found")
    for hit in hits:
        print(f"{hit.info.id:<8}  {when(hit.info.updated):<16}  {shown(titled(hit.info))}")
        more = f"  (+{hit.matches - 1})" if hit.matches > 1 else ""
        print(f"          {hit.kind}: {shown(one_line(hit.snippet))}{more}")


@app.command()
def export(
    ref: Ref,
    form: Annotated[
        Literal["md", "json", "html", "harmony", "chat"] | None,
        typer.Option(help="json: all of it; harmony: openai-harmony's; chat: the Chat API's. [default: by FILE, md]"),
    ] = None,
    thinking: Annotated[
        bool, typer.Option("--thinking", help="Include the thinking (json and harmony always do).")
    ] = False,
    output: Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Write to a file.")] = None,
) -> None:
    """Export a session: to stdout, or to a file that only you can read."""
    from ossia.cli.export.forms import default_form, write_text
    from ossia.cli.export.forms import export as exported

    session, info, _ = _stored(ref)
    text = exported(session, info, form or default_form(output or ""), thinking)
    if output is None:
        print(shown(text), end="")
    else:
        write_text(output, text)


@app.command("import")
def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON of ossia, openai-harmony or a chat; -: stdin.")],
    trust: Annotated[
        bool, typer.Option("--trust", help="Treat it as your own: keep its tokens, and what it marks as typed.")
    ] = False,
) -> None:
    """Store a conversation from a file as a new session. Prints its id.

    Without --trust, all of it counts as somebody else's text: calls that send or write then need approval.
    """
    from ossia.agent.sessions.json import import_session

    session, title = import_session(read_text(file), trusted=trust)
    with opened_sessions() as store:
        session_id = store.keep(session, title=title)
        if store.problem:
            raise exit_error(store.problem, "FAILED")
        _print_one(store.find(session_id))


@app.command()
def rm(refs: Annotated[list[str], typer.Argument(metavar="ID...", help="As `list` prints them.")]) -> None:
    """Remove sessions for good. Files written by the model's code stay."""
    from ossia.agent.kv_cache import delete_session_cache
    from ossia.cli.clean import one_line

    with opened_sessions() as store:
        infos = [_by_id(store, ref) for ref in refs]
        store.remove(*(info.id for info in infos))
    for info in infos:
        delete_session_cache(paths.host().kv, info.id)
        print(shown(one_line(f"removed {info.id}  {info.title}")))


@app.command()
def fork(
    ref: Ref,
    turn: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the first N turns. [default: all]")] = None,
) -> None:
    """Copy a session, to continue it differently. Prints the copy's id."""
    from ossia.cli.words import count

    with opened_sessions() as store:
        info = store.find(ref)
        if turn is not None and turn > info.turns:
            raise exit_error(f"--turn {turn}: session {info.id} has {count(info.turns, 'turn')}")
        _print_one(store.find(store.fork(info.id, turns=turn)))


def row_of(info: SessionInfo) -> str:
    """`k7m2v9xq  2026-11-22 18:00      2  What is 48*17?`: a session in a list, unclean."""
    from ossia.cli.words import titled, when

    return f"{info.id:<8}  {when(info.updated):<16}  {info.turns:>5}  {titled(info)}"


def choice_of(info: SessionInfo) -> str:
    """The same, with its workspace."""
    from ossia.cli.clean import one_line

    return row_of(info) + (f"  (in {one_line(info.workspace)})" if info.workspace else "")


def _print_json(found: Mapping[str, object]) -> None:
    from ossia.cli.words import json_line

    print(json_line({"version": VERSION, **found}))


def _print_one(info: SessionInfo) -> None:
    """Print the id on stdout, for scripts, and the title on stderr."""
    from ossia.cli.clean import one_line

    print(info.id)
    say(f"{one_line(info.title)}; continue it with: ossia --resume {info.id}")


def _stored(ref: str, *, replaced: bool = False) -> tuple[Session, SessionInfo, Sequence[Entry]]:
    """A session, its facts, and what was `replaced` in it; one of `ossia eval`, too, which the list leaves out."""
    from ossia.agent.errors import SessionMissing, SessionUnclear

    with opened_sessions() as own, opened_sessions(evaluated=True) as tasks:
        store = own
        for holder in (tasks, own):
            with suppress(SessionMissing):
                with suppress(SessionUnclear):
                    holder.find(ref)
                store = holder
        info = store.find(ref)
        return store.load(info.id), info, store.replaced(info.id) if replaced else ()


@contextmanager
def opened_sessions(*, evaluated: bool = False) -> Iterator[SessionStore]:
    """The store, closed in the end; `evaluated`: that of `ossia eval`."""
    from ossia.agent.sessions.store import SessionStore

    store = SessionStore(paths.eval_sessions_file() if evaluated else paths.sessions_file(), now=time.time)
    try:
        yield store
    finally:
        store.close()


def _by_id(store: SessionStore, ref: str) -> SessionInfo:
    """The session with this id, never one found by its title: a text that is in a title by chance removes nothing."""
    info = store.find(ref)
    if not info.id.startswith(ref.strip().lower()):
        raise exit_error(f"rm: needs an id: {ref!r} is only part of the title of {info.id}")
    return info
