"""The folders of a running Python interpreter, so that a confinement can show them and nothing else."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg", "Python", "Resources", "DLLs", "Lib")
"""The visible parts of a prefix. Not all: `python -m venv .` makes a project folder a prefix, `--prefix ~` a home."""

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
        return next((root for root in self.roots if not _is_in(root.resolve(), self.roots)), None)


def inspect() -> Interpreter:
    """Ossia's own Python, with the folders from which it has loaded its packages.

    The first time takes half a second: the kernel's packages are compiled, if their folder is writable and Python may
    write bytecode (installers such as uv don't compile). Raises `InterpreterUnusable` where there is no ipykernel.
    """
    found = [importlib.util.find_spec(name) for name in _PACKAGES]
    origins = [Path(spec.origin).absolute().parent for spec in found if spec is not None and spec.origin]
    if len(origins) < len(_PACKAGES):
        raise InterpreterUnusable(f"{sys.executable} has no ipykernel: install it there, or name another Python")
    _compile(origins[0])
    path, site = Path(sys.executable), tuple(dict.fromkeys(origin.parent for origin in origins))
    prefixes = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_exec_prefix), *_prefixes_behind(path)]
    return Interpreter(path, _existing([*(part for prefix in prefixes for part in _parts(prefix)), *site]), site)


def _compile(package: Path) -> None:
    """Compile what a kernel imports: it can't write bytecode, and compiling it all takes 0.6 s (measured)."""
    missing = not Path(importlib.util.cache_from_source(str(package / "kernelapp.py"))).exists()
    if missing and not sys.dont_write_bytecode and os.access(package, os.W_OK):
        paths = f"import sys; sys.path[:] = {[path for path in sys.path if path]!r}\n"
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run([sys.executable, "-I", "-S", "-c", paths + _WARM], stdin=subprocess.DEVNULL, timeout=20,
                           capture_output=True, check=False)  # fmt: skip


def at(executable: Path) -> Interpreter:
    """The Python at a path, without running it: it may be anybody's.

    Its roots are parts of its own prefix, and of that of the Python which a venv stands on. What its links and its
    `pyvenv.cfg` name is shown only if it is an installed Python: they may lead to a folder of secrets.

        at(Path("/w/.venv/bin/python")).roots
        # (Path("/w/.venv/bin"), Path("/w/.venv/lib"), Path("/w/.venv/pyvenv.cfg"),
        #  Path("/home/me/.pyenv/versions/3.11.7/bin"), Path("/home/me/.pyenv/versions/3.11.7/lib"))

    Raises `InterpreterUnusable` where that is no Python.
    """
    own = executable.parent.parent
    venv = own / "pyvenv.cfg"
    if not venv.is_file():
        executable = executable.resolve()
        own = executable.parent.parent
    prefixes = [own, *(_prefixes_behind(_home_of(venv) / "python3") if venv.is_file() else ())]
    prefixes += _prefixes_behind(executable)
    real = executable.resolve()
    if not real.is_file() or real.parent.name != "bin" or not _holds_python(real.parent.parent):
        raise InterpreterUnusable(f"{real} is no installed Python: name the interpreter itself, no script that runs it")
    parts = [part for prefix in prefixes if prefix == own or _holds_python(prefix) for part in _parts(prefix)]
    return Interpreter(executable, _existing([*parts, *_links(executable)]))


def _home_of(venv: Path) -> Path:
    """The folder of the Python that a venv stands on, by its `pyvenv.cfg`."""
    lines = (line.partition("=") for line in venv.read_text("utf-8", "replace").splitlines())
    return Path(next((value.strip() for key, _, value in lines if key.strip() == "home"), "/usr/bin"))


def _holds_python(prefix: Path) -> bool:
    return prefix != Path(prefix.anchor) and next(prefix.glob("lib*/py*3.*/os.py"), None) is not None


def _parts(prefix: Path) -> list[Path]:
    """Python's parts of a prefix, without links out of it: in somebody's venv, `lib` could lead to a home's secrets."""
    real = prefix.resolve()
    return [prefix / name for name in _PARTS if (prefix / name).resolve().is_relative_to(real)]


def _links(executable: Path) -> list[Path]:
    """The executable, and the target of each link, hop by hop: uv and pyenv link more than once."""
    found = [executable]
    while found[-1].is_symlink() and len(found) < _MAX_LINKS:
        found.append(_plain(found[-1].parent / found[-1].readlink()))
    return found


def _prefixes_behind(executable: Path) -> list[Path]:
    """The prefix of each link's target, as it is given and the real one."""
    return [folder.parent for link in _links(executable) for folder in (link.parent, link.parent.resolve())]


def _is_in(path: Path, places: Iterable[Path]) -> bool:
    return any(map(path.is_relative_to, places))


def _existing(paths: list[Path]) -> tuple[Path, ...]:
    """The existing paths and their real ones; none inside another, and never the root."""
    spelled = dict.fromkeys(p for path in paths if path.exists() for p in (_plain(path), path.resolve()))
    return tuple(p for p in spelled if p != Path(p.anchor) and not any(parent in spelled for parent in p.parents))


def _plain(path: Path) -> Path:
    """The path without `..`. Links stay, except before a `..`."""
    return path.resolve() if ".." in path.parts else path
