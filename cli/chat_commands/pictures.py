"""/image: a picture on the screen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cli.chat_commands.common import CommandError, path_of

if TYPE_CHECKING:
    from pathlib import Path

    from cli.chat import Chat


def image(chat: Chat, argument: str) -> None:
    """`/image [FILE]`: a picture file, or the last one that a call made. The model sees no pictures."""
    from cli.terminal.pictures import Pictures, cell_size, way_of

    path = path_of(argument) if argument else _last(chat)
    if not path.is_file():
        raise CommandError(f"expected a picture file, there is no {path}")
    room = max(4, chat.screen.output.get_size().rows - 6)
    chat.show(Pictures(way_of(os.environ), cell=cell_size()).rows(path, chat.painter, room))


def _last(chat: Chat) -> Path:
    made = [one for item in chat.transcript.calls() for one in item.attachments if one.media_type.startswith("image/")]
    if not made:
        raise CommandError("no call made a picture yet: /image FILE shows one of yours (gpt-oss sees no pictures)")
    return made[-1].path
