"""The local library: the user's own documents, found and opened by the model without anything leaving the machine.

`tools.library.indexing` fills it from folders, files and URLs.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from ossia.tools.browser.document import Document, Hit
from ossia.tools.library import _store as store
from ossia.tools.library._store import LibraryError, RootKind, Row, Seen
from ossia.tools.library._text import MARK, Term, snippet, terms, without_links
from ossia.tools.spec import NoStop, Stop, Taint, ToolFailed

__all__ = ["EMPTY", "Library", "LibraryError", "Match", "Removed", "Root", "RootKind", "is_within", "without_links"]

EMPTY: Final = "The local library is empty: `ossia docs add PATH` adds to it"
SCHEME: Final = "doc"

_QUERY_S: Final = 5.0
_POSTINGS: Final = 10_000  # how many are ranked: 10 to 25 ms
_MAX_HITS: Final = 100
_LOCAL: Final = "http://library.invalid"
_HEAD_BYTES: Final = 200_000


@dataclass(frozen=True, slots=True)
class Root:
    """A root that the user added: `Root(1, "folder", "/home/me/notes", documents=310, characters=4_200_000)`."""

    id: int
    kind: RootKind
    place: str
    documents: int = 0
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """A found document: `Match(17, "Ideas", "/home/me/notes/ideas.md", "… an idea about snippets …")`."""

    id: int
    title: str
    origin: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Known:
    """A file as the library knows it."""

    id: int
    seen: Seen


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of `Library.remove`. `kept_out`: it lies below another root, and indexing that root skips it."""

    documents: int
    kept_out: bool


class Library:
    """Documents in one SQLite file. It is a `Source` ("docs") and the `Loader` of `doc:` URLs.

    The file, of mode 0600, is created when something is first added. Safe with any number of threads and processes.
    All methods but `search` and `load` raise `LibraryError` if the file is damaged, newer than this program, or locked.
    """

    name = "docs"
    sends = False

    def __init__(self, path: Path) -> None:
        self._store = store.Store(path)

    @property
    def path(self) -> Path:
        """The file; it need not exist."""
        return self._store.path

    @property
    def taints(self) -> frozenset[Taint]:
        """The kinds of text in search results: private, and "outside" too once a web page was added."""
        try:
            from_web = any(root.kind == "url" for root in self.roots())
        except LibraryError:  # if it can't be read, there are no results
            from_web = False
        return frozenset({"private", "outside"} if from_web else {"private"})

    # -- for the model -----------------------------------------------------------------------------------------------

    def search(self, query: str, *, limit: int, stop: Stop) -> tuple[Hit, ...]:
        """The best matches, as `doc:` URLs; those with every word of `query` first. Raises `ToolFailed`."""
        try:
            found = self.find(query, limit=limit, stop=stop)
            if not found and not self.count():
                raise ToolFailed(EMPTY)
        except LibraryError as error:
            raise ToolFailed(f"Error: the local library can't be searched: {error}") from error
        return tuple(Hit(match.title, f"{SCHEME}:{match.id}", match.snippet) for match in found)

    def load(self, url: str, *, source: bool = False, refresh: bool, stop: Stop) -> Document:
        """The page of `doc:17`, as it was indexed. Raises `ToolFailed` for an unknown document.

        Links between documents of the library lead to `doc:` URLs; a link to any other file is plain text.
        """
        if source:
            raise ToolFailed("Error: its source can't be shown; open it without `view_source`")
        number = _number(url)
        try:
            with self._store.reading() as db:
                found = None if number is None else store.page(db, number)
                if found is None:
                    raise ToolFailed(f"Error: no document `{url[:80]}` in the local library: search for it")
                leads = {int(key): _followed(db, target) for key, target in json.loads(found.links).items()}
        except LibraryError as error:
            raise ToolFailed(f"Error: the local library can't be read: {error}") from error
        kept, text = {key: target for key, target in leads.items() if target}, found.page
        if dead := leads.keys() - kept.keys():
            text = MARK.sub(lambda mark: mark[2] if int(mark[1]) in dead else mark[0], text)
        from_web = found.origin.startswith(("http://", "https://"))
        return Document(found.title, url, text, kept, frozenset({"outside"} if from_web else ()))

    def kept(self, url: str, *, source: bool) -> Document | None:
        """None: a document is always loaded."""
        return None

    # -- for people --------------------------------------------------------------------------------------------------

    def find(self, query: str, *, limit: int, stop: Stop | None = None) -> tuple[Match, ...]:
        """The best documents for `query`, at most `limit`: those with all its words, then those with some of them."""
        wanted = terms(query)
        if not wanted:
            return ()
        halt, deadline = stop or NoStop(), time.monotonic() + _QUERY_S
        ended = lambda: halt.stopped or time.monotonic() > deadline  # noqa: E731
        with self._store.reading() as db, store.interruptible(db, ended):
            ids = _best(db, wanted, max(1, min(limit, _MAX_HITS)))
            return tuple(match for number in ids if (match := _match(db, number, wanted)))

    def origin(self, url: str) -> str | None:
        """The absolute path or URL of the document `doc:17` (or `17`)."""
        rows = self._rows("SELECT origin FROM documents WHERE id=?", _number(url))
        return str(rows[0][0]) if rows else None

    def count(self) -> int:
        """The number of documents."""
        return int(self._rows("SELECT count(*) FROM documents")[0][0])

    def roots(self) -> tuple[Root, ...]:
        """The roots, sorted by place, with the size of each."""
        query = """SELECT r.id, r.kind, r.place, count(d.id), coalesce(sum(d.characters), 0)
            FROM roots r LEFT JOIN documents d ON d.root = r.id GROUP BY r.id ORDER BY r.place"""
        return tuple(Root(*row) for row in self._rows(query))

    def places(self) -> list[str]:
        """The places of the roots, read without making or awaiting anything: a locked file is a LibraryError."""
        return self._store.glance()

    def root_of(self, origin: str) -> Root | None:
        """The root of a document; None if `origin` isn't one."""
        query = "SELECT r.id, r.kind, r.place FROM documents d JOIN roots r ON r.id = d.root WHERE d.origin=?"
        rows = self._rows(query, origin)
        return Root(*rows[0]) if rows else None

    def remove(self, what: str) -> Removed | None:
        """Remove a root, a document or all documents below a folder, and their bytes from the file.

        `what` is an absolute path, a URL, or an id (`17`, `doc:17`). A place below a root that stays is kept out
        until it is added again. None: the library has no such thing.
        """
        if not what or not self.path.exists():
            return None
        with self._store.writing() as db:
            number = _number(what)
            if number is not None:
                found = store.page(db, number)
                if found is None:
                    return None
                what = found.origin
            roots = [(place,) for (place,) in db.execute("SELECT place FROM roots") if is_within(place, what)]
            documents = db.execute("SELECT id, origin FROM documents")
            ids = [number for number, origin in documents if is_within(origin, what)]
            if not roots and not ids:
                return None
            store.delete(db, ids)
            db.executemany("DELETE FROM roots WHERE place=?", roots)
            within = [(place,) for (place,) in db.execute("SELECT place FROM removed") if is_within(place, what)]
            db.executemany("DELETE FROM removed WHERE place=?", within)
            above = any(_below(what, place) for (place,) in db.execute("SELECT place FROM roots WHERE kind='folder'"))
            if above:
                db.execute("INSERT OR IGNORE INTO removed VALUES(?)", (what,))
        self._store.compact()
        return Removed(len(ids), above)

    # -- for whoever indexes -----------------------------------------------------------------------------------------

    def add_root(self, kind: RootKind, place: str) -> Root:
        """The root at that place, created if missing. It takes over documents below it from other roots."""
        with self._store.writing() as db:
            db.execute("INSERT OR IGNORE INTO roots(kind, place) VALUES(?,?)", (kind, place))
            db.execute("UPDATE roots SET kind=? WHERE place=?", (kind, place))
            (number,) = db.execute("SELECT id FROM roots WHERE place=?", (place,)).fetchone()
            deeper = [other for (other,) in db.execute("SELECT place FROM roots") if _below(other, place)]
            moved = [(origin,) for (origin,) in db.execute("SELECT origin FROM documents WHERE root<>?", (number,))
                     if is_within(origin, place) and not any(is_within(origin, other) for other in deeper)]  # fmt: skip
            db.executemany(f"UPDATE documents SET root={number} WHERE origin=?", moved)
            db.execute("DELETE FROM removed WHERE place=?", (place,))
        return Root(number, kind, place)

    def left_out(self) -> frozenset[str]:
        """The removed places below a root."""
        return frozenset(place for (place,) in self._rows("SELECT place FROM removed"))

    def known(self, root: Root) -> dict[str, Known]:
        """The documents of a root by their origin."""
        query = "SELECT origin, id, mtime_ns, size, digest, maker FROM documents WHERE root=?"
        return {row[0]: Known(row[1], Seen(*row[2:])) for row in self._rows(query, root.id)}

    def put(self, root: Root, rows: Sequence[Row], *, touched: Mapping[str, Seen] | None = None) -> bool:
        """Store documents, all or none, and record new times of others. False: the root was removed meanwhile."""
        with self._store.writing() as db:
            if db.execute("SELECT 1 FROM roots WHERE id=?", (root.id,)).fetchone() is None:
                return False
            for row in rows:
                store.put(db, root.id, row)
            for origin, seen in (touched or {}).items():
                store.touch(db, origin, seen)
        return True

    def forget(self, ids: Iterable[int]) -> int:
        """Remove the documents of vanished files. Returns their number."""
        with self._store.writing() as db:
            return store.delete(db, ids)

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._store.reading() as db:
            return db.execute(query, values).fetchall()


def local_url(path: str) -> str:
    """The base URL of the links in a local file; `load` turns the results into `doc:` URLs."""
    return _LOCAL + quote(path.replace(os.sep, "/"))


def is_within(place: str, folder: str) -> bool:
    """True if `place` is that folder, or below it. Absolute paths as text."""
    return place == folder or _below(place, folder)


def _number(url: str) -> int | None:
    digits = url.strip().removeprefix(f"{SCHEME}:")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _best(db: sqlite3.Connection, wanted: tuple[Term, ...], limit: int) -> list[int]:
    """Documents with every term that occurs at all, then those with some.

    Ranking visits each document of each term. In a large library only the rarest terms are ranked, which distinguish
    the documents best.
    """
    if len(wanted) == 1:
        return store.matching(db, wanted[0].match, limit)
    counts = {term.match: store.frequency(db, term.match) for term in wanted}
    there = sorted((match for match in counts if counts[match]), key=counts.__getitem__)
    if not there:
        return []
    looked_at = accumulate(counts[match] for match in there)
    ranked = [match for match, postings in zip(there, looked_at, strict=True) if postings <= _POSTINGS] or there[:1]
    every = there if counts[there[0]] * len(there) <= _POSTINGS else ranked
    found = store.matching(db, " AND ".join(every), limit)
    if len(found) < limit and len(there) > 1:
        found += store.matching(db, " OR ".join(ranked), limit)
    return list(dict.fromkeys(found))[:limit]


def _match(db: sqlite3.Connection, number: int, wanted: tuple[Term, ...]) -> Match | None:
    """A hit with its passage, searched for in the start of the page first: pages may be megabytes."""
    found, shown = store.page(db, number, max_bytes=_HEAD_BYTES), None
    if found:
        shown, there = snippet(found.page, wanted)
        if not there and (whole := store.page(db, number)):
            shown, _ = snippet(whole.page, wanted)
    return Match(number, found.title, found.origin, shown) if found and shown is not None else None


def _followed(db: sqlite3.Connection, url: str) -> str | None:
    """The target of a stored link: a web URL, or the document of a local file; None without one."""
    if not url.startswith(f"{_LOCAL}/"):
        return url
    path = unquote(urlsplit(url).path).replace("/", os.sep)
    for origin in (path, str(Path(path) / "index.html")):
        found = db.execute("SELECT id FROM documents WHERE origin=?", (origin,)).fetchone()
        if found:
            return f"{SCHEME}:{found[0]}"
    return None


def _below(place: str, folder: str) -> bool:
    return place.startswith(folder.rstrip(os.sep) + os.sep) and place != folder
