"""How the model's code is confined on this machine, and what is not confined.

`choose()` tries, with the real flags, what this system has: bubblewrap, Landlock with seccomp, sandbox-exec on macOS.
Where nothing confines, python is off, unless the user asks for it unconfined.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tools._confine import Confinement, ConfinementName, Job, Launch, Limits, clean_env, description
from tools._interpreter import Interpreter, InterpreterUnusable, inspect

__all__ = [
    "Confinement",
    "Interpreter",
    "InterpreterUnusable",
    "Limits",
    "Off",
    "Unconfined",
    "choose",
    "inspect",
]


@dataclass(frozen=True, slots=True)
class Off:
    """Nothing confines here: python isn't run. `reason` says why, and what to do."""

    reason: str

    @property
    def name(self) -> ConfinementName:
        return "off"

    @property
    def data_path(self) -> str | None:
        return None

    @property
    def confines(self) -> tuple[str, ...]:
        return ()

    @property
    def gaps(self) -> tuple[str, ...]:
        return ()

    def describe(self) -> str:
        return description(self)

    def launch(self, job: Job) -> Launch:
        raise RuntimeError(f"python is off: {self.reason}")


@dataclass(frozen=True, slots=True)
class Unconfined:
    """The user's own wish: the code can do what the user can. Its processes still end with the kernel."""

    reason: str = "asked for with --unconfined"

    @property
    def name(self) -> ConfinementName:
        return "unconfined"

    @property
    def data_path(self) -> str | None:
        return None

    @property
    def confines(self) -> tuple[str, ...]:
        return ()

    @property
    def gaps(self) -> tuple[str, ...]:
        return ("everything: the model's code can read, change, send and delete whatever you can",)

    def describe(self) -> str:
        return description(self)

    def launch(self, job: Job) -> Launch:
        limits = job.limits
        settings: dict[str, object] = {
            "data": str(job.data), "supervise": True, "terminals": True,
            "limits": {"AS": limits.address_space_bytes, "FSIZE": limits.file_bytes, "CORE": 0},
        }  # fmt: skip
        env = clean_env(job.scratch, job.scratch, job.interpreter)
        return Launch(job.kernel_command, env, settings=settings, lifeline=True)


def choose(
    interpreter: Interpreter,
    *,
    unconfined: bool = False,
    bwrap: str | None = None,
    allow_landlock: bool = True,
    search_path: str | None = None,
) -> Confinement:
    """The strongest confinement that really starts here; `Off` where none does.

    `unconfined` gives `Unconfined` without a look at the others. `bwrap` is the program to try instead of the one on
    `search_path` (as PATH has it; None: PATH). Takes one start of Python under each way tried, some 50 ms.
    """
    if sys.platform == "win32":
        return Off("python can't be confined on Windows yet: run ossia in WSL2")
    if unconfined:
        return Unconfined()
    if sys.platform == "darwin":
        return _on_macos(interpreter)
    if sys.platform != "linux":
        return Off(f"nothing is known to confine code on {sys.platform}: {_ASK_FOR_IT}")
    from tools import _bwrap

    return _on_linux(interpreter, bwrap or _bwrap.find(search_path), allow_landlock)


_ASK_FOR_IT = "--unconfined runs it with all your rights"


def _on_linux(interpreter: Interpreter, program: str | None, allow_landlock: bool) -> Confinement:
    from tools import _seccomp

    try:
        _seccomp.build("bwrap")
    except ValueError as error:
        return Off(f"{error}; {_ASK_FOR_IT}")
    confinement, missing = _try_bwrap(interpreter, program)
    if confinement is not None:
        return confinement
    return (_try_landlock(missing) if allow_landlock else None) or Off(f"{missing}; {_ASK_FOR_IT}")


def _try_bwrap(interpreter: Interpreter, program: str | None) -> tuple[Confinement | None, str]:
    from tools import _bwrap

    if program is None:
        return None, "bubblewrap isn't installed (package `bubblewrap`)"
    said = ""
    for nested in (True, False):  # older ones than 0.8 don't know the flag; the filter refuses namespaces too
        candidate = _bwrap.Bwrap(Path(program), nested)
        said = candidate.probe(interpreter)
        if not said:
            return candidate, ""
        if "disable-userns" not in said:
            break
    return None, f"bubblewrap doesn't work here ({said}): {_bwrap.advice(said)}"


def _try_landlock(missing: str) -> Confinement | None:
    from tools import _landlock

    abi = _landlock.abi_version()
    return _landlock.Landlock(abi, missing) if abi >= _landlock.OLDEST_ABI else None


def _on_macos(interpreter: Interpreter) -> Confinement:
    from tools import _seatbelt

    if _seatbelt.PROGRAM.exists():
        return _seatbelt.Seatbelt()
    return Off(f"{_seatbelt.PROGRAM} isn't there; {_ASK_FOR_IT}")
