"""Attachments of a message: files, folders, pages and the output of commands, as data behind the user's own words.

The user's text stays as it was typed. Each attachment follows in a block of its own: a heading, then its text in a
fence that is longer than any in it, so that nothing in a file or page can end its block.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.models.memory import size_text
from ossia.agent.sessions.session import UserText
from ossia.cli.attach.content import Attachment, Bounds, Content, Source, TextSource, block, fit
from ossia.cli.attach.local import Unattachable, leads, read_local
from ossia.cli.attach.user_command import Ran
from ossia.cli.clean import one_line
from ossia.cli.mentions import Mention, mentions, standing
from ossia.cli.visible import seen_line
from ossia.cli.words import bytes_of
from ossia.tools.names import in_ascii
from ossia.tools.outcome import for_user
from ossia.tools.spec import Stop, ToolFailed
from ossia.tools.workspace import Workspace

if TYPE_CHECKING:
    from ossia.tools.browser.document import Document

OUTPUT = "Output of the command"
"""The beginning of the heading of a command's output."""

_SHOWN_CHARS = 60
_LINK = re.compile(r"【\d+†([^†】]*)(?:†[^】]*)?】")
_MAX_NOTES = 3
"""Notes on words that look like paths: pasted code is full of such words (`@pytest.mark.slow`)."""


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
    pending: Sequence[Source] = (),
    bounds: Bounds | None = None,
    ask: Callable[[str, str], bool] = lambda name, reason: False,
) -> Attached:
    """The message with its mentions (`@file`, `@folder/`, `@https://…`) attached. It blocks: call it on a thread.

    Mentions are looked for in `shown`, where placeholders stand for pasted text: that mentions nothing. Paths are
    relative to `folder`, or else to the workspace, whose `taints` its files get. A mention of nothing that exists
    stays text; if it looks like a path, it is a problem. A path that leads out of the workspace or the folder, or
    often holds secrets, is attached only if `ask(name, reason)` agrees; it has been read by then, so nothing can be
    swapped after the answer. `load_page` raises `ToolFailed`. `pending` (the output of commands) comes first. After a
    stop, only what was read by then is attached. What is longer than the `bounds` is cut.

        attach("What is in @notes.md?", folder=Path.cwd(), load_page=…, stop=control).user_text.text
        → "What is in @notes.md?\\n\\nAttached file notes.md (12 bytes):\\n```\\nhello world\\n```"
    """
    bounds = bounds or Bounds()
    gathering = _Gathering(folder, workspace, load_page, stop, bounds, ask)
    for mention in mentions(text if shown is None else shown):
        if stop.stopped:
            break
        gathering.add(mention)
    fitting = max(0, bounds.things - len(pending))
    for name, _ in gathering.found[fitting:]:
        gathering.refuse(name, f"there is room for {bounds.things} things in all")
    found = fit([*pending, *(source for _, source in gathering.found[:fitting])], bounds)
    return Attached(with_attachments(UserText(text, text), found), found, tuple(gathering.problems))


def with_attachments(said: UserText, attachments: Sequence[Attachment]) -> UserText:
    """The message with its attachments behind the words."""
    texts = [said.text] * bool(said.text.strip()) + [attachment.text for attachment in attachments]
    taints = said.taints.union(*(attachment.taints for attachment in attachments))
    return replace(said, text="\n\n".join(texts), taints=taints)


def output_of(ran: Ran) -> Attachment:
    """The output of a user's command as an attachment."""
    end = "" if ran.status == 0 else f", {ran.end}"
    text = block(f"{OUTPUT} `{one_line(ran.command, 200)}`{end}:", ran.output or "(no output)")
    cut = ", cut in the middle" if ran.omitted_chars else ""
    return Attachment(text, f"{label_of('!' + ran.command)} · {size_text(bytes_of(ran.output))}{cut}{end}")


@dataclass(slots=True)
class _Gathering:
    """What a message mentions, as it is read."""

    folder: Path
    workspace: Workspace | None
    load_page: Callable[[str], Document]
    stop: Stop
    bounds: Bounds
    ask: Callable[[str, str], bool]
    found: list[tuple[str, Source]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, mention: Mention) -> None:
        """Read the file, folder or page mentioned, or add the problem."""
        if mention.is_url:
            self._page(mention)
        elif path := self._path(mention):
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
            self.refuse(mention.name, f"it may mean {some}, which look alike; write one of these")
        elif len(self.problems) < _MAX_NOTES and looks_like_a_path:
            self.refuse(mention.name, f"there is no such {'folder' if mention.name.endswith('/') else 'file'}")
        return None

    def _local(self, name: str, path: Path) -> None:
        try:
            local = read_local(
                path,
                name=name,
                label=label_of("@" + name),
                max_bytes=self.bounds.max_bytes,
                max_files=self.bounds.files,
                stop=self.stop,
                workspace=self.workspace,
            )
        except Unattachable as error:
            self.refuse(name, str(error))
            return
        root = self.workspace.root if self.workspace else self.folder
        inside = self.workspace is not None and Path(os.path.normpath(path)).is_relative_to(root)
        if (why := leads(path, local.real, root if inside else self.folder)) and not self.ask(name, why):
            self.refuse(name, why)
            return
        self.found.append((name, local.source))

    def _page(self, mention: Mention) -> None:
        url = mention.name if mention.quoted else _url(mention.name)
        try:
            self.found.append((url, page_of(self.load_page(url), url, label_of("@" + url))))
        except ToolFailed as error:
            self.refuse(url, why_not(error))

    def refuse(self, name: str, why: str) -> None:
        """Add the problem."""
        self.problems.append(f"{label_of('@' + name)}: {seen_line(f'not attached: {why}', 300)}")


def page_of(page: Document, url: str, label: str) -> TextSource:
    """A page as a text to attach; its links are words."""
    title = f' "{one_line(page.title, 200)}"' if page.title else ""
    heading = f"Attached web page {one_line(page.url or url)}{title}"
    return TextSource(label, heading, Content(_LINK.sub(r"\1", page.text)), frozenset({"outside"}))


def why_not(error: ToolFailed) -> str:
    """The reason why a page can't be attached."""
    return for_user(str(error).removeprefix("Error: "))


def label_of(name: str) -> str:
    """A name on the screen."""
    return seen_line(name, _SHOWN_CHARS)


def _url(name: str) -> str:
    """The address without the sentence's last marks; a bracket opened in the address stays."""
    opening = {")": "(", "]": "[", "}": "{"}
    while name[-1] in ".,;:!?\"'>" or name.count(name[-1]) > name.count(opening.get(name[-1], name[-1])):
        name = name[:-1]
    return name
