"""The one thread on which all of MCP runs, and private logs of what the library and the servers' programs write.

The library needs asyncio, and the rest of ossia is synchronous.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, TypeVar

from ossia.tools.text import readable

_Value = TypeVar("_Value")

_LOGGERS = ("mcp", "mcp_types", "client", "httpx2", "httpcore2")  # "client": what mcp.client.session calls itself
MAX_LOG_BYTES = 1 << 20
_TAIL_BYTES = 4_000
_PIECE_BYTES = 1 << 16


class _PrivateLog(RotatingFileHandler):
    """A log closed to other users: it may quote a server, but no secret of the user's (`hide`)."""

    hide: Callable[[str], str]

    def format(self, record: logging.LogRecord) -> str:
        return self.hide(super().format(record))

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        return TextIOWrapper(os.fdopen(descriptor, "ab"), self.encoding, errors="replace", write_through=True)


class LoopThread:
    """An asyncio loop on a daemon thread. What the libraries log goes to `log`, at most 2 MB, never to a terminal.

    `hide` takes the user's secrets out of a text.
    """

    def __init__(self, log: Path, hide: Callable[[str], str]) -> None:
        self._ready = threading.Event()
        self._handler = _PrivateLog(log, maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
        self._handler.hide = hide
        self._handler.setLevel(logging.WARNING)
        self._propagated = {name: logging.getLogger(name).propagate for name in _LOGGERS}
        for name in _LOGGERS:
            logging.getLogger(name).addHandler(self._handler)
            logging.getLogger(name).propagate = False  # else the root logger's last resort would print to stderr
        self._thread = threading.Thread(target=lambda: asyncio.run(self._until_closed()), name="ossia-mcp", daemon=True)
        self._thread.start()
        self._ready.wait()

    def submit(self, coroutine: Coroutine[Any, Any, _Value]) -> Future[_Value]:
        """Run a coroutine on the loop. Cancelling the future cancels it there."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self, timeout_s: float) -> None:
        """Cancel all tasks and end the thread; after `timeout_s` it is abandoned (it ends with the process)."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._closing.set)
            self._thread.join(timeout_s)
        for name in _LOGGERS:
            logging.getLogger(name).removeHandler(self._handler)
            logging.getLogger(name).propagate = self._propagated[name]
        self._handler.close()

    async def _until_closed(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(_log_fault)
        self._ready.set()
        await self._closing.wait()


def _log_fault(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    logging.getLogger("mcp").error("%s: %r", context.get("message"), context.get("exception"))


class ErrorLog:
    """A server's stderr, read from a pipe on a thread of its own: `file` is what the program gets.

    The end of it is in `path`, what was before that in `path.1`, each of at most 1 MB. Both are private: a server may
    write anything there. A full disk doesn't block a server.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tail = b""
        source, sink = os.pipe()
        self.file = os.fdopen(sink, "w", encoding="utf-8")
        self._thread = threading.Thread(target=self._read, args=(source,), name="ossia-mcp-stderr", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close our end of the pipe: once the program and its children have ended, all is read."""
        self.file.close()

    def last_line(self, timeout_s: float) -> str:
        """The last line that isn't empty, or "". Waits up to `timeout_s` for what is still in the pipe."""
        self._thread.join(timeout_s)
        lines = readable(self._tail.decode("utf-8", "replace")).strip().splitlines()
        return lines[-1] if lines else ""

    def _read(self, source: int) -> None:
        with os.fdopen(source, "rb", buffering=0) as pipe:
            while piece := pipe.read(_PIECE_BYTES):
                self._tail = (self._tail + piece)[-_TAIL_BYTES:]
                with suppress(OSError):
                    self._write(piece)

    def _write(self, piece: bytes) -> None:
        with suppress(FileNotFoundError):
            if self._path.stat().st_size + len(piece) > MAX_LOG_BYTES:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(piece)
