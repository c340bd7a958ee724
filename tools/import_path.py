"""`sys.path` and PATH without the workspace: we neither import nor start what a tool call may write there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.machinery import PathFinder
from pathlib import Path

import ossia

_NEEDED = "llama_cpp"
"""The other packages that we need are where this one is."""
_SITES = ("site-packages", "dist-packages")

_taken: list[str] = []
"""Removed from `sys.path`, in its order."""


def isolate() -> None:
    """Remove the folder of our package from `sys.path` if it is a clone: that has other files in it as well.

    Call it before anything but the standard library is imported, so that nothing an earlier run left there is found.
    What is in the package is found by its `__path__`.
    """
    remove_from_sys_path(Path(ossia.__path__[0]).resolve().parent)
    _taken.clear()  # for good: to the user's own modules its `tools` and `cli` must not be there


def remove_from_sys_path(root: Path) -> None:
    """Remove the entries that lead into `root` (resolved) from `sys.path`, except the environment that we run in.

    Entries with packages that we need stay, too (`pip install --target`): they are parts that no call may change.
    """
    inside = [entry for entry in sys.path if _leads_into(root, entry)]
    others = [entry for entry in sys.path if entry not in inside]
    if PathFinder.find_spec(_NEEDED, others) is None:
        inside = [entry for entry in inside if PathFinder.find_spec(_NEEDED, [entry]) is None]
    sys.path[:] = [entry for entry in sys.path if entry not in inside]
    if sys.pycache_prefix and Path(sys.pycache_prefix).resolve().is_relative_to(root):
        sys.pycache_prefix = None  # bytecode is run, too
    _taken.extend(entry for entry in inside if entry not in _taken)


@contextmanager
def restored_sys_path() -> Iterator[None]:
    """Within the block, removed entries are back at the end of `sys.path`: the user's packages lie there."""
    back = [entry for entry in _taken if entry not in sys.path]
    sys.path.extend(back)
    try:
        yield
    finally:
        sys.path[:] = [entry for entry in sys.path if entry not in back]


def _leads_into(root: Path, entry: str) -> bool:
    place = Path(entry).resolve()
    if place.name in _SITES or not place.is_relative_to(root):
        return False
    prefixes = map(Path, (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix))
    folders = (folder for prefix in prefixes for folder in _libraries(prefix.resolve(), root))
    return not any(map(place.is_relative_to, folders))


def _libraries(prefix: Path, root: Path) -> list[Path]:
    """The folders from which a Python imports and starts: all of the prefix, unless it holds the workspace."""
    return [prefix / name for name in ("bin", "lib", "lib64", "Lib")] if root.is_relative_to(prefix) else [prefix]


def environment_for(root: Path | None, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of programs that we start: of the workspace, only our own environment may be on its PATH.

    `root` None: of the current folder, which was or will be a workspace; never of the home, or of a folder around it.
    """
    with suppress(OSError):  # the current folder is gone
        here, home = Path.cwd().resolve(), Path(environ.get("HOME", "")).resolve()
        root = root or (None if home.is_relative_to(here) else here)
    if root is None or "PATH" not in environ:
        return environ
    folders = environ["PATH"].split(os.pathsep)
    kept = [folder for folder in folders if Path(folder).is_absolute() and not _leads_into(root, folder)]
    return {**environ, "PATH": os.pathsep.join(kept)}
