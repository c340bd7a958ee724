"""The environment in which programs find their toolchains: their home is an empty folder."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

from ossia.tools.toolchains.look import absolute, real, within
from ossia.tools.toolchains.managers import CACHES, PREFIXES, bases
from ossia.tools.toolchains.places import Places


def variables(shown: Places) -> dict[str, str]:
    """Names of folders that are shown, or hold such a place: `{"RUSTUP_HOME": "/home/me/.rustup"}`; the system's, too.

    Those of a cache that its tool must write (uv's, pip's, npm's) only where the user has set them.
    """
    found: dict[str, str] = {}
    above = {folder for place in shown.places for folder in (place, *place.parents)} - {*shown.home.parents, shown.home}
    for name, base in _wanted(shown, above):
        folder = real(base)
        if name not in found and (folder in above or _may_be_named(shown, folder)):
            found[name] = str(folder)
    return found | _of_java(shown)


def _wanted(shown: Places, above: Set[Path]) -> Iterator[tuple[str, Path]]:
    for name in (*PREFIXES, "GOPATH", "RUSTUP_HOME", "CARGO_HOME"):
        if named := absolute(shown.environ.get(name, "")):
            yield name, named
    for manager, base in shown.bases:
        parts = [real(base / name) for name in (*(name for name, _ in manager.versions), *manager.chooses)]
        if manager.variable and not above.isdisjoint(parts):
            yield manager.variable, base
    for cache in CACHES:
        if cache.variable and (cache.tells or cache.variable in shown.environ):
            for base in bases(cache.base, cache.variable, shown.home, shown.environ):
                yield cache.variable, base


def _may_be_named(shown: Places, folder: Path) -> bool:
    if within(shown.home, folder):
        return False
    return folder.is_dir() if shown.is_visible(folder) else shown.is_shown(folder)


def _of_java(shown: Places) -> dict[str, str]:
    """Java asks the system where the user's home is, and so do Maven and Gradle."""
    caches = {place.why: str(place.path) for place in shown.places.values() if place.cache}
    maven, gradle = caches.get("packages of maven", " "), caches.get("packages of gradle")
    return {
        **({} if " " in maven else {"MAVEN_OPTS": f"-Dmaven.repo.local={maven}"}),
        **({"GRADLE_RO_DEP_CACHE": gradle} if gradle else {}),
    }
