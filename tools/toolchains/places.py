"""The places that commands may see of a home, gathered with the rules about what opens one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.approval.autorun import plain
from ossia.tools.approval.sensitive import IN_HOME, SECRET
from ossia.tools.own import way
from ossia.tools.sandbox.job import Place
from ossia.tools.sandbox.private import PRIVATE_FOLDERS, too_wide
from ossia.tools.toolchains import brought
from ossia.tools.toolchains.look import absolute, entries, head, is_below, names, real, within
from ossia.tools.toolchains.managers import MANAGERS, Manager, bases

_OSSIAS = (("XDG_CACHE_HOME", ".cache"), ("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share"),
           ("XDG_STATE_HOME", ".local/state"))  # fmt: skip
_MAX_PLACES, _MAX_REFUSED, _MAX_LINE = 200, 20, 300


@dataclass(frozen=True, slots=True)
class Versions:
    """A manager's folder of versions, a real path; each installation lies `depth` levels below."""

    manager: Manager
    folder: Path
    depth: int


class Places:
    """The places shown so far of `home` to commands in the workspace `root`; `data` is ossia's own.

    The keys of `places` are real paths. `secret`: never shown, and closed below what is.
    """

    def __init__(self, root: Path, home: Path, environ: Mapping[str, str], data: Path) -> None:
        self.root, self.home, self.data = real(root), real(home), real(data)
        self.environ = environ
        self.places: dict[Path, Place] = {}
        self._names: set[str] = set()  # of the places
        self.refused: dict[str, None] = {}
        self._links: dict[Path, str] = {}
        self._bases: set[Path] = set()  # of environments
        private = [self.home / name for name in IN_HOME]
        private += [(absolute(environ.get(name, "")) or self.home / usual) / "ossia" for name, usual in _OSSIAS]
        self.secret = {*private, *map(real, private)}
        self._private = {str(folder) for folder in (*map(real, PRIVATE_FOLDERS), self.home)}
        self.bases = [(manager, base) for manager in MANAGERS for base in self._bases_of(manager)]
        self.versions = [
            Versions(manager, folder, depth)
            for manager, base in self.bases
            for name, depth in manager.versions
            if (folder := real(base / name)).is_dir() and not self.why_not(folder)
        ]

    def _bases_of(self, manager: Manager) -> Iterator[Path]:
        for base in dict.fromkeys(bases(manager.base, manager.variable, self.home, self.environ)):
            with suppress(OSError, ValueError):
                place = self.place(base)
                if place and place.is_dir() and not within(self.home, place):
                    yield place

    def place(self, path: Path | str) -> Path | None:
        """The real path of what the user named; None in the workspace, or by a link there: a command may write that."""
        found = list(way(Path(path)))
        return None if not found or any(within(hop, self.root) for hop in found) else real(path)

    # -- the rules ---------------------------------------------------------------------------------------------------

    def is_visible(self, path: Path) -> bool:
        """True for a real path that a command sees anyway: the workspace's and the system's."""
        return within(path, self.root) or not is_below(path, self._private)

    def is_inside(self, path: Path) -> bool:
        """True for a path below a place."""
        return is_below(path.parent, self._names)

    def is_shown(self, path: Path) -> bool:
        """True for a place, and below one; by a real path."""
        return is_below(path, self._names)

    def why_not(self, path: Path) -> str:
        """The reason why a real path is never shown, in words for people; "": it may be."""
        if within(self.home, path):
            return "it is the home, or holds it"
        if within(self.data, path) or within(path, self.data):
            return "it is ossia's own data, or holds it"
        if not self.secret.isdisjoint((path, *path.parents)) or SECRET.search(f"{plain(str(path))}/"):
            return "secrets are kept there"
        return "" if within(path, self.home) else too_wide(path, self.home)

    def installation(self, path: Path) -> Path | None:
        """The installation that a real path belongs to, if that lies in a manager's folder of versions."""
        for one in self.versions:
            if within(path, one.folder):
                below = path.relative_to(one.folder).parts
                if len(below) >= one.depth and "".join(below).startswith(one.manager.begins):
                    return one.folder.joinpath(*below[: one.depth])
        return None

    # -- showing -----------------------------------------------------------------------------------------------------

    def show(self, path: Path, why: str, *, cache: bool = False) -> bool:
        """Show a real path. False: it may not be shown. The system's and the workspace's own are visible anyway."""
        if self.is_visible(path) or self.is_shown(path):
            return True
        if len(self.places) >= _MAX_PLACES or not path.exists() or self.why_not(path):
            return False
        self.places[path] = Place(path, why, cache)
        self._names.add(str(path))
        if not cache:
            self.show_base(path, why)
        return True

    def show_base(self, environment: Path, why: str) -> None:
        """Show the Python behind an installation that is a virtual environment: a tool of uv or pipx is one."""
        base = brought.base_of(environment)
        if base and base not in self._bases:
            self._bases.add(base)
            self.lead(base, why, trusted=False)

    def lead(self, path: Path, why: str, *, trusted: bool) -> bool:
        """Show what a path leads to, and the links on its way. False: it opens nothing.

        `trusted`: the user's own PATH led there. Otherwise it was somebody's text, and no single file is shown.
        """
        target = real(path)
        if self.is_visible(target):
            return True
        hops = list(way(path))
        if trusted and any(within(hop, self.root) for hop in hops):
            return False  # a command may have written that link
        if not self.is_shown(target):
            place = self.installation(target)
            if place is None and trusted and _is_program(target) and not SECRET.search(plain(str(target))):
                place = target
            if place is None or not self.show(place, why):
                return False
        for hop in hops:
            if hop != target and (trusted or self.installation(hop)):
                self.link(hop, why)
        return True

    def link(self, path: Path, why: str) -> None:
        """Show a link, if it lies out of sight and leads to what is shown."""
        if not self.is_inside(path):
            self._links.setdefault(path, why)

    def refuse(self, line: str) -> None:
        """Note what isn't shown, and why."""
        if len(self.refused) < _MAX_REFUSED:
            self.refused.setdefault("".join(char if char.isprintable() else "?" for char in line[:_MAX_LINE]))

    def outermost(self) -> list[Place]:
        """All places and links, without those inside another place, except for caches."""
        useful = [path for path in self._links if not self.is_visible(path) and self.is_shown(real(path))]
        links = [Place(path, self._links[path]) for path in useful if path not in self.places]
        found = [place for place in (*self.places.values(), *links) if place.cache or not self.is_inside(place.path)]
        return sorted(found, key=lambda place: place.path)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


READABLE = "--readable"
_MAX_LOOKED_AT = 1000
_CERTIFICATES = re.compile(r"(?:ca|cert)[^/]*\.pem$")
_SETTINGS = ("pip.conf", "etc/pip.conf", "etc/npmrc", ".condarc", "condarc", "config.toml", "config", "go.env")
"""Of an installation or a manager: closed if they hold a password."""
_PASSWORD = re.compile(rb"://[^/\s]*@|_auth|passw|token|secret", re.IGNORECASE)


def closed_below(shown: Places) -> tuple[Path, ...]:
    """The unreadable parts of the places: the usual secrets of a home, and what bears such a name near their top."""
    found = {secret for secret in shown.secret if shown.is_shown(secret) and os.path.lexists(secret)}
    versions = {one.folder for one in shown.versions}
    for place in shown.places.values():
        found.update(_secrets_below(shown, place.path, 2 if place.why == READABLE else 1))
        below = [place.path / name for name in names(place.path)] if place.path in versions else []
        for folder in (place.path, *below):
            found.update(path for name in _SETTINGS if _holds_password(path := folder / name))
        if place.path.name in _SETTINGS and _holds_password(place.path):
            found.add(place.path)
    return tuple(sorted(found))


def _holds_password(path: Path) -> bool:
    return bool(_PASSWORD.search(head(path, 1 << 16)))


def _secrets_below(shown: Places, folder: Path, depth: int) -> Iterator[Path]:
    for entry in entries(folder, _MAX_LOOKED_AT):
        path = plain(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        if Path(entry.path) == shown.root or entry.name in _SETTINGS:
            continue
        if (SECRET.search(path) or (is_folder and SECRET.search(f"{path}/"))) and not _CERTIFICATES.search(path):
            yield Path(entry.path)
        elif is_folder and depth > 1:
            yield from _secrets_below(shown, Path(entry.path), depth - 1)
