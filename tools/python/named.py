"""A Python that the user names for the model's code: it may lie in a workspace, so it is never run unconfined."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ossia.tools._scratch import Scratch
from ossia.tools.host import Host
from ossia.tools.python.environment import Package
from ossia.tools.sandbox import PYTHON_LIMITS, Confinement, Interpreter, InterpreterUnusable, Job
from ossia.tools.sandbox._interpreter import existing, links_of, parts_of, prefixes_behind
from ossia.tools.text import readable
from ossia.tools.toolchains.brought import base_of
from ossia.tools.toolchains.places import Places

_START_S = 20.0
_MAX_BYTES = 4 << 20
"""So much it may say of itself: the names of 40,000 packages."""
_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""The model reads names, and whoever wrote the environment could write anything there."""


def interpreter_at(path: Path) -> Path:
    """The Python meant by `path`: the file itself, or that of an environment's folder."""
    inside = ("bin/python", "Scripts/python.exe")
    return next((path / name for name in inside if (path / name).exists()), path).absolute()


def inspect_named(
    path: Path, confinement: Confinement, ours: Interpreter, host: Host
) -> tuple[Interpreter, tuple[Package, ...]]:
    """A Python with a kernel's packages, and all of its packages; it is run, confined as its kernels will be.

    Where it has no ipykernel, it borrows ossia's, if that was compiled for such a Python: `ours` is ossia's own.

        inspect_named(Path("/w/.venv/bin/python"), choose(inspect()), inspect(), host)

    Raises `InterpreterUnusable` where it doesn't start within 20 s, or has no ipykernel and can't borrow ours.
    """
    found = _at(path, ours, host)
    said = _description(found, confinement)
    try:
        facts = json.loads(said.splitlines()[-1])
        site, suffix = tuple(Path(folder) for folder in facts["site"]), str(facts["suffix"])
        named = [(str(name), str(version), bool(needed)) for name, version, needed in facts["packages"]]
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        why = readable((said.strip().splitlines() or ["it said nothing"])[-1][:200])
        raise InterpreterUnusable(f"{path} doesn't start as a Python ({why}): name another one") from None
    packages = tuple(Package(*one) for one in named if _NAME.fullmatch(one[0]))
    if site:
        return replace(found, site=site), packages
    if suffix == EXTENSION_SUFFIXES[0]:
        roots = tuple(dict.fromkeys((*found.roots, *ours.site, *(folder.resolve() for folder in ours.site))))
        return replace(found, site=ours.site, roots=roots), packages
    raise InterpreterUnusable(f"{path} has no ipykernel: `uv pip install --python {path} ipykernel` adds it")


def _at(executable: Path, ours: Interpreter, host: Host) -> Interpreter:
    """The Python at a path, with parts of its own prefix, and of that of the Python which a venv stands on.

    Its links and its `pyvenv.cfg` may be anybody's, and lead to secrets: they open a folder only if it holds a Python,
    and the system, a manager's folder of versions, or the user's PATH has it, or ossia itself stands on it.
    """
    own = executable.parent.parent
    is_venv = (own / "pyvenv.cfg").is_file()
    if not is_venv:
        executable = executable.resolve()
        own = executable.parent.parent
    real = executable.resolve()
    if not real.is_file() or real.parent.name != "bin" or not _holds_python(real.parent.parent):
        raise InterpreterUnusable(f"{real} isn't a Python: name the interpreter itself, not a script that starts it")
    shown = Places(own, host.home, host.environ, host.data)
    on_path = {*map(shown.place, filter(os.path.isabs, host.environ.get("PATH", "").split(os.pathsep)))}

    def opens(prefix: Path) -> bool:
        place = prefix.resolve()
        known = shown.is_visible(place) or shown.installation(place) or place / "bin" in {*on_path, *ours.roots}
        return bool(known) and _holds_python(prefix)

    if is_venv and not opens(real.parent.parent):
        unknown = f"is an environment of {real}, which is neither on PATH nor where versions of Python are managed"
        raise InterpreterUnusable(f"{executable} {unknown}: name {real}, or put its folder on PATH")
    base = base_of(own) if is_venv else None
    prefixes = [*prefixes_behind(executable), *(prefixes_behind(base / "python3") if base else ())]
    parts = [part for prefix in (own, *filter(opens, prefixes)) for part in parts_of(prefix)]
    return Interpreter(executable, existing([*parts, *links_of(executable)]))


def _holds_python(prefix: Path) -> bool:
    return prefix != Path(prefix.anchor) and next(prefix.glob("lib*/py*3.*/os.py"), None) is not None


def _description(interpreter: Interpreter, confinement: Confinement) -> str:
    """The last bytes of its own words, or those of what couldn't start it."""
    from ossia.tools.sandbox._command_process import CommandProcess

    with closing(Scratch()) as data, closing(Scratch()) as scratch:
        job = Job(data.path, scratch.path, PYTHON_LIMITS, interpreter, describe=True)
        for folder in (job.fixed, *job.writable):
            folder.mkdir(mode=0o700)
        try:
            process = CommandProcess(confinement.launch(job), job, timeout_s=_START_S, grace_s=0)
        except OSError as error:
            return str(error.strerror)
        with closing(process):
            said = b""
            for chunk in process.output:
                said += chunk
                if len(said) > _MAX_BYTES:
                    break
        return process.ended_by or said.decode("utf-8", "replace")
