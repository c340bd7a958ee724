"""The FILE of `ossia run -o`: held from the beginning of the run, written at its end, whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

from ossia.cli.clean import clean, one_line
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.paths import expanded
from ossia.tools.files import Replacement, cannot

_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Descriptor 1 leads to stderr by now."""
_STREAMS = ("/dev", "/dev/fd", "/proc/self/fd")
_MODE = 0o666  # less the umask: it is the user's own output
_APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0)


class OutputFile(io.StringIO):
    """A stream in place of stdout, which becomes the file by `commit`. Raises ExitError for one that can't be written.

    A link is followed now, and not later. Devices, FIFOs and descriptors (`/dev/fd/3`) are opened now.

        with OutputFile("notes.md") as file:
            file.write("# Notes\\n")
            file.commit()
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = one_line(name, 200)
        self._stream = -1
        self._file: Replacement | None = None
        path = expanded(name)
        try:
            found = path.stat() if path.exists() else None
            if not name or name.endswith(os.sep) or (found and stat.S_ISDIR(found.st_mode)):
                raise ExitError(f"-o {self.name}: is a folder; name a file in it")
            if found and (not stat.S_ISREG(found.st_mode) or str(path.parent) in _STREAMS):
                self._stream = os.open(path, _APPEND)
                return
            real = Path(os.path.realpath(path))
            self._file = Replacement(real)
            self._file.require_writable()
            if found and not os.access(real, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            why = "its folder doesn't exist: make it first" if missing else f"can't be written: {error.strerror}"
            raise ExitError(f"-o {self.name}: {why}") from None

    def commit(self) -> None:
        """Write the file. Raises ExitError (1), or BrokenPipeError where a pipe's reader is gone."""
        try:
            if self._file:
                self._file.write(self.getvalue().encode("utf-8", "replace"), _MODE)
                return
            text = clean(self.getvalue()) if os.isatty(self._stream) else self.getvalue()
            with os.fdopen(self._stream, "wb", closefd=False) as stream:
                stream.write(text.encode("utf-8", "replace"))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise ExitError(f"-o {self.name}: {cannot(error, 'written')}", ExitCode.FAILED) from None

    def close(self) -> None:
        """Release it; without `commit`, nothing was written."""
        if self._file:
            self._file.close()
        if self._stream >= 0:
            os.close(self._stream)
            self._stream = -1
        super().close()


def is_stdout(name: str | None) -> bool:
    """Does `-o` name stdout, by `-` or `/dev/stdout`? None: the flag isn't given."""
    return name is None or name in _STDOUT
