"""A chat: a conversation, the user's lines, and the face for both."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ossia.agent.citations import page_behind
from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.sessions.session import Entry, Options, Session, UserText
from ossia.agent.sums import Tally
from ossia.agent.worker import Worker
from ossia.cli.chat.ahead import ReadingAhead, Titles
from ossia.cli.chat.background import Background, Notices, line_about
from ossia.cli.chat.model import ChatModel
from ossia.cli.chat.outbox import Outbox
from ossia.cli.chat.owner import Loaded
from ossia.cli.chat.pager.transcript import Transcript
from ossia.cli.chat.turn import ChatTurn
from ossia.cli.runtime.skills import skills_of
from ossia.cli.settings.config import THIS_CHAT, Resolved
from ossia.cli.settings.table import Settings
from ossia.tools.folder import Folder
from ossia.tools.host import Host
from ossia.tools.import_path import environment_for
from ossia.tools.skills import Skills

if TYPE_CHECKING:
    from ossia.agent.citations import Cited
    from ossia.agent.request import ContextUse
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.chat.face import Face
    from ossia.cli.terminal.question import Question

_R = TypeVar("_R")
_GRACE_S = 1.0


class Chat:
    """A conversation with a face, which `face` makes. Its methods are called on the loop's thread.

    `control` stops the work that lines wait for: the turn, reading of attachments, a job between turns.
    """

    face: Face

    def __init__(
        self,
        resolved: Resolved,
        folder: Folder | None,
        opened: OpenSession,
        host: Host,
        *,
        face: Callable[[Chat], Face],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resolved, self.folder, self.host, self._clock = resolved, folder, host, clock
        self.conversation = Conversation(opened, Worker(), host, private=resolved.settings.private)
        self.control: Control | None = None
        self.background = Background(wake=lambda: self.face.wake(), failed=self.report)
        self.notices = Notices(self.post, self.background, verbose=resolved.settings.verbose)
        self.transcript = Transcript.of(self.session, clock=clock)
        self.tally = Tally()
        self.titles = Titles(self, clock=clock)
        self.ahead = ReadingAhead(self, self.titles)
        self.model = ChatModel(self)
        self.outbox = Outbox(self)
        self.turn = ChatTurn(self)
        self._skills: tuple[Folder | None, Skills] | None = None
        self._after_turn: list[Callable[[], object]] = []
        self.plan(self.settings.plan or self.session.options.planning)
        self.face = face(self)
        self.notices.shows_activity = not self.face.plain

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of started programs."""
        return environment_for(self.folder.workspace.root if self.folder else None, os.environ)

    @property
    def opened(self) -> OpenSession:
        return self.conversation.opened

    @property
    def session(self) -> Session:
        return self.conversation.session

    @property
    def store(self) -> SessionStore | None:
        """The session's store; None: it isn't stored."""
        return self.conversation.store

    @property
    def loaded(self) -> Loaded | None:
        """The model and its tools; None while they load."""
        return self.model.loaded

    @property
    def skills(self) -> Skills:
        """The user's skills, and a trusted workspace's. Read once for each workspace."""
        if self._skills is None or self._skills[0] is not self.folder:
            self.read_skills()
        assert self._skills is not None
        return self._skills[1]

    def read_skills(self) -> None:
        """Read the user's skills again; a workspace's stay as they were trusted."""
        self._skills = self.folder, skills_of(self.folder)

    @property
    def use(self) -> ContextUse | None:
        """The use of the context; None if unknown."""
        return self.model.use

    def use_settings(self, resolved: Resolved, folder: Folder | None, *, before: Settings) -> None:
        """Use these settings, but keep changes made since they were `before`."""
        now = {one.name: getattr(self.settings, one.name) for one in fields(Settings)}
        self.resolved, self.folder = resolved, folder
        self.change_settings(**{key: value for key, value in now.items() if value != getattr(before, key)})

    def change_settings(self, **values: Any) -> None:
        """Set values of the settings for the rest of this chat."""
        origins = {**self.resolved.origins, **dict.fromkeys(values, THIS_CHAT)}
        self.resolved = replace(self.resolved, settings=replace(self.settings, **values), origins=origins)
        self.conversation.private = self.settings.private

    def post(self, text: str, style: str = "dim") -> None:
        """Show a line above the input. From any thread."""
        self.background.on_loop(lambda: self.face.note(text, style))

    def report(self, error: Exception, *, of: str = "") -> None:
        """Show an error in one line, behind `of`. Raises a bug again."""
        self.face.note(f"{of}{line_about(error)}", "red")

    def set_activity(self, text: str) -> None:
        """Show an activity besides the turn, e.g. a download; "": none. From any thread."""
        self.notices.line.set(text)
        self.face.wake()

    # -- its life ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Load the model. Called once the loop runs."""
        self.model.load()
        self.ahead.watch_the_date()

    def close(self) -> None:
        """End all work, close everything."""
        self.stop()
        self.face.clear_input()
        self.outbox.attaching.close()
        self.model.close()
        self.conversation.worker.close(_GRACE_S)
        self.conversation.close()

    def leave(self) -> None:
        """End the chat."""
        self.stop()
        self.face.screen.leave()

    # -- between turns -------------------------------------------------------------------------------------------------

    def between_turns(self, act: Callable[[], object]) -> bool:
        """Call `act` now, or once the turn is over and the model loaded; then its error is a line. True: now."""
        if self.loaded and self.control is None:
            act()
            return True
        self._after_turn.append(lambda: self._attempt(act))
        return False

    def _attempt(self, act: Callable[[], object]) -> None:
        """Call `act`; its error is a line."""
        try:
            act()
        except Exception as error:
            self.report(error)

    def before_next_turn(self, job: Callable[[], _R], then: Callable[[_R], object], *, stops: bool = True) -> None:
        """Run `job` beside the screen, then `then` with its result; lines sent meanwhile wait. Between turns.

        `stops`: Ctrl-C ends the waiting, and the job's result is dropped.
        """
        self.control = control = Control()

        def over(act: Callable[[], object]) -> None:
            if self.control is control:
                self.control = None
                act()
                self.go_on()

        if stops:
            control.on_stop(lambda: self.background.on_loop(lambda: over(lambda: None)))
        self.background.run(job, lambda done: over(lambda: then(done)), lambda error: over(lambda: self.report(error)))

    def change_options(self, change: Callable[[Options], Options]) -> bool:
        """Change the options of the next turns. False: a turn is under way, which goes on as it began."""

        def act() -> None:
            self.conversation.options = change(self.conversation.options)
            self.measure()

        if self.control is not None:
            return self.between_turns(act)
        act()
        return True

    def go_on(self) -> None:
        """Do the work put off until the end of the turn, then say the next line, if the model is ready."""
        while self.loaded and self.control is None and self._after_turn:
            self._after_turn.pop(0)()
        if self.loaded and self.control is None and self.outbox.queue and not self.model.lookup:
            self.outbox.say_next()
        self.face.wake()

    def ask(self, question: Question, answered: Callable[[str], object]) -> None:
        """Ask the user, unless another question is open. A call's question displaces this one, unanswered."""
        if self.face.asks:
            return self.face.note("answer the question above first", "yellow")
        self.face.ask(question, lambda key, _: self._attempt(lambda: answered(key)))
        return self.face.wake()

    # -- turns ---------------------------------------------------------------------------------------------------------

    def say(self, text: UserText, *, replaces: int | None = None) -> None:
        """Begin a turn; it replaces the turn `replaces` and those after it. Between turns, with a model loaded."""
        self.turn.say(text, replaces=replaces)

    def interrupt(self) -> bool:
        """Ctrl-C: stop the turn, or the wait for a model, or else a job. False: there is nothing to stop."""
        if self.control is None:
            return self.model.give_up() or self.background.end_job()
        going = not self.control.stopped or bool(self.outbox.queue)
        self.stop()
        return going

    def stop(self) -> None:
        """Stop the turn; its text stays. Waiting lines return to the input."""
        if self.control:
            self.control.stop()
            if turn := self.conversation.turn:
                turn.answer(None)
            self.turn.approvals.withdraw()
        self.outbox.take_back()

    def answer_now(self) -> None:
        """End the thinking: the answer begins."""
        if self.control:
            self.control.answer_now()

    # -- sessions ------------------------------------------------------------------------------------------------------

    def go_back(self, turn: int) -> tuple[Entry, ...]:
        """Remove and return this turn and those after it. Between turns."""
        self.face.replace_none()
        taken = self.conversation.cut_back(turn)
        self.transcript.cut_back(turn)
        self.measure()
        return taken

    def switch(self, opened: OpenSession) -> None:
        """Continue another session. Between turns."""
        self.conversation.switch(opened)
        self.tally, self.model.use = Tally(), None
        self.face.replace_none()
        self.outbox.replace_none()
        self.transcript = Transcript.of(opened.session, clock=self._clock)
        self.plan(self.settings.plan or opened.session.options.planning)
        self.measure()

    def store_as(self, opened: OpenSession, *, private: bool) -> None:
        """Store the same conversation elsewhere from now on, or nowhere."""
        self.conversation.opened = opened
        self.change_settings(private=private)
        self.plan(self.settings.plan)
        self.face.store_history(not private)
        self.model.enter()

    def plan(self, on: bool) -> None:
        """Only look from now on; False: change things again. The session remembers it. Between turns."""
        if self.settings.plan != on:
            self.change_settings(plan=on)
        self.conversation.plan(on)

    def measure(self) -> None:
        """Measure the context, then read the next prompt ahead. Between turns."""
        self.model.measure()
        self.ahead.begin()

    def page(self, cursor: int) -> Cited | None:
        """The page behind a cursor of the browser; None for an unknown one."""
        origin = self.loaded.tools.origin if self.loaded else (lambda url: None)
        return page_behind(self.session.states, cursor, origin)
