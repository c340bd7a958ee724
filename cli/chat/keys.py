"""The chat's own keys, and what the input line can be completed with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, emacs_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from ossia.cli import paths
from ossia.cli.terminal.input.completion import Choice, Sources

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.screen_face import ScreenFace


def chat_keys(talk: Chat, face: ScreenFace) -> KeyBindings:
    """Ctrl-C, Ctrl-D, Ctrl-T, Ctrl-G, Ctrl-O and PgUp, Ctrl-Z; Up takes queued lines back; Esc leaves an edit."""
    keys = KeyBindings()

    def bind(*names: str, **options: object) -> Callable[[Callable[[], object]], None]:
        def add(act: Callable[[], object]) -> None:
            def pressed(event: KeyPressEvent) -> None:
                result = act()
                if isinstance(result, Awaitable):
                    event.app.create_background_task(result)  # type: ignore[arg-type]
                face.wake()

            for name in names:
                keys.add(name, **options)(pressed)  # type: ignore[arg-type]

        return add

    queued = Condition(lambda: bool(talk.queue or talk.steering) and not face.editor.text)
    bind("c-c", "<sigint>")(face.interrupt)
    bind("c-d", filter=Condition(lambda: not face.editor.text))(talk.leave)
    bind("c-t")(face.toggle_thinking)
    bind("c-g")(talk.answer_now)
    bind("c-o", "pageup")(face.open_transcript)
    bind("pagedown")(lambda: None)  # prompt_toolkit would walk through the history
    bind("up", filter=queued)(talk.take_back)
    bind("escape", filter=Condition(lambda: face.replaces is not None) & emacs_mode)(face.editor.clear)
    bind("c-z")(lambda: face.screen.suspend())
    return keys


def chat_sources(talk: Chat) -> Sources:
    """Commands, their values, and the folders that paths are relative to."""

    def all_commands() -> Sequence[Choice]:
        from ossia.cli.chat.commands.table import commands

        return commands()

    def values(command: str, prefix: str) -> Sequence[Choice] | None:
        from ossia.cli.chat.commands.table import arguments

        return arguments(talk, command, prefix)

    def folders() -> Sequence[Path]:
        return [paths.here(), *([talk.folder.workspace.root] if talk.folder else [])]

    return Sources(all_commands, values, folders)
