"""The browser's loader for http and https: cache, fetch, conversion.

The cache has a file for each page, read and written by any number of processes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from urllib.parse import urldefrag

from ossia.tools.browser.document import Document
from ossia.tools.convert._documents import CUT_PDF
from ossia.tools.convert.converter import Converter
from ossia.tools.fetch.client import Fetched, Fetcher
from ossia.tools.fetch.guard import Refused, parse_url
from ossia.tools.files import make_private, write_whole
from ossia.tools.spec import Stop

_FORMAT = 3
"""Incremented when pages are converted differently: entries from before are then no longer found."""
_KEPT_SHARE = 0.9


class WebLoader:
    """A `Loader`. `cache` None: every page is fetched.

    Pages of hosts that only `--allow-host` opens are not kept: in a later session that host may be closed again.
    """

    def __init__(self, fetcher: Fetcher, converter: Converter, cache: PageCache | None = None) -> None:
        self._fetcher, self._converter, self._cache = fetcher, converter, cache

    def kept(self, url: str, *, source: bool) -> Document | None:
        """The cached document."""
        key = _key(url, source)
        return self._cache.get(key) if self._cache and key else None

    def load(self, url: str, *, source: bool = False, refresh: bool, stop: Stop) -> Document:
        """The page as text with links, from the cache unless `refresh`; its `url` is without a fragment.

        With `source` as it was sent, decoded, without control characters, titled by its URL; a PDF has none. Raises
        `ToolFailed("Error: <reason>")`, without text of the page.
        """
        key = _key(url, source)
        kept = None if refresh else self.kept(url, source=source)
        if kept is not None:
            return kept
        self._converter.prepare()
        fetched = self._fetcher.fetch(url, stop=stop)
        document = self._converted(fetched, source, stop)
        whole = not fetched.remark and not document.text.endswith(CUT_PDF)
        if self._cache and key and whole and not fetched.private:
            self._cache.put(key, document)
        return document

    def _converted(self, fetched: Fetched, source: bool, stop: Stop) -> Document:
        url = urldefrag(fetched.url)[0]
        document = self._converter.convert(
            fetched.body,
            fetched.media_type,
            url=url,
            charset=fetched.charset,
            stop=stop,
            source=source,
            refresh=fetched.refresh,
        )
        remarks = [f"[{fetched.remark}]"] if fetched.remark else []
        if fetched.truncated:
            remarks.append(f"[cut here: the page is larger than {len(fetched.body) / 1e6:g} MB]")
        return replace(document, text="\n\n".join([document.text, *remarks]))


def _key(url: str, source: bool) -> str:
    """The key in the cache; empty for a URL outside the web."""
    try:
        return f"{'source ' if source else ''}{parse_url(url)}"
    except Refused:
        return ""


# -- the cache ---------------------------------------------------------------------------------------------------------


class PageCache:
    """Documents by key (a URL), in `folder`, which is made and closed to other users.

    Beyond `max_bytes` in all, the least recently used are removed. One older than `max_age_s` isn't returned (None: any
    age is good). The cache never raises: what can't be read counts as missing, what can't be written isn't kept.
    """

    def __init__(self, folder: Path, *, max_bytes: int = 64 << 20, max_age_s: float | None = 3600.0) -> None:
        self._folder, self._max_bytes, self._max_age_s = folder, max_bytes, max_age_s

    def get(self, key: str) -> Document | None:
        """The document under `key`; None for a missing or old one, or a damaged one, and that is removed."""
        path = self._path(key)
        try:
            os.utime(self._folder)
            now = self._folder.stat().st_mtime_ns  # the only clock to compare with the times of files
            written = path.stat().st_mtime_ns
            if self._max_age_s is not None and now - written > self._max_age_s * 1e9:
                return None
            document = _document(json.loads(path.read_bytes()), key)
        except OSError:
            return None
        except (ValueError, RecursionError):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):  # when it was used: the modification time stays that of the fetch
            os.utime(path, ns=(now, written))
        return document

    def put(self, key: str, document: Document) -> None:
        """Keep `document`, replacing an older one."""
        stored = {"key": key, "title": document.title, "url": document.url, "text": document.text,
                  "links": {str(number): url for number, url in document.links.items()}}  # fmt: skip
        data = json.dumps(stored, ensure_ascii=False).encode("utf-8", "replace")
        if len(data) > self._max_bytes:
            return
        with suppress(OSError):
            make_private(self._folder)
            write_whole(self._path(key), data)
            self._evict()

    def _path(self, key: str) -> Path:
        return self._folder / (sha256(f"{_FORMAT}\n{key}".encode("utf-8", "replace")).hexdigest() + ".json")

    def _evict(self) -> None:
        """Remove the least recently used until nine tenths are left, and the leftovers of killed processes."""
        found: list[tuple[int, int, Path]] = []
        for path in self._folder.iterdir():
            with suppress(OSError):  # another process was faster
                status = path.lstat()
                found.append((status.st_atime_ns, status.st_size, path))
        total = sum(size for _, size, _ in found)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(found):
            if total <= self._max_bytes * _KEPT_SHARE:
                return
            with suppress(OSError):
                path.unlink()
            total -= size


def _document(stored: object, key: str) -> Document:
    """The stored document. Raises `ValueError` for anything else, or another key."""
    if not isinstance(stored, Mapping) or stored.get("key") != key:
        raise ValueError("not this page")
    title, url, text, links = (stored.get(name) for name in ("title", "url", "text", "links"))
    if not (isinstance(title, str) and isinstance(url, str) and isinstance(text, str) and isinstance(links, Mapping)):
        raise ValueError("not a document")
    return Document(title, url, text, {int(number): str(to) for number, to in links.items()})
