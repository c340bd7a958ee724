"""What must stand in the environment before llama.cpp's library is loaded."""

from __future__ import annotations

from collections.abc import Mapping

_WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def openmp_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What to set before the library is loaded: `{"GOMP_SPINCOUNT": "1000"}`, or `{}` if the user chose already.

    Threads of GNU OpenMP spin between the parts of a token. Without a limit they take the processors from each other as
    soon as anything else runs: on 2 cores, a 0.8 GB model, 95 tokens/s idle and 0.5 beside two busy processes; with
    this spin count 93 and 37; with `OMP_WAIT_POLICY=passive` 50 and 64. The library reads them once, when it is
    loaded, so whoever sets them can take them out of the environment afterwards: child processes then don't inherit
    them. Other OpenMP libraries ignore the variable; builds for macOS have none.
    """
    return {} if any(environ.get(name) for name in _WAITING) else {"GOMP_SPINCOUNT": "1000"}
