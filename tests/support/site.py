"""A small web site on loopback, with pages that behave and pages that don't, and names that resolve as a test says.

    with Site() as site:
        site.page("/capy", "<title>Capy</title><p>See <a href='/about'>about</a>")
        site.redirect("/old", "/capy")
        site.drip("/slow")                       # a byte now and then, for ever
        fetcher = Fetcher(allow_hosts=[site.at("a.test")], resolver=Names({"a.test": ["127.0.0.1"]}))
        fetcher.fetch(site.url("/capy", host="a.test"), stop=NoStop())
        site.requests[-1].path                   # "/capy"
        site.connections                         # how many were made, whatever was asked over them

Every route answers GET and POST; a route that isn't there is a 404. It also speaks as a forward proxy
(`GET http://other.test/capy` is answered as `/capy`) and refuses CONNECT.
"""

from __future__ import annotations

import itertools
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

from ossia.tools.fetch.guard import HostPort

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. `headers` have lower-case names."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `body` as bytes has a length that is announced; as an iterator it ends with the connection."""

    body: bytes | Iterator[bytes] = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Route = Callable[[Request], Reply]


class Names:
    """A resolver: the addresses of a test's names, in the order of the calls where a name has several lists.

    `Names({"evil.test": ["10.0.0.1"], "turns.test": [["127.0.0.1"], ["127.0.0.2"]]})`. Numbers are read as the
    system reads them (`0x7f.1` is 127.0.0.1); other names aren't known. `asked` holds every look-up.
    """

    def __init__(self, names: Mapping[str, Sequence[str] | Sequence[Sequence[str]]] | None = None) -> None:
        self._names = dict(names or {})
        self.asked: list[tuple[str, int]] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        if host in self._names:
            answers = self._names[host]
            before = sum(1 for asked, _ in self.asked if asked == host) - 1
            answer = answers[min(before, len(answers) - 1)]
            return answer if not isinstance(answer, str) else [str(address) for address in answers]
        if host == "localhost":
            return ["127.0.0.1", "::1"]
        if ":" in host:
            return [host]
        return [socket.inet_ntoa(socket.inet_aton(host))]  # as the system reads numbers; OSError for a name


class Site:
    """The server: runs inside a `with`. With `tls` (a server's context) it speaks https."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._routes: dict[str, Route] = {}
        self._tls = tls
        self._released = threading.Event()
        self.requests: list[Request] = []
        self.connections = 0

    def __enter__(self) -> Site:
        self._server = _Server(self)
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()

    # -- where it is ---------------------------------------------------------------------------------------------------

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str = "/", *, host: str = "127.0.0.1") -> str:
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def at(self, host: str = "127.0.0.1") -> HostPort:
        """This site under a name, for `allow_hosts`."""
        return HostPort(host, self.port)

    # -- what it shows -------------------------------------------------------------------------------------------------

    def route(self, path: str, answer: Route) -> None:
        """`answer` is called, in a thread of the server's, with each request for `path`."""
        self._routes[path] = answer

    def page(
        self,
        path: str,
        body: str | bytes,
        *,
        type: str | None = HTML,
        status: int = 200,
        **headers: str,
    ) -> None:
        """A page. Other headers as `content_language="de"`."""
        data = body.encode() if isinstance(body, str) else body
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        fields |= {"Content-Type": type} if type else {}
        self.route(path, lambda _: Reply(data, status, fields))

    def json(self, path: str, value: object, *, status: int = 200) -> None:
        self.page(path, json.dumps(value), type="application/json", status=status)

    def redirect(self, path: str, to: str, *, status: int = 302) -> None:
        self.route(path, lambda _: Reply(b"", status, {"Location": to}))

    def bomb(self, path: str, size: int = 300_000_000) -> None:
        """Gzip that swells to `size` bytes of HTML blanks."""
        packer = zlib.compressobj(9, wbits=31)
        block = b" " * 1_000_000
        data = b"".join([packer.compress(block) for _ in range(size // len(block))]) + packer.flush()
        self.page(path, data, Content_Encoding="gzip")

    def endless(self, path: str) -> None:
        """A body without an end, as fast as it is taken."""
        block = b"<p>all work and no play\n" + b" \n" * 10_000
        self.route(path, lambda _: Reply(itertools.repeat(block), headers={"Content-Type": HTML}))

    def drip(self, path: str, *, every_s: float = 0.05) -> None:
        """A byte of body now and then, for ever: no single read takes long."""
        self.route(path, lambda _: Reply(self._drops(every_s), headers={"Content-Type": HTML}))

    def silent(self, path: str) -> None:
        """Takes the request and never answers."""

        def wait(_: Request) -> Reply:
            self._released.wait()
            return Reply()

        self.route(path, wait)

    def many_headers(self, path: str) -> None:
        self.route(path, lambda _: Reply(b"x", headers={f"X-{n}": "y" for n in range(50_000)}))

    def _drops(self, every_s: float) -> Iterator[bytes]:
        while not self._released.wait(every_s):
            yield b"."

    def _answer(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.method == "CONNECT":
            return Reply(b"", 403)
        route = self._routes.get(request.path)
        return route(request) if route else Reply(b"<title>nothing here</title>", 404, {"Content-Type": HTML})


class QuietServer(ThreadingHTTPServer):
    """Says nothing of a client that goes away in the middle, which is what the tests are about."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None: ...


class _Server(QuietServer):
    def __init__(self, site: Site) -> None:
        super().__init__(("127.0.0.1", 0), type("Bound", (_Handler,), {"site": site}))
        self._site = site

    def get_request(self) -> tuple[socket.socket, object]:
        self._site.connections += 1
        return super().get_request()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    site: Site

    def log_message(self, format: str, *args: object) -> None:
        """Not on stderr."""

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        body = self.rfile.read(int(headers.get("content-length", "0")))
        reply = self.site._answer(Request(self.command, self.path, headers, body))
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if isinstance(reply.body, bytes):
            self.send_header("Content-Length", str(len(reply.body)))
        else:
            self.close_connection = True
        self.end_headers()
        for piece in [reply.body] if isinstance(reply.body, bytes) else reply.body:
            self.wfile.write(piece)
            self.wfile.flush()

    do_POST = do_CONNECT = do_GET


def wait_until(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    """Return once it is true; fail the test if it never becomes so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this never happened"
        time.sleep(0.01)
