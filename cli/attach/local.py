"""Files and folders of this machine as text for a message: each under its heading, in a fence, within bounds."""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ossia.agent.models.memory import size_text
from ossia.cli.words import bytes_of
from ossia.tools.decoding import Text, decode, decode_beginning, describe, universal
from ossia.tools.names import escaped
from ossia.tools.safe_files import real_name
from ossia.tools.spec import Stop
from ossia.tools.tree import FILE, MAY_BE_A_LINK

if TYPE_CHECKING:
    from ossia.tools.library.walk import File

_MAX_WHOLE_BYTES = 16 << 20
"""Of a larger file, only the beginning and the end are read."""
_MAX_NAMES = 500
_MAX_LISTING_S = 10.0
_NEEDED_BYTES = 200
"""Less room than this isn't worth the beginning of another file."""
HEAD_SHARE = 2 / 3
"""The share of the beginning in a shortened text."""


class Unattachable(Exception):
    """The reason why something can't be attached: one line."""


_NO_FILE = "it isn't a regular file (a pipe, a device)"


@dataclass(frozen=True, slots=True)
class Read:
    """A file or folder as read. `size`: `"3.1 kB"`, `"128 kB of 4.2 MB, cut in the middle"`."""

    kind: str
    size: str
    content: str
    real: Path
    """Where it was read: no link is in this path."""
    rest: str = ""

    def text(self, name: str) -> str:
        """For the model: a heading, the content in its fence, then the rest."""
        return block(f"Attached {self.kind} {name} ({self.size}):", self.content) + self.rest


def read_file(path: Path, *, max_bytes: int) -> Read:
    """A text file, whole or without its middle. Raises `Unattachable`, e.g. for a picture."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a device may act on it
            raise Unattachable(_NO_FILE)
        descriptor = os.open(path, FILE & MAY_BE_A_LINK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unattachable(_NO_FILE)
            real = Path(real_name(descriptor) or path.resolve())
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            if size > _MAX_WHOLE_BYTES:
                (text, content), omitted = _ends_of(file, size, max_bytes), 1
            else:
                text = _decoded(file.read(_MAX_WHOLE_BYTES))  # /proc's files have a size of 0
                whole = universal(text.shown)
                size = bytes_of(whole)
                content, omitted = shortened(whole, max_bytes)
    except OSError as error:
        raise Unattachable(f"it can't be read ({error.strerror})") from None
    said = f"{size_text(bytes_of(content))} of {size_text(size)}, cut in the middle" if omitted else size_text(size)
    return Read("file", f"{said}, {text.remark}" if text.remark else said, content, real)


def _ends_of(file: BinaryIO, size: int, max_bytes: int) -> tuple[Text, str]:
    """The beginning of a file, for its encoding, and its head and tail as one text."""
    split = int(max_bytes * HEAD_SHARE)
    text = _decoded(file.read(split), whole=False)
    head = up_to_line_end(universal(text.shown))
    file.seek((size - (max_bytes - split)) // 4 * 4)  # where a character of UTF-16 and UTF-32 begins
    tail = from_line_start(universal(file.read(max_bytes - split + 3).decode(text.encoding, "replace")))
    left_out = size - bytes_of(head) - bytes_of(tail)
    return text, f"{head}\n[… about {left_out:,} bytes left out here …]\n{tail}"


def _decoded(data: bytes, *, whole: bool = True) -> Text:
    text = decode(data) if whole else decode_beginning(data)
    if text is None:
        raise Unattachable(f"it is {describe(data)}, and only text can be (`ossia docs add` takes PDFs)")
    return text


def leads(place: Path, real: Path, base: Path) -> str:
    """The reason to ask a person before a name is read, "it leads to /home/me/.ssh/id_rsa, out of work"; "" for none.

    `place`: the name as an absolute path; `real`: where it led; `base`: the folder that names are relative to.
    """
    from ossia.cli import paths
    from ossia.tools.approval import sensitive

    base, place = base.resolve(), Path(os.path.normpath(place))
    if not place.is_relative_to(base):  # the user named that folder; its entries may still be links
        place = place.parent.resolve() / place.name
    it = "it" if real == place else f"it leads to {real}, and that"
    if sensitive.of_reading(f"{real}", f"{real}/") or real.is_relative_to(paths.data_dir().resolve()):  # logins, chats
        return f"{it} often holds secrets"
    return f"it leads to {real}, out of {base}" if real != place and not real.is_relative_to(base) else ""


def read_folder(path: Path, *, max_bytes: int, max_files: int, stop: Stop) -> Read:
    """The names in a folder and its text files, in the order of their names, as far as there is room.

    Left out: hidden and ignored files (`.gitignore`), those made by tools, links, and names that look like secrets.
    """
    from ossia.tools.library.walk import File, walk

    if not os.access(path, os.R_OK | os.X_OK):
        raise Unattachable("it can't be read")
    files, real = list[File](), path.resolve()
    more, give_up_at = False, time.monotonic() + _MAX_LISTING_S
    for item in walk(real, apart={}):
        more = len(files) == _MAX_NAMES or time.monotonic() > give_up_at
        if more or stop.stopped:
            break
        if isinstance(item, File):
            files.append(item)
    names = [f"{in_heading(file.name)} ({size_text(file.size)})" for file in files]
    if more:
        names.append("[and more: the listing ends here]")
    listing, _ = shortened("\n".join(names) or "(nothing that can be read)", max_bytes // 2)
    blocks = _blocks(files[:max_files], real, max_bytes - bytes_of(listing), stop)
    count = f"{len(files)}{'+' if more else ''} file{'' if len(files) == 1 else 's'}"
    size = size_text(sum(bytes_of(text) for text in blocks))
    some = "" if len(blocks) == len(files) else f"the text of {len(blocks)} of them, "
    return Read("folder", f"{count}, {some}{size}", listing, real, "".join(f"\n\n{text}" for text in blocks))


def _blocks(files: list[File], folder: Path, room: int, stop: Stop) -> list[str]:
    """The text files within the room, the last one cut perhaps."""
    blocks: list[str] = []
    for file in files:
        if stop.stopped or room < _NEEDED_BYTES:
            break
        try:
            read = read_file(Path(file.path), max_bytes=room)
        except Unattachable:
            continue
        if not read.real.is_relative_to(folder):  # a part of its path has become a link since it was listed
            continue
        blocks.append(read.text(in_heading(file.name)))
        room -= bytes_of(blocks[-1])
    return blocks


# -- how outside text stands in a message ------------------------------------------------------------------------------


def block(heading: str, content: str) -> str:
    """A heading and a fence around the content, longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{heading}\n{fence}\n{content}{'' if content.endswith(chr(10)) else chr(10)}{fence}"


def shortened(text: str, max_bytes: int) -> tuple[str, int]:
    """The text without its middle, where a line says so, and the number of characters left out; 0: it fits."""
    data = text.encode("utf-8", "replace")
    if len(data) <= max_bytes:
        return text, 0
    split = int(max_bytes * HEAD_SHARE)
    head = up_to_line_end(data[:split].decode("utf-8", "ignore"))
    tail = from_line_start(data[len(data) - (max_bytes - split) :].decode("utf-8", "ignore"))
    omitted = len(text) - len(head) - len(tail)
    return f"{head}\n[… {omitted:,} characters left out here …]\n{tail}", omitted


def up_to_line_end(text: str) -> str:
    """Cut the unfinished line at its end, unless it is most of the text."""
    head, end, _ = text.rpartition("\n")
    return head if end and len(head) > len(text) // 2 else text


def from_line_start(text: str) -> str:
    """Cut the unfinished line at its beginning, unless it is most of the text."""
    _, end, tail = text.partition("\n")
    return tail if end and len(tail) > len(text) // 2 else text


def in_heading(name: str) -> str:
    """A name on one line, unprintable characters as escapes: the model can open it as it stands there."""
    return "".join(char if char.isprintable() else escaped(char) for char in name)
