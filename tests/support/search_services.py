"""Search services on loopback: each answers as its documentation says it does, on its own path, with its own key."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

KEY = "sk-very-secret-0123456789"

# Shapes as the services' documentation has them, with fields beside those that are read; the texts are ours.
ANSWERS: Mapping[str, object] = {
    "/search": {
        "query": "capybara",
        "number_of_results": 0,
        "results": [
            {"url": "http://a.test/capy", "title": "Capybara facts", "content": "The largest living rodent.",
             "engine": "sqlite", "engines": ["sqlite"], "score": 1.0, "category": "general", "publishedDate": None},
            {"url": "http://b.test/x?a=1&b=2", "title": "How <b> and <script> work", "content": "", "engine": "sqlite"},
        ],
        "answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": [],
    },
    "/res/v1/web/search": {
        "type": "search",
        "query": {"original": "capybara", "more_results_available": True},
        "web": {
            "type": "search",
            "results": [
                {"title": "Capybara facts", "url": "http://a.test/capy", "is_source_local": False,
                 "description": "The <strong>largest</strong> living rodent.", "page_age": "2024-01-01T00:00:00"},
                {"title": "How &lt;b&gt; and &lt;script&gt; work", "url": "http://b.test/x?a=1&b=2", "description": ""},
            ],
        },
    },
    "/exa/search": {
        "requestId": "1", "resolvedSearchType": "neural",
        "results": [
            {"id": "http://a.test/capy", "title": "Capybara facts", "url": "http://a.test/capy", "author": None,
             "summary": "The largest living rodent.", "text": "Capybaras are …"},
            {"id": "http://b.test/x?a=1&b=2", "title": "How <b> and <script> work", "url": "http://b.test/x?a=1&b=2"},
        ],
    },
    "/mojeek/search": {
        "response": {
            "status": "OK",
            "head": {"query": "capybara", "results": 2},
            "results": [
                {"url": "http://a.test/capy", "title": "Capybara facts", "desc": "The <em>largest</em> living rodent."},
                {"url": "http://b.test/x?a=1&b=2", "title": "How &lt;b&gt; and &lt;script&gt; work", "desc": ""},
            ],
        }
    },
    "/serper/search": {
        "searchParameters": {"q": "capybara", "type": "search"},
        "organic": [
            {"title": "Capybara facts", "link": "http://a.test/capy", "snippet": "The largest living rodent.",
             "position": 1},
            {"title": "How <b> and <script> work", "link": "http://b.test/x?a=1&b=2", "position": 2},
        ],
    },
    "/tavily/search": {
        "query": "capybara", "answer": None, "images": [], "response_time": 0.5,
        "results": [
            {"title": "Capybara facts", "url": "http://a.test/capy", "content": "The largest living rodent.",
             "score": 0.9, "raw_content": None},
            {"title": "How <b> and <script> work", "url": "http://b.test/x?a=1&b=2", "content": ""},
        ],
    },
    "/v1/search": {
        "results": {
            "web": [
                {"url": "http://a.test/capy", "title": "Capybara facts", "description": "unread",
                 "snippets": ["The largest", "living rodent."], "page_age": "2024-01-01T00:00:00"},
            ],
            "news": [{"url": "http://b.test/x?a=1&b=2", "title": "How <b> and <script> work", "description": ""}],
        },
        "metadata": {"query": "capybara", "latency": 0.1},
    },
}  # fmt: skip

PREFIXES: Mapping[str, str] = {
    "searxng": "", "brave": "res/v1/", "exa": "exa/", "mojeek": "mojeek/", "serper": "serper/", "tavily": "tavily/",
    "you": "",
}  # fmt: skip
"""What stands behind the server's address in the base of each service."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    params: Mapping[str, str]
    body: Any


@dataclass(slots=True)
class Services:
    """The server. `status` is answered to everything, `raw` is sent instead of the JSON, after `answers_after_s`."""

    base: str
    asked: list[Asked] = field(default_factory=list)
    status: int = 200
    raw: bytes | None = None
    answers_after_s: float = 0.0
    answers: dict[str, object] = field(default_factory=lambda: dict(ANSWERS))

    def url(self, kind: str) -> str:
        """The base of the service of this kind."""
        return self.base + PREFIXES[kind]


@contextmanager
def search_services() -> Iterator[Services]:
    """Serve on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            params = dict(parse_qsl(parts.query, keep_blank_values=True))
            headers = {name.lower(): value for name, value in self.headers.items()}
            services.asked.append(Asked(self.command, parts.path, headers, params, json.loads(body or b"null")))
            over.wait(services.answers_after_s)
            known = parts.path in services.answers
            sent = services.raw if services.raw is not None else json.dumps(services.answers.get(parts.path)).encode()
            with suppress(ConnectionError):
                self._send(services.status if known else 404, sent)

        def _send(self, status: int, sent: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = _answer

        def log_message(self, *args: object) -> None:
            """Tests are quiet."""

    over = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    services = Services(f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield services
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
