"""How the model's shell commands are confined on this machine, and what is not confined.

`choose()` tries, with the real flags, what this system has: bubblewrap, Landlock with seccomp, sandbox-exec on macOS.
Where nothing confines, no command is run, unless the user asks for it unconfined.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools._shell_confine import ShellConfinement, ShellJob, ShellLimits
from tools._shell_supervised import ShellLandlock, ShellOff, ShellSeatbelt, ShellUnconfined

__all__ = ["ShellConfinement", "ShellJob", "ShellLimits", "ShellOff", "ShellUnconfined", "choose"]

_ASK_FOR_IT = "--unconfined runs commands with all your rights"


def choose(
    *,
    unconfined: bool = False,
    bwrap: str | None = None,
    allow_landlock: bool = True,
    search_path: str | None = None,
) -> ShellConfinement:
    """The strongest confinement that really starts here; `ShellOff` where none does.

    `unconfined` gives `ShellUnconfined` without a look at the others. `bwrap` is the program to try instead of the one
    on `search_path` (as PATH has it; None: PATH). Takes one run of `true`, some 20 ms.
    """
    if sys.platform == "win32":
        return ShellOff("shell commands can't be confined on Windows yet: run ossia in WSL2")
    if unconfined:
        return ShellUnconfined()
    if sys.platform == "darwin":
        from tools._seatbelt import PROGRAM

        return ShellSeatbelt() if PROGRAM.exists() else ShellOff(f"{PROGRAM} isn't there; {_ASK_FOR_IT}")
    if sys.platform != "linux":
        return ShellOff(f"nothing is known to confine commands on {sys.platform}: {_ASK_FOR_IT}")
    from tools import _bwrap

    return _on_linux(bwrap or _bwrap.find(search_path), allow_landlock)


def _on_linux(program: str | None, allow_landlock: bool) -> ShellConfinement:
    from tools import _landlock, _seccomp

    try:
        _seccomp.build("bwrap")
    except ValueError as error:
        return ShellOff(f"{error}; {_ASK_FOR_IT}")
    confinement, missing = _try_bwrap(program)
    if confinement is not None:
        return confinement
    abi = _landlock.abi_version() if allow_landlock else 0
    return ShellLandlock(abi, missing) if abi >= _landlock.OLDEST_ABI else ShellOff(f"{missing}; {_ASK_FOR_IT}")


def _try_bwrap(program: str | None) -> tuple[ShellConfinement | None, str]:
    from tools import _bwrap, _shell_bwrap

    if program is None:
        return None, "bubblewrap isn't installed (package `bubblewrap`)"
    said = ""
    for nested in (True, False):  # older ones than 0.8 don't know the flag; the filter refuses namespaces too
        candidate = _shell_bwrap.ShellBwrap(Path(program), nested)
        said = candidate.probe()
        if not said:
            return candidate, ""
        if "disable-userns" not in said:
            break
    return None, f"bubblewrap doesn't work here ({said}): {_bwrap.advice(said)}"
