"""The clients: `Fetcher` gets pages for the model, `JsonClient` talks to a service that the user configured.

Both are guarded and bounded in time and bytes, and follow redirects themselves.
"""

from __future__ import annotations

import json as jsonlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import urlencode, urljoin

from ossia.tools.ending import Watch
from ossia.tools.fetch.exchange import (
    Answer,
    FetchFailed,
    FetchLimits,
    Link,
    opened,
    plain_chunks,
    read_bounded,
    status_text,
    watching,
)
from ossia.tools.fetch.guard import (
    Guard,
    HostPort,
    Refused,
    Resolver,
    WebUrl,
    is_local,
    parse_proxy,
    parse_url,
    resolve,
)
from ossia.tools.spec import Stop

_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; ossia)",
    "Accept": "text/html,application/xhtml+xml,text/plain,text/markdown,application/pdf;q=0.9,*/*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}
_SERVICE_HEADERS = {"User-Agent": "ossia", "Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
_TYPES = ("application/xhtml+xml", "application/xml", "application/json", "application/pdf", "application/javascript",
          "application/x-ndjson", "application/toml", "application/yaml")  # fmt: skip
_PDF, _GZIP = b"%PDF-", b"\x1f\x8b"
_SNIFFED_BYTES = 1024
_BAD_REDIRECT = "it redirects to a URL that can't be opened (unknown, not http(s), or not on the public internet)"
_LOOK_BYTES = 4096  # for signs of the end
_BEGIN = re.compile(rb"<(?:html|body)[\s>]", re.IGNORECASE)
_END = re.compile(rb"</(?:html|body)\s*>", re.IGNORECASE)
_CLOSING = {b"{": b"}", b"[": b"]", b"<": b">"}


@dataclass(frozen=True, slots=True)
class Fetched:
    """The content of a URL, found at `url` after redirects.

    `media_type` is in lower case without parameters, judged by the content if the server said none (or hid a PDF).
    `truncated`: `body` is only the first bytes. `private`: a host that only `allow_hosts` opens had part in it.
    `remark`: in our words, a fault of the page. `refresh` is the header of that name: `0; url=/new`.
    """

    url: str
    media_type: str
    charset: str | None
    body: bytes
    truncated: bool = False
    private: bool = False
    remark: str = ""
    refresh: str = ""


class Fetcher:
    """Gets http and https URLs of the public internet, and of the hosts in `allow_hosts`.

    Every connection, also of every redirect, goes to an address that was checked. Requests go through `proxy`
    (`"http://proxy:3128"`, no user name; the environment's are not used), which looks names up itself, so it is the one
    to refuse a public name of a private address. Hosts in `allow_hosts` are reached directly. Raises `ValueError` for a
    proxy of another form. Thread-safe; holds no connections between two calls.
    """

    def __init__(
        self,
        *,
        allow_hosts: Iterable[HostPort] = (),
        resolver: Resolver = resolve,
        proxy: str | None = None,
        limits: FetchLimits | None = None,
    ) -> None:
        allow = frozenset(allow_hosts)
        self._link = Link(Guard(allow, resolver), parse_proxy(proxy) if proxy else None, direct=allow)
        self._limits = limits or FetchLimits()

    def fetch(self, url: str, *, stop: Stop) -> Fetched:
        """The content of `url`. Raises `FetchFailed`; soon after a stop, too.

        >>> fetcher.fetch("https://example.com/", stop=stop)
        Fetched(url='https://example.com/', media_type='text/html', charset='utf-8', body=b'<!doctype…')
        """
        with watching(stop, self._limits.timeout_s) as watch:
            return self._follow(url.strip(" "), watch)

    def _follow(self, url: str, watch: Watch) -> Fetched:
        private = False
        for hop in range(self._limits.redirects + 1):
            try:
                target = parse_url(url)
                private = private or target.host_port in self._link.guard.allow
                with opened(self._link, watch, "GET", target, _HEADERS) as answer:
                    if answer.location is None:
                        return replace(self._read(url, answer), private=private)
                    url = _joined(url, answer.location)
            except Refused:
                if hop == 0:
                    raise
                raise FetchFailed(_BAD_REDIRECT) from None  # its words would name where the redirect leads
        raise FetchFailed("too many redirects")

    def _read(self, url: str, answer: Answer) -> Fetched:
        status = f"HTTP status {status_text(answer.status)}"
        if answer.status >= 400 or answer.status == HTTPStatus.PARTIAL_CONTENT:  # we ask for no part
            check = ", a check against programs" if answer.headers.get("cf-mitigated") == "challenge" else ""
            raise FetchFailed(f"{status}{check}")
        limits, chunks = self._limits, plain_chunks(answer)
        start = _first_bytes(chunks)
        lost = f"{status}, without the address it leads to" if answer.status >= 300 else ""
        if lost and not start.strip():
            raise FetchFailed(lost)
        media_type, charset = _content_type(answer.headers.get("content-type", ""), start)
        pdf = media_type == "application/pdf"
        body, truncated = read_bounded(chunks, limits.max_pdf_bytes if pdf else limits.max_bytes, start=start)
        if pdf and truncated:
            raise FetchFailed(f"the PDF is larger than {limits.max_pdf_bytes / 1e6:g} MB")
        cut = "" if truncated else _why_cut(answer, media_type, body)
        remark = "; ".join(filter(None, (lost, cut and f"the end of this page may be missing: {cut}")))
        return Fetched(
            url, media_type, charset, body, truncated, remark=remark, refresh=answer.headers.get("refresh", "")
        )


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise FetchFailed(_BAD_REDIRECT) from None


def _first_bytes(chunks: Iterator[bytes]) -> bytes:
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= _SNIFFED_BYTES:
            break
    return start


def _content_type(header: str, start: bytes) -> tuple[str, str | None]:
    """Media type and charset. Raises `FetchFailed` for unreadable types."""
    from email.message import Message

    message = Message()
    message["content-type"] = header
    media_type, charset = message.get_content_type() if header else "", message.get_content_charset()
    if start[:_SNIFFED_BYTES].lstrip().startswith(_PDF):
        return "application/pdf", None
    if media_type in ("", "application/octet-stream"):
        media_type = _sniffed(start)
    if start.startswith(_GZIP):
        raise FetchFailed("it is compressed in a way that wasn't asked for")
    known = media_type.startswith("text/") or media_type in _TYPES or media_type.endswith(("+xml", "+json"))
    if not known or media_type == "application/pdf":
        raise FetchFailed("unsupported content type: only text, HTML, XML, JSON and PDF can be read")
    return media_type, charset


def _sniffed(start: bytes) -> str:
    """The media type by the first bytes: HTML by its first tag, text unless there is a NUL."""
    head = start[:_SNIFFED_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<!--", b"<title", b"<p", b"<div")):
        return "text/html"
    return "application/octet-stream" if b"\0" in start[:_SNIFFED_BYTES] else "text/plain"


def _why_cut(answer: Answer, media_type: str, body: bytes) -> str:
    """The sign that the end of a `body` is missing, which HTTP takes for whole; "" without one.

    A compressed body and one in chunks have an end of their own. A length can be too small; without one, the end of the
    connection is the end of the body, whatever ended it.
    """
    if "content-range" in answer.headers:  # we ask for no part
        return "the server calls it a part"
    if answer.encoding or "transfer-encoding" in answer.headers:
        return ""
    if "content-length" in answer.headers:
        more = not answer.connection.last.endswith(body[-64:])
        return "the server announced less than it sent" if more else ""
    has_end = _has_end(media_type, body)
    if has_end is False:
        return "the server doesn't say how long the page is, and it stops in the middle"
    return "the connection broke off" if answer.connection.broke_off and has_end is None else ""


def _has_end(media_type: str, body: bytes) -> bool | None:
    """True if it ends as its kind does; None for a kind without an end, as text."""
    if "html" in media_type:
        begins, ends = _BEGIN.search(body[:_LOOK_BYTES]), _END.search(body[-_LOOK_BYTES:])
        return True if ends else False if begins else None
    if media_type.endswith(("json", "xml")) and (closing := _CLOSING.get(body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1])):
        return body.rstrip().endswith(closing)
    return None


# -- a service ---------------------------------------------------------------------------------------------------------


class JsonClient:
    """Talks to exactly one host and port, which may be private: the user wrote it into their configuration.

    `base` is e.g. `"https://api.search.brave.com/res/v1/"`. Redirects aren't followed. `proxy` is the user's HTTP proxy
    (`"http://proxy:3128"`), not used for a base whose host is local by its name or address. Raises `ValueError` for a
    base that isn't an http(s) URL.
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

        `url_or_path` is joined to `base`, which counts as a folder: `"search"` below `http://h/searxng` is
        `/searxng/search`, `"/search"` is that of the host. `json` is sent as the body. Raises `FetchFailed` for a
        status of 300 and above, an answer that isn't JSON or is too large, no answer within the time, or a stop;
        ValueError for a URL of another scheme, host or port.

        >>> JsonClient("http://127.0.0.1:8888").request_json(
        ...     "GET", "/search", params={"q": "capybara", "format": "json"}, stop=stop)
        {'query': 'capybara', 'results': [{'title': 'Capybara', 'url': 'https://…', 'content': '…'}]}
        """
        url = self._within(url_or_path, params)
        sent = {**_SERVICE_HEADERS, **(headers or {})}
        content = None
        if json is not None:
            content = jsonlib.dumps(json, ensure_ascii=False).encode("utf-8", "replace")
            sent["Content-Type"] = "application/json"
        try:
            with (
                watching(stop, self._limits.timeout_s) as watch,
                opened(self._link, watch, method, url, sent, content) as answer,
            ):
                body = self._body(answer)
        except FetchFailed as error:
            if error.status is not None:
                raise
            raise FetchFailed(f"{self._base.host_header} gave no answer: {error.reason}") from None
        try:
            return jsonlib.loads(body)
        except (ValueError, RecursionError):
            raise FetchFailed(f"{self._base.host_header} didn't answer with JSON", 200) from None

    def _within(self, url_or_path: str, params: Mapping[str, str | int] | None) -> WebUrl:
        joined = urljoin(f"{str(self._base).rstrip('/')}/", url_or_path)
        if params:
            joined += ("&" if "?" in joined else "?") + urlencode(params, errors="replace")
        url = parse_url(joined)
        if (url.scheme, url.host_port) != (self._base.scheme, self._base.host_port):
            raise ValueError(f"{url.scheme}://{url.host_header} isn't the service {self._base}")
        return url

    def _body(self, answer: Answer) -> bytes:
        name, status = self._base.host_header, answer.status
        if answer.location is not None:  # a key must not travel to another place
            raise FetchFailed(f"{name} redirects: the configuration must name its final address", status)
        if not 200 <= status < 300:
            raise FetchFailed(f"{name} answered {status_text(status)}", status)
        body, truncated = read_bounded(plain_chunks(answer), self._limits.max_bytes)
        if truncated:
            raise FetchFailed(f"{name} answered with more than {self._limits.max_bytes / 1e6:g} MB", status)
        return body
