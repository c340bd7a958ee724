"""What a chat shows before anything is said: what answers, the keys, warnings; of a session that goes on, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.words import count

if TYPE_CHECKING:
    from cli.chat import Chat


def greet(chat: Chat) -> None:
    """Look around on a thread, then show it."""
    chat.background.run(lambda: _lines(chat), lambda lines: _show(chat, lines))


def recall(chat: Chat, turns: int = 2) -> None:
    """Show the last turns of the session again."""
    first = len(chat.session.ends) - turns
    chat.view.recall(item for item in chat.transcript.items if item.turn >= first)
    if first > 0:
        how = "/save FILE writes" if chat.screen.plain else "Ctrl-O shows"
        chat.note(f"{how} what was said before: {count(first, 'turn')}")


def _lines(chat: Chat) -> list[str]:
    from cli.welcome import KEYS, PLAIN_KEYS, gather, greeting

    kept, turns, title = chat.kept, len(chat.session.ends), None
    if kept.resumed:
        stored = kept.store.find(kept.session_id) if kept.store and kept.session_id else None
        title = stored.title if stored else "a private copy"
    folder = chat.folder.workspace.root if chat.folder else None
    facts = gather(chat.settings, workspace=folder, title=title, turns=turns)
    return greeting(facts, keys=PLAIN_KEYS if chat.screen.plain else KEYS)


def _show(chat: Chat, lines: list[str]) -> None:
    for line in lines:
        chat.note(line)
    for warning in (*chat.resolved.warnings, *filter(None, [chat.kept.problem])):
        chat.note(warning, "yellow")
    if chat.session.options.response_format:
        chat.note("answers are JSON by this session's schema: /schema off ends that")
    if chat.kept.resumed:
        recall(chat)
