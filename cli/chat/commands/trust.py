"""The trust in the workspace: asked about when a folder is entered for the first time, and by `/tools trust`."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.chat.commands.common import CommandError
from ossia.cli.commands.trust import KIND_CHARS, UNTIL, describe
from ossia.cli.terminal.fold import hanging
from ossia.cli.terminal.question import Question
from ossia.cli.visible import seen_line
from ossia.tools.approval.trust import Offer, TrustError, TrustStore, look

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face

_NAME_CHARS = 60
_AGAIN = "/tools trust shows it as it is now"
_KEYS = (("y", "trust"), ("n", "no, never ask here"), ("l", "later"))


def enter(talk: Chat, face: Face) -> None:
    """Ask whether an untrusted folder's files are the user's own; if that was answered before, note that it isn't.

    Nobody is asked about their home, or a folder above it (programs and downloads left much there), nor where lines are
    all that a terminal can print: a question would take the first one.
    """
    if talk.folder is None or talk.folder.workspace.trusted:
        return None
    root = talk.folder.workspace.root
    is_home = paths.expanded("~").resolve().is_relative_to(root)
    if face.plain or face.asks or is_home or not TrustStore(paths.data_dir()).asks(root):
        return _note(talk, face)

    def failed(error: Exception) -> None:
        if not isinstance(error, TrustError):
            raise error
        _note(talk, face)

    return talk.background.run(lambda: look(root), partial(_ask, talk, face, first=True), failed)


def ask(talk: Chat, face: Face) -> None:
    """`/tools trust`: show the settings of the workspace, and ask."""
    if talk.folder is None:
        raise CommandError("there is no workspace: /tools workspace DIR sets one")
    root = talk.folder.workspace.root
    if talk.folder.workspace.trusted:
        return face.note(f"{root} is trusted")
    return _ask(talk, face, look(root))


def _ask(talk: Chat, face: Face, offer: Offer, *, first: bool = False) -> None:
    """Ask about the folder as it was when `offer` was taken: exactly this is shown and trusted.

    `first`: it is entered, and a line sent instead of an answer means "later".
    """
    root, store = offer.root, TrustStore(paths.data_dir())

    def answered(key: str) -> None:
        from ossia.cli.chat.commands.tools import collect

        talk.turn.unanswered = None
        if key == "y":
            store.trust(root, offer)
            if store.state(root) == "changed":
                return face.note(f"{root} changed while it was asked about, so it isn't trusted: {_AGAIN}", "yellow")
            before = "; what was said so far still counts as somebody else's" if "outside" in talk.session.taint else ""
            face.note(f"{root} is trusted, {UNTIL}{before if talk.session.entries else ''}")
            return collect(talk, face, {})
        if first and key == "n":
            store.decline(root)
            return face.note("not trusted, and not asked about again: /tools trust changes that")
        return _note(talk, face) if first else face.note("not trusted: nothing was changed")

    rows = [row for line in describe(offer) for row in hanging(seen_line(line), face.painter.width, KIND_CHARS)]
    detail = "\n".join(rows)
    if first:

        def later() -> None:
            face.withdraw()
            _note(talk, face)

        talk.turn.unanswered = later
        title = f"Are the files in {root} your own?"
        return talk.ask(Question(title, f"A yes means, {UNTIL}:", detail, keys=_KEYS), answered)
    return talk.ask(Question(f"Trust {root}?", UNTIL, detail), answered)


def _note(talk: Chat, face: Face) -> None:
    """Name the unused parts of the folder, and the way to trust it."""
    assert talk.folder is not None
    for warning in talk.folder.warnings:
        face.note(re.sub(r"`ossia trust .*`", "/tools trust", warning), "yellow")
    if not talk.folder.warnings:
        name = seen_line(talk.folder.workspace.root.name, _NAME_CHARS)
        face.note(f"the folder {name} isn't trusted, so its text counts as somebody else's: /tools trust asks about it")
