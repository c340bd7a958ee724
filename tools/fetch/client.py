"""Fetches pages for the model: guarded, bounded in time and bytes, redirects followed by hand.

A body that HTTP takes for whole may still lack its end: `_why_cut` looks for the signs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin

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
from ossia.tools.fetch.guard import Guard, HostPort, Refused, Resolver, parse_proxy, parse_url, resolve
from ossia.tools.spec import Stop, ToolFailed

if TYPE_CHECKING:
    from ossia.tools.fetch._network import Watch

_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; ossia)",
    "Accept": "text/html,application/xhtml+xml,text/plain,text/markdown,application/pdf;q=0.9,*/*;q=0.1",
    "Accept-Encoding": "gzip, deflate",
}
_TYPES = ("application/xhtml+xml", "application/xml", "application/json", "application/pdf", "application/javascript",
          "application/x-ndjson", "application/toml", "application/yaml")  # fmt: skip
_PDF, _GZIP = b"%PDF-", b"\x1f\x8b"
_SNIFFED_BYTES = 1024
_URL_CHARS = 1024
_BAD_REDIRECT = "it redirects to a URL that can't be opened (unknown, not http(s), or not on the public internet)"
_LOOK_BYTES = 4096  # for signs of the end
_BEGIN = re.compile(rb"<(?:html|body)[\s>]", re.IGNORECASE)
_END = re.compile(rb"</(?:html|body)\s*>", re.IGNORECASE)
_CLOSING = {b"{": b"}", b"[": b"]", b"<": b">"}


class FetchFailed(ToolFailed):
    """A page couldn't be had: ``Error fetching URL `…`: <reason>``.

    `reason` is the last part alone. The line holds the URL as it was asked for, and of the server's answer nothing but
    its HTTP status.
    """

    def __init__(self, url: str, reason: str) -> None:
        shown = "".join(char if char.isprintable() else "�" for char in url)
        shown = shown if len(shown) <= _URL_CHARS else shown[:_URL_CHARS] + "…"
        super().__init__(f"Error fetching URL `{shown}`: {reason}", taints=frozenset())
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a URL gave. `url`: where it was found after redirects, as it was spelled.

    `media_type` is in lower case without parameters, found out from the content where the server said nothing (or hid
    a PDF); `charset` is the server's word, None without one. `truncated`: `body` is only the first bytes. `private`: a
    host that only `allow_hosts` opens had part in it. `remark`: in our words, what the page doesn't say of itself.
    `refresh` is the header of that name, as in `0; url=/new`, which stands for the element `<meta>`.
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

    Every connection, also of every redirect, goes to an address that was checked. The environment's proxies are not
    used. With `proxy` (`"http://proxy:3128"`, no user name) requests go through it; it looks names up itself, so a
    public name that points to a private address is then its to refuse; addresses and local names are refused here all
    the same, and hosts in `allow_hosts` are reached directly. Raises `ValueError` for a proxy of another form.

    Thread-safe; holds no connections between two calls.
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
        """The content of `url`. Raises `FetchFailed` (a `ToolFailed`); soon after a stop, too.

        >>> fetcher.fetch("https://example.com/", stop=stop)
        Fetched(url='https://example.com/', media_type='text/html', charset='utf-8', body=b'<!doctype…')
        """
        try:
            with watching(stop, self._limits.timeout_s) as watch:
                return self._follow(url.strip(" "), watch)
        except ExchangeFailed as error:
            raise FetchFailed(url, str(error)) from None

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
                raise ExchangeFailed(_BAD_REDIRECT) from None  # its words would name where the redirect leads
        raise ExchangeFailed("too many redirects")

    def _read(self, url: str, answer: Answer) -> Fetched:
        if answer.status >= 400 or answer.status == HTTPStatus.PARTIAL_CONTENT:  # we ask for no part
            check = ", a check against programs" if answer.headers.get("cf-mitigated") == "challenge" else ""
            raise ExchangeFailed(f"HTTP status {status_text(answer.status)}{check}")
        limits, chunks = self._limits, plain_chunks(answer)
        start = _first_bytes(chunks)
        lost = (
            f"HTTP status {status_text(answer.status)}, without the address it leads to" if answer.status >= 300 else ""
        )
        if lost and not start.strip():
            raise ExchangeFailed(lost)
        media_type, charset = _content_type(answer.headers.get("content-type", ""), start)
        pdf = media_type == "application/pdf"
        body, truncated = read_bounded(chunks, limits.max_pdf_bytes if pdf else limits.max_bytes, start=start)
        if pdf and truncated:
            raise ExchangeFailed(f"the PDF is larger than {limits.max_pdf_bytes / 1e6:g} MB")
        cut = "" if truncated else _why_cut(answer, media_type, body)
        remark = "; ".join(filter(None, (lost, cut and f"the end of this page may be missing: {cut}")))
        return Fetched(
            url, media_type, charset, body, truncated, remark=remark, refresh=answer.headers.get("refresh", "")
        )


def _joined(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise ExchangeFailed(_BAD_REDIRECT) from None


def _first_bytes(chunks: Iterator[bytes]) -> bytes:
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= _SNIFFED_BYTES:
            break
    return start


def _content_type(header: str, start: bytes) -> tuple[str, str | None]:
    """Media type and charset. Raises `ExchangeFailed` for what can't be read as text."""
    from email.message import Message

    message = Message()
    message["content-type"] = header
    media_type, charset = message.get_content_type() if header else "", message.get_content_charset()
    if start[:_SNIFFED_BYTES].lstrip().startswith(_PDF):
        return "application/pdf", None
    if media_type in ("", "application/octet-stream"):
        media_type = _sniffed(start)
    if start.startswith(_GZIP):
        raise ExchangeFailed("it is compressed in a way that wasn't asked for")
    known = media_type.startswith("text/") or media_type in _TYPES or media_type.endswith(("+xml", "+json"))
    if not known or media_type == "application/pdf":
        raise ExchangeFailed("unsupported content type: only text, HTML, XML, JSON and PDF can be read")
    return media_type, charset


def _sniffed(start: bytes) -> str:
    """For a server that doesn't say: HTML by its first tag, text unless a byte of it can't be."""
    head = start[:_SNIFFED_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<!--", b"<title", b"<p", b"<div")):
        return "text/html"
    return "application/octet-stream" if b"\0" in start[:_SNIFFED_BYTES] else "text/plain"


def _why_cut(answer: Answer, media_type: str, body: bytes) -> str:
    """Why the end of this whole `body` may be missing; "" if nothing speaks for that.

    A compressed body and one in chunks have an end of their own, without which they are an error. A length can be too
    small; without one, the end of the connection is the end of the body, whatever ended it.
    """
    if "content-range" in answer.headers:  # we ask for no part, and this one is none by its status
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
    """Does it end as its kind does? None: its kind has no end, as text."""
    if "html" in media_type:
        begins, ends = _BEGIN.search(body[:_LOOK_BYTES]), _END.search(body[-_LOOK_BYTES:])
        return True if ends else False if begins else None
    if media_type.endswith(("json", "xml")) and (closing := _CLOSING.get(body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1])):
        return body.rstrip().endswith(closing)
    return None
