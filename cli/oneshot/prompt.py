"""The text of a run: the prompt, standard input, and the files and pages of `-f` and `@`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from ossia.agent.control import Control
from ossia.agent.sessions.session import UserText
from ossia.cli import paths
from ossia.cli.attach.content import STDIN, Content, Cut, Source, TextSource
from ossia.cli.attach.mentioned import page_loader, with_mentioned
from ossia.cli.exits import ExitCode, ExitError, require_size
from ossia.cli.mentions import Mention, mentions, standing
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.table import Settings
from ossia.cli.words import bytes_of

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation
    from ossia.cli.attach.attach import Attached
    from ossia.tools.workspace import Workspace

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Asked:
    """The question of a run, before its parts are cut to the context's room.

    `typed` is what may mention files; `piped` standard input; `given` the sources of `-f`, pages still to be loaded.
    `compose` makes the message of the piped text. `cut`: the part left out of what is too long; None: none of `piped`.
    """

    typed: str
    compose: Callable[[str], UserText]
    piped: Content | None = None
    given: tuple[Source | Mention, ...] = ()
    cut: Cut | None = None


def asked_of(
    prompt: str | None,
    files: Sequence[str] = (),
    *,
    cut: Cut | None = None,
    workspace: Workspace | None = None,
    quiet: bool,
    piped: bool = True,
) -> Asked:
    """PROMPT and standard input with a blank line between them, or the one of them that says something.

    A PROMPT of `-` is standard input alone; `piped` False: that isn't read. `files` are those of `-f`. Raises ExitError
    if nothing is asked, for input that isn't text, for what can't be read, and for more than any context holds.
    """
    from ossia.cli.oneshot.given import read_given, read_stdin

    typed = "" if prompt == "-" else prompt or ""
    if cut is None:
        for mention in mentions(typed):
            _require_size(mention)
    attached = any(name in STDIN for name in files)
    if attached and prompt == "-":
        raise ExitError("standard input can be the question or an attachment: use one of - and -f -")
    given = read_given(files, workspace=workspace, cut=cut, quiet=quiet)
    content = read_stdin(cut, quiet=quiet) if piped and not attached else None
    if content is not None:
        content = replace(content, head=content.head.removesuffix("\n")) if not content.tail else content
    if not (typed.strip() or (content and (content.head.strip() or content.omitted))):
        beside = '-f notes.md "Sum this up."' if files else '"What is 48*17?"'
        raise ExitError(f"no question: ask one, as in: ossia run {beside}")

    def compose(text: str) -> UserText:
        return UserText("\n\n".join(part for part in (typed, text) if part.strip()), prompt or "")

    return Asked(prompt or "", compose, content, given, cut)


def _require_size(mention: Mention) -> None:
    for name, found in () if mention.is_url else standing(mention, [paths.here()]):
        if len(found) == 1:
            size = found[0].stat().st_size if found[0].is_file() else 0
            return require_size(f"@{name}", size, cuttable=True)
    return None


def with_given(asked: Asked, settings: Settings, talk: Conversation, display: Display) -> Asked:
    """The question with the pages of `-f`, loaded on the worker. Raises ExitError."""
    if not any(isinstance(one, Mention) for one in asked.given):
        return asked
    from ossia.cli.oneshot.given import with_pages

    def load(stop: Control) -> tuple[Source, ...]:
        with page_loader(settings, talk.host) as loader:
            return with_pages(asked.given, lambda url: loader.load(url, refresh=False, stop=stop))

    return replace(asked, given=_waited(load, talk, display))


def with_attached(asked: Asked, settings: Settings, talk: Conversation, *, display: Display) -> UserText:
    """The message: the question, what was piped in, the sources of `-f`, then what the question mentions.

    The worker reads and cuts them, so that Ctrl-C is answered meanwhile. There is a warning for each that is cut or
    isn't UTF-8, and for a mention that can't be attached. Raises ExitError for piped text without room for it.
    """
    given = [one for one in asked.given if not isinstance(one, Mention)]
    piped, cut = asked.piped, asked.cut
    if piped is not None and cut is not None:
        given.insert(0, TextSource("standard input", "", piped, frozenset()))
    said = asked.compose("" if piped is None or cut is not None else piped.head)

    def put_together(stop: Control) -> Attached:
        if piped is not None and cut is None:
            _require_room(said, talk)
        return with_mentioned(said, settings, talk, paths.here(), stop, first=given, cut=cut or "middle")

    from ossia.cli.attach.attach import with_attachments

    attached = _waited(put_together, talk, display)
    for one in attached.attachments:
        if one.cut or one.doubtful:
            display.warn(one.shown)
        else:
            display.aside(f"  {one.shown}")
    for line in attached.problems:
        display.warn(line)
    if piped is None or cut is None:
        return attached.user_text
    cut_input, *others = attached.attachments
    return with_attachments(asked.compose(cut_input.text), others)


def _require_room(said: UserText, talk: Conversation) -> None:
    assert talk.model is not None and talk.tools is not None
    if bytes_of(said.text) < talk.model.engine.context_tokens:  # a token has a byte or more
        return
    use = talk.model.responder.measure(talk.session.request(talk.tools.toolbox.specs))
    room, tokens = use.total_tokens - use.static_tokens, len(talk.model.tokenizer.encode(said.text))
    if tokens >= room:
        raise ExitError(f"the question and standard input have {tokens:,} tokens, and the context has room for "
                        f"{room:,}: cut the input with --truncate head|tail|middle, or use a larger --context",
                        ExitCode.NO_ROOM)  # fmt: skip


def _waited(job: Callable[[Control], _R], talk: Conversation, display: Display) -> _R:
    """The result of a job on the worker's thread, which an interrupt stops."""
    stop = Control()
    try:
        return display.wait(talk.worker.submit(lambda: job(stop)))
    except BaseException:
        stop.stop()
        raise
