"""The choice of a confinement on this machine.

`choose()` tries, with the real flags, the offers of this system: bubblewrap, Landlock with seccomp, sandbox-exec on
macOS. If nothing confines, nothing is run, unless the user asks for it unconfined.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ossia.tools.sandbox._interpreter import Interpreter
from ossia.tools.sandbox.confinement import Confinement, Off, Unconfined
from ossia.tools.sandbox.job import Runs

_WORDS: dict[Runs, tuple[str, str, str]] = {
    "python": ("python", "code", "it"),
    "shell": ("shell commands", "commands", "commands"),
}


def choose(
    interpreter: Interpreter | None = None,
    *,
    unconfined: bool = False,
    bwrap: str | None = None,
    allow_landlock: bool = True,
    search_path: str | None = None,
) -> Confinement:
    """The strongest confinement that really starts here; `Off` if none does.

    `interpreter`: the kernels' Python; None: for shell commands. `unconfined`: `Unconfined` at once. `bwrap`: a program
    instead of the one on `search_path` (in PATH's form; None: PATH). Each attempt takes some 20 to 50 ms.
    """
    runs: Runs = "python" if interpreter else "shell"
    what, that, them = _WORDS[runs]
    if sys.platform == "win32":
        return Off(runs, f"{what} can't be confined on Windows yet: run ossia in WSL2")
    if unconfined:
        return Unconfined(runs)
    ask_for_it = f"--unconfined runs {them} with all your rights"
    if sys.platform == "darwin":
        from ossia.tools.sandbox._seatbelt import PROGRAM, Seatbelt

        return Seatbelt(runs) if PROGRAM.exists() else Off(runs, f"{PROGRAM} isn't there; {ask_for_it}")
    if sys.platform != "linux":
        return Off(runs, f"nothing is known to confine {that} on {sys.platform}: {ask_for_it}")
    found = _on_linux(interpreter, runs, bwrap, allow_landlock, search_path)
    return Off(runs, f"{found}; {ask_for_it}") if isinstance(found, str) else found


def _on_linux(
    interpreter: Interpreter | None, runs: Runs, bwrap: str | None, allow_landlock: bool, search_path: str | None
) -> Confinement | str:
    """The confinement, or a reason to have none."""
    from ossia.tools.sandbox import _bwrap, _landlock, _seccomp
    from ossia.tools.sandbox._kernel_launcher import landlock_abi

    try:
        _seccomp.build("bwrap")
    except ValueError as error:
        return str(error)
    found = _try_bwrap(interpreter, runs, bwrap or _bwrap.find(search_path))
    if not isinstance(found, str) or not allow_landlock:
        return found
    abi = landlock_abi()
    return _landlock.Landlock(runs, found, abi=abi) if abi >= _landlock.OLDEST_ABI else found


def _try_bwrap(interpreter: Interpreter | None, runs: Runs, program: str | None) -> Confinement | str:
    from ossia.tools.sandbox import _bwrap

    if program is None:
        return "bubblewrap isn't installed (package `bubblewrap`)"
    said = ""
    overlays = interpreter is None and _bwrap.knows_overlays(program)
    # 0.8 knows the first flag, 0.11 the second; the filter refuses namespaces too, and Linux may refuse overlays
    for nested, layered in ((True, True), (True, False), (False, False))[0 if overlays else 1 :]:
        candidate = _bwrap.Bwrap(runs, program=Path(program), nested=nested, overlays=layered)
        said = candidate.probe(interpreter)
        if not said:
            return candidate
        if not layered and "disable-userns" not in said:
            break
    return f"bubblewrap doesn't work here ({said}): {_bwrap.advice(said)}"
