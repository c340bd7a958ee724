"""The view of a job: hidden, read-only and shown parts of the machine and the workspace, and the programs in PATH."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.approval.sensitive import IN_HOME
from ossia.tools.own import outermost, way
from ossia.tools.sandbox.job import Job

Sees = Callable[[Path], bool]
"""True for a real path with content readable to a job."""

GUARDED = (".git", ".ossia")
"""At the top of a workspace these are read-only: hooks and settings in them would run later, as the user."""
PRIVATE_FOLDERS = ("/home", "/root", "/Users", "/tmp", "/run", "/var", "/mnt", "/media", "/lost+found", "/boot", "/efi",
                    "/etc/ssl/private", "/etc/sudoers.d", "/etc/wireguard", "/etc/NetworkManager/system-connections",
                    "/etc/ppp", "/etc/cups", "/etc/docker", "/etc/kubernetes", "/etc/letsencrypt",
                    "/etc/openvpn")  # fmt: skip
"""Empty inside. A plain user can't read most of those in /etc anyway, but root can."""
_PRIVATE_FILES = ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "security/opasswd", "krb5.keytab", "crypttab",
                  "mysql/debian.cnf")  # fmt: skip
PUBLIC_STATE = ("/var/lib/texmf", "/var/lib/dpkg", "/var/cache/fontconfig", "/var/lib/ghc", "/var/lib/flatpak",
                "/var/lib/ca-certificates")  # fmt: skip
"""Visible parts of /var: programs read them."""
_RESOLVER = Path("/etc/resolv.conf")
_HIDDEN_IN_HOME = (*IN_HOME, ".config", ".local/share", ".local/state", ".cache", "Library")
"""Hidden if the workspace is the home folder itself."""


def private_folders(job: Job) -> list[Path]:
    """Folders outside the workspace, empty for a command: real paths, none below another."""
    wanted = [*map(Path, PRIVATE_FOLDERS), *([job.home] if job.home else []), *job.hidden]
    found = {real for path in wanted if (real := path.resolve()).is_dir() and real != Path("/")}
    return outermost(path for path in found if not path.is_relative_to(job.folder))


def command_sees(job: Job, hidden: Iterable[Path], opened: Iterable[Path]) -> Sees:
    """A command's view of a machine without its `hidden` folders, but for what is `opened` in them: by real path."""
    covered, unseen = under(hidden), under(private_in_workspace(job))
    workspace, public = under([job.folder]), under([*PUBLIC_STATE, *opened])
    return lambda path: not unseen(path) if workspace(path) else public(path) or not covered(path)


def private_files() -> list[Path]:
    """Files of /etc, empty for a command."""
    keys = Path("/etc/ssh").glob("ssh_host_*_key") if Path("/etc/ssh").is_dir() else ()
    named = (Path("/etc", name) for name in _PRIVATE_FILES)
    return sorted({path for path in (*named, *keys) if path.is_file() and not path.is_symlink()})


def on_the_way(job: Job) -> list[Path]:
    """The folders between the workspace and the parts of ossia in it, outer ones first."""
    found = {above for path in job.own for above in path.parents if above != job.folder}
    return sorted(above for above in found if above.is_relative_to(job.folder))


def private_in_workspace(job: Job) -> list[Path]:
    """Hidden parts of the workspace itself: our own data; secrets, if it is the home folder."""
    secrets = [job.folder / name for name in _HIDDEN_IN_HOME] if job.home and job.home.resolve() == job.folder else []
    inside = {path.resolve() for path in (*job.hidden, *secrets) if path.exists() and not path.is_symlink()}
    return outermost(path for path in inside if path.is_relative_to(job.folder) and path != job.folder)


def too_wide(root: Path, home: Path | None) -> str:
    """Why a folder can't be a workspace for commands; empty if it can."""
    system = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/run", "/sbin", "/sys", "/usr",
              "/var", "/home", "/Users", "/System", "/Library")  # fmt: skip
    if str(root) in system or any(root.is_relative_to(top) for top in ("/proc", "/sys", "/dev")):
        return f"{root} belongs to the system"
    if home is not None and home.resolve() != root and home.resolve().is_relative_to(root):
        return f"{root} holds whole home folders"
    return ""


# -- the user's toolchains: which of the places are shown, and how far -------------------------------------------------


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
    closed = {spelled for path in tools.closed for spelled in (_real(path.parent) / path.name, _real(path))}
    kept_out, ways = under([*job.hidden, job.folder, *closed]), _ways_to([*hidden, *_protected(job)])
    real = {
        place.path: place.cache
        for place in tools.places
        if place.path == _real(place.path) and os.access(place.path, os.R_OK)
        and not kept_out(place.path) and place.path not in ways and not too_wide(place.path, None)
    }  # fmt: skip
    resolver = [_RESOLVER] if job.network and _RESOLVER.is_file() else []
    links = {link for path in (*(place.path for place in tools.places), *resolver) for link in way(path)}
    places = outermost([*real, *map(_real, resolver)])
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
    """The folders, or the entries of one on the way to something `apart`: links and the `apart` ones among them."""
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
    """The further limits of places, as real paths: no place is one of them or holds one."""
    own = (job.folder, job.scratch, *job.hidden, *([job.home] if job.home else []))
    return [*map(_real, own), *private_files()]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # links in a circle, which a command can make, are no error


# -- PATH: folders whose programs a job can start ----------------------------------------------------------------------


def under(places: Iterable[Path | str]) -> Sees:
    """Sees these places and all below them."""
    real = {Path(os.path.realpath(place)) for place in places}
    return lambda path: path in real or not real.isdisjoint(path.parents)


def usable(folders: Iterable[Path | str], sees: Sees) -> list[Path]:
    """The folders that the job sees and may enter, each once, by its real name: a link to it may lie out of sight.

    Empty and relative entries mean the folder a shell happens to be in, so they are left out.
    """
    real = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders if Path(folder).is_absolute())
    return [folder for folder in real if sees(folder) and os.access(folder, os.X_OK) and _is_open(folder)]


def _is_open(folder: Path) -> bool:
    """Root, too, is held by modes inside."""
    mode = folder.stat().st_mode
    return stat.S_ISDIR(mode) and bool(mode & 0o111)


def uncover(folders: Sequence[Path], sees: Sees, into: Path) -> list[Path]:
    """The folders, with `into` before them if a program in one hides behind a link in an earlier one.

    Where a job may look at what it can't start (Landlock), a shell takes `/usr/local/bin/python3`, a link into a home,
    for the program, and says "Permission denied" instead of going on to `/usr/bin/python3`.
    """
    taken: set[str] = set()
    hiding: set[str] = set()
    for folder in folders:
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError:  # searchable, but not readable
            continue
        for entry in entries:
            if entry.name in taken:
                continue
            if entry.is_symlink() and not sees(Path(os.path.realpath(entry.path))):
                hiding.add(entry.name)
                continue
            taken.add(entry.name)
            if entry.name in hiding:
                into.mkdir(parents=True, exist_ok=True)
                (into / entry.name).symlink_to(entry.path)
    return [into, *folders] if into.exists() else list(folders)
