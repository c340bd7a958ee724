"""One request and its answer, in a thread of its own, which whoever waits for it can leave at any time."""

from __future__ import annotations

import socket
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from typing import Any, Final

import httpx2

from ossia.agent.control import Control

_MAX_BODY_BYTES: Final = 16 << 20
_MAX_EVENT_BYTES: Final = 16 << 20
"""llama-server's last event has the whole prompt in it again, as text."""
_MAX_FAULT_BYTES: Final = 1 << 16
_MOST_WAITING: Final = 4
"""Items that wait for a slow reader: each may be as large as an event."""


class Refused(Exception):
    """An answer with another status than 2xx."""

    def __init__(self, status: int, text: str, headers: httpx2.Headers) -> None:
        super().__init__(status)
        self.status = status
        self.text = text
        self.headers = headers


@dataclass(slots=True, weakref_slot=True, eq=False)
class Line:
    """The line for requests. `stream` is its connection, once there is one; the next request may reuse it."""

    http: httpx2.Client
    stream: Any = None

    @classmethod
    def of_its_own(cls, http: httpx2.Client) -> Line:
        """A line that closes `http` once nobody holds it any more, not even a thread.

        If a socket were closed while a thread still waits on it, its number could be given to another socket, and the
        thread would wait on that one.
        """
        line = cls(http)
        weakref.finalize(line, http.close)
        return line


class Exchange:
    """A request in a thread of its own: whoever waits for it can stop at any time, whatever the network does."""

    def __init__(self, line: Line, request: httpx2.Request, read: Callable[[httpx2.Response], Iterator[str]]) -> None:
        self._line = line
        self._request = request
        self._read = read
        self._came: Queue[str | BaseException | None] = Queue(_MOST_WAITING)
        self._given_up = threading.Event()
        self._stream = line.stream
        self._in_handshake: socket.socket | None = None
        request.extensions["trace"] = self._trace

    def items(self, control: Control, limit_s: float | None = None) -> Generator[str, None, None]:
        """Yield items until the end or a stop. Raises what broke it, or ReadTimeout after `limit_s` for one."""
        threading.Thread(target=self._run, name="ossia-request", daemon=True).start()
        forget = control.on_stop(self._give_up)
        try:
            while (item := self._came.get(timeout=limit_s)) is not None and not control.stopped:
                if isinstance(item, BaseException):
                    raise item
                yield item
        except Empty:
            raise httpx2.ReadTimeout("too slow") from None
        finally:
            forget()
            self._give_up()

    def _run(self) -> None:
        try:
            response = self._line.http.send(self._request, stream=True)
            try:
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise httpx2.DecodingError("it compressed its answer, which ossia didn't ask for")
                if not response.is_success:
                    raise Refused(response.status_code, _start_of(response), response.headers)
                for item in self._read(response):
                    if response.is_closed:  # all of it is here: its connection may be another request's from now on
                        self._stream = None
                    self._put(item)
                    if self._given_up.is_set():
                        return
            finally:
                response.close()
                self._stream = None
            self._put(None)
        except BaseException as error:
            self._put(error)
        finally:
            del self._line  # the request, which refers to this exchange, keeps that alive for a while

    def _put(self, item: str | BaseException | None) -> None:
        while not self._given_up.is_set():
            with suppress(Full):
                self._came.put(item, timeout=0.1)
                return

    def _give_up(self) -> None:
        self._given_up.set()
        with suppress(Full):  # then nobody is waiting
            self._came.put_nowait(None)
        self._cut()

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith("start_tls.started") and (own := self._socket) is not None:
            # `wrap_socket` detaches the socket that we know, and returns the new one only after the handshake.
            self._in_handshake = socket.fromfd(own.fileno(), own.family, own.type)
        elif event.endswith(("start_tls.complete", "start_tls.failed")) and self._in_handshake is not None:
            self._in_handshake.close()
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = self._line.stream = info["return_value"]
            if self._given_up.is_set():
                self._cut()

    def _cut(self) -> None:
        """Shut the connection down below TLS, which the other thread may be reading: it gets an end of file."""
        for own in filter(None, (self._socket, self._in_handshake)):
            with suppress(OSError):
                socket.socket.shutdown(own, socket.SHUT_RDWR)

    @property
    def _socket(self) -> socket.socket | None:
        own = self._stream.get_extra_info("socket") if self._stream is not None else None
        return own if isinstance(own, socket.socket) else None


def events_of(response: httpx2.Response) -> Iterator[str]:
    """The data of its server-sent events, each bounded; the body of an answer that is JSON, and no stream."""
    if response.headers.get("content-type", "").startswith("application/json"):
        yield from body_of(response)
        return
    for event in httpx2.EventSource(response, max_event_size=_MAX_EVENT_BYTES):
        if event.data:
            yield event.data


def body_of(response: httpx2.Response) -> Iterator[str]:
    """The whole body, bounded, as the only item."""
    content = bytearray()
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > _MAX_BODY_BYTES:
            raise httpx2.ReadError(f"an answer of more than {_MAX_BODY_BYTES >> 20} MB")
    yield content.decode("utf-8", "replace")


def _start_of(response: httpx2.Response) -> str:
    content = b""
    for chunk in response.iter_bytes():
        content += chunk
        if len(content) > _MAX_FAULT_BYTES:
            break
    return content[:_MAX_FAULT_BYTES].decode("utf-8", "replace")
