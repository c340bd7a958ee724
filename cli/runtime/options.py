"""How a conversation is answered: by the settings, and for a stored one by its own options."""

from __future__ import annotations

import datetime
import os
from dataclasses import replace
from pathlib import Path

from ossia.agent.engine.base import Sampling
from ossia.agent.prompt import WORK
from ossia.agent.sessions.session import Options
from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import SAMPLING
from ossia.tools.folder import NOTES_HEAD, Folder
from ossia.tools.safe_files import real_name
from ossia.tools.spec import Taint


def fresh_options(resolved: Resolved, folder: Folder | None) -> Options:
    """How a new session is answered, by the settings. Raises ExitError for instructions that can't be read.

    In a workspace those of the user take the place of ours, and a trusted folder's AGENTS.md stands behind either.
    """
    settings, notes = resolved.settings, _notes(folder)
    whole = _joined(read_instructions(settings.instructions) or (WORK if folder else None), notes)
    today = datetime.date.today().isoformat()
    sampling = Sampling(**{key: getattr(settings, key) for key in SAMPLING})
    return Options(
        settings.effort, whole, today, sampling=sampling, taints=_taints(folder), planning=settings.plan
    )


def resumed_options(stored: Options, resolved: Resolved, folder: Folder | None) -> Options:
    """The options of a stored session, overridden by what the command line says.

    Its date stays: it is the date on which the conversation began. Its instructions follow the workspace.
    """
    fresh, stored = fresh_options(resolved, folder), following(stored, folder)
    given = {key for key, origin in resolved.origins.items() if origin.startswith("--")}
    drawn = {key: getattr(fresh.sampling, key) for key in SAMPLING if key in given}
    return replace(
        stored,
        effort=fresh.effort if "effort" in given else stored.effort,
        instructions=fresh.instructions if "instructions" in given else stored.instructions,
        sampling=replace(stored.sampling, **drawn),
        planning=stored.planning or fresh.planning,
    )


def following(options: Options, folder: Folder | None) -> Options:
    """The options in this workspace, or in none: the user's instructions stay, ours and the notes follow it."""
    own = own_instructions(options.instructions)
    instructions = _joined(own or (WORK if folder else None), _notes(folder))
    return replace(options, instructions=instructions, taints=options.taints | _taints(folder))


def own_instructions(whole: str | None) -> str:
    """The user's own part of instructions: without what a workspace adds to them."""
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
            return file.read()
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
