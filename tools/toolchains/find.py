"""The search for toolchains in the user's home: by PATH, by the workspace's environments and by a fixed table.

Whoever wrote the workspace wrote its `pyvenv.cfg` and its links, and an earlier command may have changed them: they
open a folder only where a manager keeps versions, or where the user's PATH has opened it already.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path

from ossia.tools.sandbox.job import Toolchains
from ossia.tools.sandbox.repository import setting_text
from ossia.tools.skills import OF_USER
from ossia.tools.toolchains import brought
from ossia.tools.toolchains.look import absolute, entries, head, names, real, text, within
from ossia.tools.toolchains.managers import CACHES, MARKS, PREFIXES, VENV_PARTS, Manager, bases
from ossia.tools.toolchains.places import READABLE, Places, closed_below
from ossia.tools.toolchains.summary import summary

_MAX_FOLDERS, _MAX_PROGRAMS = 64, 1000
_SHEBANG = re.compile(rb"#![ \t]*(/[^\s\0]+)")


def find_toolchains(
    root: Path, *, home: Path | None, environ: Mapping[str, str], data: Path, readable: Sequence[str] = ()
) -> Toolchains:
    """The toolchains that commands in the workspace `root` may see beside the system's. Runs and writes nothing.

    `data` is ossia's own folder, `readable` more folders that the user named, absolute. What can't be read is left out.

        find_toolchains(Path("/home/me/app"), home=Path("/home/me"), environ=os.environ, data=host.data).summary
        # "python 3.11 (.venv), node 20, cargo 1.95"
    """
    if home is None or real(home) == Path(real(home).anchor):
        return Toolchains()
    with suppress(OSError, ValueError):
        search = _Search(Places(root, home, environ, data))
        for step in (search.path, search.variables, search.workspace, search.caches, search.skills):
            with suppress(OSError, ValueError):
                step()
        for folder in readable:
            with suppress(OSError, ValueError):
                search.readable(folder)
        return search.found()
    return Toolchains()


class _Search:
    """The steps of one search; each shows more."""

    def __init__(self, shown: Places) -> None:
        self._shown = shown
        named = dict.fromkeys(shown.environ.get("PATH", "").split(os.pathsep))
        self._named = [entry for entry in named if entry][:_MAX_FOLDERS]
        folders = [shown.place(path) for entry in self._named if (path := absolute(entry))]
        self._folders = [folder for folder in folders if folder]
        self._interpreters: set[bytes] = set()

    def path(self) -> None:
        """Show the folders of PATH, what their programs lead to, and the managers that they belong to."""
        shown = self._shown
        for entry in self._named:
            path = absolute(entry)
            if path is None:
                shown.refuse(f"PATH names {entry}, which isn't an absolute folder")
                continue
            with suppress(OSError, ValueError):
                folder = shown.place(path)
                if folder and folder.is_dir() and self._is_of_home(path, folder):
                    self._add_folder(path, folder)
        for manager, base in shown.bases:
            if self._is_used(manager, base):
                for name in manager.chooses:
                    shown.show(real(base / name), manager.name)

    def variables(self) -> None:
        """Show the installations that the user's variables name."""
        for name in PREFIXES:
            path = absolute(self._shown.environ.get(name, ""))
            folder = path and self._shown.place(path)
            if path and folder and folder.is_dir() and self._is_of_home(path, folder):
                self._add_prefix(folder, name)

    def workspace(self) -> None:
        """Show what the workspace's environments and its files of versions lead to."""
        root = self._shown.root
        for folder in brought.environments(root):
            self._add_environment(folder, folder.relative_to(root).as_posix())
        for tool, version, file in brought.chosen(root):
            for one in self._shown.versions:
                keeps = [one.folder] if one.manager.tool == tool else []
                if one.depth > 1:
                    keeps = [one.folder / name for name in names(one.folder) if brought.TOOLS.get(name, name) == tool]
                for folder in keeps:
                    if (name := brought.matching(version, names(folder))) is not None:
                        self._shown.lead(folder / name, file, trusted=False)

    def caches(self) -> None:
        """Show the packages that tools have downloaded."""
        shown = self._shown
        for cache in CACHES:
            for base in bases(cache.base, cache.variable, shown.home, shown.environ):
                folder = shown.place(base / cache.name)
                if folder and folder.is_dir():
                    shown.show(folder, f"packages of {cache.tool}", cache=True)

    def skills(self) -> None:
        """Show the user's skills, whose scripts are run as any command is."""
        if folder := self._shown.place(self._shown.home / OF_USER):
            self._shown.show(folder, "your skills")

    def readable(self, folder: str) -> None:
        """Show a folder that the user named."""
        path = absolute(folder)
        place = path and self._shown.place(path)
        if path is None or place is None:
            self._shown.refuse(f"{READABLE} {folder}: must be a folder that exists outside of the workspace")
        elif why := self._shown.why_not(place):
            self._shown.refuse(f"{READABLE} {folder}: never shown, for {why}")
        elif self._shown.show(place, READABLE) and place != path:
            self._shown.link(path, READABLE)

    def found(self) -> Toolchains:
        """All that was found."""
        shown = self._shown
        return Toolchains(
            tuple(shown.outermost()),
            closed_below(shown),
            variables(shown),
            git_settings(shown.home, shown.environ),
            summary(shown, self._folders),
            tuple(shown.refused),
        )

    def _is_of_home(self, path: Path, folder: Path) -> bool:
        """True for a folder of the home, by its name or its real path, or of a manager elsewhere."""
        home = self._shown.home
        return within(folder, home) or within(path, home) or self._shown.installation(folder) is not None

    def _is_used(self, manager: Manager, base: Path) -> bool:
        return any(within(folder, base) for folder in self._folders) or any(
            os.path.lexists(folder / program) for folder in self._folders for program in manager.programs
        )

    def _add_folder(self, path: Path, folder: Path) -> None:
        """Show a folder of PATH, and what its programs lead to."""
        shown = self._shown
        if root := shown.installation(folder):
            shown.show(root, "PATH")
        elif folder.name in ("bin", "sbin"):
            self._add_prefix(folder.parent, "PATH")
        if not shown.show(folder, "PATH"):
            return shown.refuse(f"PATH names {path}: never shown, for {shown.why_not(folder)}")
        if folder != path:
            shown.link(path, "PATH")
        for entry in entries(folder, _MAX_PROGRAMS):
            with suppress(OSError, ValueError):
                program = Path(entry.path)
                if entry.is_symlink():
                    shown.lead(program, f"{path}/{entry.name}", trusted=True)
                elif (match := _SHEBANG.match(head(program, 200))) and match[1] not in self._interpreters:
                    self._interpreters.add(match[1])
                    shown.lead(Path(os.fsdecode(match[1])), f"{path}/{entry.name}", trusted=False)
        return None

    def _add_prefix(self, folder: Path, why: str) -> None:
        """Show an installation that the user named, if it looks like one; of an environment only its own parts."""
        shown = self._shown
        if shown.installation(folder):
            shown.show(folder, why)
        elif (folder / "pyvenv.cfg").is_file():
            for part in (real(folder / name) for name in VENV_PARTS):
                if within(part, folder):  # a project that is built there may make links
                    shown.show(part, why)
            shown.show_base(folder, why)
        elif any((folder / name).exists() for name in MARKS) and not within(shown.root, folder):
            shown.show(folder, why)

    def _add_environment(self, folder: Path, name: str) -> None:
        """Show the Python behind an environment of the workspace, or where a link in place of it leads."""
        shown = self._shown
        if not within(real(folder), shown.root):
            if not shown.lead(folder, name, trusted=False):
                self._refuse(name, f"is a link to {real(folder)}")
            return
        written = brought.settings(folder).get("home", "")
        base = brought.base_of(folder)
        if written and not (base and shown.lead(base, name, trusted=False)):
            self._refuse(f"{name}/pyvenv.cfg", f"names {written}")
        for link in brought.pythons(folder):
            if not shown.lead(link, name, trusted=False):
                self._refuse(f"{name}/bin/{link.name}", f"leads to {real(link)}")

    def _refuse(self, what: str, said: str) -> None:
        self._shown.refuse(f"{what} {said[:150]}, which commands can't see: --readable DIR shows it to them")


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
