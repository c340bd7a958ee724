"""The environment in which programs find their toolchains, and git's settings: their home is an empty folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from ossia.tools.sandbox.repository import setting_text
from ossia.tools.toolchains.look import absolute, real, text, within
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


_SHOWN = ("user.name", "user.email", "core.autocrlf", "core.eol", "init.defaultbranch", "pull.rebase", "push.default",
          "merge.conflictstyle", "commit.cleanup")  # fmt: skip
_HEADER = re.compile(r"\[[ \t]*([\w.-]+)[ \t]*\]")
_SETTING = re.compile(r"([A-Za-z][\w-]*)[ \t]*=[ \t]*(.*)")
_VALUE = re.compile(r'(?:"((?:[^"\\]|\\["\\])*)"|([^"\\#;]*))[ \t]*(?:[#;].*)?')
_MAX_BYTES, _MAX_CHARS = 1 << 18, 200


def git_settings(home: Path, environ: Mapping[str, str]) -> str:
    """The text of a `.gitconfig` with those of the user's: `[user]\\n\\tname = "Ada"\\n`. Nothing included is read."""
    folder = absolute(environ.get("XDG_CONFIG_HOME", "")) or home / ".config"
    found: dict[str, str] = {}
    for file in (folder / "git" / "config", home / ".gitconfig"):
        found.update(_settings(text(real(file), _MAX_BYTES)))
    return "".join(setting_text(key, found[key]) for key in _SHOWN if key in found)


def _settings(content: str) -> Iterator[tuple[str, str]]:
    """Each setting on one line, in a section without a part in quotes."""
    section = ""
    for line in (line.strip() for line in content.split("\n")):
        if line.startswith("["):
            header = _HEADER.match(line)
            section = header[1].lower() if header else ""
            line = line[header.end() :].strip() if header else ""
        setting = _SETTING.fullmatch(line)
        value = setting and _VALUE.fullmatch(setting[2])
        if section and setting and value:
            said = value[2].strip() if value[1] is None else value[1].replace('\\"', '"').replace("\\\\", "\\")
            if said.isprintable() and len(said) <= _MAX_CHARS:
                yield f"{section}.{setting[1].lower()}", said
