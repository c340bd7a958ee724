"""What a command left that runs or instructs later: put aside, what was there before put back, and all reported.

A command's effects aren't known before it runs, so nobody could be asked. Only what it changed is checked: for the
names in `sensitive.LATER`, for links with such names, and for what git takes for a bare repository.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tools.approval import sensitive
from tools.approval.sensitive import Place, of_later, plain
from tools.names import escaped
from tools.own import way
from tools.undo.restore import put_back
from tools.undo.snapshot import Bytes
from tools.undo.tree import State, Tree

_MAX_LINES = 20
_MAX_NAME_BYTES = 200
"""How much is kept of a name before a suffix is added; file systems take 255."""
_PACKAGES = re.compile(r"^(?:.*/)?(node_modules|site-packages|dist-packages)/")
_GIT = (".git", "git~1")
_OF_A_BARE = re.compile(r"\.git/(?:config|hooks)\Z")


@dataclass(slots=True)
class _Found:
    """A place in which a command changed something, and the paths that it changed there."""

    place: Place
    how: Literal["aside", "repository", "packages", "told"]
    paths: list[str] = field(default_factory=list)


def put_aside(
    tree: Tree,
    before: Mapping[str, State],
    kept: Bytes,
    links: Mapping[str, Place],
    *,
    git_is_free: bool = False,
    look: Callable[[str], State] | None = None,
) -> tuple[str, ...]:
    """Put aside those changed paths that run or instruct later; returns lines that report it.

    `before`: what was at each path that the command changed, `State()` for nothing; `kept` holds the files' bytes.
    `links`: see `linked`. `git_is_free`: existing repositories may be changed, and that is only reported. `look`: tells
    what is at a path now, in the same way as for `before`.
    """
    return _Putting(tree, before, kept, links, git_is_free, look or tree.state).all()


def linked(tree: Tree, paths: Iterable[str]) -> dict[str, Place]:
    """Links with such names, and where in the workspace they lead: `{"docs/x.md": Place("CLAUDE.md", …)}`.

    Each further link on the way counts, too: changing that one changes where the first one leads.
    """
    found: dict[str, Place] = {}
    for path in paths:
        place = of_later(path, link=True)
        for real in way(tree.root / path, missing=True) if place else ():
            if place and real not in (tree.root, tree.root / path) and real.is_relative_to(tree.root):
                found[real.relative_to(tree.root).as_posix()] = place
    return found


def linked_at_the_top(root: Path) -> dict[str, Place]:
    """`linked`, for the links at the top of a workspace."""
    with os.scandir(root) as entries:
        return linked(Tree(root), [entry.name for entry in entries if entry.is_symlink()])


class _Putting:
    def __init__(self, tree: Tree, before: Mapping[str, State], kept: Bytes, links: Mapping[str, Place],
                 git_is_free: bool, look: Callable[[str], State]) -> None:  # fmt: skip
        self._tree, self._before, self._kept, self._links = tree, before, kept, links
        self._git_is_free, self._look = git_is_free, look
        self._lines: list[str] = []

    def all(self) -> tuple[str, ...]:
        found: dict[str, _Found] = {}
        for path in sorted(self._before):
            one = self._found(path)
            if one is not None:
                found.setdefault(one.place.path, one).paths.append(path)
        for one in found.values():  # what stays is reported first: the rest may be cut
            if one.how != "aside" and any(map(self._planted, one.paths)):
                self._tell(one)
        for one in found.values():
            if one.how == "aside":
                self._aside(one)
        more = len(self._lines) - _MAX_LINES
        return (*self._lines[:_MAX_LINES], *([f"and so for {more} more"] if more > 0 else []))

    # -- what is where -------------------------------------------------------------------------------------------------

    def _found(self, path: str) -> _Found | None:
        place = self._link_to(path) or of_later(path) or self._leading_to_more(path)
        if place is None or _OF_A_BARE.search(plain(place.path)):
            bare = sensitive.of_bare(path, self._exists)
            if bare is not None and "/" in bare.path:
                return self._in_a_repository(bare)
            place = bare or place
        if place is None:
            return None
        folder, _, last = place.path.rpartition("/")
        if plain(last) in _GIT and not (self._is_new(place.path) and not folder):
            if self._is_new(place.path) or path == place.path:
                return _Found(place, "repository" if self._is_new(place.path) or self._git_is_free else "aside")
            bare = sensitive.of_bare(path, self._exists)
            return None if bare is None else self._in_a_repository(bare)
        packages = _PACKAGES.match(place.path)
        if packages and not self._starts_an_old_python(place.path, packages):
            return _Found(Place(packages[0].rstrip("/"), place.why), "packages")
        weights = folder and not packages and plain(last).endswith(".pth")
        return _Found(place, "told" if weights else "aside")

    def _in_a_repository(self, place: Place) -> _Found:
        """A place that makes git run something: a new repository is only reported, an existing one is put back."""
        folder = place.path.rpartition("/")[0]
        if self._git_is_free or self._is_new(folder) or self._is_new(f"{folder}/HEAD"):
            return _Found(Place(folder, place.why), "repository")
        return _Found(place, "aside")

    def _link_to(self, path: str) -> Place | None:
        """The place of a path that a link with such a name leads to."""
        parts = path.split("/") if self._links else []
        above = ("/".join(parts[:size]) for size in range(1, len(parts) + 1))
        real = next((name for name in above if name in self._links), None)
        if real is not None:
            return Place(real, self._links[real].why)
        below = next((name for name in self._links if name.startswith(f"{path}/")), None)
        return Place(path, self._links[below].why) if below and (self._tree.root / path).is_symlink() else None

    def _starts_an_old_python(self, path: str, packages: re.Match[str]) -> bool:
        """Whether it lies directly in a site-packages that existed before: the next start of that Python runs it."""
        folder = packages[0].rstrip("/")
        return packages[1] != "node_modules" and path.rpartition("/")[0] == folder and not self._is_new(folder)

    def _is_new(self, path: str) -> bool:
        """Whether the command made it. Only changed paths are known here."""
        was = self._before.get(path)
        return was is not None and was.kind == "absent"

    def _exists(self, path: str) -> bool:
        try:
            return self._tree.status(path) is not None
        except OSError:
            return False

    def _leading_to_more(self, path: str) -> Place | None:
        """A link named like a folder that holds such files: what it leads to need not have such a name."""
        place = of_later(path, link=True)
        return place if place is not None and (self._tree.root / path).is_symlink() else None

    def _planted(self, path: str) -> bool:
        """Whether the path is new, has other content, or has become executable."""
        was = self._before[path]
        try:
            now = self._look(path)
        except OSError:
            return self._exists(path)
        if now.kind == "absent":
            return False
        return not now.same_content(was) or (now.kind == "file" and bool(now.mode & ~was.mode & 0o111))

    # -- what is done --------------------------------------------------------------------------------------------------

    def _aside(self, found: _Found) -> None:
        root = found.place.path
        planted = [path for path in found.paths if self._planted(path)]
        if not planted:
            if "/" not in root and root in found.paths and not self._exists(root):
                self._lines.append(f"a command deleted {escaped(root)}, {found.place.why}")
            return
        aside = self._new_name(root)
        if root in planted:
            self._move(found, root, aside, [root, *(path for path in self._before if path.startswith(f"{root}/"))])
            return
        moved: list[str] = []
        for path in planted:
            if not any(path.startswith(f"{above}/") for above in moved):
                self._move(found, path, aside + path[len(root) :], [path])
                moved.append(path)

    def _move(self, found: _Found, path: str, aside: str, paths: list[str]) -> None:
        """Move what is at `path`, and put back what was at those of `paths` that lie in it."""
        name, why = escaped(path), found.place.why
        if path in self._links:
            name = f"{name} (where {escaped(self._links[path].path)} leads)"
        try:
            self._tree.move(path, aside)
        except OSError as error:
            reason = error.strerror or str(error)
            self._lines.append(f"a command made {name}, {why}, and it couldn't be put aside ({reason}): look at it")
            return
        inside = [one for one in paths if one == path or one.startswith(f"{path}/")]
        was = {one: self._before[one] for one in inside if self._before[one].kind != "absent"}
        if not was:
            self._lines.append(f"a command made {name}, {why}: it was put aside as {escaped(aside)}")
        elif put_back(was, self._kept, self._tree):
            self._lines.append(f"a command changed {name}, {why}: what was there couldn't be kept, and what the "
                               f"command made of it was put aside as {escaped(aside)}")  # fmt: skip
        else:
            self._lines.append(f"a command changed {name}, {why}: it is as it was again, and what the command "
                               f"made of it was put aside as {escaped(aside)}")  # fmt: skip

    def _tell(self, found: _Found) -> None:
        name, planted = escaped(found.place.path), [path for path in found.paths if self._planted(path)]
        if found.how == "packages":
            some = f"{len(planted)} files" if len(planted) > 1 else "a file"
            self._lines.append(f"a command put {some} into {name} {found.place.why}: {escaped(planted[0])}")
        elif found.how == "repository":
            root = found.place.path
            verb = "made" if self._is_new(root) or self._is_new(f"{root}/HEAD") else "changed"
            self._lines.append(f"a command {verb} the repository {name}, {found.place.why}: look at its settings and "
                               "hooks before you use git there")  # fmt: skip
        else:
            self._lines.append(f"a command made {name}, {found.place.why} where Python finds it")

    def _new_name(self, path: str) -> str:
        folder, _, last = path.rpartition("/")
        last = os.fsdecode(os.fsencode(last)[:_MAX_NAME_BYTES])
        name = f"{last}-made-by-a-command-{secrets.token_hex(3)}"
        return f"{folder}/{name}" if folder else name
