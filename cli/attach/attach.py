"""Attachments of a message: files, folders, pages and the output of commands, as data behind the user's own words.

The user's text stays as it was typed. Each attachment follows in a block of its own: a heading, then its text in a
fence that is longer than any in it, so that nothing in a file or page can end its block.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.models.memory import size_text
from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.attach.local import Unattachable, block, in_heading, leads, read_file, read_folder, shortened
from ossia.cli.attach.user_command import Ran, run_command
from ossia.cli.clean import one_line
from ossia.cli.mentions import Mention, mentions, standing
from ossia.cli.terminal.input.typed import Typed
from ossia.cli.visible import seen_line
from ossia.cli.words import bytes_of
from ossia.tools.functions import ToolSettingUnusable
from ossia.tools.names import in_ascii
from ossia.tools.outcome import for_user
from ossia.tools.spec import Stop, Taint, ToolFailed
from ossia.tools.workspace import Workspace

if TYPE_CHECKING:
    from ossia.cli.settings.table import Settings
    from ossia.tools.browser.document import Document
    from ossia.tools.pages import PageLoader

OUTPUT = "Output of the command"
"""The beginning of the heading of a command's output."""

_SHOWN_CHARS = 60
_LINK = re.compile(r"【\d+†([^†】]*)(?:†[^】]*)?】")
_NEEDED_BYTES = 500
_MAX_NOTES = 3
"""Notes on words that look like paths: pasted code is full of such words (`@pytest.mark.slow`)."""
_GRACE_S = 3.0
"""The user's command has half a second to end, then it is killed."""
_NOT_SENT = "not sent: send the line again to go without it"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of attachments, in bytes of UTF-8 (about 4 a token): of one thing, in all; `files` of a folder."""

    one_bytes: int = 128_000
    all_bytes: int = 256_000
    files: int = 100

    @classmethod
    def within(cls, tokens: int) -> Bounds:
        """Bounds for a context with room for `tokens` more, two thirds of them for one thing."""
        usual, room = cls(), 3 * tokens
        return cls(min(usual.one_bytes, room * 2 // 3), min(usual.all_bytes, room))


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attachment. `text` is for the model, with heading and fence; `shown` is one clean line for the screen.

    Attachment("Attached file notes.md (3.1 kB):\n```\n…\n```", "@notes.md · 3.1 kB")
    """

    text: str
    shown: str
    taints: frozenset[Taint] = frozenset({"private"})

    @property
    def size(self) -> int:
        """Bytes of UTF-8."""
        return bytes_of(self.text)


@dataclass(frozen=True, slots=True)
class Attached:
    """A message ready to be sent. `problems`: a clean line for each thing not attached, with the reason."""

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
    """The message with its mentions (`@file`, `@folder/`, `@https://…`) attached. It blocks: call it on a thread.

    Mentions are looked for in `shown`, where placeholders stand for pasted text: that mentions nothing. Paths are
    relative to `folder`, or else to the workspace, whose `taints` its files get. A mention of nothing that exists
    stays text; if it looks like a path, it is a problem. A path that leads out of the workspace or the folder, or
    often holds secrets, is attached only if `ask(name, reason)` agrees; it has been read by then, so nothing can be
    swapped after the answer. `load_page` raises `ToolFailed`. `pending` (the output of commands) comes first. After a
    stop, only what was read by then is attached.

        attach("What is in @notes.md?", folder=Path.cwd(), load_page=…, stop=control).user_text.text
        → "What is in @notes.md?\\n\\nAttached file notes.md (12 bytes):\\n```\\nhello world\\n```"
    """
    bounds = bounds or Bounds()
    waiting = [_within(attachment, bounds.one_bytes) for attachment in pending]
    gathering = _Gathering(folder, workspace, load_page, stop, bounds, ask, waiting)
    for mention in mentions(text if shown is None else shown):
        if stop.stopped:
            break
        gathering.add(mention)
    found = tuple(gathering.found)
    whole = "\n\n".join([text, *(attachment.text for attachment in found)])
    taints = frozenset[Taint]().union(*(attachment.taints for attachment in found))
    return Attached(UserText(whole, text, taints), found, tuple(gathering.problems))


def output_of(ran: Ran) -> Attachment:
    """The output of a user's command as an attachment."""
    end = "" if ran.status == 0 else f", {ran.end}"
    text = block(f"{OUTPUT} `{one_line(ran.command, 200)}`{end}:", ran.output or "(no output)")
    cut = ", cut in the middle" if ran.omitted_chars else ""
    return Attachment(text, f"{_label('!' + ran.command)} · {size_text(bytes_of(ran.output))}{cut}{end}")


@dataclass(slots=True)
class _Gathering:
    """The attachments of one message, as they come together."""

    folder: Path
    workspace: Workspace | None
    load_page: Callable[[str], Document]
    stop: Stop
    bounds: Bounds
    ask: Callable[[str, str], bool]
    found: list[Attachment]
    problems: list[str] = field(default_factory=list)

    @property
    def _room(self) -> int:
        return self.bounds.all_bytes - sum(attachment.size for attachment in self.found)

    def add(self, mention: Mention) -> None:
        """Attach the file, folder or page mentioned, or add the problem."""
        path = None if mention.is_url else self._path(mention)
        if path is None and not mention.is_url:
            return
        if self._room < _NEEDED_BYTES:
            self._refuse(mention.name, f"a message takes {size_text(self.bounds.all_bytes)} in all")
        elif path is None:
            self._page(mention)
        else:
            self._local(*path)

    def _path(self, mention: Mention) -> tuple[str, Path] | None:
        """The part of the mention with a path behind it, and that path; None: no part has one, or one has several."""
        alike: list[Path] = []
        roots = (self.folder, *([self.workspace.root] if self.workspace else []))
        for name, found in standing(mention, roots):
            if len(found) == 1:
                return name, found[0]
            alike = alike or found
        looks_like_a_path = "/" in mention.name or mention.quoted or re.search(r"\w\.\w{1,8}$", mention.name)
        if alike:
            some = " or ".join("@" + in_ascii(path.name) for path in alike[:3])
            self._refuse(mention.name, f"it may mean {some}, which look alike; write one of these")
        elif len(self.problems) < _MAX_NOTES and looks_like_a_path:
            self._refuse(mention.name, f"there is no such {'folder' if mention.name.endswith('/') else 'file'}")
        return None

    def _local(self, name: str, path: Path) -> None:
        room = min(self.bounds.one_bytes, self._room)
        try:
            if path.is_dir():
                read = read_folder(path, max_bytes=room, max_files=self.bounds.files, stop=self.stop)
            else:
                read = read_file(path, max_bytes=room)
        except Unattachable as error:
            self._refuse(name, str(error))
            return
        root = self.workspace.root if self.workspace else self.folder
        inside = self.workspace is not None and Path(os.path.normpath(path)).is_relative_to(root)
        if (why := leads(path, read.real, root if inside else self.folder)) and not self.ask(name, why):
            self._refuse(name, why)
            return
        taints = frozenset[Taint]({"private"})
        if self.workspace and read.real.is_relative_to(root):  # one that isn't trusted holds others' text
            taints = self.workspace.taints
        self.found.append(Attachment(read.text(in_heading(name)), f"{_label('@' + name)} · {read.size}", taints))

    def _page(self, mention: Mention) -> None:
        url = mention.name if mention.quoted else _url(mention.name)
        try:
            document = self.load_page(url)
        except ToolFailed as error:
            self._refuse(url, for_user(str(error).removeprefix("Error: ")))
            return
        whole = _LINK.sub(r"\1", document.text)
        text, omitted = shortened(whole, min(self.bounds.one_bytes, self._room))
        title = f' "{one_line(document.title, 200)}"' if document.title else ""
        size = size_text(bytes_of(whole))
        size = f"{size_text(bytes_of(text))} of {size}, cut in the middle" if omitted else size
        body = block(f"Attached web page {one_line(document.url or url)}{title} ({size}):", text)
        self.found.append(Attachment(body, f"{_label('@' + url)} · {size}", frozenset({"outside"})))

    def _refuse(self, name: str, why: str) -> None:
        self.problems.append(f"{_label('@' + name)}: {seen_line(f'not attached: {why}', 300)}")


def _within(attachment: Attachment, max_bytes: int) -> Attachment:
    """The attachment, cut in the middle if it is too long: its heading and the end of its fence stay."""
    text, omitted = shortened(attachment.text, max_bytes)
    if not omitted:
        return attachment
    note = "" if "cut in the middle" in attachment.shown else ", cut in the middle"
    return replace(attachment, text=text, shown=attachment.shown + note)


def _url(name: str) -> str:
    """The address without the sentence's last marks; a bracket opened in the address stays."""
    opening = {")": "(", "]": "[", "}": "{"}
    while name[-1] in ".,;:!?\"'>" or name.count(name[-1]) > name.count(opening.get(name[-1], name[-1])):
        name = name[:-1]
    return name


def _label(label: str) -> str:
    return seen_line(label, _SHOWN_CHARS)


# -- the next message of a chat ----------------------------------------------------------------------------------------


class Attaching:
    """Holds the attachments of the next message, and puts messages together.

    `note(line, style)` shows a line to the user, on any thread. `running`: the user's command under way; `reading`: the
    page being fetched; "" for none.
    """

    def __init__(self, settings: Callable[[], Settings], note: Callable[[str, str], None]) -> None:
        self._settings, self._note = settings, note
        self._loader: PageLoader | None = None
        self._stop: Control | None = None  # of the command under way
        self._over = threading.Event()
        self._refused: str | None = None  # the line that came back last
        self.pending: list[Attachment] = []
        self.running = self.reading = ""

    def run(self, command: str, stop: Control) -> Ran:
        """Run a command of the user's. It blocks: on a thread of its own."""
        self.running, self._stop = command, stop
        self._over.clear()
        try:
            return run_command(command, folder=Path.cwd(), environ=os.environ, stop=stop)
        finally:
            self.running, self._stop = "", None
            self._over.set()

    def keep(self, ran: Ran) -> Attachment:
        """Attach its output to the next message."""
        self.pending.append(output_of(ran))
        return self.pending[-1]

    def drop(self) -> bool:
        """Drop the attachments of the next message. False: there were none."""
        waited, self.pending = bool(self.pending), []
        return waited

    def needed(self, typed: Typed) -> bool:
        """Is there anything to attach to this line?"""
        return bool(self.pending) or bool(mentions(typed.shown))

    def put_together(
        self,
        typed: Typed,
        *,
        workspace: Workspace | None,
        room_tokens: int | None,
        stop: Control,
        ask: Callable[[str, str], bool],
    ) -> UserText | None:
        """The line with its attachments; it blocks while they are read. None: stopped, or one can't be read.

        `ask` is as in `attach`. `note` says what can't be read; the same line sent again goes without that. After None,
        the output of commands still waits.
        """
        theirs = workspace.taints if workspace else frozenset[Taint]()  # `!git log` shows texts of the files
        pending = tuple(replace(one, taints=one.taints | theirs) for one in self.pending)
        attached = attach(
            typed.text,
            shown=typed.shown,
            folder=paths.here(),
            workspace=workspace,
            load_page=lambda url: self._load(url, stop),
            stop=stop,
            pending=pending,
            ask=(lambda name, why: False) if typed.shown == self._refused else ask,
            bounds=Bounds() if room_tokens is None else Bounds.within(max(room_tokens, 500)),
        )
        for problem in attached.problems:
            self._note(problem, "yellow")
        if stop.stopped:
            return None
        if attached.problems and typed.shown != self._refused:
            self._refused = typed.shown
            self._note(_NOT_SENT, "yellow")
            return None
        self._refused = None
        del self.pending[: len(pending)]
        for attachment in attached.attachments:
            self._note(f"  {attachment.shown}", "dim")
        return attached.user_text

    def close(self) -> None:
        """End the user's command and the loader of pages."""
        if stop := self._stop:
            stop.stop()
            self._over.wait(_GRACE_S)
        if self._loader:
            self._loader.close()

    def _load(self, url: str, stop: Control) -> Document:
        settings = self._settings()
        try:
            from ossia.cli.runtime.assembly import web_of
            from ossia.tools.pages import PageLoader

            self._loader = self._loader or PageLoader(web_of(settings), paths.host(), private=settings.private)
        except ToolSettingUnusable as error:  # an unusable proxy setting: the message goes without the page
            raise ToolFailed(str(error)) from None
        self._loader.private = settings.private
        self.reading = url
        try:
            return self._loader.load(url, refresh=False, stop=stop)
        finally:
            self.reading = ""
