"""Files and folders of this machine as text for a message, within bounds."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ossia.agent.models.memory import size_text
from ossia.cli.attach.content import (
    HEAD_SHARE,
    Attachment,
    Content,
    Cut,
    Source,
    TextSource,
    block,
    in_heading,
    shortened,
)
from ossia.cli.exits import MAX_TEXT_BYTES
from ossia.cli.words import bytes_of
from ossia.tools.decoding import Text, decode, decode_beginning, describe, universal
from ossia.tools.safe_files import real_name
from ossia.tools.spec import Stop, Taint
from ossia.tools.tree import FILE, MAY_BE_A_LINK
from ossia.tools.workspace import Workspace

if TYPE_CHECKING:
    from ossia.tools.library.walk import File

_MAX_NAMES = 500
_MAX_LISTING_S = 10.0
_NEEDED_BYTES = 200
"""Less room than this isn't worth the beginning of another file."""


class Unattachable(Exception):
    """The reason why something can't be attached: one line."""


_NO_FILE = "it isn't a regular file (a pipe, a device)"


@dataclass(frozen=True, slots=True)
class Local:
    """A file or folder that was read. `real`: where; no link is in this path."""

    source: Source
    real: Path


def read_local(
    path: Path,
    *,
    name: str,
    label: str,
    max_bytes: int,
    max_files: int,
    stop: Stop,
    workspace: Workspace | None,
) -> Local:
    """A text file, or a folder with its text files. Raises `Unattachable`, e.g. for a picture.

    `name` is for the model, `label` for the screen. Of what is longer than `max_bytes`, only the ends are read.
    """
    try:
        if path.is_dir():
            return _folder(path, in_heading(name), label, max_bytes, max_files, stop, workspace)
        content, real = _file(path, max_bytes)
    except OSError as error:
        raise Unattachable(f"it can't be read ({error.strerror})") from None
    return Local(TextSource(label, f"Attached file {in_heading(name)}", content, _taints(real, workspace)), real)


def _taints(real: Path, workspace: Workspace | None) -> frozenset[Taint]:
    """The taints of a text: a workspace that isn't trusted holds others'."""
    if workspace and real.is_relative_to(workspace.root):
        return workspace.taints
    return frozenset({"private"})


def _file(path: Path, max_bytes: int) -> tuple[Content, Path]:
    if not stat.S_ISREG(path.stat().st_mode):  # opening a device may act on it
        raise Unattachable(_NO_FILE)
    descriptor = os.open(path, FILE & MAY_BE_A_LINK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Unattachable(_NO_FILE)
        real = Path(real_name(descriptor) or path.resolve())
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size > MAX_TEXT_BYTES:
            return _ends_of(file, size, max_bytes), real
        text = _decoded(file.read(MAX_TEXT_BYTES))  # /proc's files have a size of 0
        return Content(universal(text.shown), remark=text.remark), real


def _ends_of(file: BinaryIO, size: int, max_bytes: int) -> Content:
    """The beginning of a file, for its encoding too, and its end."""
    split = int(max_bytes * HEAD_SHARE["middle"])
    text = _decoded(file.read(split), whole=False)
    start = (size - (max_bytes - split)) // 4 * 4  # where a character of UTF-16 and UTF-32 begins
    file.seek(start)
    tail = universal(file.read(max_bytes - split + 3).decode(text.encoding, "replace"))
    if "\0" in tail:
        raise Unattachable(f"it is a binary file, {size_text(size)}, not text")
    return Content(universal(text.shown), tail, start - split, text.remark)


def _decoded(data: bytes, *, whole: bool = True) -> Text:
    text = decode(data) if whole else decode_beginning(data)
    if text is None:
        raise Unattachable(f"it is {describe(data)}, not text (`ossia docs add` takes PDFs)")
    return text


def leads(place: Path, real: Path, base: Path, *, named: bool = False) -> str:
    """The reason to ask a person before a name is read, "it leads to /home/me/.ssh/id_rsa, out of work"; "" for none.

    `place`: the name as an absolute path; `real`: where it led; `base`: the folder that names are relative to. `named`:
    the user's command names it, so only a link is a reason.
    """
    from ossia.cli import paths
    from ossia.tools.approval import sensitive

    base, place = base.resolve(), Path(os.path.normpath(place))
    if not place.is_relative_to(base):  # the user named that folder; its entries may still be links
        place = place.parent.resolve() / place.name
    if named and real == place:
        return ""
    it = "it" if real == place else f"it leads to {real}, and that"
    if sensitive.of_reading(f"{real}", f"{real}/") or real.is_relative_to(paths.data_dir().resolve()):  # logins, chats
        return f"{it} often holds secrets"
    return f"it leads to {real}, out of {base}" if real != place and not real.is_relative_to(base) else ""


# -- folders -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FolderSource:
    """A folder: the names in it, `more` if there are others, and its text files, in the order of their names."""

    label: str
    name: str
    names: tuple[str, ...]
    more: bool
    texts: tuple[tuple[str, Content], ...]
    all_read: bool
    taints: frozenset[Taint]

    def within(self, max_bytes: int, cut: Cut) -> Attachment:
        """The names, and the texts as far as there is room, the last one cut perhaps."""
        names = [*self.names, *(["[and more: the listing ends here]"] if self.more else [])]
        listing, omitted = shortened("\n".join(names) or "(nothing that can be read)", max_bytes // 2)
        room, blocks, is_cut = max_bytes - bytes_of(listing), list[str](), omitted > 0
        for name, content in self.texts:
            if room < _NEEDED_BYTES:
                break
            text, size, part = content.within(room, cut)
            blocks.append(block(f"Attached file {name} ({size}):", text))
            is_cut |= part
            room -= bytes_of(blocks[-1])
        count = f"{len(self.names)}{'+' if self.more else ''} file{'' if len(self.names) == 1 else 's'}"
        some = "" if len(blocks) == len(self.names) else f"the text of {len(blocks)} of them, "
        size = f"{count}, {some}{size_text(sum(bytes_of(text) for text in blocks))}"
        whole = "\n\n".join([block(f"Attached folder {self.name} ({size}):", listing), *blocks])
        is_cut |= self.more or not self.all_read or len(blocks) < len(self.texts)
        return Attachment(whole, f"{self.label} · {size}", self.taints, is_cut)


def _folder(
    path: Path, name: str, label: str, max_bytes: int, max_files: int, stop: Stop, workspace: Workspace | None
) -> Local:
    """Left out: hidden and ignored files (`.gitignore`), those made by tools, links, and likely secrets."""
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
    texts, all_read = _texts(files[:max_files], real, max_bytes, stop)
    names = tuple(f"{in_heading(file.name)} ({size_text(file.size)})" for file in files)
    all_read &= len(files) <= max_files
    return Local(FolderSource(label, name, names, more, tuple(texts), all_read, _taints(real, workspace)), real)


def _texts(files: list[File], folder: Path, room: int, stop: Stop) -> tuple[list[tuple[str, Content]], bool]:
    """The text files, as many as there is room for, and True if those are all."""
    texts: list[tuple[str, Content]] = []
    for file in files:
        if stop.stopped or room < _NEEDED_BYTES:
            return texts, False
        try:
            content, real = _file(Path(file.path), room)
        except (Unattachable, OSError):
            continue
        if real.is_relative_to(folder):  # else a part of its path has become a link since it was listed
            texts.append((in_heading(file.name), content))
            room -= bytes_of(content.head) + bytes_of(content.tail)
    return texts, True
