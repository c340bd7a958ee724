"""The parts of ossia itself that lie in a workspace: no call may change them while ossia runs.

Python imports modules when they are first needed, and programs are started while the model works: what a command wrote
into these parts would run unconfined.

    own = own_in(root, [*parts_of_this_python(root), *parts_of_program(Path("/w/server"), root)])
    own.holds(root / "tools" / "own.py")    # True, where the workspace is a clone of ossia
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import ossia
from ossia.tools.import_path import environment_for

if TYPE_CHECKING:
    from ossia.tools.host import Host
    from ossia.tools.mcp.config import McpConfig

_PACKAGES = ("cli", "agent", "tools", "harmony")
"""In an environment they lie in `ossia`, in a clone beside it."""

PYTHONS_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg", "Python", "Resources", "DLLs", "Lib", "Scripts")
"""Python's parts of a prefix, which may hold more: `python -m venv .` makes a project one, `--prefix ~` a home."""
_SCRIPTS = (".py", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb", ".pl")
_MAX_STEPS = 400


@dataclass(frozen=True, slots=True)
class Own:
    """The parts of ossia in one workspace.

    `places` lie below the workspace's root, none inside another; symbolic links on the way to a part are among them.
    `problem`: why no confinement can protect all of it; "" if one can. `awaited`: places of files that ossia would
    read if they existed, e.g. its config file.
    """

    places: tuple[Path, ...] = ()
    problem: str = ""
    awaited: tuple[Path, ...] = ()

    def holds(self, path: Path) -> bool:
        """True for a part of ossia, even a missing one. By its path alone, ignoring case, as some file systems do."""
        folded = Path(str(path).casefold())
        return any(folded.is_relative_to(str(place).casefold()) for place in (*self.places, *self.awaited))

    @property
    def links(self) -> tuple[Path, ...]:
        """The symbolic links among the places."""
        return tuple(place for place in self.places if place.is_symlink())

    @property
    def gone(self) -> tuple[Path, ...]:
        """The missing ones among the places: a command could create them anew."""
        return tuple(place for place in self.places if not os.path.lexists(place))


def own_in(root: Path, parts: Iterable[Path], awaited: Iterable[Path] = ()) -> Own:
    """Those of ossia's `parts` (anywhere, existing or not) that concern the workspace `root`, a resolved path.

    `awaited` are places that count even if nothing exists there yet.
    """
    ways = [place for part in dict.fromkeys(parts) for place in way(part)]
    around = next((place for place in ways if root.is_relative_to(place)), None)
    if around is not None:
        return Own((root,), f"it lies in {around}, a part of ossia itself")
    inside = outermost(place for place in ways if place.is_relative_to(root))
    bare = any(Path(prefix).resolve() == root for prefix in _prefixes()) and not (root / "pyvenv.cfg").exists()
    problem = f"{root} is the prefix of the Python that runs ossia" if bare else ""
    later = outermost(place for part in awaited for place in way(part, missing=True) if place.is_relative_to(root))
    return Own(tuple(inside), problem, tuple(place for place in later if place not in inside))


def own_parts(root: Path, host: Host, *, files: Sequence[Path], servers: Sequence[McpConfig]) -> Own:
    """The parts of ossia, and of what the user has it run, that lie in the workspace `root`.

    `files`: those that configure us, there or not. The Python of the model's code isn't among them: it runs confined.
    """
    parts = [*parts_of_this_python(root), *files]
    for program in _programs(root, host, servers):
        parts += parts_of_program(program, root)
    return own_in(root, parts, [*files, host.data])


def _programs(root: Path, host: Host, servers: Sequence[McpConfig]) -> Iterator[Path]:
    """The programs that the user named for us to start, and the scripts among their arguments."""
    import shlex
    import shutil

    path = environment_for(root, host.environ).get("PATH", "")
    words: list[tuple[Sequence[str], Path]] = []
    for name in ("VISUAL", "EDITOR"):
        try:
            words.append((shlex.split(host.environ.get(name, "")), Path.cwd()))
        except (OSError, ValueError):
            continue
    for server in (_filled(server, host.environ) for server in servers):
        words.append(((server.command or "", *server.args), Path(server.cwd or host.home)))
    for (command, *arguments), folder in (one for one in words if one[0] and one[0][0]):
        found = shutil.which(command, path=path) if os.sep not in command else str(folder / command)
        yield from [Path(found)] if found else []
        yield from (folder / word for word in arguments if word.endswith(_SCRIPTS) and (folder / word).is_file())


def _filled(server: McpConfig, environ: Mapping[str, str]) -> McpConfig:
    """The server with its variables filled in. Where one isn't set, it stays as it is: it won't be started."""
    from ossia.tools.functions import McpConfigInvalid
    from ossia.tools.mcp.config import expanded

    try:
        return expanded(server, environ)
    except McpConfigInvalid:
        return server


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths without those inside others, sorted."""
    found: dict[Path, None] = {}
    for path in sorted(set(paths)):
        if not any(above in found for above in path.parents):
            found[path] = None
    return list(found)


def parts_of_this_python(root: Path) -> list[Path]:
    """The running interpreter, our packages, and all packages loaded, or yet to be loaded, from `root`."""
    parts = [Path(sys.executable)]
    for prefix in _prefixes():
        parts += parts_of_prefix(Path(prefix), root)
    parts += [Path(ossia.__path__[0]), *(Path(ossia.__path__[-1]) / name for name in _PACKAGES)]
    parts += [path for entry in sys.path if (path := Path(entry).absolute()).resolve().is_relative_to(root)]
    modules = [vars(module) for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    loaded = [place for names in modules for place in (names.get("__file__"), *(names.get("__path__") or ()))]
    return [*parts, *(Path(place) for place in loaded if place and place.startswith(f"{root}{os.sep}"))]


def parts_of_prefix(prefix: Path, root: Path) -> list[Path]:
    """A Python's prefix; if it holds the workspace, only Python's parts of it."""
    if not root.is_relative_to(prefix.resolve()):
        return [prefix]
    return [prefix / name for name in PYTHONS_PARTS if not (name == "lib64" and (prefix / name).is_symlink())]


def parts_of_program(program: Path, root: Path) -> list[Path]:
    """A program, with the virtual environment or `node_modules` it stands in: it runs code from there."""
    parts = [program]
    for place in (program.absolute(), *way(program)):
        if (place.parent.parent / "pyvenv.cfg").is_file():
            parts += parts_of_prefix(place.parent.parent, root)
        if "node_modules" in place.parts and not root.is_relative_to(place.parent):
            parts.append(Path(*place.parts[: place.parts.index("node_modules") + 1]))
    return parts


def _prefixes() -> list[str]:
    return list(dict.fromkeys([sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]))


def way(path: Path, *, missing: bool = False) -> Iterator[Path]:
    """Each link on the way to `path`, by its real location, then the target that they lead to.

    A target that doesn't exist is left out, or, with `missing`, given as the place where it would lie.
    """
    absolute = path.absolute()
    at, rest = Path(absolute.anchor), deque(absolute.parts[1:])
    for _ in range(_MAX_STEPS):
        if not rest:
            break
        part = rest.popleft()
        if part == "..":
            at = at.parent
            continue
        at = at / part
        with suppress(OSError):  # not a link, or it changed meanwhile, or lies where we may not look
            target = at.readlink()
            yield at
            rest.extendleft(reversed(target.parts[1:] if target.is_absolute() else target.parts))
            at = Path(target.anchor) if target.is_absolute() else at.parent
    if not rest and (missing or os.path.lexists(at)):
        yield at
