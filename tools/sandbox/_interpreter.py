"""The folders of a running Python interpreter, so that a confinement can show them and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg", "Python", "Resources", "DLLs", "Lib")
"""The visible parts of a prefix. Not all: `python -m venv .` makes a project folder a prefix, `--prefix ~` a home."""

_ASK = """\
import json, os, site, sys
def found(name):
    import importlib.util
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin: return None
    folder = os.path.dirname(os.path.abspath(spec.origin))
    return os.path.dirname(folder) if spec.submodule_search_locations else folder
def warm(folder):
    # the kernel can't write its bytecode: without it each start compiles all of it again, 0.6 s more (measured)
    from importlib.util import cache_from_source
    path = os.path.join(folder, "ipykernel", "kernelapp.py")
    missing = not os.path.exists(cache_from_source(path))
    if missing and not sys.dont_write_bytecode and os.access(os.path.dirname(path), os.W_OK):
        sys.modules["debugpy"] = None
        import ipykernel.kernelapp, ipykernel.zmqshell, ipykernel.ipkernel, ipykernel.debugger, tornado.platform.asyncio
folders = [found(name) for name in ("ipykernel", "zmq", "tornado", "traitlets", "IPython", "landlockpy")]
if folders[0]: warm(folders[0])
print(json.dumps({"executable": sys.executable, "prefix": sys.prefix, "base": sys.base_prefix,
                  "exec": sys.base_exec_prefix, "site": list(dict.fromkeys(f for f in folders if f))}))
"""


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
    prefix: Path
    roots: tuple[Path, ...]
    site: tuple[Path, ...]


def inspect(executable: str | Path = sys.executable) -> Interpreter:
    """Ask an interpreter where its parts lie. Takes as long as starting it, some 20 ms.

    The first time takes half a second more: the kernel's packages are compiled, if their folder is writable and Python
    may write bytecode (installers such as uv don't compile).

    Raises `InterpreterUnusable` where it doesn't start within 20 s or can't find ipykernel.
    """
    if str(executable) == sys.executable:  # ours must find what this process would find
        command = [str(executable), "-I", "-S", "-c", _as_we_run() + _ASK]
    else:
        command = [str(executable), "-I", "-c", _ASK]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, check=True)
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InterpreterUnusable(f"{executable} doesn't start as a Python ({why(error)}): name another one") from error
    if not answer["site"]:
        raise InterpreterUnusable(f"{executable} has no ipykernel: install it there, or name another Python")
    path, prefix = Path(answer["executable"]), Path(answer["prefix"])
    site = tuple(Path(folder) for folder in answer["site"])
    prefixes = [prefix, Path(answer["base"]), Path(answer["exec"]), *_prefixes_behind(path)]
    parts = [folder / part for folder in prefixes for part in _PARTS]
    return Interpreter(path, prefix, _existing([*parts, *site]), site)


def _as_we_run() -> str:
    """Lines for an interpreter without its site folders, to find the same modules as this one."""
    prefixes = f"sys.prefix, sys.exec_prefix = {sys.prefix!r}, {sys.exec_prefix!r}"
    return f"import sys\nsys.path[:] = {[path for path in sys.path if path]!r}\n{prefixes}\n"


def why(error: Exception) -> str:
    """Why starting a program failed, in a few words; never with the whole command line."""
    match error:
        case subprocess.CalledProcessError(returncode=status):
            return f"exit status {status}"
        case subprocess.TimeoutExpired(timeout=seconds):
            return f"no answer within {seconds:g} s"
        case OSError(strerror=reason) if reason:
            return reason
        case _:
            return "its answer is not what was asked for"


def _prefixes_behind(executable: Path) -> list[Path]:
    """The prefix of each link's target, hop by hop from the executable: uv and pyenv link more than once."""
    found: list[Path] = []
    for _ in range(40):  # as many hops as the kernel follows
        found.append(executable.parent.parent)
        found.append(executable.parent.resolve().parent)
        if not executable.is_symlink():
            break
        executable = executable.parent / executable.readlink()
    return found


def _existing(paths: list[Path]) -> tuple[Path, ...]:
    """The existing paths and their real ones; none inside another, and never the root."""
    spelled = dict.fromkeys(p for path in paths if path.exists() for p in (_plain(path), path.resolve()))
    return tuple(p for p in spelled if p != Path(p.anchor) and not any(parent in spelled for parent in p.parents))


def _plain(path: Path) -> Path:
    """The path without `..`. Links stay, except before a `..`."""
    return path.resolve() if ".." in path.parts else path
