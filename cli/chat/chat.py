"""A chat: a conversation, what the user's lines do with it, and the face that shows it."""

from __future__ import annotations

import os
import queue
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.events import ApprovalAsked, Event, MessageAdded, ToolFinished, ToolStarted, TurnEnded
from ossia.agent.prompt import tool_texts
from ossia.agent.sessions.session import Entry, Options, Session, UserText
from ossia.agent.sums import Tally
from ossia.agent.turn import Tapped, Turn
from ossia.agent.worker import Worker
from ossia.cli.attach.attach import Attaching
from ossia.cli.chat.ahead import ReadingAhead
from ossia.cli.chat.approvals import Approvals
from ossia.cli.chat.background import Background
from ossia.cli.chat.model import ChatModel
from ossia.cli.chat.notices import Notices, line_about
from ossia.cli.chat.owner import Loaded
from ossia.cli.chat.pager.transcript import Transcript
from ossia.cli.chat.titles import Titles
from ossia.cli.clean import one_line
from ossia.cli.runtime.assembly import control_names, limits_of
from ossia.cli.settings.config import THIS_CHAT, Resolved
from ossia.cli.settings.table import Settings
from ossia.cli.terminal.input.typed import Typed, as_text
from ossia.tools.folder import Folder
from ossia.tools.host import Host
from ossia.tools.import_path import environment_for

if TYPE_CHECKING:
    from ossia.agent.citations import Cited
    from ossia.agent.request import ContextUse
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.chat.face import Face
    from ossia.cli.terminal.question import Question

_R = TypeVar("_R")
_GRACE_S = 1.0
_ANSWER_S = 0.1
_EVENTS_S = 0.02  # events are taken in together: waking this thread for each token would slow the decoding threads


@dataclass(frozen=True, slots=True)
class Waiting(Typed):
    """A line that waits to be said. `replaces`: the turn that it replaces; None: it comes after the others."""

    replaces: int | None = None


class Chat:
    """A conversation with a face, which `face` makes. Its methods are called on the loop's thread.

    `queue`: lines that wait for the end of the turn; `steering`: lines that the turn under way was given, and hasn't
    taken yet. `control` stops what lines wait for: the turn, attachments that are read, a job between turns.
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
        self.queue: deque[Waiting] = deque()
        self.steering: deque[Waiting] = deque()
        self.background = Background(wake=lambda: self.face.wake(), failed=self.tell)
        self.notices = Notices(self.post, self.background, verbose=resolved.settings.verbose)
        self.transcript = Transcript.of(self.session, clock=clock)
        self.tally = Tally()
        self.titles = Titles(self, clock=clock)
        self.ahead = ReadingAhead(self, self.titles)
        self.model = ChatModel(self)
        self.attaching = Attaching(lambda: self.settings, self.post)
        self.approvals = Approvals(self)
        self._between: list[Callable[[], object]] = []  # waits for the end of the turn under way
        self._unstored: str | None = None
        self._expects_events = False
        self.calls_tools = False
        """Has the turn under way called a tool? Then a line that steers it stands behind the next result."""
        self.plan(self.settings.plan or self.session.options.planning)
        self.face = face(self)

    # -- its parts -----------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment of programs that we start ourselves."""
        return environment_for(self.folder.workspace.root if self.folder else None, os.environ)

    @property
    def worker(self) -> Worker:
        return self.conversation.worker

    @property
    def opened(self) -> OpenSession:
        return self.conversation.opened

    @property
    def session(self) -> Session:
        return self.conversation.session

    @property
    def store(self) -> SessionStore | None:
        """Where the session is stored; None: nowhere."""
        return self.conversation.store

    @property
    def loaded(self) -> Loaded | None:
        """The model and its tools; None while they load."""
        return self.model.loaded

    @property
    def use(self) -> ContextUse | None:
        """How full the context is; None while nobody knows."""
        return self.model.use

    def use_settings(self, resolved: Resolved, folder: Folder | None, *, before: Settings) -> None:
        """These hold from now on, but for what was changed since they were `before`."""
        now = {one.name: getattr(self.settings, one.name) for one in fields(Settings)}
        self.resolved, self.folder = resolved, folder
        self.change_settings(**{key: value for key, value in now.items() if value != getattr(before, key)})

    def change_settings(self, **values: Any) -> None:
        """Set values of the settings for the rest of this chat."""
        origins = {**self.resolved.origins, **dict.fromkeys(values, THIS_CHAT)}
        self.resolved = replace(self.resolved, settings=replace(self.settings, **values), origins=origins)
        self.conversation.private = self.settings.private

    def post(self, text: str, style: str = "dim") -> None:
        """A line of ours above the input, from any thread."""
        self.background.on_loop(lambda: self.face.note(text, style))

    def tell(self, error: Exception, *, of: str = "") -> None:
        """Say what went wrong, in one line that begins with `of`. Raises it again if it is a fault of ours."""
        self.face.note(f"{of}{line_about(error)}", "red")

    def doing(self, text: str) -> None:
        """Say what goes on besides a turn, e.g. a download; "": nothing. From any thread."""
        self.notices.line.set(text)
        self.face.wake()

    # -- the life of it ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Load the model. Called once the loop runs."""
        self.model.load()
        self.ahead.watch_the_date()

    def give_back(self) -> None:
        """End what runs, close what is open."""
        self.stop()
        self.face.put_input_aside()
        self.attaching.close()
        self.model.close()
        self.worker.close(_GRACE_S)
        self.conversation.close()

    def leave(self) -> None:
        """End the chat."""
        self.stop()
        self.face.screen.leave()

    # -- what waits for the end of a turn, what turns wait for ---------------------------------------------------------

    def between_turns(self, act: Callable[[], object]) -> bool:
        """Call `act` now, or once the turn under way is over and the model is loaded. True: it was called now."""
        if self.loaded and self.control is None:
            act()
            return True
        self._between.append(act)
        return False

    def before_next_turn(self, job: Callable[[], _R], then: Callable[[_R], object]) -> None:
        """Run `job` beside the screen, then `then` with its result; lines sent meanwhile wait for it. Between turns.

        Ctrl-C ends the waiting: the job's result is dropped.
        """
        self.control = control = Control()

        def over(act: Callable[[], object]) -> None:
            if self.control is control:
                self.control = None
                act()
                self.go_on()

        control.on_stop(lambda: self.background.on_loop(lambda: over(lambda: None)))
        self.background.run(job, lambda done: over(lambda: then(done)), lambda error: over(lambda: self.tell(error)))

    def change_options(self, change: Callable[[Options], Options]) -> bool:
        """Change how the next turns are answered. False: a turn is under way, which goes on as it began."""

        def act() -> None:
            self.conversation.options = change(self.conversation.options)
            self.measure()

        if self.control is not None:
            return self.between_turns(act)
        act()
        return True

    # -- what the user sends -------------------------------------------------------------------------------------------

    def queue_up(self, typed: Typed, *, replaces: int | None = None) -> None:
        """Say the line now, or behind the next result of the turn under way, or when its turn comes.

        `replaces`: it takes the place of this turn and those after it.
        """
        line = Waiting(typed.shown, typed.text, typed.literal, typed.waits, replaces)
        if (turn := self.conversation.turn) and self._may_steer(line, turn):
            self.steering.append(line)
            turn.steer(line.text)
        else:
            self.queue.append(line)
        self.go_on()

    def _may_steer(self, line: Waiting, turn: Turn) -> bool:
        """True if the turn is under way and can take the line: it comes alone, after no other, and needs no browser."""
        alone = not (line.waits or self.queue or self.attaching.needed(line)) and line.replaces is None
        joins = self.loaded is not None and self.loaded.tools.browser_joins_for(line.text)
        return alone and not joins and turn.control is self.control and not turn.control.stopped

    def go_on(self) -> None:
        """Do what waited for the end of a turn, then say the next line that waits, if the model is ready for it."""
        while self.loaded and self.control is None and self._between:
            self._between.pop(0)()
        if self.loaded and self.control is None and self.queue and not self.model.looking:
            self._say_waiting(self.queue.popleft())
        self.face.wake()

    def _say_waiting(self, typed: Waiting) -> None:
        """Say a line with its attachments. They are read first, on the worker: a page may take a while."""
        text = UserText(typed.text, typed.text)
        self.face.view.user(typed.shown)
        if not self.attaching.needed(typed):
            return self.say(text, replaces=typed.replaces)
        self.control, use = Control(), self.use
        control = self.control
        workspace = self.folder.workspace if self.folder else None
        room = use.total_tokens - use.used_tokens - use.reserve_tokens if use else None
        self.face.view.begin()

        def done(future: Future[UserText | None]) -> None:
            self.control = None
            self.face.view.end()
            message = future.result()  # a bug of ours on the worker's thread becomes a traceback here
            if message is None or control.stopped:
                waiting = list(self.queue)  # what was typed after it may depend on it
                self.queue.clear()
                self._unsaid(typed, *waiting)
            else:
                self.say(message, replaces=typed.replaces)

        work = self.worker.submit(
            lambda: self.attaching.put_together(
                typed, workspace=workspace, room_tokens=room, stop=control, ask=partial(self._agreed, control)
            )
        )
        return work.add_done_callback(lambda future: self.background.on_loop(lambda: done(future)))

    def _agreed(self, control: Control, name: str, why: str) -> bool:
        """Ask whether a file may be attached to a message. It blocks, on the worker, until the answer or a stop."""
        from ossia.cli.terminal.question import Question

        answers = queue.SimpleQueue[str]()
        question = Question(f"Attach @{name}?", why, careful=True)
        self.background.on_loop(lambda: self.face.ask(question, answers.put))
        while not control.stopped:
            with suppress(queue.Empty):
                return answers.get(timeout=_ANSWER_S) == "y"
        self.background.on_loop(self.face.withdraw)
        return False

    def say(self, text: UserText, *, replaces: int | None = None) -> None:
        """Begin a turn, in place of the turn `replaces` and those after it. With a model loaded, between turns."""
        assert self.loaded is not None and self.control is None
        if replaces is not None:
            self.go_back(replaces)
        if self.conversation.offer_browser(text.typed or text.text):
            self._note_the_browser(self.loaded)
        self._warn_of_control_names(text.text, "your text", self.loaded)
        self.face.view.begin()
        self.transcript.add_user(text.typed)
        limits = limits_of(self.settings, self.conversation.options.effort)
        turn = self.conversation.say(text, limits=limits, on_event=self._expect_events)
        self.control, self.calls_tools = turn.control, False
        turn.done.add_done_callback(lambda _: self.background.on_loop(lambda: self._turn_over(turn)))
        self.face.wake()

    def _warn_of_control_names(self, text: str, where: str, loaded: Loaded) -> None:
        if warning := control_names(text, loaded.model, where):
            self.face.note(warning, "yellow")

    def _note_the_browser(self, loaded: Loaded) -> None:
        """The browser stands at the beginning of the prompt: all behind it is read again."""
        tools, sums = loaded.tools, self.tally.chat
        texts = [text for names, text in tool_texts(tools.toolbox.specs) if names[0].startswith("browser.")]
        tokens = tools.counter("".join(texts)) + (self.use.used_tokens if self.use else 0)
        left_s = sums.prefill_s / sums.evaluated * tokens if sums.evaluated else 0
        how_long = f", about {left_s:.0f} s" if left_s >= 1 else ""
        self.face.note(f"the browser joins: about {tokens:,} tokens of the prompt are read again{how_long}")

    def _unsaid(self, *lines: Waiting) -> None:
        """Put lines that were sent but not said back into the input, before what has been typed there since.

        The turns that they were to replace still exist. A plain terminal has no input: the user gets a note instead.
        """
        if self.face.plain:
            for line in lines:
                self.face.note(f"not sent: {one_line(line.shown, 200)}", "yellow")
            return
        replaces = next((line.replaces for line in lines if line.replaces is not None), None)
        text = "\n".join([*(line.shown for line in lines), *filter(None, [self.face.input_text])])
        self.face.put_into_input(as_text(text), replaces=replaces)

    def _turn_over(self, turn: Turn) -> None:
        self._take(turn)
        turn.result()  # a bug of ours on the worker's thread becomes a traceback here
        self.queue.extendleft(reversed(self._not_taken(turn)))
        self.steering.clear()
        self.control = None
        self.approvals.withdraw()
        self.face.bell(self.settings.bell)
        self._note_of_storing()
        self.measure()
        self.go_on()

    def _not_taken(self, turn: Turn) -> list[Waiting]:
        """The lines that the turn was given and will never take."""
        count = len(turn.control.unsaid())
        return [self.steering.pop() for _ in range(count)][::-1]

    def _note_of_storing(self) -> None:
        """Say once that something could not be stored, and why. Storing is tried again with each message."""
        problem = self.store.problem if self.store else None
        if problem and problem != self._unstored:
            self.face.note(f"not stored: {problem}", "yellow")
        self._unstored = problem

    def interrupt(self) -> bool:
        """Ctrl-C: stop the turn, or the wait for a model, or else the job under way. False: none is, or it ends."""
        if self.control is None:
            return self.model.give_up() or self.background.end_job()
        going = not self.control.stopped or bool(self.queue)
        self.stop()
        return going

    def stop(self) -> None:
        """Stop the turn under way; what was said stays. Lines that wait go back into the input."""
        if self.control:
            self.control.stop()
            if turn := self.conversation.turn:
                turn.answer(None)
            self.approvals.withdraw()
        self.take_back()

    def take_back(self) -> None:
        """Put the lines that wait into the input again."""
        lines = [*(self._not_taken(turn) if (turn := self.conversation.turn) else ()), *self.queue]
        if lines:
            self.queue.clear()
            self._unsaid(*lines)

    def answer_now(self) -> None:
        """End the thinking: the answer begins."""
        if self.control:
            self.control.answer_now()

    def ask(self, question: Question, answered: Callable[[str], object]) -> None:
        """Ask something of our own, if nothing else is being asked. A call's question displaces it, unanswered."""
        if self.face.asks:
            return self.face.note("answer the question above first", "yellow")

        def act(key: str) -> None:
            try:
                answered(key)
            except Exception as error:
                self.tell(error)

        self.face.ask(question, act)
        return self.face.wake()

    # -- sessions ------------------------------------------------------------------------------------------------------

    def go_back(self, turn: int) -> tuple[Entry, ...]:
        """Take this turn and those after it out of the conversation. Between turns. Returns what was taken."""
        self.face.forget_replaced()
        taken = self.conversation.cut_back(turn)
        self.transcript.cut_back(turn)
        self.measure()
        return taken

    def switch(self, opened: OpenSession) -> None:
        """Go on with another session. Between turns. What the tools remembered of the one before is forgotten."""
        self.conversation.switch(opened)
        self.tally, self.model.use = Tally(), None
        self.face.forget_replaced()
        self.queue = deque(replace(line, replaces=None) for line in self.queue)
        self.transcript = Transcript.of(opened.session, clock=self._clock)
        self.plan(self.settings.plan or opened.session.options.planning)
        self.conversation.forget_variables()
        self.measure()

    def store_as(self, opened: OpenSession, *, private: bool) -> None:
        """Store the same conversation elsewhere from now on, or nowhere."""
        self.conversation.opened = opened
        self.change_settings(private=private)
        self.plan(self.settings.plan)
        self.face.keep_history(not private)
        self.model.enter()

    def plan(self, on: bool) -> None:
        """From now on only look; False: change things again. The session remembers it. Between turns."""
        if self.settings.plan != on:
            self.change_settings(plan=on)
        self.conversation.plan(on)

    def measure(self) -> None:
        """Find out how full the context is, then read the next prompt ahead. Between turns."""
        self.model.measure()

    def read_ahead(self) -> None:
        self.ahead.begin()

    def page(self, cursor: int) -> Cited | None:
        """The page behind a cursor of the browser; None when there is none."""
        from ossia.cli.footnotes import page_behind

        origin = self.loaded.tools.origin if self.loaded else (lambda url: None)
        return page_behind(self.session.states, cursor, origin)

    # -- events --------------------------------------------------------------------------------------------------------

    def _expect_events(self) -> None:
        """The turn has an event: those of the next moment are taken in together. On the worker's thread."""
        if not self._expects_events:
            self._expects_events = True
            self.background.on_loop(self.take_in, after_s=_EVENTS_S)

    def take_in(self) -> None:
        """Take in the events that came since the last time."""
        self._expects_events = False
        if turn := self.conversation.turn:
            self._take(turn)

    def _take(self, turn: Turn) -> None:
        for event in turn.take():
            if not isinstance(event, Tapped):
                self._see(event)

    def _see(self, event: Event) -> None:
        if isinstance(event, MessageAdded) and event.steers:
            line = self.steering.popleft()
            self.face.view.user(line.shown)
            self.transcript.add_user(line.text, steers=True)
            if self.loaded:
                self._warn_of_control_names(line.text, "your text", self.loaded)
        self.transcript.see(event)
        self.tally.see(event)
        self.face.view.see(event)
        if isinstance(event, ApprovalAsked):
            self.approvals.ask(event)
        elif isinstance(event, ToolFinished | TurnEnded):
            self.approvals.withdraw()
        self.calls_tools |= isinstance(event, ToolStarted | ToolFinished)
        loaded = self.loaded
        if isinstance(event, MessageAdded) and event.message.role == "tool" and loaded:
            self._warn_of_control_names(event.message.text, f"the result of {event.message.name}", loaded)
        if isinstance(event, ToolFinished):
            made = event.result.attachments
            self.face.show_pictures([one.path for one in made if one.media_type.startswith("image/")])
            uncounted = loaded.tools.counter.warning() if loaded else None
            for notice in (*filter(None, [uncounted]), *event.result.notices):
                self.face.note(notice, "yellow")
