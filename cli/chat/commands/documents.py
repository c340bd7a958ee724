"""/docs: the library behind the source `docs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.cli.chat.commands.common import Block, Choice, CommandError, must_be
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.runtime.library import CHANGES, Account, faults, index, open_library, target_of
from ossia.cli.words import count

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.tools.library.library import Library, Root

WORDS: Sequence[Choice] = (("add", "a folder, a file or a web page; alone: update all"),)
_NAMED = 5


def docs(talk: Chat, face: Face, argument: str) -> None:
    """`/docs [add [PLACE]]`: list the library, or add a folder, a file or a page; add alone updates all."""
    word, _, place = argument.partition(" ")
    if not argument:
        return talk.background.run(_roots, lambda roots: _show(face, roots))
    if word != "add":
        must_be("add PLACE, or nothing", argument)
    return _add(talk, face, place.strip())


def words(talk: Chat, prefix: str) -> Sequence[Choice] | None:
    """Completions of `/docs`; None: paths."""
    return WORDS if " " not in prefix else None


def _roots() -> Sequence[Root]:
    with faults():
        return open_library().roots()


def _show(face: Face, roots: Sequence[Root]) -> None:
    from ossia.agent.models.memory import size_text

    if not roots:
        return face.note("no documents yet: /docs add FOLDER lets the model search one")
    block = Block(face, "Documents that the model can search")
    for root in roots:
        block.row(f"  {count(root.documents, 'document'):>16}  {size_text(root.characters):>9}  {root.place}")
    block.row("  /docs add updates them", "dim")
    return block.show()


def _add(talk: Chat, face: Face, place: str) -> None:
    if talk.background.job:
        raise CommandError("another job is running: Ctrl-C ends it")
    targets = [target_of(place)] if place else []
    settings, report = talk.settings, _Report(talk, face)
    network = {"allow_host": list(settings.allow_host), "proxy": settings.proxy}

    def work() -> None:
        with faults():
            library: Library = open_library()
            if not targets and not library.roots():
                raise ExitError("the library is empty: /docs add FOLDER", ExitCode.USAGE)
            index(library, targets, report, network, report.control)

    def over(error: Exception | None = None) -> None:
        talk.set_activity("")
        report.summarize()
        if error is not None:
            talk.report(error)

    talk.background.run(work, lambda _: over(), over, stop=report.control.stop)


class _Report(Account):
    """The progress of indexing, as lines of the chat. The indexing thread calls `failed` and `show`."""

    def __init__(self, talk: Chat, face: Face) -> None:
        super().__init__()
        self._talk, self._face = talk, face
        self.control = Control()
        self._faults: list[str] = []

    def failed(self, origin: str, reason: str, root: Root) -> None:
        """Remember the fault for `summarize`."""
        self._faults.append(f"{origin}: {reason}")

    def show(self, done: int, total: int, root: Root) -> None:
        """Show the progress beside the spinner."""
        so_far = f"{done:,} of {total:,} · {root.place} · Ctrl-C stops and keeps what is done"
        self._talk.set_activity(so_far if total else f"scanning {root.place}")
        self._face.wake()

    def summarize(self) -> None:
        """Show the changes and the faults."""
        sums = ", ".join(f"{self.changes[kind]:,} {kind}" for kind in CHANGES if self.changes[kind])
        block = Block(self._face)
        for fault in self._faults[:_NAMED]:
            block.row(fault, "yellow")
        if len(self._faults) > _NAMED:
            block.row(f"and {len(self._faults) - _NAMED} more that couldn't be read", "yellow")
        if guessed := self.guessed():
            block.row(guessed, "yellow")
        stopped = "stopped, /docs add continues: " if self.control.stopped else ""
        block.row(f"documents: {stopped}{sums or 'nothing was added'}", "dim")
        block.show()
