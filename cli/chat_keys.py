"""The chat's own keys, and what the input line can be completed with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, emacs_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from cli import paths
from cli.terminal.completion import Choice, Sources

if TYPE_CHECKING:
    from cli.chat import Chat


def chat_keys(chat: Chat) -> KeyBindings:
    """Ctrl-C, Ctrl-D, Ctrl-T, Ctrl-G, Ctrl-O, Ctrl-Z; Up takes queued lines back; Esc leaves an edit."""
    keys = KeyBindings()

    def bind(*names: str, **options: object) -> Callable[[Callable[[], object]], None]:
        def add(act: Callable[[], object]) -> None:
            def pressed(event: KeyPressEvent) -> None:
                result = act()
                if isinstance(result, Awaitable):
                    event.app.create_background_task(result)  # type: ignore[arg-type]
                chat.screen.wake()

            for name in names:
                keys.add(name, **options)(pressed)  # type: ignore[arg-type]

        return add

    queued = Condition(lambda: bool(chat.queue) and not chat.editor.text)
    bind("c-c", "<sigint>")(chat.interrupt)
    bind("c-d", filter=chat.editor.empty)(chat.leave)
    bind("c-t")(chat.toggle_thinking)
    bind("c-g")(chat.answer_now)
    bind("c-o")(chat.open_transcript)
    bind("up", filter=queued)(chat.take_back)
    bind("escape", filter=Condition(lambda: chat.editing is not None) & emacs_mode)(chat.editor.clear)
    bind("c-z")(lambda: chat.screen.suspend())
    return keys


def chat_sources(chat: Chat) -> Sources:
    """Commands, their values, and where paths count from."""

    def all_commands() -> Sequence[Choice]:
        from cli.commands import commands

        return commands()

    def values(command: str, prefix: str) -> Sequence[Choice] | None:
        from cli.commands import arguments

        return arguments(chat, command, prefix)

    def folders() -> Sequence[Path]:
        return [paths.here(), *([chat.folder.workspace.root] if chat.folder else [])]

    return Sources(all_commands, values, folders)
