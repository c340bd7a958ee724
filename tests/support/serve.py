"""A real `ossia serve`, for its clients."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import start
from tests.support.started import STARTED

ENDS_IN_S = 30


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server answers: `url` is the base of the APIs, `http://127.0.0.1:40123/v1`."""

    host: str
    port: int
    token: str
    pid: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/v1"


@contextmanager
def serving(*flags: str, home: Path, token: str = "a-token") -> Iterator[Address]:
    """A server on a free port of loopback, with a home of its own; ended by SIGTERM."""
    own = {name: str(home / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    env = {"HOME": str(home), "OSSIA_SERVE_TOKEN": token} | own
    process = start("serve", "--port", "0", *flags, env={**os.environ, **env})
    lines: list[str] = []
    STARTED.remove(process)  # it is ended here, and may serve all tests of a module
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line.decode())
        if found := re.search(r"http://([\d.]+):(\d+)/v1", lines[-1]):
            break
    else:
        raise AssertionError(f"the server didn't start: {''.join(lines)}")
    threading.Thread(target=process.stderr.read, daemon=True).start()  # so that it never waits for its reader
    try:
        yield Address(found[1], int(found[2]), token, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(ENDS_IN_S)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()
