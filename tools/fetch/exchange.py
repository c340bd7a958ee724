"""One request and its answer: through the guard or the user's proxy, the body decompressed and bounded."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING

from ossia.tools.ending import WasCut, Watch
from ossia.tools.fetch.guard import Guard, HostPort, Refused, WebUrl
from ossia.tools.spec import Stop, ToolFailed, interrupted

if TYPE_CHECKING:
    import ssl

    import httpcore2

    from ossia.tools.fetch._network import Stream

_REDIRECTS = (301, 302, 303, 307, 308)
_COMPRESSED = ("gzip", "x-gzip", "deflate")
_EITHER_HEADER = 47
"""For zlib: the largest window; a gzip or zlib header is detected."""
_NO_HEADER = -15
_GZIP = 0x1F
_PIECE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of one fetch, redirects included: `timeout_s` counts from the first name look-up to the last byte.

    A decompressed body is cut at `max_bytes`; a PDF above `max_pdf_bytes` is refused.
    """

    timeout_s: float = 20.0
    max_bytes: int = 3_000_000
    max_pdf_bytes: int = 20_000_000
    redirects: int = 5


class FetchFailed(ToolFailed):
    """No usable answer: `Error: <reason>`, without keys and paths, and with nothing that the server sent.

    `status`: the HTTP status of a service's answer, None without any.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(f"Error: {reason}", taints=frozenset())
        self.reason, self.status = reason, status


@dataclass(frozen=True, slots=True)
class Answer:
    """The head of an answer, and `chunks`: its body as it arrives, still compressed, on `connection`.

    `headers` by lower-case name.
    """

    status: int
    headers: Mapping[str, str]
    chunks: Iterable[bytes]
    connection: Stream

    @property
    def location(self) -> str | None:
        """The target of a redirect, as it was spelled; None for any other answer."""
        return self.headers.get("location") if self.status in _REDIRECTS else None

    @property
    def encoding(self) -> str:
        """Its compression, e.g. "gzip"; "" without one."""
        return self.headers.get("content-encoding", "").strip().lower().replace("identity", "")


@dataclass(frozen=True)  # no slots: cached_property wants a place
class Link:
    """The way of requests: straight, with the guard's look-up, or through the user's proxy.

    `direct`: hosts that are reached without the proxy, which can't reach this machine or its network.
    """

    guard: Guard
    proxy: WebUrl | None = None
    direct: frozenset[HostPort] = frozenset()

    @cached_property
    def tls(self) -> ssl.SSLContext:
        """Verifies by the system's certificates; reading them takes 20 ms, so once."""
        import httpcore2

        return httpcore2.default_ssl_context()


@contextmanager
def watching(stop: Stop, timeout_s: float) -> Iterator[Watch]:
    """A `Watch` for the `with`, and every failure in it as `FetchFailed`."""
    import httpcore2

    try:
        with closing(Watch(stop, timeout_s)) as watch:
            yield watch
    except WasCut as error:
        slow = f"no whole answer within {timeout_s:g} s"
        raise FetchFailed(interrupted(stop) if str(error) == "stopped" else slow) from None
    except Refused as error:
        raise FetchFailed(str(error)) from None
    except httpcore2.ProxyError:
        raise FetchFailed("the proxy refused it") from None
    except httpcore2.ConnectError as error:
        raise FetchFailed(str(error) if _of_tls(error) else "it can't be connected to") from None
    except httpcore2.LocalProtocolError:
        raise FetchFailed("a header of the request holds characters that can't be sent") from None
    except httpcore2.ProtocolError:
        raise FetchFailed("the server's answer is incomplete, or isn't HTTP, or its headers are too long") from None
    except (httpcore2.NetworkError, httpcore2.TimeoutException, OSError):
        raise FetchFailed("the connection broke off") from None


def _of_tls(error: Exception) -> bool:
    return "certificate" in str(error) or "TLS" in str(error)


@contextmanager
def opened(
    link: Link, watch: Watch, method: str, url: WebUrl, headers: Mapping[str, str], content: bytes | None = None
) -> Iterator[Answer]:
    """The answer to one request, its body unread; the connection is closed at the end of the `with`."""
    import httpcore2

    from ossia.tools.fetch._network import GuardedBackend

    guard, proxy, host = link.guard, None if url.host_port in link.direct else link.proxy, url.host
    if proxy is not None:
        guard.check_unresolved(url.host, url.port)
        guard = replace(guard, allow=frozenset({proxy.host_port}))  # for the proxy itself, which is usually private
        host = f"[{host}]" if ":" in host else host
    target = httpcore2.URL(scheme=url.scheme, host=host, port=url.port, target=url.target)
    fields = {"Host": url.host_header, **headers, "Connection": "close"}
    if content is not None:
        fields["Content-Length"] = str(len(content))
    sent = [(name.encode("ascii"), value.encode("utf-8", "replace")) for name, value in fields.items()]
    with ExitStack() as stack:
        pool = stack.enter_context(_pool(link, proxy, url.scheme, GuardedBackend(guard, watch)))
        sni = {"sni_hostname": url.host}
        try:
            response = stack.enter_context(pool.stream(method, target, headers=sent, content=content, extensions=sni))
        except httpcore2.ConnectError as error:
            if proxy is None or _of_tls(error):
                raise
            raise FetchFailed("the proxy can't be connected to") from None
        # of a repeated header the first counts: which of two redirect targets is used must not be left to chance
        answered = {name.decode("latin-1").lower(): _text(value) for name, value in reversed(response.headers)}
        yield Answer(response.status, answered, response.iter_stream(), response.extensions["network_stream"])


def _pool(link: Link, proxy: WebUrl | None, scheme: str, backend: httpcore2.NetworkBackend) -> httpcore2.ConnectionPool:
    import httpcore2

    context = link.tls if scheme == "https" else None
    if proxy is None:
        return httpcore2.ConnectionPool(ssl_context=context, network_backend=backend)
    where = httpcore2.URL(scheme=proxy.scheme, host=proxy.host, port=proxy.port, target="/")
    return httpcore2.HTTPProxy(where, ssl_context=context, network_backend=backend)


def status_text(status: int) -> str:
    """`404 Not Found`, in the standard's words, not the server's: an error carries no text from outside."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def read_bounded(chunks: Iterable[bytes], max_bytes: int, *, start: bytes = b"") -> tuple[bytes, bool]:
    """`start` and the chunks behind it, and True if they were cut at `max_bytes`."""
    body = bytearray(start)
    for chunk in chunks if len(body) <= max_bytes else ():
        body += chunk
        if len(body) > max_bytes:
            break
    return bytes(body[:max_bytes]), len(body) > max_bytes


def plain_chunks(answer: Answer) -> Iterator[bytes]:
    """The body in decompressed pieces of at most 256 kB, however strongly it was compressed.

    Raises `FetchFailed` for an encoding other than gzip and deflate (which is all we ask for), or broken data.
    """
    if not answer.encoding:
        yield from answer.chunks
    elif answer.encoding in _COMPRESSED:
        try:
            framed = not {"content-length", "transfer-encoding"}.isdisjoint(answer.headers)
            yield from _inflated(answer.chunks, may_be_empty=framed)
        except zlib.error:
            raise FetchFailed("its compressed data is broken") from None
    else:
        raise FetchFailed("it is compressed in a way that wasn't asked for")


def _inflated(chunks: Iterable[bytes], *, may_be_empty: bool) -> Iterator[bytes]:
    """The data of all members, since gzip may have several. Anything else after the first is padding."""
    decoder, ended = None, False
    for chunk in chunks:
        while chunk:
            if decoder is None:  # "deflate" means zlib's format; some servers send it without the header
                if ended and chunk[0] != _GZIP:
                    return
                decoder = zlib.decompressobj(_EITHER_HEADER if _has_header(chunk) else _NO_HEADER)
            yield decoder.decompress(chunk, _PIECE_BYTES)
            chunk = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
            if decoder.eof:
                decoder, ended = None, True
    if decoder is not None or not (ended or may_be_empty):
        raise FetchFailed("its compressed data ends early: the page is incomplete")


def _has_header(chunk: bytes) -> bool:
    zlib_header = len(chunk) > 1 and chunk[0] & 0x0F == 8 and (chunk[0] << 8 | chunk[1]) % 31 == 0
    return chunk[0] == _GZIP or zlib_header
