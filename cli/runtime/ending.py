"""How an interrupted process ends: what a command left is still looked at, and no thread is waited for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from cli.streams import stdout


def look_to_the_end(warn: Callable[[str], None]) -> None:
    """Before the process ends, wait until what a command left has been looked at, or for one more Ctrl-C."""
    from tools import ending

    if not ending.is_under_way():
        return
    warn("checking what the command left behind before ending (Ctrl-C: end now)")
    try:
        whole = ending.wait()
    except KeyboardInterrupt:
        whole = False
    if not whole:
        warn("what the command left behind was not fully checked: look at what it changed yourself")


def end_now(code: int) -> NoReturn:
    """End the process without waiting for threads: one is in a C call that we can't interrupt."""
    for stream in (stdout(), sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(code)
