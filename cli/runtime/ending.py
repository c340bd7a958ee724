"""The end of an interrupted process: the check of what a command left is awaited, threads aren't."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn, TypeVar

from ossia.agent.control import Control
from ossia.agent.worker import Worker, awaited
from ossia.cli.exits import ExitCode
from ossia.cli.streams import stdout
from ossia.cli.terminal.keyboard import give_keys_back

_R = TypeVar("_R")


def stoppable(job: Callable[[], _R], control: Control) -> _R:
    """The result of `job`, on a thread of its own: no interrupt falls between two of its steps.

    Ctrl-C stops `control`; once the job has ended, KeyboardInterrupt is raised. A second Ctrl-C ends the process.
    """
    worker = Worker()
    work = worker.submit(job)
    try:
        return awaited(work)
    except KeyboardInterrupt:
        control.stop()
        try:
            awaited(work)
        except KeyboardInterrupt:
            end_now(ExitCode.INTERRUPTED)
        raise
    finally:
        worker.close()


def look_to_the_end(warn: Callable[[str], None]) -> None:
    """Wait for the check of what a command left, or for one more Ctrl-C."""
    from ossia.tools import ending

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
    """End the process without waiting for threads: C calls can't be interrupted."""
    give_keys_back()
    for stream in (stdout(), sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(code)
