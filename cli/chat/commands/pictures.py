"""/image: a picture on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cli.chat.commands.common import CommandError, path_of
from cli.terminal.pictures import FORMATS

if TYPE_CHECKING:
    from pathlib import Path

    from cli.chat.conversation import Conversation
    from cli.chat.face import Face

_OTHER_ROWS = 6


def image(talk: Conversation, face: Face, argument: str) -> None:
    """`/image [FILE]`: show a picture file, or the last picture that a call made. The model sees no pictures."""
    path = path_of(argument).resolve() if argument else _last(talk)
    if not path.is_file():
        raise CommandError(f"file {path} doesn't exist")
    if not face.pictures.knows(path):
        raise CommandError(f"must be a picture ({', '.join(FORMATS)}), not {path}")
    room = max(4, face.rows - _OTHER_ROWS)
    talk.background.run(lambda: face.pictures.rows(path, face.painter, room), face.show)


def _last(talk: Conversation) -> Path:
    made = [one for item in talk.transcript.calls() for one in item.attachments if one.media_type.startswith("image/")]
    if not made:
        raise CommandError("no tool has made a picture yet: /image FILE shows one of yours (the model can't see it)")
    return made[-1].path
