"""A server in this process, over a service that a test controls."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ossia.agent.control import Control
from ossia.agent.serving.asked import BadRequest
from ossia.cli.serve.answer import Door
from ossia.cli.serve.app import App
from ossia.cli.serve.guard import Guard
from ossia.cli.serve.outlet import Outlet, Start
from ossia.cli.serve.server import Server, bound

TOKEN = "a-token-of-the-tests"


class Echo:
    """Answers with `request["say"]`, part by part, and records which turns were stopped.

    `{"say": ["a", "b"], "stream": true}`; with `"hold": true` it goes on until it is stopped or `released`.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget what was asked so far."""
        self.began, self.stopped, self.released = threading.Semaphore(0), threading.Semaphore(0), threading.Event()

    def answer(
        self, api: str, request: Mapping[str, Any], outlet: Outlet, stop: Control, *, openais: bool = False
    ) -> None:
        stop.on_stop(self.stopped.release)
        self.began.release()
        if request.get("stream"):
            outlet.put(Start(streamed=True, headers={"ossia-queue": "0"}))
            for text in request["say"]:
                outlet.put(f"data: {text}\n\n".encode())
        if request.get("flood"):
            while True:
                outlet.put(b"data: " + b"x" * 4096 + b"\n\n")
        while request.get("hold") and not stop.stopped and not self.released.wait(0.02):
            pass
        if request.get("broken"):
            raise RuntimeError("broken")
        if not request.get("stream"):
            outlet.put(Start(streamed=False))
            outlet.put(json.dumps({"api": api, "said": request["say"]}).encode())

    def models(self) -> Mapping[str, Any]:
        return {"object": "list", "data": [{"id": "etude", "object": "model"}]}

    def model(self, name: str) -> object:
        if name != "etude":
            raise BadRequest("no such model", status=404)
        return {"id": name, "object": "model"}

    def health(self) -> Mapping[str, Any]:
        return {"status": "ok"}


class Running:
    """A server under way, and raw connections to it."""

    def __init__(self, server: Server, service: Any, log: list[str]) -> None:
        self.server, self.service, self.log, self.port = server, service, log, server.port
        self.whole: bool | None = None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.whole = self.server.run()

    def ended(self, seconds: float) -> bool | None:
        """The result of `run`; None: it hasn't ended."""
        self.thread.join(seconds)
        return self.whole

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def exchange(self, request: bytes) -> bytes:
        """Send bytes as they are; all that comes back until the server closes the connection."""
        with self.connect() as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def ask(
        self, body: object, *lines: str, path: str = "/v1/responses", token: str | None = TOKEN, close: bool = True
    ) -> bytes:
        """A whole POST as bytes, for `exchange`; `lines`: further header lines, or other ones."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = [f"Host: 127.0.0.1:{self.port}", "Content-Type: application/json", f"Content-Length: {len(content)}"]
        given += ["Connection: close"] if close else []
        given += [*([f"Authorization: Bearer {token}"] if token else [])]
        names = {line.partition(":")[0].lower() for line in lines}
        kept = [line for line in given if line.partition(":")[0].lower() not in names]
        kept += [line for line in lines if not line.endswith(":")]
        return "\r\n".join([f"POST {path} HTTP/1.1", *kept, "", ""]).encode() + content


@contextmanager
def running(
    service: Any = None,
    door: Door | None = None,
    *,
    tick: Callable[[], object] = lambda: None,
    comment_s: float = 60,
    **times: float,
) -> Iterator[Running]:
    """A server on a free port, of an `Echo` unless there is a `service`; drained at the end."""
    service, door, log = service or Echo(), door or Door(), list[str]()
    with bound("127.0.0.1", 0) as listening:
        app = App(service, Guard("127.0.0.1", TOKEN), door, log.append, comment_s=comment_s)
        server = Server(listening, app, door, tick=tick, **times)
        made = Running(server, service, log)
        try:
            yield made
        finally:
            server.drain(now=True)
            assert made.ended(30) is not None


def status_of(answer: bytes) -> int:
    """The status of a raw answer."""
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> bytes:
    """What stands behind the headers of a raw answer."""
    return answer.partition(b"\r\n\r\n")[2]


def message_of(answer: bytes) -> str:
    """The one line of an error."""
    found = json.loads(body_of(answer))["error"]["message"]
    assert isinstance(found, str) and "\n" not in found
    return found
