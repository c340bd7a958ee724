"""The folders of a running Python interpreter, so that a confinement can show them and nothing else."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.own import PYTHONS_PARTS

_PACKAGES = ("ipykernel", "zmq", "tornado", "traitlets", "IPython")
"""The packages of a kernel. All others that it needs lie beside one of them."""
_WARM = """\
import sys
sys.modules["debugpy"] = None
import ipykernel.kernelapp, ipykernel.zmqshell, ipykernel.ipkernel, ipykernel.debugger, tornado.platform.asyncio
"""
_MAX_LINKS = 40  # as many hops as the kernel follows


class InterpreterUnusable(Exception):
    """The interpreter doesn't start, or has no ipykernel. The message has a next step."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can run a kernel.

    `executable` is the path to start it by (a venv's link stays a link: that is how Python finds the venv). `roots` are
    the folders and files it needs, each by its given path and by its real one. `site` are the folders that hold the
    kernel's packages; the launcher adds those that `-I` leaves out, e.g. `~/.local/lib/python3.11/site-packages`.
    """

    executable: Path
    roots: tuple[Path, ...]
    site: tuple[Path, ...] = ()

    @property
    def moved(self) -> Path | None:
        """A root that leads elsewhere since it was found: whoever may write beside it can replace it by a link."""
        return next((root for root in self.roots if not any(map(root.resolve().is_relative_to, self.roots))), None)


def inspect() -> Interpreter:
    """Ossia's own Python, with the folders from which it has loaded its packages.

    The first time takes half a second: the kernel's packages are compiled, if their folder is writable and Python may
    write bytecode (installers such as uv don't compile). Raises `InterpreterUnusable` if it or ipykernel is missing.
    """
    if not os.access(sys.executable, os.X_OK):  # of an environment that was removed meanwhile
        raise InterpreterUnusable(f"{sys.executable} isn't there any more: install ossia again")
    found = [importlib.util.find_spec(name) for name in _PACKAGES]
    origins = [Path(spec.origin).absolute().parent for spec in found if spec is not None and spec.origin]
    if len(origins) < len(_PACKAGES):
        raise InterpreterUnusable(f"{sys.executable} has no ipykernel: install it there, or name another Python")
    _compile(origins[0])
    path, site = Path(sys.executable), tuple(dict.fromkeys(origin.parent for origin in origins))
    prefixes = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_exec_prefix), *prefixes_behind(path)]
    parts = [part for prefix in dict.fromkeys(prefixes) for part in parts_of(prefix)]
    return Interpreter(path, existing([*parts, *site]), site)


def _compile(package: Path) -> None:
    """Compile what a kernel imports: it can't write bytecode, and compiling it all takes 0.6 s (measured)."""
    missing = not Path(importlib.util.cache_from_source(str(package / "kernelapp.py"))).exists()
    if missing and not sys.dont_write_bytecode and os.access(package, os.W_OK):
        paths = f"import sys; sys.path[:] = {[path for path in sys.path if path]!r}\n"
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run([sys.executable, "-I", "-S", "-c", paths + _WARM], stdin=subprocess.DEVNULL, timeout=20,
                           capture_output=True, check=False)  # fmt: skip


def parts_of(prefix: Path) -> list[Path]:
    """Python's parts of a prefix, without links out of it: in somebody's venv, `lib` could lead to a home's secrets."""
    real = prefix.resolve()
    return [prefix / name for name in PYTHONS_PARTS if (prefix / name).resolve().is_relative_to(real)]


def links_of(executable: Path) -> list[Path]:
    """The executable, and the target of each link, hop by hop: uv and pyenv link more than once."""
    found = [executable]
    while found[-1].is_symlink() and len(found) < _MAX_LINKS:
        found.append(_plain(found[-1].parent / found[-1].readlink()))
    return found


def prefixes_behind(executable: Path) -> list[Path]:
    """The prefix of each link's target, as it is given and the real one."""
    return [folder.parent for link in links_of(executable) for folder in (link.parent, link.parent.resolve())]


def existing(paths: list[Path]) -> tuple[Path, ...]:
    """The existing paths and their real ones; none inside another, and never the root."""
    spelled = dict.fromkeys(p for path in paths if path.exists() for p in (_plain(path), path.resolve()))
    return tuple(p for p in spelled if p != Path(p.anchor) and not any(parent in spelled for parent in p.parents))


def _plain(path: Path) -> Path:
    """The path without `..`. Links stay, except before a `..`."""
    return path.resolve() if ".." in path.parts else path
