"""The lines of `ossia run --jsonl` on stdout: one for each published event, whole, the result being the last."""

from __future__ import annotations

import threading

from ossia.agent.stream.events import Event, Result, to_json
from ossia.cli.interrupts import hold
from ossia.cli.streams import stdout
from ossia.cli.words import json_line

_TURN = 1  # a run has one


class Lines:
    """Writes events. Threads: any; a line is never cut by an interrupt, nor by another line.

    After the result, and after an error (a full disk, a reader that is gone), nothing is written any more.

        lines = Lines()
        lines.write(Begin("etude"))            # {"v": 1, "type": "begin", "turn": 1, "model": "etude", …}
        lines.write(Result("answered", "816"))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._over = False

    def write(self, event: Event) -> None:
        """Write one event. Raises OSError, once."""
        rest = memoryview(f"{json_line(to_json(event, _TURN))}\n".encode("utf-8", "replace"))
        with hold(), self._lock:
            if self._over:
                return
            stream = stdout()
            stream.flush()
            raw = getattr(stream.buffer, "raw", stream.buffer)
            self._over = True
            while rest:
                rest = rest[raw.write(rest) or 0 :]
            self._over = isinstance(event, Result)
