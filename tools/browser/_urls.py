"""URLs as models write them, and whether one is already known: then requesting it leaks nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from ossia.tools.fetch.guard import Refused, normal_host

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WORD = re.compile(r"[^\s<>\"'`|「」『』（）()\[\]{}]+(?:\([^\s()]*\)[^\s<>\"'`()\[\]{}]*)*")
_BEHIND = ".,;:!?…。，、；：！？*_~"


def scheme_of(url: str) -> str:
    """The scheme, in lower case; "" for `www.a.test/x` and `localhost:8080`, which name a host first."""
    found = _SCHEME.match(url)
    if found is None:
        return ""
    rest = url[found.end() :]
    if not rest.startswith("//") and ("." in found[1] or rest[:1].isdigit()) and found[1].lower() != "doc":
        return ""
    return found[1].lower()


def whole_url(text: str) -> str:
    """A URL with a scheme: `https://` is added if there is none."""
    text = text.strip()
    return text if scheme_of(text) else f"https://{text.lstrip('/')}"


def with_fragment(found: str, asked: str) -> str:
    """Where a page was found, with the fragment it was asked for by: a redirect keeps that, too.

    with_fragment("https://a.test/new", "http://a.test/old#top")   → "https://a.test/new#top"
    """
    fragment = asked.partition("#")[2] if scheme_of(asked) in ("http", "https") else ""
    return f"{found}#{fragment}" if fragment else found


def unlike(url: str) -> str:
    """A warning to show for a host whose letters only look like another's: `" (xn--80ak6aa92e.com)"`, or ""."""
    try:
        host = urlsplit(url).hostname or ""
        return "" if host.isascii() else f" ({normal_host(host)})"
    except (ValueError, Refused):
        return ""


def is_typed(url: str, said: str) -> bool:
    """Is it a URL that the user typed in `said`? Equal except for scheme, fragment and the host's case.

    Neither a part of what was typed is enough, nor an extension of it: `?q=…` after a known page can carry data.
    """
    return _same(url) in map(_same, _words(said))


def pages_with(url: str, known: Iterable[tuple[str, str]]) -> frozenset[str]:
    """The pages with this URL, from pairs of a URL and its page. URLs are equal as in `is_typed`."""
    wanted = _same(url)
    return frozenset(page for other, page in known if _same(other) == wanted)


def _words(said: str) -> Iterable[str]:
    for word in _WORD.findall(said):
        if "." in word or ":" in word:
            yield word
            yield word.rstrip(_BEHIND)


def _same(url: str) -> tuple[str, ...]:
    """A key that is the same for URLs that request the same thing from a server."""
    url = whole_url(url)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return (url,)
    if parts.scheme not in ("http", "https"):
        return (url,)
    host = (parts.hostname or "").rstrip(".")
    at_port = "" if port is None or (parts.scheme, port) in (("http", 80), ("https", 443)) else str(port)
    return host, at_port, parts.netloc.rpartition("@")[0], parts.path or "/", parts.query
