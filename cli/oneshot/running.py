"""A run under way: the model and the tools are loaded, the turn is followed, the answer written."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ossia.agent.build import Begun
from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.errors import EngineFailed
from ossia.agent.events import Delta, Event, MessageAdded, ToolFinished
from ossia.agent.kv_cache import save_prompt_cache
from ossia.agent.limits import deadline
from ossia.agent.stream.events import Begin
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Tapped
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.interrupts import hold, settle
from ossia.cli.oneshot.ask import Asker
from ossia.cli.oneshot.control import Control as Orders
from ossia.cli.oneshot.lines import Lines
from ossia.cli.oneshot.output import Answer, Json, Raw
from ossia.cli.oneshot.output_file import OutputFile
from ossia.cli.oneshot.prompt import Asked, with_attached, with_given
from ossia.cli.oneshot.pump import FRAME_S, follow
from ossia.cli.oneshot.report import WRITTEN, Report, show_last_line, show_refused
from ossia.cli.runtime.assembly import begin_model, control_names, end_tools, finish, fixes_for, limits_of, tools_spec
from ossia.cli.runtime.ending import end_now, look_to_the_end
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.session import read_instructions
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.engines import is_server
from ossia.cli.streams import end_stdout
from ossia.tools.folder import Folder

if TYPE_CHECKING:
    from ossia.cli.oneshot.once import Wanted


class Run:
    """One run: loads, follows the turn, writes the answer.

    `lines`: where `--jsonl` writes its events; `orders`: `--control stdin`; `file`: `-o`. `stays`: the user means to go
    on with the session, which is stored; else that isn't said, nor is its cache stored.
    """

    def __init__(
        self,
        resolved: Resolved,
        folder: Folder | None,
        display: Display,
        opened: OpenSession,
        lines: Lines | None,
        orders: Orders | None,
        wanted: Wanted,
        file: OutputFile | None,
        *,
        stays: bool,
    ) -> None:
        settings = resolved.settings
        self._resolved, self._folder, self._settings, self._display = resolved, folder, settings, display
        self._talk = Conversation(opened, Worker(), paths.host(), private=settings.private)
        answer = opened.session.options.response_format
        self._report = Report(
            model=settings.model or "",
            schema=answer.schema if answer else None,
            stopped=lambda: self._talk.turn is not None and self._talk.turn.control.stopped,
            strict=settings.strict_approvals,
            extract=wanted.extract,
        )
        self._publisher = Publisher(
            self._report,
            lambda: self._talk.tools.toolbox.by_name if self._talk.tools else {},
            mark=lambda: f"-{secrets.token_hex(4)}",
        )
        self._lines, self._orders, self._file, self._stays = lines, orders, file, stays
        self._raw = Raw() if settings.raw else None
        json = Json(lines, opened, file) if lines or settings.json else None
        self._out: Answer | Json | Raw = (
            self._raw
            or json
            or Answer(self._report, before=display.pause, plain=settings.plain, stream=wanted.stream, file=file)
        )
        if isinstance(self._out, Answer):
            display.before = self._out.pause

    def answer(self, asked: Asked) -> int:
        """The whole run. An error that ends it early is noted in the report, for the result, and raised at the end."""
        report, display = self._report, self._display
        self._attempt(lambda: self._turn(asked))
        self._attempt(lambda: end_tools(self._talk, display))
        if isinstance(report.error, BrokenPipeError) and not self._lines:
            raise report.error
        self._attempt(lambda: _show_the_rest(report, self._talk, self._orders, display))
        if self._lines:
            for event in self._publisher.finish():
                self._lines.write(event)
        self._out.finish(report)
        self._write_file()
        if report.end == "stopped":
            with suppress(KeyboardInterrupt), hold(False):
                look_to_the_end(display.warn)
            if self._talk.worker.busy:
                end_now(report.code)  # a C call doesn't notice Ctrl-C, and Python's own exit would wait for it
        settle(report.code)
        self._give_back()
        report.raise_error(printed=not isinstance(self._out, Answer))
        show_last_line(report, self._settings, display, file=self._file.name if self._file else None)
        return int(report.code)

    def _write_file(self) -> None:
        if self._file:
            with self._file as file:
                if self._report.code in WRITTEN:
                    try:
                        file.commit()
                        self._display.aside(f"written: {file.name}", whole=True)
                    except (ExitError, BrokenPipeError) as error:
                        self._report.fail(error)

    def _attempt(self, part: Callable[[], None]) -> None:
        """A part of the run, which an interrupt may end; the first error is noted."""
        try:
            with hold(False):
                part()
        except (KeyboardInterrupt, Exception) as error:
            if self._report.error is None:
                self._report.fail(error)

    def _load(self) -> None:
        """Load on the worker's thread: Ctrl-C is answered meanwhile."""
        talk, report = self._talk, self._report
        spec = tools_spec(self._resolved, self._folder)  # what is missing is refused before anything is loaded
        begun = _begin(self._resolved, self._display, talk.worker)
        report.model = begun.name
        tap = self._tap if self._raw else None
        model, tools = finish(begun, spec, self._resolved, self._display, tap=tap)
        report.load_s, report.plan, report.origin = model.load_s, model.plan, tools.origin
        if self._raw:
            self._raw.codec = model.codec
        self._display.fix = fixes_for(tools, self._settings).of
        talk.use(model, tools)
        if talk.opened.resumed:
            report.states += talk.session.states
            talk.forget_variables()
            self._display.wait(talk.load_cache())

    def _tap(self, ids: Sequence[int]) -> None:
        if turn := self._talk.turn:
            turn.tap(ids)

    def _turn(self, asked: Asked) -> None:
        settings, talk = self._settings, self._talk
        asked = with_given(asked, settings, talk, self._display)
        self._load()
        assert talk.tools is not None
        said = with_attached(asked, settings, talk, display=self._display)
        self._warn_of_control_names(said.text, "the prompt")
        self._warn_of_control_names(read_instructions(settings.instructions) or "", "--instructions")
        refused, tools = self._report.refused, talk.tools
        asker = Asker(self._display, yes=settings.yes, store=tools.store, refused=refused, hint=tools.hint)
        turn, orders = talk.say(said, limits=limits_of(settings, talk.options.effort)), self._orders
        if orders:
            orders.begin(turn, self._publisher, asker, tools.store)
        if self._lines:
            self._lines.write(Begin(self._report.model, talk.opened.session_id))
        tick = orders.tick if orders else self._out.tick
        frame_s = 0.0 if self._lines else FRAME_S  # whoever reads lines has each event at once
        follow(turn, self._display, self._see, asker=orders or asker, tick=tick, frame_s=frame_s)

    def _give_back(self) -> None:
        """Store the caches of the session and of the prompt's beginning, close everything.

        In this order: the second one cuts the cache back. After an interrupt, the second one is left out.
        """
        talk, worker = self._talk, self._talk.worker
        if model := talk.model:
            end_stdout()  # nobody waits for what is stored
            if talk.session.entries and self._stays:
                talk.save_cache()
            if self._report.end != "stopped":
                worker.submit(lambda: save_prompt_cache(model.engine))
            model.close()
        worker.close()
        stored = talk.store and not talk.store.problem and talk.session.entries
        if stored and self._stays and not talk.opened.resumed:
            self._display.aside(f"stored; continue it with: ossia run --resume {talk.opened.session_id}")
        talk.close()

    def _see(self, event: Event | Tapped) -> None:
        if not isinstance(event, Delta):  # the answer ends before something is said about it
            self._out.see(event)
        if not isinstance(event, Tapped):
            for published in self._publisher.see(event):
                if self._lines:
                    self._lines.write(published)
            self._display.see(event)
        if isinstance(event, Delta):
            self._out.see(event)
        if isinstance(event, MessageAdded) and event.message.role == "tool":
            self._warn_of_control_names(event.message.text, f"the result of {event.message.name}")
        if isinstance(event, ToolFinished):
            if self._talk.tools and (warning := self._talk.tools.counter.warning()):
                self._display.note(f"ossia: {warning}", "note")
            for notice in event.result.notices:
                self._display.notice(notice)

    def _warn_of_control_names(self, text: str, where: str) -> None:
        assert self._talk.model is not None
        if line := control_names(text, self._talk.model, where):
            self._display.warn(line)


def _show_the_rest(report: Report, talk: Conversation, orders: Orders | None, display: Display) -> None:
    """Before the result: the refused calls, the texts that the turn didn't take, a session that isn't stored."""
    display.pause()
    show_refused(report, display)
    if orders:
        orders.end()
    if talk.store and talk.store.problem:
        display.warn(f"the session is not stored: {talk.store.problem}")


def _begin(resolved: Resolved, display: Display, worker: Worker) -> Begun:
    """Begin the model: a server has the seconds of a turn to answer, a model here takes its time."""
    settings = resolved.settings
    control, limit_s = Control(), settings.timeout if is_server(settings.engine) else None
    try:
        with deadline(control, limit_s):
            return begin_model(resolved, display, worker, stop=control)
    except EngineFailed:
        if control.stop_reason != "time":
            raise
        raise ExitError(f"the server wasn't ready within --timeout ({limit_s:g} s)", ExitCode.CUT) from None
