"""The files and folders with secrets below what is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ossia.tools.approval.autorun import plain
from ossia.tools.approval.sensitive import SECRET
from ossia.tools.toolchains.look import entries, head, names
from ossia.tools.toolchains.places import Places

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
