"""A chat on a terminal with a screen: the input line, keys, questions, the pager."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from prompt_toolkit.filters import Condition, emacs_mode
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from ossia.cli import paths
from ossia.cli.chat.faces import DrawnFace
from ossia.cli.chat.panes import ChatPanes
from ossia.cli.terminal.frames import FRAME_S
from ossia.cli.terminal.input.completion import Choice, Sources
from ossia.cli.terminal.input.editor import Editor
from ossia.cli.terminal.input.external import edit
from ossia.cli.terminal.input.history import History
from ossia.cli.terminal.links import ask_name, knows_links
from ossia.cli.terminal.markdown.paint import Painter
from ossia.cli.terminal.pictures import Pictures, cell_size, way_of
from ossia.cli.terminal.question import QuestionPane
from ossia.cli.terminal.screen import Screen
from ossia.cli.terminal.vt import Output

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.pager.transcript import Transcript


class ScreenFace(DrawnFace):
    """`input`, `output`, `frame_s`: for tests, instead of the terminal's."""

    plain: ClassVar[bool] = False
    screen: Screen

    def __init__(
        self,
        talk: Chat,
        *,
        input: Input | None = None,
        output: Output | None = None,
        frame_s: float = FRAME_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        colour = not os.environ.get("NO_COLOR")
        painter = Painter(80, colour=colour, links=knows_links(os.environ))
        self._asks_name = colour and input is None
        super().__init__(talk, painter, Pictures(way_of(os.environ), cell=cell_size()), clock=clock)
        self.editor = Editor(
            self.submit,
            history=History(paths.history_file(), private=talk.settings.private),
            sources=_sources(talk),
            edit=lambda text: edit(text, aside=self.screen.aside, environ=talk.environ),
            note=self.note,
        )
        self.question = QuestionPane(painter, self.editor, clock=clock)
        self.view.fold, self.view.recognise = self.editor.pastes.folded, self.editor.recognise
        self.panes = ChatPanes(talk, self, titled=lambda title: self.screen.title(title))
        self.screen = Screen(
            self.panes, self.editor, self.question, painter, keys=_keys(talk, self), colour=colour,
            vi=talk.settings.vi, input=input, output=output, frame_s=frame_s,
        )  # fmt: skip
        self.screen.app.key_processor.before_key_press += lambda processor: talk.titles.touched()

    def begin(self) -> None:
        if self._asks_name:
            self.painter.links = knows_links(os.environ, ask_name(self.screen.app.input, self.screen.output))

    @property
    def rows(self) -> int:
        return self.screen.output.get_size().rows

    def task(self, work: Coroutine[object, object, None]) -> None:
        self.screen.app.create_background_task(work)

    def notify(self, what: str) -> None:
        """Notify with the first words of the last message; without them in a private chat, a desktop may store them."""
        settings, sent = self.talk.settings, [item.text for item in self.talk.transcript.items if item.kind == "user"]
        if settings.bell:
            words = self.view.fold(sent[-1]) if sent and not settings.private else ""
            self.screen.output.notify(f"{what} · {words}" if words else what)

    def toggle_thinking(self) -> None:
        """Show or hide the thinking."""
        self.set_thinking("off" if self.view.think != "off" else "on")

    # -- the input -----------------------------------------------------------------------------------------------------

    @property
    def input_text(self) -> str:
        return self.editor.text

    @property
    def replaces(self) -> int | None:
        if not self.editor.text:
            self._replaces = None  # an emptied input replaces no turn
        return self._replaces

    def put_into_input(self, text: str, *, replaces: int | None = None) -> None:
        self.editor.set(text)
        self._replaces = self._replaces if replaces is None else replaces
        self.wake()

    def clear_input(self) -> None:
        self.editor.put_aside()

    def store_history(self, stored: bool) -> None:
        self.editor.history.private = not stored

    def copy(self, text: str) -> None:
        self.screen.output.copy(text)

    # -- other screens -------------------------------------------------------------------------------------------------

    def read(self, *parts: tuple[str, str]) -> None:
        from ossia.cli.chat.pager.transcript import Transcript

        transcript = Transcript()
        for name, text in parts:
            transcript.add_note(f"── {name}\n{text}")
        self.task(self._show(transcript, follow=False))

    async def open_transcript(self) -> None:
        """Show the whole session on the alternate screen, first the open question; the turn goes on behind it."""
        if not self.screen.away:
            await self._show(self.talk.transcript)

    async def _show(self, transcript: Transcript, *, follow: bool = True) -> None:
        from ossia.cli.chat.pager.pager import show

        async with self.screen.aside():
            output, input, page = self.screen.output, self.screen.app.input, self.talk.page
            head = self.question.head if transcript is self.talk.transcript else list
            await show(transcript, self.painter, output=output, input=input, page=page, follow=follow, head=head)


def _keys(talk: Chat, face: ScreenFace) -> KeyBindings:
    """The keys: Ctrl-C, Ctrl-D, Ctrl-T, Ctrl-G, Ctrl-O and PgUp, Ctrl-Z; Up takes lines back; Esc leaves an edit."""
    keys = KeyBindings()

    def bind(*names: str, **options: object) -> Callable[[Callable[[], object]], None]:
        def add(act: Callable[[], object]) -> None:
            def pressed(event: KeyPressEvent) -> None:
                result = act()
                if isinstance(result, Awaitable):
                    event.app.create_background_task(result)  # type: ignore[arg-type]
                face.wake()

            for name in names:
                keys.add(name, **options)(pressed)  # type: ignore[arg-type]

        return add

    queued = Condition(lambda: bool(talk.outbox) and not face.editor.text)
    bind("c-c", "<sigint>")(face.interrupt)
    bind("c-d", filter=Condition(lambda: not face.editor.text))(talk.leave)
    bind("c-t")(face.toggle_thinking)
    bind("c-g")(talk.answer_now)
    bind("c-o", "pageup")(face.open_transcript)
    bind("pagedown")(lambda: None)  # prompt_toolkit would walk through the history
    bind("up", filter=queued)(talk.outbox.take_back)
    bind("escape", filter=Condition(lambda: face.replaces is not None) & emacs_mode)(face.editor.clear)
    bind("c-z")(lambda: face.screen.suspend())
    return keys


def _sources(talk: Chat) -> Sources:
    """The commands, their values, and the folders of relative paths."""

    def all_commands() -> Sequence[Choice]:
        from ossia.cli.chat.commands.skills import choices
        from ossia.cli.chat.commands.table import commands

        return [*commands(), *choices(talk)]

    def values(command: str, prefix: str) -> Sequence[Choice] | None:
        from ossia.cli.chat.commands.table import arguments

        return arguments(talk, command, prefix)

    def folders() -> Sequence[Path]:
        return [paths.here(), *([talk.folder.workspace.root] if talk.folder else [])]

    return Sources(all_commands, values, folders)
