"""Ctrl-C, SIGTERM and SIGHUP as one KeyboardInterrupt, held off where half a step would do harm.

Nothing is imported at the top but what Python has loaded anyway: an interrupt during our imports is answered, too.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing's own would be an import
if TYPE_CHECKING:
    from types import FrameType

_STUCK_S = 1.0

_holding = False
_since: float | None = None  # when an interrupt came that is held off
_settled: int | None = None


def take() -> None:
    """Have SIGTERM, and the SIGHUP of a closed terminal, act as Ctrl-C: tools end, and their folders are removed."""
    import signal

    for name, usual in (
        ("SIGINT", signal.default_int_handler),
        ("SIGTERM", signal.SIG_DFL),
        ("SIGHUP", signal.SIG_DFL),
    ):
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is usual:  # else `nohup` or a shell's `&` ignores it
            signal.signal(number, _interrupt)


class hold:
    """Hold interrupts off inside the block; KeyboardInterrupt is raised at its end. `hold(False)`: a block without.

    A block that lasts, such as a write to a pipe that nobody reads, is given up: an interrupt a second after the first
    one ends the process. Has no effect on other threads than the main one.

        with hold():
            line = queue.get()
            print(line, flush=True)      # each line that was taken is printed, and whole
    """

    def __init__(self, holding: bool = True) -> None:
        self._new, self._before = holding, holding
        self._is_main = _is_main_thread()

    def __enter__(self) -> None:
        global _holding
        if self._is_main:
            self._before, _holding = _holding, self._new
            try:
                _raise_pending()
            except KeyboardInterrupt:
                _holding = self._before  # the block isn't entered, nor left
                raise

    def __exit__(self, kind: object, *_: object) -> None:
        global _holding
        if self._is_main:
            _holding = self._before
            if kind is None:
                _raise_pending()


def settle(code: int) -> None:
    """The exit code is fixed, and said: from now on an interrupt, or one that is held off, ends the process with it."""
    global _settled
    _settled = code
    if _since is not None:
        _end(code)


def is_settled() -> bool:
    """True once the exit code is fixed."""
    return _settled is not None


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not within Python's own import code: the lock of all imports would stay held.

    (Seen: a run that was interrupted in its first 20 ms, and hung.) There it is raised a millisecond later.
    """
    import signal
    import time

    global _since
    importing = frame is not None and frame.f_code.co_filename.startswith("<frozen importlib")
    if importing and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    elif _settled is not None:
        _end(_settled)
    elif not _holding:
        raise KeyboardInterrupt
    elif _since is None:
        _since = time.monotonic()
    elif time.monotonic() - _since > _STUCK_S:
        _end(130)


def _raise_pending() -> None:
    global _since
    if _since is not None and not _holding:
        _since = None
        raise KeyboardInterrupt


def _end(code: int) -> None:
    """End the process; nothing more is written to stdout, which may be stuck."""
    if keyboard := sys.modules.get("ossia.cli.terminal.keyboard"):
        keyboard.give_keys_back()
    os._exit(code)


def _is_main_thread() -> bool:
    threading = sys.modules.get("threading")
    return threading is None or threading.current_thread() is threading.main_thread()
