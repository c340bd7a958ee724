"""The server: a socket, uvicorn over it, and the end of both."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from uvicorn import Config
from uvicorn import Server as UvicornServer
from uvicorn.protocols.http.h11_impl import H11Protocol

from ossia.agent.serving.asked import BadRequest
from ossia.cli.exits import ExitError
from ossia.cli.serve.faults import body_of, ending

if TYPE_CHECKING:
    from ossia.cli.serve.answer import Door
    from ossia.cli.serve.app import App

PATIENCE_S, DRAIN_S = 60.0, 30.0
_LOOK_EVERY_S = 0.5
_MAX_BEHIND_BYTES = 1 << 20
"""Of further requests that a connection sends while one is answered."""
_BACKLOG = 128
_MAX_CONNECTIONS = 512
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


def bound(host: str, port: int) -> socket.socket:
    """A socket bound to the address; port 0: any free one. Raises ExitError, with a next step."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)  # localhost is 127.0.0.1
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ExitError(f"port {port} of {host} is taken: choose another (--port 0: any free one)") from None
        if error.errno == errno.EACCES:
            raise ExitError(f"port {port} isn't for this user: choose one above 1023, as --port 8321") from None
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise ExitError(f"--host {host}: can't be listened on: {why}: give an address of this machine") from None


def url_of(host: str, port: int) -> str:
    """The address of the APIs for this machine: `http://127.0.0.1:8321/v1`."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def most_connections() -> int:
    """The connections that may be open at once: half of what this process may have."""
    limit = os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else -1
    return min(_MAX_CONNECTIONS, limit // 2) if limit > 0 else _MAX_CONNECTIONS


class Protocol(H11Protocol):
    """One connection. What isn't whole in time, in or out, is cut: it costs a socket, and no more."""

    waits_since: float | None = None
    """When the request under way began to come, or the answer to wait for its reader; None: neither is."""
    made = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Too many cost those at rest the longest their place: descriptors are there for the others' work."""
        super().connection_made(transport)
        self.made = time.monotonic()
        there = [one for one in cast("set[Protocol]", self.connections) if not one.transport.is_closing()]
        if len(there) > most_connections():
            others = (one for one in there if one.at_rest and one is not self)
            min(others, key=lambda one: one.made, default=self).transport.abort()

    @property
    def at_rest(self) -> bool:
        """True while no request is answered."""
        return self.cycle is None or self.cycle.response_complete

    def look(self, now: float, patience_s: float) -> None:
        """Cut the connection if its client is too slow. Called every second."""
        reading = self.at_rest or self.cycle.more_body
        kept_alive = self.timeout_keep_alive_task is not None  # uvicorn ends that wait itself
        if not ((reading and not kept_alive) or self.transport.get_write_buffer_size()):
            self.waits_since = None
        elif self.waits_since is None:
            self.waits_since = now
        elif now - self.waits_since > patience_s:
            self.transport.abort()
        if not reading and self.flow.read_paused:  # its end stands behind what it sent besides
            self.flow.resume_reading()
            if len(self.conn.trailing_data[0]) > _MAX_BEHIND_BYTES:
                self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest("this is no HTTP request that can be read, or its headers are too long"))

    def cut(self) -> None:
        """End the connection at once; a request whose answer hasn't begun is refused."""
        if self.at_rest or self.cycle.response_started:
            self.transport.abort()
        else:
            self._refuse(ending())

    def _refuse(self, error: BadRequest) -> None:
        """Answer past uvicorn, and close the connection."""
        body = body_of(error)
        head = f"HTTP/1.1 {error.status} Refused\r\nContent-Type: application/json\r\n"
        self.transport.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()


class Server:
    """Serves an app on a socket until it is drained. One thread calls `run`; `drain` may be called from any.

    `tick` is called ten times a second, `on_drain` with the number of requests under way. `patience_s`: for requests
    that aren't whole, and answers that aren't read.
    """

    def __init__(
        self,
        listening: socket.socket,
        app: App,
        door: Door,
        *,
        tick: Callable[[], object] = lambda: None,
        on_drain: Callable[[int], object] = lambda inside: None,
        patience_s: float = PATIENCE_S,
        drain_s: float = DRAIN_S,
    ) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)  # its lines aren't cleaned
        config = Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,  # clients give a connection up sooner, and none just as they use it
            timeout_graceful_shutdown=1,
        )
        self._uvicorn, self._socket, self._door = _Uvicorn(config, self._look), listening, door
        self._whole = True
        self._on_drain = on_drain
        self._tick, self._patience_s, self._drain_s = tick, patience_s, drain_s
        self._draining, self._now, self._ends_at, self._looks_at = False, False, 0.0, 0.0

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])

    def run(self) -> bool:
        """Serve until it is drained. True: the requests under way have ended; False: they were cut."""
        asyncio.run(self._uvicorn.serve([self._socket]))
        return self._whole

    def drain(self, *, now: bool = False) -> None:
        """Refuse new requests, and end once those under way have, or after 30 s; `now`, or the second time: at once."""
        self._now = now or self._draining
        self._draining = True

    def _look(self, connections: Iterable[Protocol]) -> bool:
        """Called ten times a second, in the loop. True: it is time to end."""
        now = time.monotonic()
        self._tick()
        if self._draining and not self._door.closed:
            self._door.closed, self._ends_at = True, now + self._drain_s
            self._on_drain(self._door.inside)
        if self._door.closed and (self._now or not self._door.inside or now > self._ends_at):
            self._whole = not self._door.inside
            for one in () if self._whole else list(connections):
                one.cut()
            return True
        if now >= self._looks_at:
            self._looks_at = now + _LOOK_EVERY_S
            for one in list(connections):
                one.look(now, self._patience_s)
        return False


class _Uvicorn(UvicornServer):
    """Uvicorn's server; signals are ours."""

    def __init__(self, config: Config, look: Callable[[Iterable[Protocol]], bool]) -> None:
        super().__init__(config)
        self._look = look

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self._look(cast("set[Protocol]", self.server_state.connections))


@contextmanager
def signals_to(do: Callable[[], object]) -> Iterator[None]:
    """Inside the block, Ctrl-C, SIGTERM and a closed terminal call `do`. On the main thread; nothing elsewhere."""
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number, was in before.items() if was is not signal.SIG_IGN]  # nohup, or a shell's `&`
    for number in taken:
        signal.signal(number, lambda number, frame: do())
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
