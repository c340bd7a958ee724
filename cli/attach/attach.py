"""What a message brings along: files, folders, pages and the output of commands, as data behind the user's own words.

The user's text stays as it was typed. Each attachment follows in a block of its own: a line that says what it is, then
its text in a fence that is longer than any in it, so that nothing in a file or page can end its block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ossia.agent.sessions.session import UserText
from ossia.cli.attach.local import block, in_heading, shortened
from ossia.cli.clean import one_line
from ossia.cli.mentions import Mention, mentions, standing
from ossia.cli.visible import seen_line
from ossia.cli.words import bytes_of, for_user, size_of
from ossia.tools.names import in_ascii
from ossia.tools.spec import Stop, Taint, ToolFailed
from ossia.tools.workspace import Workspace

if TYPE_CHECKING:
    from ossia.cli.attach.user_command import Ran
    from ossia.tools.browser.document import Document

Kind = Literal["file", "folder", "page", "output"]
OUTPUT = "Output of the command"
"""How the heading of a command's output begins."""

_SHOWN_CHARS = 60
_LINK = re.compile(r"【\d+†([^†】]*)(?:†[^】]*)?】")
_NEEDED_BYTES = 500
_MAX_NOTES = 3
"""How many notes on words that look like paths: pasted code is full of such words (`@pytest.mark.slow`)."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much may be attached, in bytes of UTF-8 (about 4 are a token): of one thing, and of all of a message.

    `files`: how many of one folder's files.
    """

    one_bytes: int = 128_000
    all_bytes: int = 256_000
    files: int = 100

    @classmethod
    def within(cls, tokens: int) -> Bounds:
        """Bounds that leave room in a context: at most about `tokens` in all, two thirds of them for one thing."""
        usual, room = cls(), 3 * tokens
        return cls(min(usual.one_bytes, room * 2 // 3), min(usual.all_bytes, room))


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that goes along with a message.

    `label`: as the user wrote it (`"@notes.md"`, `"!git status"`). `text` is what the model gets: the heading and the
    fence too. `shown` is one clean line for the screen: `"@notes.md · 3.1 kB"`, `"@log.txt · 128 kB of 4.2 MB"`.
    """

    label: str
    text: str
    kind: Kind
    shown: str
    taints: frozenset[Taint] = frozenset({"private"})

    @property
    def size(self) -> int:
        """Bytes of UTF-8."""
        return bytes_of(self.text)


@dataclass(frozen=True, slots=True)
class Attached:
    """A message ready to be sent. `problems` are clean lines for the user: what was not attached, and why."""

    user_text: UserText
    attachments: tuple[Attachment, ...] = ()
    problems: tuple[str, ...] = ()


def attach(
    text: str,
    *,
    shown: str | None = None,
    folder: Path,
    workspace: Workspace | None = None,
    load_page: Callable[[str], Document],
    stop: Stop,
    pending: Sequence[Attachment] = (),
    bounds: Bounds | None = None,
    ask: Callable[[str, str], bool] = lambda name, reason: False,
) -> Attached:
    """The message with what it mentions: `@file`, `@folder/`, `@https://…`. It blocks: call it on a thread.

    Mentions are looked for in `shown`, where placeholders stand for pasted text: what was pasted mentions nothing.
    Paths are relative to `folder`, or else to the workspace, whose `taints` its files get. A mention of nothing that
    exists stays text; if it looks like a path, a problem says so. What leads out of the workspace
    or the folder, or often holds secrets, goes along only if `ask` agrees: it gets the name, and why it is asked. By
    then it has been read: nothing can be swapped after the answer. `load_page` raises `ToolFailed`. `pending` (the
    output of commands) comes first. After a stop, only what was read by then is attached. The caller decides whether
    a message with problems is sent.

        attach("What is in @notes.md?", folder=Path.cwd(), load_page=…, stop=control).user_text.text
        → "What is in @notes.md?\\n\\nAttached file notes.md (12 bytes):\\n```\\nhello world\\n```"
    """
    bounds = bounds or Bounds()
    waiting = [_within(attachment, bounds.one_bytes) for attachment in pending]
    gathering = _Gathering(folder, workspace, load_page, stop, bounds, waiting, ask)
    for mention in mentions(text if shown is None else shown):
        if stop.stopped:
            break
        gathering.add(mention)
    found = tuple(gathering.found)
    whole = "\n\n".join([text, *(attachment.text for attachment in found)])
    taints = frozenset[Taint]().union(*(attachment.taints for attachment in found))
    return Attached(UserText(whole, text, taints), found, tuple(gathering.problems))


def output_of(ran: Ran) -> Attachment:
    """The output of a command that the user ran, to go along with their next message."""
    end = "" if ran.status == 0 else f", {ran.end}"
    text = block(f"{OUTPUT} `{one_line(ran.command, 200)}`{end}:", ran.output or "(no output)")
    label = f"!{ran.command}"
    size = size_of(bytes_of(ran.output))
    cut = ", cut in the middle" if ran.omitted_chars else ""
    return Attachment(label, text, "output", f"{_label(label)} · {size}{cut}{end}")


class _Gathering:
    """The attachments of one message, as they come together."""

    def __init__(
        self,
        folder: Path,
        workspace: Workspace | None,
        load_page: Callable[[str], Document],
        stop: Stop,
        bounds: Bounds,
        found: list[Attachment],
        ask: Callable[[str, str], bool],
    ) -> None:
        self._ask = ask
        self._folder, self._workspace, self._load_page = folder, workspace, load_page
        self._stop, self._bounds = stop, bounds
        self.found, self.problems = found, list[str]()

    @property
    def _room(self) -> int:
        return self._bounds.all_bytes - sum(attachment.size for attachment in self.found)

    def add(self, mention: Mention) -> None:
        """Attach what is mentioned, or say why not."""
        path = None if mention.is_url else self._path(mention)
        if path is None and not mention.is_url:
            if alike := self._alike(mention):
                some = " or ".join("@" + in_ascii(name) for name in alike[:3])
                self._refuse(mention.name, f"not attached: it may mean {some}, which look alike; write one of these")
            elif len(self.problems) < _MAX_NOTES and _looks_like_a_path(mention):
                what = "folder" if mention.name.endswith("/") else "file"
                self._refuse(mention.name, f"not attached: there is no such {what}")
            return
        if self._room < _NEEDED_BYTES:
            self._refuse(mention.name, f"not attached: a message takes {size_of(self._bounds.all_bytes)} in all")
        elif path is None:
            self._page(mention)
        else:
            self._local(*path)

    def _path(self, mention: Mention) -> tuple[str, Path] | None:
        """The part of the mention that names something that exists, and its path; None: no part does."""
        return next(((name, found[0]) for name, found in self._standing(mention) if len(found) == 1), None)

    def _alike(self, mention: Mention) -> list[str]:
        """The names that the mention may mean, if there are several."""
        return next(([path.name for path in found] for _, found in self._standing(mention) if len(found) > 1), [])

    def _standing(self, mention: Mention) -> Iterator[tuple[str, list[Path]]]:
        return standing(mention, (self._folder, *([self._workspace.root] if self._workspace else [])))

    def _local(self, name: str, path: Path) -> None:
        from ossia.cli.attach.local import Unattachable, leads, read_file, read_folder

        room = min(self._bounds.one_bytes, self._room)
        try:
            if path.is_dir():
                read = read_folder(path, max_bytes=room, max_files=self._bounds.files, stop=self._stop)
                kind: Kind = "folder"
            else:
                read, kind = read_file(path, max_bytes=room), "file"
        except Unattachable as error:
            self._refuse(name, str(error))
            return
        base = self._folder
        if self._workspace and Path(os.path.normpath(path)).is_relative_to(self._workspace.root):
            base = self._workspace.root
        if (why := leads(path, read.real, base)) and not self._ask(name, why):
            self._refuse(name, f"not attached: {why}")
            return
        told = f"{_label('@' + name)} · {read.told}"
        self.found.append(Attachment(f"@{name}", read.text(in_heading(name)), kind, told, self._taints(read.real)))

    def _taints(self, path: Path) -> frozenset[Taint]:
        """A workspace that isn't trusted holds text that somebody else wrote."""
        if self._workspace and path.is_relative_to(self._workspace.root):
            return self._workspace.taints
        return frozenset({"private"})

    def _page(self, mention: Mention) -> None:
        url = mention.name if mention.quoted else _url(mention.name)
        try:
            document = self._load_page(url)
        except ToolFailed as error:
            self._refuse(url, f"not attached: {for_user(str(error).removeprefix('Error: '))}")
            return
        whole = _LINK.sub(r"\1", document.text)
        text, omitted = shortened(whole, min(self._bounds.one_bytes, self._room))
        title = f' "{one_line(document.title, 200)}"' if document.title else ""
        size = _size_told(whole, text, omitted)
        body = block(f"Attached web page {one_line(document.url or url)}{title} ({size}):", text)
        self.found.append(Attachment(f"@{url}", body, "page", f"{_label('@' + url)} · {size}", frozenset({"outside"})))

    def _refuse(self, name: str, why: str) -> None:
        self.problems.append(f"{_label('@' + name)}: {seen_line(why, 300)}")


def _looks_like_a_path(mention: Mention) -> bool:
    return "/" in mention.name or mention.quoted or re.search(r"\w\.\w{1,8}$", mention.name) is not None


def _within(attachment: Attachment, max_bytes: int) -> Attachment:
    """The attachment, cut in the middle if it is too long: its heading and the end of its fence stay."""
    text, omitted = shortened(attachment.text, max_bytes)
    if not omitted:
        return attachment
    told = "" if "cut in the middle" in attachment.shown else ", cut in the middle"
    return replace(attachment, text=text, shown=attachment.shown + told)


def _url(name: str) -> str:
    """The address without what ends the sentence; a bracket that the address itself opened stays."""
    opening = {")": "(", "]": "[", "}": "{"}
    while name[-1] in ".,;:!?\"'>" or name.count(name[-1]) > name.count(opening.get(name[-1], name[-1])):
        name = name[:-1]
    return name


def _size_told(whole: str, text: str, omitted: int) -> str:
    size = size_of(bytes_of(whole))
    return f"{size_of(bytes_of(text))} of {size}, cut in the middle" if omitted else size


def _label(label: str) -> str:
    return seen_line(label, _SHOWN_CHARS)
