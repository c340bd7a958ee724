"""A client for one JSON service that the user configured: a search service, on the web or on this machine."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urljoin

from ossia.tools.fetch._exchange import (
    Answer,
    ExchangeFailed,
    FetchLimits,
    Link,
    opened,
    plain_chunks,
    read_bounded,
    status_text,
    watching,
)
from ossia.tools.fetch.guard import Guard, Refused, Resolver, WebUrl, is_local, parse_proxy, parse_url, resolve
from ossia.tools.spec import Stop, ToolFailed

if TYPE_CHECKING:
    from ossia.tools.fetch._network import Watch

_HEADERS = {"User-Agent": "ossia", "Accept": "application/json", "Accept-Encoding": "gzip, deflate"}


class ServiceFailed(ToolFailed):
    """The service gave no usable answer. The message is one line for the model, without keys, parameters or paths.

    `Error: search.example answered 403 Forbidden`. `reason` is the part after `Error: `; `status` is the HTTP status,
    None when there was no answer at all.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(f"Error: {reason}", taints=frozenset())
        self.reason = reason
        self.status = status


class JsonClient:
    """Talks to exactly one host and port, which may be private: the user wrote it into their configuration.

    `base` is e.g. `"http://127.0.0.1:8888/"` or `"https://api.search.brave.com/res/v1/"`. Nothing else is reached: a
    redirect is followed only within that host and port. `proxy` is the user's HTTP proxy (`"http://proxy:3128"`), which
    is passed by for a base whose host is local by its name or address. Raises `ValueError` for a base that isn't an
    http(s) URL.
    """

    def __init__(
        self,
        base: str,
        *,
        limits: FetchLimits | None = None,
        resolver: Resolver = resolve,
        proxy: str | None = None,
    ) -> None:
        try:
            self._base = parse_url(base)
        except Refused as error:
            raise ValueError(f"the service's address: {error}") from None  # without it: it may hold a password
        self._limits = limits or FetchLimits()
        here = frozenset({self._base.host_port})
        direct = here if is_local(self._base.host) else frozenset()
        self._link = Link(Guard(here, resolver), parse_proxy(proxy) if proxy else None, direct)

    def request_json(
        self,
        method: str,
        url_or_path: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str | int] | None = None,
        json: object = None,
        stop: Stop,
    ) -> object:
        """The decoded JSON of the answer (a dict, a list, …), of 3 MB at the most.

        `url_or_path` is joined to `base`, which counts as a folder (`"search"` below `http://h/searxng` is
        `/searxng/search`, `"/search"` is that of the host), or a whole URL on the same scheme, host and port (else
        `ValueError`: a mistake of ours). `params` are put behind it, percent-encoded; `json` is sent as the body.
        Raises `ServiceFailed` for a status of 400 and above, an answer that isn't JSON or is too large, no answer
        within the time, or a stop.

        >>> JsonClient("http://127.0.0.1:8888").request_json(
        ...     "GET", "/search", params={"q": "capybara", "format": "json"}, stop=stop)
        {'query': 'capybara', 'results': [{'title': 'Capybara', 'url': 'https://…', 'content': '…'}]}
        """
        url = self._within(url_or_path, params)
        sent = {**_HEADERS, **(headers or {})}
        content = None
        if json is not None:
            content = jsonlib.dumps(json, ensure_ascii=False).encode("utf-8", "replace")
            sent["Content-Type"] = "application/json"
        try:
            with watching(stop, self._limits.timeout_s) as watch:
                body = self._exchange(method, url, sent, content, watch)
        except ExchangeFailed as error:
            raise ServiceFailed(f"{self._base.host_header} gave no answer: {error}") from None
        try:
            return jsonlib.loads(body)
        except (ValueError, RecursionError):
            raise ServiceFailed(f"{self._base.host_header} didn't answer with JSON", 200) from None

    def _within(self, url_or_path: str, params: Mapping[str, str | int] | None) -> WebUrl:
        joined = urljoin(f"{str(self._base).rstrip('/')}/", url_or_path)
        if params:
            joined += ("&" if "?" in joined else "?") + urlencode(params, errors="replace")
        url = parse_url(joined)
        if not self._same_place(url):
            raise ValueError(f"{url.scheme}://{url.host_header} isn't the service {self._base}")
        return url

    def _same_place(self, url: WebUrl) -> bool:
        return (url.scheme, url.host_port) == (self._base.scheme, self._base.host_port)

    def _exchange(
        self, method: str, url: WebUrl, headers: Mapping[str, str], content: bytes | None, watch: Watch
    ) -> bytes:
        for _ in range(self._limits.redirects + 1):
            with opened(self._link, watch, method, url, headers, content) as answer:
                if answer.location is None or method != "GET":
                    return self._body(answer)
                url = self._redirected(url, answer)
        raise ServiceFailed(f"{self._base.host_header} redirects in a circle", answer.status)

    def _redirected(self, url: WebUrl, answer: Answer) -> WebUrl:
        """Where the service sends us, if that is still itself: a key must not travel to another host."""
        try:
            target = parse_url(urljoin(str(url), answer.location or ""))
        except (Refused, ValueError):
            target = None
        if target is None or not self._same_place(target):
            told = "redirects to another place: the configuration must name its final address"
            raise ServiceFailed(f"{self._base.host_header} {told}", answer.status)
        return target

    def _body(self, answer: Answer) -> bytes:
        if not 200 <= answer.status < 300:
            raise ServiceFailed(f"{self._base.host_header} answered {status_text(answer.status)}", answer.status)
        body, truncated = read_bounded(plain_chunks(answer), self._limits.max_bytes)
        if truncated:
            size = f"{self._limits.max_bytes / 1e6:g} MB"
            raise ServiceFailed(f"{self._base.host_header} answered with more than {size}", answer.status)
        return body
