"""Keeps what the user's code prints away from our own stdout, stderr and stdin while it runs in our interpreter.

`sys.stdout` and the others are replaced while such code runs: its output goes to a sink, all other output where it
always did. A write is recognised by its context (also in tasks and `asyncio.to_thread`); in threads of the user's code
by the calling module: that output goes to stderr, unless that is a terminal. Direct writes to file descriptors, such as
those of child processes, aren't caught.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import IO, Any, Literal, cast

Stream = Literal["stdout", "stderr"]
Sink = Callable[[Stream, str], None]

_MAX_FRAMES = 64

_sink: ContextVar[Sink | None] = ContextVar("ossia_sink", default=None)
_modules: set[str] = set()
_lock = threading.Lock()
_holders = 0
_real: dict[str, Any] = {}


@contextmanager
def captured(sink: Sink, module: str) -> Iterator[None]:
    """Within this block, the output of this context and `module` goes to `sink`; reading stdin raises EOFError."""
    _hold(module)
    token = _sink.set(sink)
    try:
        yield
    finally:
        _sink.reset(token)
        _release()


def _hold(module: str) -> None:
    global _holders
    with _lock:
        _modules.add(module)
        _holders += 1
        if _holders == 1:
            for name in ("stdout", "stderr", "stdin"):
                _real[name] = getattr(sys, name)
            for name, real in _real.items():
                setattr(sys, name, _Routed(name, real, _real["stderr"]))


def _release() -> None:
    """The last user restores the real streams, unless somebody else has replaced them meanwhile."""
    global _holders
    with _lock:
        _holders -= 1
        if _holders == 0:
            for name, real in _real.items():
                if isinstance(getattr(sys, name), _Routed):
                    setattr(sys, name, real)
            _real.clear()


def _is_foreign() -> bool:
    """True if one of the user's modules calls, in a thread without a sink."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") in _modules:
            return True
        frame = frame.f_back
    return False


class _Routed:
    """A standard stream with each write routed by its author. It works on for a log handler that holds it."""

    def __init__(self, name: str, real: IO[str], stderr: IO[str]) -> None:
        self._name, self._real, self._stderr = name, real, stderr

    def write(self, text: str) -> int:
        sink = _sink.get()
        if sink is not None:
            sink(cast(Stream, self._name), str(text))
        elif self._real is not None and not _is_foreign():
            return self._real.write(text)
        elif self._stderr is not None and not self._stderr.isatty():
            return self._stderr.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._real is not None and _sink.get() is None:
            self._real.flush()

    @property
    def buffer(self) -> Any:
        return cast(Any, self._real).buffer if _sink.get() is None else _Bytes(self)

    def fileno(self) -> int:
        if _sink.get() is not None:
            raise io.UnsupportedOperation("a function that ossia runs has no file descriptor here")
        return self._real.fileno()

    def isatty(self) -> bool:
        return self._real is not None and _sink.get() is None and self._real.isatty()

    def read(self, size: int = -1) -> str:
        return self._readable().read(size)

    def readline(self, size: int = -1) -> str:
        return self._readable().readline(size)

    def __iter__(self) -> Iterator[str]:
        return iter(self._readable())

    def _readable(self) -> IO[str]:
        if self._real is None or _sink.get() is not None or _is_foreign():
            raise EOFError("there is no input here: take it as a parameter of the function")
        return self._real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)  # encoding, errors, reconfigure…: the real one's


class _Bytes(io.RawIOBase):
    """`sys.stdout.buffer`, for code that writes bytes."""

    def __init__(self, text: _Routed) -> None:
        super().__init__()
        self._text = text

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._text.write(bytes(data).decode("utf-8", "replace"))
        return len(data)
