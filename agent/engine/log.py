"""llama.cpp's log."""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TextIO

_DEBUG, _ERROR, _CONTINUES = 1, 4, 5  # ggml_log_level (ggml.h; llama-cpp-python gives others); 5 goes on with a line


class Log:
    """The destination of llama.cpp's log: a file, or nowhere. Keeps its last errors, for our own messages."""

    def __init__(self) -> None:
        self.errors: deque[str] = deque(maxlen=8)
        self.owner: object = None  # the model that was loaded last, which has the file
        self._file: TextIO | None = None
        self._level = _DEBUG

    def open(self, path: Path | None) -> None:
        """Append to `path` from now on. If it can't be written to, the log is dropped: that is no reason not to run."""
        if self._file is not None:
            self._file.close()
        self._file = None
        if path is not None:
            with suppress(OSError):
                self._file = path.open("a", encoding="utf-8", errors="replace", buffering=1)

    @property
    def reason(self) -> str:
        """The first of the last errors: those after it only say that something failed."""
        return self.errors[0] if self.errors else "it gave no reason"

    def write(self, level: int, text: bytes, _data: object) -> None:
        """The callback of llama.cpp (`ggml_log_callback`)."""
        self._level = self._level if level == _CONTINUES else level
        if self._level == _DEBUG:  # several lines a token
            return
        message = text.decode("utf-8", "replace")
        if level == _ERROR:
            self.errors.append(re.sub(r"^\w+: ", "", " ".join(message.split())))
        if self._file is not None:
            try:
                self._file.write(message)
            except (OSError, ValueError):  # a full disk, a file closed meanwhile
                self._file = None
