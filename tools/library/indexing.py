"""Fills the local library: from folders, files and URLs, a batch at a time, only what has changed.

A run that is cut short (a stop, a closed generator) keeps what it has done; the next one continues from there.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ossia.tools.browser.document import Document, Loader
from ossia.tools.convert.converter import Converter
from ossia.tools.library import _files as files
from ossia.tools.library._files import MAKER, MAX_PDF_BYTES, NotADocument
from ossia.tools.library._store import Row, Seen
from ossia.tools.library.library import Known, Library, Root, is_within, local_url, without_links
from ossia.tools.library.walk import SECRET, Failed, File, Skipped, read_plain, walk
from ossia.tools.spec import NoStop, Stop, ToolFailed

__all__ = ["SECRET", "Event", "Failed", "Found", "Indexed", "Skipped", "Vanished", "index_root"]

_BATCH_ROWS: Final = 100
_BATCH_CHARACTERS: Final = 8_000_000
_BATCH_S: Final = 2.0  # the most that is lost when the machine, not the user, ends it
_WORKERS: Final = 4


# -- the events, in order ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Found:
    """A root was walked: so many of its files will be read."""

    root: str
    files: int


@dataclass(frozen=True, slots=True)
class Indexed:
    """A document is in the library, or will be with the next batch. `guessed`: as in `Document`."""

    origin: str
    title: str
    change: Literal["added", "updated", "unchanged"]
    guessed: str = ""


@dataclass(frozen=True, slots=True)
class Vanished:
    """Documents were removed because their files are gone, or no longer count as documents."""

    root: str
    documents: int


Event = Found | Indexed | Skipped | Failed | Vanished


def index_root(
    library: Library,
    root: Root,
    *,
    converter: Callable[[], Converter],
    web: Loader | None,
    stop: Stop | None = None,
) -> Generator[Event, None, None]:
    """Bring a root up to date. Raises `LibraryError`.

    `converter` makes one for each thread. `web` fetches URLs; None: they fail. At a stop, also while a document
    is converted, and when the generator is closed, it ends early, and stores finished documents first.

    `list(index_root(library, library.add_root("folder", "/home/me/notes"), converter=Converter, web=None))` is
    `[Found("/home/me/notes", 2), Indexed("/home/me/notes/a.md", "A", "added"), …]`.
    """
    stop = stop or NoStop()
    if root.kind == "url":
        yield from _unstopped([_fetched(library, root, web, stop)], stop)
        return
    with closing(_Run(library, root, converter, stop)) as run:
        yield from _unstopped(run.events(), stop)


def _unstopped(events: Iterable[Event], stop: Stop) -> Iterator[Event]:
    """The events without failures caused by the stop."""
    return (event for event in events if not (stop.stopped and isinstance(event, Failed)))


def _fetched(library: Library, root: Root, web: Loader | None, stop: Stop) -> Event:
    if web is None:
        return Failed(root.place, "URLs can't be fetched here")
    try:
        got = web.load(root.place, refresh=True, stop=stop)
    except ToolFailed as error:
        return Failed(root.place, _reason(error))
    if not got.text.strip():
        return Failed(root.place, "no text found")
    page = got.text.encode()
    row = _row(root.place, root.place, Seen(0, len(page), _digest(page), MAKER), got)
    known = library.known(root).get(root.place)
    if known and known.seen == row.seen:
        return Indexed(root.place, row.title, "unchanged")
    library.put(root, [row])
    return Indexed(root.place, row.title, "updated" if known else "added", row.guessed)


@dataclass(slots=True)
class _Batch:
    rows: list[Row] = field(default_factory=list)
    touched: dict[str, Seen] = field(default_factory=dict)
    characters: int = 0
    since: float = field(default_factory=time.monotonic)

    @property
    def full(self) -> bool:
        rows = len(self.rows) + len(self.touched)
        late = rows and time.monotonic() - self.since > _BATCH_S
        return bool(rows >= _BATCH_ROWS or self.characters >= _BATCH_CHARACTERS or late)


class _Run:
    """One pass over a root of files. Other threads read and convert; only this one writes."""

    def __init__(self, library: Library, root: Root, converter: Callable[[], Converter], stop: Stop) -> None:
        self._library = library
        self._root = root
        self._stop = stop
        self._converters = [converter() for _ in range(min(_WORKERS, os.cpu_count() or 1))]  # each starts when used
        self._pool = ThreadPoolExecutor(len(self._converters), thread_name_prefix="index")
        self._known = library.known(root)
        self._batch = _Batch()
        self._kept: list[str] = []  # paths that couldn't be looked at
        self._seen: set[str] = set()

    def events(self) -> Iterator[Event]:
        found: list[File] = []
        for item in walk(Path(self._root.place), apart=self._apart()):
            if isinstance(item, File):
                found.append(item)
            else:
                if isinstance(item, Failed):
                    self._kept.append(item.origin)
                yield item
            if self._stop.stopped:
                return
        yield Found(self._root.place, len(found))
        for file, made in self._made(found):
            yield self._taken(file, made)
            if self._stop.stopped:
                return
            if self._batch.full and not self._flush():
                yield Failed(self._root.place, "was removed from the library in the meantime")
                return
        if self._flush():
            yield from self._vanished()

    def close(self) -> None:
        """Store finished documents; end the threads and their converters."""
        try:
            self._flush()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for converter in self._converters:  # which ends what they convert
                converter.close()
            self._pool.shutdown()

    def _apart(self) -> dict[str, str]:
        others = [root.place for root in self._library.roots() if root.id != self._root.id and root.kind != "url"]
        taken_out = dict.fromkeys(self._library.left_out(), "removed earlier")
        return taken_out | dict.fromkeys(others, "added separately")

    def _made(self, found: Iterable[File]) -> Iterator[tuple[File, Future[Row | Seen] | None]]:
        """Each file with its document, None if it is unchanged; a few are converted ahead."""
        ahead: deque[tuple[File, Future[Row | Seen] | None]] = deque()
        for number, file in enumerate(found):
            known = self._known.get(file.path)
            fresh = known and known.seen == Seen(file.mtime_ns, file.size, known.seen.digest, MAKER)
            converter = self._converters[number % len(self._converters)]
            ahead.append((file, None if fresh else self._pool.submit(self._make, file, known, converter)))
            if len(ahead) > 2 * len(self._converters):
                yield ahead.popleft()
        yield from ahead

    def _make(self, file: File, known: Known | None, converter: Converter) -> Row | Seen:
        """The document; of a file rewritten with the same content only its state. Runs in the pool."""
        if file.size > MAX_PDF_BYTES:
            raise NotADocument(f"larger than {MAX_PDF_BYTES // 1_000_000} MB")
        data = read_plain(file.path, max_bytes=MAX_PDF_BYTES + 1)
        seen = Seen(file.mtime_ns, file.size, _digest(data), MAKER)
        if known and (known.seen.digest, known.seen.maker) == (seen.digest, MAKER):
            return seen
        made = files.document(file.name, data, url=local_url(file.path), converter=converter, stop=self._stop)
        return _row(file.path, file.name, seen, made)

    def _taken(self, file: File, made: Future[Row | Seen] | None) -> Event:
        self._seen.add(file.path)
        change: Literal["added", "updated"] = "updated" if file.path in self._known else "added"
        try:
            result = made.result() if made else None
        except NotADocument as error:
            self._seen.discard(file.path)
            return Skipped(file.path, str(error))
        except ToolFailed as error:
            return Failed(file.path, _reason(error))
        except OSError as error:
            return Failed(file.path, (error.strerror or type(error).__name__).lower())
        if not isinstance(result, Row):
            if result:
                self._batch.touched[file.path] = result
            return Indexed(file.path, file.name, "unchanged")
        self._batch.rows.append(result)
        self._batch.characters += len(result.text)
        return Indexed(file.path, result.title, change, result.guessed)

    def _flush(self) -> bool:
        """Store the batch, then clear it: an interrupt may come before. False if the root is gone."""
        batch = self._batch
        stored = not (batch.rows or batch.touched) or self._library.put(self._root, batch.rows, touched=batch.touched)
        self._batch = _Batch()
        return stored

    def _vanished(self) -> Iterator[Event]:
        gone = [
            known.id
            for origin, known in self._known.items()
            if origin not in self._seen and not any(is_within(origin, place) for place in self._kept)
        ]
        if gone:
            yield Vanished(self._root.place, self._library.forget(gone))


def _row(origin: str, name: str, seen: Seen, made: Document) -> Row:
    links = json.dumps({str(key): url for key, url in made.links.items()})
    return Row(origin, name, seen, made.title or name, without_links(made.text), made.text, links, made.guessed)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _reason(error: ToolFailed) -> str:
    """A line for people, made from one for the model."""
    return str(error).removeprefix("Error: ")
