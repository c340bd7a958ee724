"""A conversation with a model: what the user sends goes to the worker, what the worker tells goes to the face."""

from __future__ import annotations

import datetime
import queue
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ossia.agent.control import Control
from ossia.agent.conversation import OpenSession
from ossia.agent.events import ApprovalAsked, Event, MessageAdded, ToolFinished, TurnEnded
from ossia.agent.prompt import tool_texts, with_plan
from ossia.agent.sessions.session import Entry, Options, UserText
from ossia.agent.worker import Tapped
from ossia.cli.attach.attach import Attaching
from ossia.cli.chat.ahead import ReadingAhead
from ossia.cli.chat.approvals import Approvals
from ossia.cli.chat.model import ChatModel
from ossia.cli.chat.pager.transcript import Transcript
from ossia.cli.chat.state import State, Waiting
from ossia.cli.chat.tally import Tally
from ossia.cli.chat.titles import Titles
from ossia.cli.clean import one_line
from ossia.cli.runtime.assemble import offer_browser
from ossia.cli.settings.config import Resolved
from ossia.cli.terminal.input.typed import Typed, as_text
from ossia.tools.workspace import Folder

if TYPE_CHECKING:
    from ossia.agent.citations import Cited
    from ossia.agent.request import ContextUse
    from ossia.cli.chat.face import Face
    from ossia.cli.runtime.assemble import Assembly
    from ossia.cli.terminal.question import Question

_R = TypeVar("_R")
_GRACE_S = 1.0
_ANSWER_S = 0.1


class Conversation(State):
    """A session, a model on its worker, and a face, which `face` makes. Its methods are called on the loop's thread."""

    def __init__(
        self,
        resolved: Resolved,
        folder: Folder | None,
        opened: OpenSession,
        *,
        face: Callable[[Conversation], Face],
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime.date] = datetime.date.today,
    ) -> None:
        super().__init__(resolved, folder, opened)
        self.transcript = Transcript.of(self.session, clock=clock)
        self.tally = Tally()
        self.titles = Titles(self, clock=clock)
        self.ahead = ReadingAhead(self, self.titles, today=today, changed=lambda: self.model.measure())
        self.model = ChatModel(self, self.ahead, loaded=self.go_on, unusable=self.leave, not_taken=self.take_back)
        self.attaching = Attaching(lambda: self.settings, self.post)
        self.approvals = Approvals(self, self.model)
        self._between: list[Callable[[], object]] = []  # waits for the end of the turn under way
        self._clock = clock
        self._unstored: str | None = None
        self.model.plan(self.settings.plan or self.session.options.planning)
        self.face = face(self)
        self.worker.on_event = self.face.wake

    @property
    def assembly(self) -> Assembly | None:
        """The model and its tools; None while they load."""
        return self.model.assembly

    @property
    def use(self) -> ContextUse | None:
        """How full the context is; None while nobody knows."""
        return self.model.use

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
        if self.store:
            self.store.close()

    def leave(self) -> None:
        """End the chat."""
        self.stop()
        self.face.screen.leave()

    # -- what waits for the end of a turn, what turns wait for ---------------------------------------------------------

    def between_turns(self, act: Callable[[], object]) -> bool:
        """Call `act` now, or once the turn under way is over and the model is loaded. True: it was called now."""
        if self.assembly and self.control is None:
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
            self.session.options = change(self.session.options)
            self.model.measure()

        if self.control is not None:
            return self.between_turns(act)
        act()
        return True

    # -- what the user sends -------------------------------------------------------------------------------------------

    def queue_up(self, typed: Typed, *, replaces: int | None = None) -> None:
        """Say the line now, or when its turn comes. `replaces`: it takes the place of this turn and those after it."""
        self.queue.append(Waiting(typed.shown, typed.text, typed.literal, replaces))
        self.go_on()

    def go_on(self) -> None:
        """Do what waited for the end of a turn, then say the next line that waits, if the model is ready for it."""
        while self.assembly and self.control is None and self._between:
            self._between.pop(0)()
        if self.assembly and self.control is None and self.queue and not self.model.looking:
            self._say_waiting(self.queue.popleft())
        self.face.wake()

    def _say_waiting(self, typed: Waiting) -> None:
        """Say a line with what goes along with it. That is read first, on the worker: a page may take a while."""
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
        """Ask whether a file goes along with a message. It blocks, on the worker, until the answer or a stop."""
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
        assert self.assembly is not None and self.control is None
        if replaces is not None:
            self.go_back(replaces)
        assembly, control, session = self.assembly, Control(), self.session
        if offer_browser(assembly.tools, session, text.typed or text.text):
            self._tell_of_browser(assembly)
        text = with_plan(text, session) if self.settings.plan else text
        self.ahead.end()
        self.ahead.date_it()
        self.model.reads()
        self.control = control
        self.face.view.begin()
        self.transcript.add_user(text.typed)
        tools, settings = assembly.tools, self.settings
        assembly.warn_of_control_names(text.text, "your text")

        def work() -> None:
            tools.begin_turn("(a private turn)" if settings.private else text.typed)  # undo keeps this text in a file
            try:
                return self.worker.drive(assembly.turn(session, text, settings, control), control)
            finally:
                tools.end_turn()

        turn = self.worker.submit(work)
        turn.add_done_callback(lambda done: self.background.on_loop(lambda: self._turn_over(done)))
        self.face.wake()

    def _tell_of_browser(self, assembly: Assembly) -> None:
        """The browser stands at the beginning of the prompt: all behind it is read again."""
        tools, sums = assembly.tools, self.tally.chat
        texts = [text for names, text in tool_texts(tools.toolbox.specs) if names[0].startswith("browser.")]
        own = tools.counter("".join(texts))
        tokens = own + (self.use.used_tokens if self.use else 0)
        left_s = sums.prefill_s / sums.evaluated * tokens if sums.evaluated else 0
        how_long = f", about {left_s:.0f} s" if left_s >= 1 else ""
        self.face.note(f"the browser joins: about {tokens:,} tokens of the prompt are read again{how_long}")

    def _unsaid(self, *lines: Waiting) -> None:
        """Put lines that were sent but not said back into the input, before what has been typed there since.

        The turns that they were to replace are still there. A plain terminal has no input: the user is told instead.
        """
        if self.face.plain:
            for line in lines:
                self.face.note(f"not sent: {one_line(line.shown, 200)}", "yellow")
            return
        replaces = next((line.replaces for line in lines if line.replaces is not None), None)
        text = "\n".join([*(line.shown for line in lines), *filter(None, [self.face.input_text])])
        self.face.put_into_input(as_text(text), replaces=replaces)

    def _turn_over(self, done: Future[None]) -> None:
        self.take_in()
        done.result()  # a bug of ours on the worker's thread becomes a traceback here
        self.control = None
        self.approvals.withdraw()
        self.face.bell(self.settings.bell)
        self._tell_of_storing()
        self.model.measure()
        self.go_on()

    def _tell_of_storing(self) -> None:
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
        taken = self.session.cut_back(turn)
        self.transcript.cut_back(turn)
        self.model.restore_pages()
        self.model.measure()
        return taken

    def switch(self, opened: OpenSession) -> None:
        """Go on with another session. Between turns. What the tools remembered of the one before is forgotten."""
        self.model.keep_cache()
        if self.store and self.store is not opened.store:
            self.store.close()
        elif self.store:
            self.store.release(self.session)
        self.opened, self.tally = opened, Tally()
        self.face.forget_replaced()
        self.queue = deque(replace(line, replaces=None) for line in self.queue)
        self.transcript = Transcript.of(opened.session, clock=self._clock)
        self.model.meet()

    def store_as(self, opened: OpenSession, *, private: bool) -> None:
        """Store the same conversation elsewhere from now on, or nowhere."""
        self.opened = opened
        self.change_settings(private=private)
        self.model.plan(self.settings.plan)
        self.face.keep_history(not private)
        if self.assembly:
            self.model.enter(self.assembly)

    def page(self, cursor: int) -> Cited | None:
        """The page behind a cursor of the browser; None when there is none."""
        from ossia.cli.footnotes import page_behind

        origin = self.assembly.tools.origin if self.assembly else (lambda url: None)
        return page_behind(self.session.states, cursor, origin)

    # -- what the worker tells -----------------------------------------------------------------------------------------

    def take_in(self) -> None:
        """Take in what the worker told since the last time."""
        with suppress(queue.Empty):
            while True:
                event = self.worker.inbox.get_nowait()
                if not isinstance(event, Tapped):
                    self._see(event)

    def _see(self, event: Event) -> None:
        self.transcript.see(event)
        self.tally.see(event)
        self.face.view.see(event)
        if isinstance(event, ApprovalAsked):
            self.approvals.ask(event)
        elif isinstance(event, ToolFinished | TurnEnded):
            self.approvals.withdraw()
        if isinstance(event, MessageAdded) and event.message.role == "tool" and self.assembly:
            self.assembly.warn_of_control_names(event.message.text, f"the result of {event.message.name}")
        if isinstance(event, ToolFinished):
            made = event.result.attachments
            self.face.show_pictures([one.path for one in made if one.media_type.startswith("image/")])
            warning = self.assembly.tools.counter.warning() if self.assembly else None
            for notice in (*filter(None, [warning]), *event.result.notices):
                self.face.note(notice, "yellow")
