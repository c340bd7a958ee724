"""Converts documents, one at a time, confined. Runs alone: `python -I -S _worker.py SETTINGS`, requests on stdin.

A request is two parts, each `>Q` its length and then its bytes: JSON (`kind`, `url`, `charset`, `source`, `refresh`)
and the body. So is an answer: JSON (`title`, `links`, `guessed`, or `failed`) and the text. The first answer comes
unasked and names the worker's confinement. It ends when its stdin closes, or by an alarm if a document takes too long.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import struct
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, BinaryIO

_LIMITS = {"CORE": 0, "FSIZE": 0, "NOFILE": 64}
_SPARE_ALARM_S = 2


def main() -> None:
    settings = json.loads(sys.argv[1])
    sys.path[:] = [*settings["paths"]]
    _find_tools_in(settings["tools"])
    requests, answers = _take_pipes()
    for name in settings["modules"]:  # before the confinement: what is imported later may read less
        importlib.import_module(name)
    from ossia.tools.convert import _documents

    confined = _confine(settings)
    _write(answers, json.dumps({"confined": confined}).encode(), b"")
    while (meta := _part(requests)) is not None and (body := _part(requests)) is not None:
        _alarm(settings["timeout_s"] + _SPARE_ALARM_S)
        answer = _documents.convert(body, json.loads(meta), settings)
        del body
        _alarm(0)
        _write(answers, *answer)


def _find_tools_in(folder: str) -> None:
    """Make only this package importable, not its neighbours in a clone."""
    places = {"ossia": [], "ossia.tools": [folder], "ossia.tools.sandbox": [str(Path(folder, "sandbox"))]}
    for name, folders in places.items():
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = folders
        sys.modules[name] = importlib.util.module_from_spec(spec)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """stdin and stdout under other numbers: a printing library must not get between the answers."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
        nothing = os.open(os.devnull, flags)
        os.dup2(nothing, number)
        os.close(nothing)
    return requests, answers


def _part(requests: BinaryIO) -> bytes | None:
    """None at the end."""
    head = requests.read(8)
    return requests.read(struct.unpack(">Q", head)[0]) if len(head) == 8 else None


def _write(answers: BinaryIO, *parts: bytes) -> None:
    for part in parts:
        answers.write(struct.pack(">Q", len(part)) + part)
    answers.flush()


def _alarm(seconds: float) -> None:
    """End this process after that time, even inside a C function, in case nobody is left to kill it. 0: cancel."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


# -- the confinement: each part where this system has it ---------------------------------------------------------------


def _confine(settings: dict[str, Any]) -> list[str]:
    """Give up rights. Returns the names of the confinements from here on."""
    held = []
    if sys.platform != "win32":
        held += _limit(settings["memory_bytes"])
    if sys.platform == "linux":
        from ossia.tools.sandbox._kernel_launcher import READ_DIR, READ_FILE, landlock, landlock_abi, seccomp

        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        if landlock_abi():  # no file but Python's own modules, read-only: codecs are imported when a page names them
            landlock((path, READ_FILE | READ_DIR) for path in settings["readable"])
            held.append("landlock")
        if settings["filter"]:  # no sockets, no access to other processes
            with contextlib.suppress(OSError):
                seccomp(bytes.fromhex(settings["filter"]))
                held.append("seccomp")
    return held


def _limit(memory_bytes: int) -> list[str]:
    """macOS doesn't enforce a limit of address space."""
    import resource

    held = ["memory"] if sys.platform == "linux" else []
    for name, value in {**_LIMITS, "AS": memory_bytes}.items():
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
    return held


if __name__ == "__main__":
    main()
