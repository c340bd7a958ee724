"""`ossia`: the chat. What the user does goes to the worker, what the worker tells goes to the screen."""

from __future__ import annotations

import asyncio
import datetime
import os
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from prompt_toolkit.input import Input

from agent.control import Control
from agent.events import ApprovalAsked, MessageAdded, ToolFinished, TurnEnded
from agent.limits import Limits
from agent.session import Entry, Options, Session, UserText
from agent.worker import Tapped, Worker
from cli import paths
from cli.attaching import Attaching
from cli.chat_ahead import ReadingAhead
from cli.chat_approvals import Approvals
from cli.chat_background import Background
from cli.chat_greeting import greet
from cli.chat_keys import chat_keys, chat_sources
from cli.chat_lines import take_line
from cli.chat_model import ChatModel
from cli.chat_panes import ChatPanes
from cli.chat_view import ChatView, Think
from cli.clean import one_line
from cli.exits import ExitCode
from cli.keeping import Kept, Wanted, open_kept
from cli.notices import Notices
from cli.once import end_now, look_to_the_end
from cli.own import environment_for
from cli.settings.config import THIS_CHAT, Resolved
from cli.settings.table import Settings
from cli.settings.workspace import Folder, settle
from cli.tally import Tally
from cli.terminal.editor import Editor, Typed, as_text
from cli.terminal.external import edit
from cli.terminal.history import History
from cli.terminal.paint import Painter, Row, knows_links
from cli.terminal.pictures import Pictures, cell_size, way_of
from cli.terminal.question import QuestionPane
from cli.terminal.screen import Screen
from cli.terminal.vt import Output
from cli.transcript import Item, Transcript
from tools.spec import Attachment

if TYPE_CHECKING:
    from agent.citations import Cited
    from agent.request import ContextUse
    from agent.store import SessionStore
    from cli.assemble import Assembly

_R = TypeVar("_R")

AGAIN_S = 1.5
"""Within this a second Ctrl-C leaves."""
_HERE = {"ossia models pull": "/model pull", "`ossia sessions list` prints": "/sessions lists"}
"""What an error says to do next, in the words of a shell and in the chat's."""
_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Waiting(Typed):
    """A line that waits to be said. `replaces`: the turn whose place it takes, None: it comes after the others."""

    replaces: int | None = None


def chat(flags: Mapping[str, object], wanted: Wanted) -> int:
    """Talk until the user leaves; returns the exit code. Raises what `cli.main` turns into one line and a code."""
    resolved, folder = settle(flags)
    kept = open_kept(resolved, folder, wanted=wanted)
    return hold(Chat(resolved, folder, kept))


def hold(talk: Chat) -> int:
    """Run a chat to its end; returns the exit code. Whatever ends it, everything is given back."""
    try:
        asyncio.run(talk.run())
    except BaseException:
        talk.give_back()
        raise
    return talk.finish()


class Chat:
    """One chat: a session, a model on its worker, a screen. Its methods are called on the loop's thread.

    `input` and `output`: for tests, in place of the terminal.
    """

    def __init__(
        self,
        resolved: Resolved,
        folder: Folder | None,
        kept: Kept,
        *,
        input: Input | None = None,
        output: Output | None = None,
        frame_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime.date] = datetime.date.today,
    ) -> None:
        settings = resolved.settings
        self.resolved, self.folder = resolved, folder
        self.worker = Worker()
        self.kept = kept
        self.transcript = Transcript.of(self.session, clock=clock)
        self.control: Control | None = None
        self.queue: deque[Waiting] = deque()
        self.tally = Tally()
        self.model = ChatModel(self)
        self.ahead = ReadingAhead(self, today=today)
        self.editing: int | None = None  # the turn whose place the line in the input takes, once that is sent
        self.cancel: Callable[[], None] | None = None  # ends a job that isn't a turn, e.g. a download
        self._between: list[Callable[[], object]] = []  # waits for the end of the turn under way
        self._clock = clock
        self._turn: Future[None] | None = None
        self._ctrl_c_at = float("-inf")
        self._unstored: str | None = None
        colour = not os.environ.get("NO_COLOR")
        self.painter = Painter(80, colour=colour, links=knows_links(os.environ))
        self.view = ChatView(self.painter, think=_think(settings), page=self.page, clock=clock)
        self.view.fix = self._fix
        self.notices = Notices(self.post, verbose=settings.verbose)
        self.question = QuestionPane(self.painter, clock=clock)
        self.pictures = Pictures(way_of(os.environ), cell=cell_size())
        self.attaching = Attaching(lambda: self.settings, self.post)
        self.editor = Editor(
            self.submit,
            history=History(paths.history_file(), private=settings.private),
            sources=chat_sources(self),
            edit=lambda text: edit(text, aside=self.screen.aside, environ=self.environ),
            note=self.note,
        )
        self.panes = ChatPanes(self)
        options = {} if frame_s is None else {"frame_s": frame_s}
        self.screen = Screen(
            self.panes, self.editor, self.question, self.painter, keys=chat_keys(self), colour=colour,
            vi=settings.vi, input=input, output=output, **options,
        )  # fmt: skip
        self.worker.on_event = self.screen.wake
        self.background = Background(wake=lambda: self.screen.wake(), failed=self.tell)
        self.approvals = Approvals(self)

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of programs that we start ourselves."""
        return environment_for(self.folder.workspace.root if self.folder else None, os.environ)

    @property
    def session(self) -> Session:
        return self.kept.session

    @property
    def store(self) -> SessionStore | None:
        """Where the session is stored; None: nowhere."""
        return self.kept.store

    @property
    def assembly(self) -> Assembly | None:
        """The model and its tools; None while they load."""
        return self.model.assembly

    @property
    def use(self) -> ContextUse | None:
        """How full the context is; None while nobody knows."""
        return self.model.use

    # -- the life of a chat --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Show the screen until the user leaves; the model loads meanwhile."""
        self.background.begin()
        greet(self)
        self.model.load()
        self.ahead.watch_the_date()
        await self.screen.run()

    def finish(self) -> int:
        """After the screen: give everything back. Returns the exit code; raises what kept the model from loading."""
        self.give_back()
        if self.model.fault:
            raise self.model.fault
        code = ExitCode.INTERRUPTED if self.screen.interrupted else ExitCode.ANSWERED
        look_to_the_end(lambda _: None)  # the screen is given back: nothing may be written any more
        if self.worker.busy:  # in a C call: it loads weights, or reads a long prompt
            end_now(code)
        return code

    def give_back(self) -> None:
        """End what runs, close what is open."""
        self.stop()
        self.attaching.close()
        self.model.close()
        self.worker.close(_GRACE_S)
        if self.store:
            self.store.close()

    def leave(self) -> None:
        """End the chat."""
        self.stop()
        self.screen.leave()

    # -- what waits for the end of a turn ------------------------------------------------------------------------------

    def between_turns(self, act: Callable[[], object]) -> bool:
        """Call `act` now, or once the turn under way is over and the model is loaded. True: it was called now."""
        if self.assembly and self.control is None:
            act()
            return True
        self._between.append(act)
        return False

    def before_next_turn(self, job: Callable[[], _R], then: Callable[[_R], object]) -> None:
        """Run `job` beside the screen, then the other; what is said meanwhile waits for it. Between turns.

        Ctrl-C ends the waiting: what comes of the job is dropped.
        """
        self.control = control = Control()

        def over(act: Callable[[], object]) -> None:
            if self.control is control:
                self.control = None
                act()
                self.go_on()

        control.on_stop(lambda: self.background.on_loop(lambda: over(lambda: None)))
        self.background.run(
            job, lambda done: over(lambda: then(done)), lambda error: over(lambda: self.tell(error))
        )

    def change_settings(self, **values: Any) -> None:
        """Set values of the settings for the rest of this chat."""
        origins = {**self.resolved.origins, **dict.fromkeys(values, THIS_CHAT)}
        self.resolved = replace(self.resolved, settings=replace(self.settings, **values), origins=origins)

    def change_options(self, change: Callable[[Options], Options]) -> bool:
        """Change how the next turns are answered. False: a turn is under way, which goes on as it began."""

        def act() -> None:
            self.session.options = change(self.session.options)
            self.model.measure()

        if self.control is not None:
            return self.between_turns(act)
        act()
        return True

    def tell(self, error: Exception, *, of: str = "") -> None:
        """Say what went wrong, in one line behind `of`. Raises it again if it is a fault of ours."""
        from cli.exits import exit_code

        line = str(error)
        if isinstance(error, OSError):  # the machine's: a folder that can't be read, a full disk
            where = f"can't use {error.filename}: " if error.filename else ""
            line = f"{where}{error.strerror or error}"
        elif exit_code(error) is None:
            raise error
        for elsewhere, here in _HERE.items():
            line = line.replace(elsewhere, here)
        self.note(f"{of}{one_line(line, 1000)}", "red")

    # -- what the user sends -------------------------------------------------------------------------------------------

    def submit(self, typed: Typed) -> None:
        """A line was sent."""
        take_line(self, typed)

    def queue_up(self, typed: Typed) -> None:
        """Say the line now, or when its turn comes."""
        self.queue.append(Waiting(typed.shown, typed.text, typed.literal, self.editing))
        self.editing = None
        self.go_on()

    def go_on(self) -> None:
        """Do what waited for the end of a turn, then say the next line that waits, if the model is ready for it."""
        while self.assembly and self.control is None and self._between:
            self._between.pop(0)()
        if self.assembly and self.control is None and self.queue:
            self._say_waiting(self.queue.popleft())
        self.screen.wake()

    def _say_waiting(self, typed: Waiting) -> None:
        """Say a line with what goes along with it, which is read on the worker first: a page may take a while."""
        text = UserText(typed.text, typed.text)
        self.view.user(typed.shown)
        if not self.attaching.needed(typed):
            return self.say(text, replaces=typed.replaces)
        self.control, use = Control(), self.use
        control = self.control
        workspace = self.folder.workspace if self.folder else None
        room = use.total_tokens - use.used_tokens - use.reserve_tokens if use else None
        self.view.begin()

        def done(future: Future[UserText | None]) -> None:
            self.control = None
            self.view.end()
            message = future.result()  # a bug of ours on the worker's thread becomes a traceback here
            if message is None or control.stopped:
                waiting = list(self.queue)  # what was typed behind it may count on it
                self.queue.clear()
                self._unsaid(typed, *waiting)
            else:
                self.say(message, replaces=typed.replaces)

        work = self.worker.submit(
            lambda: self.attaching.put_together(typed, workspace=workspace, room_tokens=room, stop=control)
        )
        return work.add_done_callback(lambda future: self.background.on_loop(lambda: done(future)))

    def say(self, text: UserText, *, replaces: int | None = None) -> None:
        """Begin a turn, in place of the turn `replaces` and those after it. With a model loaded, between turns."""
        assert self.assembly is not None and self.control is None
        if replaces is not None:
            self.go_back(replaces)
        assembly, control, session = self.assembly, Control(), self.session
        self.ahead.end()
        self.ahead.date_it()
        self.model.reads()
        self.control = control
        self.view.begin()
        self.transcript.add_user(text.typed)
        tools, private = assembly.tools, self.settings.private
        assembly.warn_of_control_names(text.text, "your text")

        def work() -> None:
            from agent.loop import run_turn

            tools.begin_turn("(a private turn)" if private else text.typed)  # what undo keeps lies in a file
            turn = run_turn(
                session,
                text,
                responder=assembly.responder,
                tools=tools.toolbox,
                limits=Limits(max_tokens=self.settings.max_tokens, max_seconds=self.settings.timeout),
                control=control,
            )
            try:
                return self.worker.drive(turn, control)
            finally:
                tools.end_turn()

        self._turn = self.worker.submit(work)
        self._turn.add_done_callback(lambda done: self.background.on_loop(lambda: self._turn_over(done)))
        self.screen.wake()

    def _unsaid(self, *lines: Waiting) -> None:
        """Lines that were sent and not said go back into the input; what they were to replace is still there.

        Before what is being typed there by now. A terminal that only prints lines has no input to put them into.
        """
        self.editing = next((line.replaces for line in lines if line.replaces is not None), self.editing)
        if self.screen.plain:
            for line in lines:
                self.note(f"not sent: {one_line(line.shown, 200)}", "yellow")
            return
        self.editor.set(as_text("\n".join([*(line.shown for line in lines), *filter(None, [self.editor.text])])))
        self.screen.wake()

    def _turn_over(self, done: Future[None]) -> None:
        self.take_in()
        done.result()  # a bug of ours on the worker's thread becomes a traceback here
        self.control, self._turn = None, None
        self.approvals.withdraw()
        if 0 < self.settings.bell <= self.view.turn_s:
            self.screen.bell()
        self._tell_of_storing()
        self.model.measure()
        self.go_on()

    def _tell_of_storing(self) -> None:
        """Say once that something could not be stored, and why. It is tried again with each message."""
        problem = self.store.problem if self.store else None
        if problem and problem != self._unstored:
            self.note(f"not stored: {problem}", "yellow")
        self._unstored = problem

    def stop(self) -> None:
        """Stop the turn under way; what was said stays. Queued lines go back into the input."""
        if self.control:
            self.control.stop()
            self.worker.answer(None)
            self.approvals.withdraw()
        self.take_back()

    def take_back(self) -> None:
        """Put the queued lines into the input again."""
        if self.queue:
            lines = list(self.queue)
            self.queue.clear()
            self._unsaid(*lines)

    def answer_now(self) -> None:
        """End the thinking: the answer begins."""
        if self.control:
            self.control.answer_now()

    # -- sessions ------------------------------------------------------------------------------------------------------

    def go_back(self, turn: int) -> tuple[Entry, ...]:
        """Take this turn and those after it out of the conversation. Between turns. Returns what was taken."""
        self.editing = None
        taken = self.session.cut_back(turn)
        self.transcript.cut_back(turn)
        self.model.restore_pages()
        self.model.measure()
        return taken

    def switch(self, kept: Kept) -> None:
        """Go on with another session. Between turns. What the tools remembered of the one before is forgotten."""
        self.model.keep_cache()
        if self.store and self.store is not kept.store:
            self.store.close()
        elif self.store:
            self.store.release(self.session)
        self.kept, self.editing, self.model.use, self.tally = kept, None, None, Tally()
        self.queue = deque(replace(line, replaces=None) for line in self.queue)
        self.transcript = Transcript.of(kept.session, clock=self._clock)
        if self.assembly:
            self.model.warm_up(self.assembly)
            self.model.enter(self.assembly)

    def page(self, cursor: int) -> Cited | None:
        """The page behind a cursor of the browser; None when there is none."""
        from agent.citations import lookup_in

        page = lookup_in(self.session.states)(cursor)
        origin = self.assembly.tools.origin if self.assembly else (lambda url: None)
        return page and replace(page, url=origin(page.url) or page.url)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def note(self, text: str, style: str = "dim") -> None:
        """A line of ours above the input."""
        self.view.note(text, style)
        self.screen.wake()

    def post(self, text: str, style: str = "dim") -> None:
        """The same, from any thread."""
        self.background.on_loop(lambda: self.view.note(text, style))

    def show(self, rows: list[Row]) -> None:
        """Rows of ours above the input, as one block."""
        self.view.block(rows)
        self.screen.wake()

    def _fix(self, done: ToolFinished) -> str:
        """What the user can do about a call that failed."""
        if self.assembly is None:
            return ""
        off = self.model.tools_off
        fixes = self.assembly.tools.fixes(self.settings, chat=True, turned_off=lambda name: name in off)
        return fixes.of(done)

    def _show_pictures(self, made: Sequence[Attachment]) -> None:
        """Below the line that says where they lie, as soon as they are drawn."""
        paths = [one.path for one in made if one.media_type.startswith("image/")]
        if not paths or self.pictures.way == "off":
            return
        columns, rows = self.painter.width, self.screen.output.get_size().rows // 2

        def draw() -> list[Row]:
            drawn = (self.pictures.drawn(path, columns, rows) for path in paths)
            return [picture for picture in drawn if picture]

        self.background.run(draw, lambda rows: self.show(rows) if rows else None)

    def take_in(self) -> None:
        """Take in what the worker told since the last time."""
        with suppress(queue.Empty):
            while True:
                event = self.worker.inbox.get_nowait()
                if isinstance(event, Tapped):
                    continue
                self.transcript.see(event)
                self.tally.see(event)
                self.view.see(event)
                if isinstance(event, ApprovalAsked):
                    self.approvals.ask(event)
                elif isinstance(event, ToolFinished | TurnEnded):
                    self.approvals.withdraw()
                if isinstance(event, MessageAdded) and event.message.role == "tool" and self.assembly:
                    self.assembly.warn_of_control_names(event.message.text, f"the result of {event.message.name}")
                if isinstance(event, ToolFinished):
                    self._show_pictures(event.result.attachments)
                if isinstance(event, ToolFinished) and self.assembly and (line := self.assembly.tools.view_warning()):
                    self.note(line, "yellow")
                for notice in event.result.notices if isinstance(event, ToolFinished) else ():
                    self.note(notice, "yellow")

    # -- what keys do -------------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Ctrl-C: stop the turn, or clear the input, or drop what is attached; twice leaves."""
        again, self._ctrl_c_at = self._clock() - self._ctrl_c_at < AGAIN_S, self._clock()
        if again:
            return self.leave()
        if self.control:
            return self.stop()
        if self.cancel:
            return self.cancel()
        if self.editor.text:
            return self.editor.clear()
        if self.attaching.drop():
            return self.note("nothing is attached any more")
        return self.note("Ctrl-C again leaves")

    async def open_transcript(self, start: Item | None = None) -> None:
        """Show the whole session on the alternate screen; the turn goes on behind it."""
        from cli.terminal.pager import show

        if not self.screen.away:
            async with self.screen.aside():
                screen = self.screen
                await show(
                    self.transcript, self.painter, output=screen.output, input=screen.app.input, start=start,
                    page=self.page,
                )  # fmt: skip

    def toggle_thinking(self) -> None:
        """Show the thinking, or hide it again."""
        self.view.think = "off" if self.view.think != "off" else "on"
        self.screen.refresh()


def _think(settings: Settings) -> Think:
    """`--show-thinking` is `--think on`, unless that says how."""
    return "on" if settings.show_thinking and settings.think == "off" else settings.think
