"""The local library: opening it, bringing it up to date, and the account of that."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.words import count

if TYPE_CHECKING:
    from ossia.tools.browser.document import Loader
    from ossia.tools.convert.converter import Converter
    from ossia.tools.library.indexing import Event
    from ossia.tools.library.library import Library, Root, RootKind
    from ossia.tools.spec import Stop

CHANGES = ("added", "updated", "unchanged", "removed", "failed")
"""The changes of a document, in the order of the report."""
_NAMED = 3  # files whose encoding was guessed


def open_library() -> Library:
    """The library in the data folder, whether its file exists yet or not."""
    from ossia.tools.library.library import Library

    return Library(paths.library_file())


@contextmanager
def faults() -> Iterator[None]:
    """Inside the block, a fault of the library's file is raised as an ExitError."""
    from ossia.tools.library.library import LibraryError

    try:
        yield
    except LibraryError as error:
        raise ExitError(str(error), ExitCode.FAILED) from None


class Account:
    """Counts the outcomes of indexing any number of roots. A subclass that shows it overrides the last three methods.

    `changes` counts documents, by `CHANGES`; `reasons` counts what was passed by, by the reason why; `guesses` are what
    was read in a guessed encoding, as `a.txt (GBK)`; `unreadable` are the roots that couldn't be read at all, `named`
    the places that the user named.
    """

    def __init__(self) -> None:
        self.changes: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.guesses: list[str] = []
        self.unreadable: set[str] = set()
        self.named: frozenset[str] = frozenset()

    def follow(self, events: Generator[Event, None, None], root: Root) -> None:
        """Take in the events of a root, to the end; closing `events` stores the finished ones."""
        from ossia.tools.library.indexing import Found

        done = total = 0
        self.show(0, 0, root)
        with closing(events):
            for event in events:
                total = event.files if isinstance(event, Found) else total
                done += bool(total) and not isinstance(event, Found)
                self.see(event, root)
                self.show(min(done, total), total, root)

    def see(self, event: Event, root: Root) -> None:
        """Count one event."""
        from ossia.tools.library.indexing import Failed, Indexed, Skipped, Vanished

        match event:
            case Indexed(origin=origin, change=change, guessed=guessed):
                self.changes[change] += 1
                if guessed:
                    self.guesses.append(f"{origin.removeprefix(root.place + os.sep)} ({guessed})")
            case Vanished(documents=documents):
                self.changes["removed"] += documents
            case Skipped(origin, reason) if origin != root.place and origin not in self.named:
                self.reasons[reason] += 1
                self.passed_by(origin, reason)
            case Skipped(origin, reason) | Failed(origin, reason):
                self.changes["failed"] += 1
                if origin == root.place:
                    self.unreadable.add(origin)
                self.failed(origin, reason, root)

    def guessed(self) -> str:
        """`"encoding guessed for 5 files: a.txt (GBK), b.txt (GBK), c.htm (Big5) and 2 more"`; "" if for none."""
        named, more = self.guesses[:_NAMED], len(self.guesses) - _NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        return f"encoding guessed for {count(len(self.guesses), 'file')}: {', '.join(named)}{rest}" if named else ""

    def show(self, done: int, total: int, root: Root) -> None:
        """The progress; `total` 0: the files aren't counted yet."""

    def passed_by(self, origin: str, reason: str) -> None:
        """A file was left out on purpose."""

    def failed(self, origin: str, reason: str, root: Root) -> None:
        """A file, or the whole root, couldn't be read."""


def index(
    library: Library, targets: list[tuple[RootKind, str]], account: Account, network: Mapping[str, object], stop: Stop
) -> None:
    """Bring these places up to date, or with none all that were added. ExitError for unusable `network` settings.

    It belongs on a thread of its own, so that no interrupt falls between storing and counting.
    """
    from ossia.tools.convert.converter import Converter
    from ossia.tools.library.indexing import index_root

    account.named = frozenset(place for _, place in targets)
    before = {root.place for root in library.roots()}
    with closing(Converter()) as converter:
        for root in _roots(library, targets):
            web = _web(network, converter) if root.kind == "url" else None
            account.follow(index_root(library, root, converter=Converter, web=web, stop=stop), root)
            if root.place in account.unreadable and root.place not in before:
                library.remove(root.place)  # so that a mistyped name isn't tried again at every update
            if stop.stopped:
                return


def target_of(name: str) -> tuple[RootKind, str]:
    """The target of a word of the command line: a folder, a file or a URL. Raises `ExitError`."""
    place = place_of(name)
    if _is_url(place):
        return "url", place
    path = Path(place)
    if paths.is_folder(path):
        return "folder", place
    if not path.exists():
        raise ExitError(f"{name}: no such file or folder")
    return "file", place


def _roots(library: Library, targets: list[tuple[RootKind, str]]) -> Iterator[Root]:
    """The roots to bring up to date, each made when its turn comes: all of them when nothing was named."""
    from ossia.tools.library.library import is_within

    done: set[str] = set()
    for kind, place in targets or [(root.kind, root.place) for root in library.roots()]:
        above = library.root_of(place) if kind == "file" else None
        first = above or library.add_root(kind, place)
        below = [root for root in library.roots() if kind == "folder" and is_within(root.place, place)]
        for root in (first, *below):
            if root.place not in done:
                done.add(root.place)
                yield root


def _web(network: Mapping[str, object], converter: Converter) -> Loader:
    """Loads URLs, by the same rules as `browser.open`. Raises `ExitError`."""
    from ossia.cli.settings.config import resolve
    from ossia.tools.fetch.client import Fetcher
    from ossia.tools.fetch.guard import parse_allow_host
    from ossia.tools.fetch.loader import WebLoader

    settings = resolve(network, environ=os.environ).settings
    try:
        hosts = [host for text in settings.allow_host for host in parse_allow_host(text)]
        return WebLoader(Fetcher(allow_hosts=hosts, proxy=settings.proxy), converter)
    except ValueError as error:  # the line names the value
        raise ExitError(str(error)) from None


def _is_url(name: str) -> bool:
    return name.lower().startswith(("http://", "https://"))


def place_of(name: str) -> str:
    """A URL as it is, or the absolute path of a file, without links. Raises `ExitError` for another scheme."""
    if _is_url(name):
        return name
    if not name.strip():
        raise ExitError(f"{name!r} is neither a path nor a URL")
    if "://" in name:
        raise ExitError(f"{name}: must be a path or an http(s) URL")
    try:
        path = str(Path(name).expanduser().resolve())
        path.encode()
    except (OSError, RuntimeError, ValueError):  # a loop of links, no home, a NUL, bytes that are no text
        raise ExitError(f"{name}: this path can't be used") from None
    return path
