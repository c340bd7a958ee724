"""Bounds what a server's program writes: its stderr on disk, the lines of its stdout in memory."""

from __future__ import annotations

import codecs
import os
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ossia.tools.mcp._mended import well_formed
from ossia.tools.text import readable

MAX_LOG_BYTES = 1 << 20
_MAX_LINE_BYTES = 32 << 20
_TAIL_BYTES = 4_000
_PIECE_BYTES = 1 << 16

_LINES = "ossia_mcp_lines"


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
        try:
            while piece := os.read(source, _PIECE_BYTES):
                self._tail = (self._tail + piece)[-_TAIL_BYTES:]
                with suppress(OSError):
                    self._write(piece)
        finally:
            os.close(source)

    def _write(self, piece: bytes) -> None:
        with suppress(FileNotFoundError):
            if self._path.stat().st_size + len(piece) > MAX_LOG_BYTES:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            file.write(piece)


class _LineDecoder(codecs.IncrementalDecoder):
    """Returns whole lines only: what follows the last line end is no message. A line too long becomes a note."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._line = bytearray()
        self._too_long = False

    def decode(self, data: Any, final: bool = False) -> str:
        *ends, rest = bytes(data).split(b"\n")
        lines = []
        for end in ends:
            self._add(end)
            lines.append(f"[a line of more than {_MAX_LINE_BYTES} bytes]" if self._too_long else self._text())
            self.reset()
        self._add(rest)
        return "".join(f"{line}\n" for line in lines)

    def reset(self) -> None:
        self._line, self._too_long = bytearray(), False

    def _add(self, piece: bytes) -> None:
        self._too_long = self._too_long or len(self._line) + len(piece) > _MAX_LINE_BYTES
        if self._too_long:
            self._line.clear()
        else:
            self._line += piece

    def _text(self) -> str:
        return well_formed(bytes(self._line)).decode()


@cache
def line_encoding() -> str:
    """The name of an encoding: UTF-8 without the lines of more than 32 MB.

    The encoding is the only thing that we can set about how the library reads a program's stdout. The library keeps a
    line until its end comes, and copies it with each piece: one of 60 MB took all of a call's minute, and 100 MB.
    """
    codecs.register(_find)
    return _LINES


def _find(name: str) -> codecs.CodecInfo | None:
    if name != _LINES:
        return None
    utf8 = codecs.lookup("utf-8")
    return codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_LineDecoder, name=_LINES)
