"""Pages that were fetched lately, on disk: each a file of its own, read and written by any number of processes."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from ossia.tools.browser.document import Document
from ossia.tools.files import make_private, write_whole

_FORMAT = 3
"""Incremented when pages are converted differently: entries from before are then no longer found."""
_CLOCK = ".clock"
_KEPT_SHARE = 0.9


class PageCache:
    """Documents by key (a URL), in `folder`, which is made and closed to other users.

    Together they take at most `max_bytes`; beyond that the least recently used are removed. One older than `max_age_s`
    isn't returned (None: any age is good). The cache never raises: what can't be read counts as missing, what can't be
    written isn't kept.
    """

    def __init__(self, folder: Path, *, max_bytes: int = 64 << 20, max_age_s: float | None = 3600.0) -> None:
        self._folder, self._max_bytes, self._max_age_s = folder, max_bytes, max_age_s

    def get(self, key: str) -> Document | None:
        """The document kept under `key`; None if there is none, it is too old or damaged (which removes it)."""
        path = self._path(key)
        try:
            now = self._now_ns()
            written = path.stat().st_mtime_ns
            if self._max_age_s is not None and now - written > self._max_age_s * 1e9:
                return None
            document = _document(json.loads(path.read_bytes()), key)
        except OSError:
            return None
        except (ValueError, RecursionError):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):  # when it was used: the modification time stays that of the fetch
            os.utime(path, ns=(now, written))
        return document

    def put(self, key: str, document: Document) -> None:
        """Keep `document`, replacing an older one."""
        stored = {"key": key, "title": document.title, "url": document.url, "text": document.text,
                  "links": {str(number): url for number, url in document.links.items()}}  # fmt: skip
        data = json.dumps(stored, ensure_ascii=False).encode("utf-8", "replace")
        if len(data) > self._max_bytes:
            return
        with contextlib.suppress(OSError):
            make_private(self._folder)
            write_whole(self._path(key), data)
            self._evict()

    def _path(self, key: str) -> Path:
        return self._folder / (sha256(f"{_FORMAT}\n{key}".encode("utf-8", "replace")).hexdigest() + ".json")

    def _now_ns(self) -> int:
        """The file system's clock: the only one whose times can be compared with those of files."""
        clock = self._folder / _CLOCK
        clock.touch(mode=0o600)
        return clock.stat().st_mtime_ns

    def _evict(self) -> None:
        """Remove the least recently used until nine tenths are left, and what killed processes left half-written."""
        found: list[tuple[int, int, Path]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name != _CLOCK:
                    with contextlib.suppress(OSError):  # another process was faster
                        status = entry.stat(follow_symlinks=False)
                        found.append((status.st_atime_ns, status.st_size, Path(entry.path)))
        total = sum(size for _, size, _ in found)
        if total <= self._max_bytes:
            return
        for _, size, path in sorted(found):
            if total <= self._max_bytes * _KEPT_SHARE:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size


def _document(stored: object, key: str) -> Document:
    """Raises `ValueError` for what isn't a document of ours under this key."""
    if not isinstance(stored, Mapping) or stored.get("key") != key:
        raise ValueError("not this page")
    title, url, text, links = (stored.get(name) for name in ("title", "url", "text", "links"))
    if not (isinstance(title, str) and isinstance(url, str) and isinstance(text, str) and isinstance(links, Mapping)):
        raise ValueError("not a document")
    return Document(title, url, text, {int(number): str(to) for number, to in links.items()})
