"""The connections of one fetch: made to checked addresses only, cut at a stop or at the deadline."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TypeVar

import httpcore2

from ossia.tools.ending import Watch
from ossia.tools.fetch.guard import Guard

_Answer = TypeVar("_Answer")
_CONNECT_SHARE_S = 5.0
"""The time for one address before the next is tried: a machine without IPv6 still gets IPv6 addresses."""


class GuardedBackend(httpcore2.NetworkBackend):
    """Connects to the guard's addresses only."""

    def __init__(self, guard: Guard, watch: Watch) -> None:
        self._guard, self._watch = guard, watch

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        self._watch.check()
        made: list[Stream] = []
        try:
            return in_a_thread(lambda: self._connected(host, port, made), self._watch)
        except BaseException:
            for stream in made:  # the watch ended just after it was made
                stream.close()
            raise

    def _connected(self, host: str, port: int, made: list[Stream]) -> Stream:
        """A connection to the first answering one of the checked addresses; it is noted in `made`."""
        addresses = self._guard.addresses(host, port)
        last: OSError = OSError(errno.EADDRNOTAVAIL, "no address")
        for address in addresses:
            room = self._watch.left_s
            timeout_s = room if address == addresses[-1] else min(room, _CONNECT_SHARE_S)
            try:
                stream = Stream(socket.create_connection((address, port), timeout_s), self._watch)
            except OSError as error:
                last = error
                continue
            made.append(stream)
            if self._watch.reason is not None:  # nobody waits for it any more
                stream.close()
            return stream
        raise httpcore2.ConnectError(str(last)) from last


def in_a_thread(ask: Callable[[], _Answer], watch: Watch) -> _Answer:
    """The result of `ask`, unless the watch ends first: neither look-ups nor connects can be interrupted."""
    answer: Future[_Answer] = Future()
    done = threading.Event()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)
        done.set()

    watch.on_cut(done.set)
    threading.Thread(target=run, name="ask", daemon=True).start()
    done.wait()
    watch.check()
    return answer.result()


class Stream(httpcore2.NetworkStream):
    """A connection whose only clock is the watch. `last` came last; `broke_off`: TLS ended without its sign of an end.

    The watch shuts down a second descriptor of it: that wakes a read, also one inside TLS, and can't hit a socket that
    got the number of a closed one.
    """

    def __init__(self, connection: socket.socket, watch: Watch) -> None:
        self._socket, self._watch = connection, watch
        self.last, self.broke_off = b"", False
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._is_reset = False  # the system reports it once, here to a write, and httpcore2 doesn't pass it on
        self._handle = connection.dup()
        self._lock = threading.Lock()
        watch.on_cut(self._wake)

    def _wake(self) -> None:
        with self._lock, contextlib.suppress(OSError):  # not connected any more, or closed
            self._handle.shutdown(socket.SHUT_RDWR)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            data = self._socket.recv(max_bytes)
        except ssl.SSLEOFError:  # the answer's own length or compression shows whether something is missing
            data, self.broke_off = b"", True
        except OSError as error:
            self._watch.check()
            raise httpcore2.ReadError(str(error)) from error
        self._watch.check()
        if not data and self._is_reset:
            raise httpcore2.ReadError("the connection was reset")
        self.last = data or self.last
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._socket.sendall(buffer)
        except OSError as error:
            self._is_reset = True
            self._watch.check()
            raise httpcore2.WriteError(str(error)) from error
        self._watch.check()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        try:
            self._socket = ssl_context.wrap_socket(
                self._socket, server_hostname=server_hostname, suppress_ragged_eofs=False
            )
        except (OSError, ValueError) as error:
            self.close()
            self._watch.check()
            reason = "no TLS connection could be made"
            if isinstance(error, ssl.SSLCertVerificationError):
                reason = f"its certificate isn't valid ({error.verify_message})"
            raise httpcore2.ConnectError(reason) from error
        self._watch.check()
        return self

    def close(self) -> None:
        self._socket.close()
        with self._lock:
            self._handle.close()
