"""A Hugging Face hub on loopback: as much of its protocol as a download uses.

    with Hub({"gpt-oss-20b-mxfp4.gguf": content}, repo="ggml-org/gpt-oss-20b-GGUF") as hub:
        hub.cut_after = [1000]                  # the first transfer ends after 1000 bytes
        pull(model, data_dir, endpoint=hub.endpoint, …)
        hub.requests[-1].headers["range"]       # "bytes=1000-"

As on the real one, the API lists the files with size and sha256, `/resolve/` answers with a redirect to another host
(here: another port) whose address is signed, and that one sends the bytes, from where a Range header asks.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Literal

from tests.support.site import QuietServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HOST = "hub.test"
"""A name for the hub, to those who take it for their proxy."""
SIGNATURE = "Signature=hub-signed-secret"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it came. `headers` have lower-case names."""

    host: Literal["hub", "storage"]
    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Hub:
    """The two servers and what they do wrong. Change the fields between requests."""

    files: dict[str, bytes]
    repo: str
    sent: dict[str, bytes] = field(default_factory=dict)
    """What is sent in place of a file's content: a wrong hash."""
    cut_after: list[int] = field(default_factory=list)
    """For each of the next transfers: the bytes after which the connection ends."""
    cut_by: Literal["close", "reset"] = "close"
    hold: threading.Event | None = None
    """A transfer that is cut waits for this before it ends: somebody interrupts it meanwhile."""
    status: dict[str, int] = field(default_factory=dict)
    """Answers other than 200 for paths that begin so; "storage" stands for all transfers."""
    ignores_range: bool = False
    says_less: int = 0
    """For so many transfers the announced length is what is sent before the cut: it looks complete."""
    compressed: bool = False
    """The content comes gzipped, without being asked for."""
    chunked: bool = False
    """No length is announced."""
    endless: str = ""
    """Answers to paths that begin so never end; "storage" stands for all transfers."""
    without_hash: bool = False
    gated: bool = False
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> Hub:
        self._hub = self._serve(_HubHandler)
        self._storage = self._serve(_StorageHandler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self._hub, self._storage):
            server.shutdown()
            server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._hub.server_address[1]}"

    @property
    def storage(self) -> str:
        return f"http://127.0.0.1:{self._storage.server_address[1]}"

    def transfers(self) -> list[Request]:
        """The requests for content that reached the storage."""
        return [request for request in self.requests if request.host == "storage"]

    def _serve(self, handler: type[_Handler]) -> QuietServer:
        bound = type(handler.__name__, (handler,), {"hub": self})
        server = QuietServer(("127.0.0.1", 0), bound)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    host: Literal["hub", "storage"]
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        """Not on stderr."""

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.path = self.path.removeprefix(f"http://{HOST}")  # whoever takes it for a proxy writes the whole address
        self.hub.requests.append(Request(self.host, self.command, self.path, headers))
        self.answer()

    def answer(self) -> None:
        raise NotImplementedError

    def never_end(self, status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        with suppress(OSError):  # until nobody listens any more
            while True:
                self.wfile.write(b"x" * 65_536)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _HubHandler(_Handler):
    host = "hub"

    def answer(self) -> None:
        hub = self.hub
        for prefix, status in hub.status.items():
            if self.path.startswith(prefix):
                if self.path.startswith(hub.endless or "-"):
                    self.never_end(status)
                    return
                self.reply(status, b"{}", X_Error_Message="as the test wants it")
                return
        if self.path.startswith(hub.endless or "-"):
            self.never_end()
        elif hub.gated:
            self.reply(403, b"{}", X_Error_Code="GatedRepo")
        elif self.path.split("?")[0].startswith(f"/api/models/{hub.repo}"):
            self.reply(200, json.dumps(self._listing()).encode(), Content_Type="application/json")
        elif found := re.fullmatch(rf"/{hub.repo}/resolve/{COMMIT}/([^?]+)(\?.*)?", self.path):
            self._redirect(found[1])
        else:
            self.reply(404, b"{}", X_Error_Code="RepoNotFound")

    def _listing(self) -> dict[str, object]:
        siblings: list[dict[str, object]] = [{"rfilename": "README.md", "size": 12, "blobId": "e" * 40}]
        for name, content in self.hub.files.items():
            lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
            siblings.append({"rfilename": name, "size": len(content), "blobId": "f" * 40, "lfs": lfs})
            if self.hub.without_hash:
                del siblings[-1]["lfs"]
        return {
            "_id": "1",
            "id": self.hub.repo,
            "modelId": self.hub.repo,
            "sha": COMMIT,
            "siblings": siblings,
            "tags": [],
        }

    def _redirect(self, name: str) -> None:
        content = self.hub.files.get(name)
        if content is None:
            self.reply(404, b"", X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
            return
        self.reply(
            302,
            Location=f"{self.hub.storage}/{name}?{SIGNATURE}",
            X_Repo_Commit=COMMIT,
            X_Linked_Size=str(len(content)),
            X_Linked_ETag=f'"{hashlib.sha256(content).hexdigest()}"',
        )


class _StorageHandler(_Handler):
    host = "storage"

    def answer(self) -> None:
        hub, name = self.hub, self.path.split("?")[0].lstrip("/")
        if "storage" in hub.status:
            self.reply(hub.status["storage"])
            return
        if hub.endless == "storage":
            self.never_end()
            return
        content = hub.sent.get(name, hub.files[name])
        start, status = 0, 200
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and not hub.ignores_range:
            start, status = int(asked[1]), 206
        body = content[start:]
        self.send_response(status)
        cut = hub.cut_after.pop(0) if hub.cut_after else None
        if hub.says_less and cut is not None:
            hub.says_less -= 1
            body, cut = body[:cut], None
        if hub.compressed:
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        if hub.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            self.send_header("Content-Length", str(len(body)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(body[:cut])
        if cut is not None:
            self._cut()

    def _cut(self) -> None:
        self.wfile.flush()
        if self.hub.hold:
            self.hub.hold.wait(30)
        if self.hub.cut_by == "reset":  # closing with unsent time-out 0 sends RST in place of FIN
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
