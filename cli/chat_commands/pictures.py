"""/image: a picture on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.chat_commands.common import CommandError, path_of
from cli.terminal.pictures import FORMATS

if TYPE_CHECKING:
    from pathlib import Path

    from cli.chat import Chat

_OTHER_ROWS = 6


def image(chat: Chat, argument: str) -> None:
    """`/image [FILE]`: a picture file, or the last one that a call made. The model sees no pictures."""
    path = path_of(argument).resolve() if argument else _last(chat)
    if not path.is_file():
        raise CommandError(f"expected a picture file, there is no {path}")
    if not chat.pictures.knows(path):
        raise CommandError(f"expected a picture ({', '.join(FORMATS)}), {path} is none")
    room = max(4, chat.screen.output.get_size().rows - _OTHER_ROWS)
    chat.background.run(lambda: chat.pictures.rows(path, chat.painter, room), chat.show)


def _last(chat: Chat) -> Path:
    made = [one for item in chat.transcript.calls() for one in item.attachments if one.media_type.startswith("image/")]
    if not made:
        raise CommandError("no call made a picture yet: /image FILE shows one of yours (gpt-oss sees no pictures)")
    return made[-1].path
