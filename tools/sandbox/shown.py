"""The user's toolchains in a command's view: which of the places named for it are shown, and how far."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.own import outermost, way
from ossia.tools.sandbox.job import Job
from ossia.tools.sandbox.private import private_files, private_folders, too_wide, under

_RESOLVER = Path("/etc/resolv.conf")


@dataclass(frozen=True, slots=True)
class Shown:
    """The places as they are at the start of a command. All paths are real ones, but for the links' targets.

    `hidden`: the folders that are empty but for what is shown (`private_folders`). `places`: none is below another.
    `whole`: the readable parts of them, with all below each. `closed` stays unreadable. `links`: path and target.
    `caches`: the folders among the places that tools write to.
    """

    hidden: tuple[Path, ...] = ()
    places: tuple[Path, ...] = ()
    whole: tuple[Path, ...] = ()
    closed: tuple[Path, ...] = ()
    links: tuple[tuple[Path, Path], ...] = ()
    caches: tuple[Path, ...] = ()


def shown(job: Job) -> Shown:
    """The toolchains that a command sees; with network, the settings of the system's resolver, too.

    A place counts only by its real path, so one that became a link since it was found opens nothing new. None is shown
    that holds, or lies in, something that the job must not see. Of a folder with something closed the other entries are
    shown one by one: nothing that appears there later is seen, not even a file that replaces the closed one.
    """
    tools, hidden = job.toolchains, private_folders(job)
    if not tools.places and not job.network:
        return Shown(tuple(hidden))
    closed = {spelled for path in tools.closed for spelled in (path.parent.resolve() / path.name, path.resolve())}
    kept_out, ways = under([*job.hidden, job.folder, *closed]), _ways_to([*hidden, *_protected(job)])
    real = {
        place.path: place.cache
        for place in tools.places
        if place.path == place.path.resolve() and os.access(place.path, os.R_OK)
        and not kept_out(place.path) and place.path not in ways and not too_wide(place.path, job.home)
    }  # fmt: skip
    resolver = [_RESOLVER] if job.network and _RESOLVER.is_file() else []
    links = {link for path in (*(place.path for place in tools.places), *resolver) for link in way(path)}
    places = outermost([*real, *(path.resolve() for path in resolver)])
    whole: list[Path] = []
    for path in one_by_one(places, closed):
        if path.is_symlink():
            links.add(path)
        elif path not in closed and (path.is_dir() or path.is_file()):
            whole.append(path)
    here = under([*whole, job.folder])
    return Shown(
        tuple(hidden),
        tuple(places),
        tuple(whole),
        tuple(sorted(closed)),
        tuple((link, link.readlink()) for link in sorted(links) if link.is_symlink() and not here(link)),
        tuple(path for path, cache in real.items() if cache and path.is_dir() and here(path)),
    )


def one_by_one(folders: Sequence[Path], apart: Collection[Path]) -> Iterator[Path]:
    """The folders; but of one on the way to something `apart` its entries, with links and what is `apart` itself."""
    ways = _ways_to(apart) - set(apart)
    found = list(folders)
    for path in found:  # the list grows meanwhile
        if path not in ways or path.is_symlink():
            yield path
            continue
        with suppress(NotADirectoryError, PermissionError):  # where we can't look, a job can't either
            found.extend(sorted(path.iterdir()))


def _ways_to(paths: Iterable[Path]) -> set[Path]:
    """The paths and all folders above them."""
    return {way for path in paths for way in (path, *path.parents)}


def _protected(job: Job) -> list[Path]:
    """The other folders and files that no place may be or hold, as real paths."""
    own = (job.folder, job.scratch, *job.hidden, *([job.home] if job.home else []))
    return [*(path.resolve() for path in own), *private_files()]
