"""A Python that the user names for the model's code: it may lie in a workspace, so it is never run unconfined."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ossia.tools._scratch import Scratch
from ossia.tools.python.environment import Package
from ossia.tools.sandbox import PYTHON_LIMITS, Confinement, Interpreter, InterpreterUnusable, Job
from ossia.tools.sandbox._interpreter import at

_START_S = 20.0
_MAX_BYTES = 4 << 20
"""So much it may say of itself: the names of 40,000 packages."""


def interpreter_at(path: Path) -> Path:
    """The Python meant by `path`: the file itself, or that of an environment's folder."""
    inside = ("bin/python", "Scripts/python.exe")
    return next((path / name for name in inside if (path / name).exists()), path).absolute()


def inspect_named(
    path: Path, confinement: Confinement, ours: Interpreter
) -> tuple[Interpreter, tuple[Package, ...]]:
    """A Python with a kernel's packages, and all of its packages; it is run, confined as its kernels will be.

    Where it has no ipykernel, it borrows ossia's, if that was compiled for such a Python: `ours` is ossia's own.

        inspect_named(Path("/w/.venv/bin/python"), choose(inspect()), inspect())

    Raises `InterpreterUnusable` where it doesn't start within 20 s, or has no ipykernel and can't borrow ours.
    """
    found = at(path)
    said = _description(found, confinement)
    try:
        facts = json.loads(said.splitlines()[-1])
        site = tuple(Path(folder) for folder in facts["site"])
        packages = tuple(Package(str(name), str(version), bool(needed)) for name, version, needed in facts["packages"])
        suffix = str(facts["suffix"])
    except (IndexError, KeyError, TypeError, ValueError):
        why = (said.strip().splitlines() or ["it said nothing"])[-1][:200]
        raise InterpreterUnusable(f"{path} doesn't start as a Python ({why}): name another one") from None
    if site:
        return replace(found, site=site), packages
    if suffix == EXTENSION_SUFFIXES[0]:
        roots = tuple(dict.fromkeys((*found.roots, *ours.site, *(folder.resolve() for folder in ours.site))))
        return replace(found, site=ours.site, roots=roots), packages
    raise InterpreterUnusable(f"{path} has no ipykernel: `uv pip install --python {path} ipykernel` adds it")


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
