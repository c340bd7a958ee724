"""The session of a run or a chat: opened or resumed, with its options."""

from __future__ import annotations

import datetime
import os
import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ossia.agent.conversation import OpenSession
from ossia.agent.engine.base import Sampling
from ossia.agent.errors import AgentError
from ossia.agent.prompt import WORK
from ossia.agent.sessions.session import Options, Session
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.exits import MAX_TEXT_BYTES, ExitError, require_size
from ossia.cli.settings.config import BY_SKILL, Resolved
from ossia.cli.settings.table import SAMPLING, Settings
from ossia.tools.folder import NOTES_HEAD, Folder
from ossia.tools.safe_files import real_name
from ossia.tools.spec import Taint

ELSEWHERE = "no session was begun in this folder: this is the last of all"
"""Noted where `--continue` found none."""


@dataclass(frozen=True, slots=True)
class Resume:
    """`--continue` and `--resume ID|TEXT` of the command line."""

    latest: bool = False
    ref: str | None = None


def open_session(
    resolved: Resolved, folder: Folder | None, *, resume: Resume, save: bool | None = None, here: Path | None = None
) -> OpenSession:
    """A new session, or the older one that `resume` names. Raises where that one can't be loaded.

    `save`: store a new one; None: unless the settings say private. `here`: the folder that a new one is begun in; None:
    this process's. A store that can't be used stops nobody from talking: the session is then not stored, and `problem`
    says why.
    """
    if resume.latest or resume.ref is not None:
        return _older(resolved, folder, resume)
    session = Session(fresh_options(resolved, folder))
    if not (save if save is not None else not resolved.settings.private):
        return OpenSession(session)
    try:
        store = session_store()
        kept = store.keep(session, workspace=_root(folder), folder=str(here or paths.here()))
        return OpenSession(session, store, kept)
    except AgentError as error:
        return OpenSession(session, problem=f"the session is not stored: {error}")


def stores_always(settings: Settings) -> bool:
    """True if the settings say that answers of `ossia run` and `ossia serve` are stored without --save."""
    return settings.store == "always" and not settings.private


def moved_from(stored: str | None, folder: Folder | None, *, chat: bool = False) -> str:
    """The warning that a session was begun in the workspace `stored` and goes on without it; else "".

    A workspace is what the model may read and change: it isn't opened again because a session once had it.
    """
    here = str(folder.workspace.root) if folder else None
    if stored is None or stored == here:
        return ""
    now = f"works in {here} now" if here else "has no workspace now"
    way = f"/tools workspace {stored}" if chat else f"--workspace {shlex.quote(stored)}"
    return f"this session worked in {stored} and {now}: {f'{way} opens it' if Path(stored).is_dir() else 'it is gone'}"


def session_store() -> SessionStore:
    """The store of the user's sessions, for the caller to close."""
    return SessionStore(paths.sessions_file(), now=time.time)


def _older(resolved: Resolved, folder: Folder | None, resume: Resume) -> OpenSession:
    store = session_store()
    own = store.latest(folder=_root(folder) or str(paths.here())) if resume.ref is None else store.find(resume.ref)
    info = own or store.latest()
    if info is None:
        raise ExitError("--continue: no session is stored yet")
    private = resolved.settings.private
    session = store.load(info.id) if private else store.resume(info.id)
    session.options = resumed_options(session.options, resolved, folder)
    worked_in = None if resolved.settings.no_tools else info.workspace
    opened = OpenSession(session, resumed=True, worked_in=worked_in, title=info.title, elsewhere=own is None)
    if not private:
        opened.store, opened.session_id = store, info.id
    return opened


def _root(folder: Folder | None) -> str | None:
    return str(folder.workspace.root) if folder else None


def sampling_of(settings: Settings) -> Sampling:
    """The sampling of a new session."""
    return Sampling(**{key: getattr(settings, key) for key in SAMPLING})


def fresh_options(resolved: Resolved, folder: Folder | None) -> Options:
    """The options of a new session, by the settings. Raises ExitError for instructions that can't be read.

    In a workspace those of the user replace the built-in ones; a trusted folder's AGENTS.md stands behind either.
    """
    settings, notes = resolved.settings, _notes(folder)
    whole = _joined(read_instructions(settings.instructions) or (WORK if folder else None), notes)
    today = datetime.date.today().isoformat()
    sampling, taints = sampling_of(settings), _taints(folder)
    return Options(settings.effort, whole, today, sampling=sampling, taints=taints, planning=settings.plan)


def resumed_options(stored: Options, resolved: Resolved, folder: Folder | None) -> Options:
    """The options of a stored session, overridden by what the command line says.

    Its date stays: it is the date on which the conversation began. Its instructions follow the workspace.
    """
    fresh, stored = fresh_options(resolved, folder), following(stored, folder)
    given = {key for key, origin in resolved.origins.items() if origin.startswith(("--", BY_SKILL))}
    drawn = {key: getattr(fresh.sampling, key) for key in SAMPLING if key in given}
    return replace(
        stored,
        effort=fresh.effort if "effort" in given else stored.effort,
        instructions=fresh.instructions if "instructions" in given else stored.instructions,
        sampling=replace(stored.sampling, **drawn),
        planning=stored.planning or fresh.planning,
    )


def following(options: Options, folder: Folder | None) -> Options:
    """The options in this workspace, or without one: the user's instructions stay, the rest of them follows it."""
    own = own_instructions(options.instructions)
    instructions = _joined(own or (WORK if folder else None), _notes(folder))
    return replace(options, instructions=instructions, taints=options.taints | _taints(folder))


def own_instructions(whole: str | None) -> str:
    """The user's own part of instructions, without a workspace's."""
    own = f"\n\n{whole or ''}".partition(f"\n\n{NOTES_HEAD}")[0].removeprefix("\n\n")
    return "" if own == WORK else own


def read_instructions(value: str | None) -> str | None:
    """The text itself; for `@FILE`, the text of the file. Raises ExitError, also for a link out of this folder."""
    if value is None or not value.startswith("@"):
        return value
    from ossia.cli.attach.local import leads

    path, here = Path(value[1:]), paths.here()
    place = Path(os.path.normpath(here / path))
    try:
        with path.open(encoding="utf-8") as file:
            real = Path(real_name(file.fileno()) or path.resolve())
            if place.is_relative_to(here) and real != place and (why := leads(place, real, here)):
                raise ExitError(f"--instructions {value}: {why}: name that file itself")
            require_size(f"--instructions {value}", os.fstat(file.fileno()).st_size)
            text = file.read(MAX_TEXT_BYTES + 1)
            require_size(f"--instructions {value}", len(text), more=True)  # what grows, or has no size
            return text
    except UnicodeDecodeError:
        raise ExitError(f"--instructions {value}: {path} isn't UTF-8 text") from None
    except OSError as error:
        raise ExitError(f"--instructions {value}: can't read {path}: {error.strerror}") from None


def _notes(folder: Folder | None) -> str:
    return (folder.notes if folder else None) or ""


def _taints(folder: Folder | None) -> frozenset[Taint]:
    return folder.workspace.taints if folder and folder.notes else frozenset()


def _joined(*parts: str | None) -> str | None:
    return "\n\n".join(part for part in parts if part) or None
