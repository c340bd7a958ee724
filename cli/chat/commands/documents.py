"""/docs: the library that the model searches as the source `docs`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from cli.chat.commands.common import Block, Choice, CommandError, expected
from cli.commands.docs import faults, index, open_library, target_of
from cli.exits import ExitCode, ExitError
from cli.words import count

if TYPE_CHECKING:
    from cli.chat.conversation import Conversation
    from cli.chat.face import Face
    from tools.library.indexing import Event
    from tools.library.library import Library, Root

WORDS: Sequence[Choice] = (("add", "a folder, a file or a page; alone: bring all up to date"),)
_NAMED = 5


def docs(talk: Conversation, face: Face, argument: str) -> None:
    """`/docs [add [PLACE]]`: what is indexed; add: a folder, a file or a page, alone all of it anew."""
    word, _, place = argument.partition(" ")
    if not argument:
        return talk.background.run(_roots, lambda roots: _show(face, roots))
    if word != "add":
        expected("add FOLDER, or nothing", argument)
    return _add(talk, face, place.strip())


def words(talk: Conversation, prefix: str) -> Sequence[Choice] | None:
    """What `/docs` can be completed with; None: paths."""
    return WORDS if " " not in prefix else None


def _roots() -> Sequence[Root]:
    with faults():
        return open_library().roots()


def _show(face: Face, roots: Sequence[Root]) -> None:
    from agent.models.memory import size_text

    if not roots:
        return face.note("no documents yet: /docs add FOLDER lets the model search one")
    block = Block(face, "Documents that the model can search")
    for root in roots:
        block.row(f"  {count(root.documents, 'document'):>16}  {size_text(root.characters):>9}  {root.place}")
    block.row("  /docs add brings them up to date", "dim")
    return block.show()


def _add(talk: Conversation, face: Face, place: str) -> None:
    if talk.has_job:
        raise CommandError("something else is under way: Ctrl-C ends it")
    targets = [target_of(place)] if place else []
    settings, report = talk.settings, _Report(talk, face)
    network = {"allow_host": list(settings.allow_host), "proxy": settings.proxy}

    def work() -> None:
        with faults():
            library: Library = open_library()
            if not targets and not library.roots():
                raise ExitError("the library is empty: /docs add FOLDER", ExitCode.USAGE)
            index(library, targets, report, network)

    def over(error: Exception | None = None) -> None:
        talk.end_job()
        talk.doing("")
        report.tell()
        if error is not None and not isinstance(error, _Stopped):
            talk.tell(error)

    talk.begin_job(report.stop)
    talk.background.run(work, lambda _: over(), over)


class _Stopped(Exception):
    """The user doesn't want to wait."""


class _Report:
    """What comes of the indexing, as lines of the chat. `follow` runs on a thread of its own."""

    def __init__(self, talk: Conversation, face: Face) -> None:
        self.unreadable: set[str] = set()
        self._talk, self._face = talk, face
        self._stopped = False
        self._changes: Counter[str] = Counter()
        self._faults: list[str] = []

    def stop(self) -> None:
        """End it; what is done is kept."""
        self._stopped = True

    def follow(self, events: Generator[Event, None, None], root: Root) -> None:
        """See `cli.commands.docs.Follower`. Raises `_Stopped`."""
        from tools.library.indexing import Found

        done = total = 0
        self._doing(f"looking through {root.place}")
        with closing(events):
            for event in events:
                if self._stopped:
                    raise _Stopped
                total = event.files if isinstance(event, Found) else total
                done += bool(total) and not isinstance(event, Found)
                self._see(event, root)
                if total:
                    self._doing(f"{min(done, total):,} of {total:,} · {root.place} · Ctrl-C keeps what is done")

    def tell(self) -> None:
        """Say what was done."""
        kinds = ("added", "updated", "unchanged", "taken out", "failed")
        sums = ", ".join(f"{self._changes[kind]:,} {kind}" for kind in kinds if self._changes[kind])
        block = Block(self._face)
        for fault in self._faults[:_NAMED]:
            block.row(fault, "yellow")
        if len(self._faults) > _NAMED:
            block.row(f"and {len(self._faults) - _NAMED} more that couldn't be read", "yellow")
        stopped = "stopped; /docs add goes on from there: " if self._stopped else ""
        block.row(f"documents: {stopped}{sums or 'nothing was added'}", "dim")
        block.show()

    def _doing(self, text: str) -> None:
        self._talk.doing(text)
        self._face.wake()

    def _see(self, event: Event, root: Root) -> None:
        from tools.library.indexing import Failed, Indexed, Skipped, Vanished

        match event:
            case Indexed(change=change):
                self._changes[change] += 1
            case Vanished(documents=documents):
                self._changes["taken out"] += documents
            case Skipped(origin, reason) if origin != root.place:
                self._changes[reason] += 1
            case Skipped(origin, reason) | Failed(origin, reason):
                self._changes["failed"] += 1
                self._faults.append(f"{origin}: {reason}")
                if origin == root.place:
                    self.unreadable.add(origin)
