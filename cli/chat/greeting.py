"""What a chat shows before anything is said: what answers, the keys, warnings; the last turns of a resumed session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.words import count

if TYPE_CHECKING:
    from cli.chat.conversation import Conversation
    from cli.chat.face import Face


def greet(talk: Conversation, face: Face) -> None:
    """Find out on a thread what there is to say, then show it."""
    talk.background.run(lambda: _lines(talk, face), lambda lines: _show(talk, face, lines))


def recall(talk: Conversation, face: Face, turns: int = 2) -> None:
    """Show the last turns of the session again."""
    first = len(talk.session.ends) - turns
    face.view.recall(item for item in talk.transcript.items if item.turn >= first)
    if first > 0:
        how = "/save FILE writes" if face.plain else "Ctrl-O shows"
        face.note(f"{how} what was said before: {count(first, 'turn')}")


def _lines(talk: Conversation, face: Face) -> list[str]:
    from cli.chat.welcome import KEYS, PLAIN_KEYS, gather, greeting

    opened, turns, title = talk.opened, len(talk.session.ends), None
    if opened.resumed:
        stored = opened.store.find(opened.session_id) if opened.store and opened.session_id else None
        title = stored.title if stored else "a private copy"
    folder = talk.folder.workspace.root if talk.folder else None
    facts = gather(talk.settings, workspace=folder, title=title, turns=turns)
    return greeting(facts, keys=PLAIN_KEYS if face.plain else KEYS)


def _show(talk: Conversation, face: Face, lines: list[str]) -> None:
    for line in lines:
        face.note(line)
    for warning in (*talk.resolved.warnings, *filter(None, [talk.opened.problem])):
        face.note(warning, "yellow")
    if talk.session.options.response_format:
        face.note("answers are JSON by this session's schema: /schema off ends that")
    if talk.opened.resumed:
        recall(talk, face)
