"""One turn from the command line, once the flags of `ossia run` are read."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ossia.agent.build import Begun
from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.errors import EngineFailed
from ossia.agent.events import Delta, Event, MessageAdded, ToolFinished
from ossia.agent.kv_cache import save_prompt_cache
from ossia.agent.limits import deadline
from ossia.agent.sessions.session import UserText
from ossia.agent.stream.events import Begin
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Tapped
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.clean import one_line
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.interrupts import hold, settle
from ossia.cli.oneshot.ask import NOBODY, PLANNING, Asker, refused_line
from ossia.cli.oneshot.control import Control as Orders
from ossia.cli.oneshot.lines import Lines
from ossia.cli.oneshot.output import Answer, Json, Raw
from ossia.cli.oneshot.prompt import question_of, with_mentioned
from ossia.cli.oneshot.pump import FRAME_S, follow
from ossia.cli.oneshot.report import Report, show_last_line
from ossia.cli.runtime.assembly import begin_model, control_names, end_tools, finish, fixes_for, limits_of, tools_spec
from ossia.cli.runtime.consent import agree
from ossia.cli.runtime.ending import end_now, look_to_the_end
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.runtime.schema import read_schema
from ossia.cli.runtime.session import ELSEWHERE, Resume, moved_from, open_session, read_instructions
from ossia.cli.runtime.skills import skill_named, skills_of, with_skill
from ossia.cli.settings.config import ConfigError, Resolved, resolve
from ossia.cli.settings.engines import is_server
from ossia.cli.settings.table import Settings
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.streams import end_stdout
from ossia.cli.terminal.keyboard import plain_keys
from ossia.cli.words import count
from ossia.tools.folder import Folder
from ossia.tools.spec import ToolSpec

_SILENT = "no answer came: the model ended its turn without one; ask again, or use another --seed"
_NO_SCHEMA = "off"
_MISFIT = "the answer doesn't follow the schema"


@plain_keys()
def run_once(
    prompt: str | None,
    flags: Mapping[str, object],
    *,
    resume: Resume,
    save: bool = False,
    schema: str | None = None,
    skill: str | None = None,
    control: str | None = None,
) -> int:
    """Answer one prompt; returns the exit code. Raises the errors that `cli.main` reports.

    `resume`: the stored session to go on with; `save`: store a new one; `schema`: a JSON Schema, or its file, that the
    answer must follow; `skill`: the name of one to call; `control`: "stdin" for `cli.oneshot.control`. An error before
    the turn begins is also printed as `--json`'s line, or `--jsonl`'s result.
    """
    with hold():
        lines = Lines()
        try:
            with hold(False):
                run, said = _prepared(
                    prompt, flags, resume=resume, save=save, schema=schema, skill=skill, control=control, lines=lines
                )
        except (KeyboardInterrupt, Exception) as error:
            report = Report(model=str(flags.get("model") or ""))
            report.fail(error)
            if form := _json_form(flags):
                Json(lines if form == "jsonl" else None).finish(report)
                settle(report.code)
            raise
        return run.answer(said)


def _json_form(flags: Mapping[str, object]) -> Literal["json", "jsonl"] | None:
    """The form of the failure on stdout. If the settings can't be read, only the flags count."""
    try:
        settings = resolve(flags, environ=os.environ).settings
        jsonl, json = settings.jsonl, settings.json
    except ConfigError:
        jsonl, json = flags.get("jsonl") is True, flags.get("json") is True
    return "jsonl" if jsonl else "json" if json else None


def _prepared(
    prompt: str | None,
    flags: Mapping[str, object],
    *,
    resume: Resume,
    save: bool,
    schema: str | None,
    skill: str | None,
    control: str | None,
    lines: Lines,
) -> tuple[_Run, UserText]:
    """The run, and its question. Refuses all it can before the model is loaded."""
    resolved, folder = resolve_with_folder(flags)
    settings = resolved.settings
    agree(settings)
    if sum((settings.raw, settings.json, settings.jsonl)) > 1:
        raise ExitError("use one of --raw, --json and --jsonl")
    _require_control(control, settings, prompt, skill)
    display = make_display(settings)
    if settings.jsonl:
        display.publish = lines.write
    orders = Orders(lines.write) if control is not None else None
    given = schema if schema != _NO_SCHEMA else None
    answer = read_schema(given, of="--schema", warn=display.warn) if given is not None else None
    text = skill_named(skill, skills_of(folder)).called((prompt or "").strip()) if skill is not None else ""
    typed = f"/{skill} {prompt or ''}".strip() if skill is not None else prompt
    said = UserText(question_of(typed, quiet=settings.quiet, piped=control is None), typed or "")
    said = with_skill(said, text) if text else said
    if save and settings.private and resolved.origins["private"] == "--private":
        raise ExitError("use --save or --private, not both")
    for warning in resolved.warnings:
        display.warn(warning)
    opened = open_session(resolved, folder, resume=resume, save=save)
    for problem in filter(None, [opened.problem, moved_from(opened.worked_in, folder)]):
        display.warn(problem)
    if opened.resumed:
        turns = count(len(opened.session.ends), "turn")
        display.aside(f'continuing "{one_line(opened.title)}" ({turns}){f"; {ELSEWHERE}" if opened.elsewhere else ""}')
    if opened.session.options.planning != settings.plan:
        opened.session.options = replace(opened.session.options, planning=settings.plan)
    if schema is not None:
        opened.session.options = replace(opened.session.options, response_format=answer)
    elif opened.session.options.response_format:
        display.note("ossia: the answer follows the session's schema; --schema off ends that", "note")
    return _Run(resolved, folder, display, opened, lines if settings.jsonl else None, orders), said


def _require_control(control: str | None, settings: Settings, prompt: str | None, skill: str | None) -> None:
    if control is None:
        return
    if control != "stdin":
        raise ExitError(f"--control {one_line(control, 40)}: expected stdin, as in: ossia run --jsonl --control stdin "
                        '"What is 48*17?"')  # fmt: skip
    if not settings.jsonl:
        raise ExitError("--control stdin needs --jsonl: the events say what is asked")
    if prompt == "-" or (not (prompt or "").strip() and skill is None):
        raise ExitError("--control stdin needs the question as an argument: stdin holds the lines of control")


class _Run:
    """One run: loads, follows the turn, writes the answer."""

    def __init__(
        self,
        resolved: Resolved,
        folder: Folder | None,
        display: Display,
        opened: OpenSession,
        lines: Lines | None,
        orders: Orders | None,
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
        )
        self._publisher = Publisher(self._report, self._specs, mark=lambda: f"-{secrets.token_hex(4)}")
        self._lines, self._orders = lines, orders
        self._raw = Raw() if settings.raw else None
        json = Json(lines, opened.session_id) if lines or settings.json else None
        self._out: Answer | Json | Raw = (
            self._raw or json or Answer(self._report, before=display.pause, plain=settings.plain)
        )
        if isinstance(self._out, Answer):
            display.before = self._out.pause

    def answer(self, said: UserText) -> int:
        """The whole run; the `typed` part of `said` wasn't piped in.

        An error that ends it early is noted in the report, for `--json`'s line, and raised again at the end.
        """
        report, display = self._report, self._display
        self._attempt(lambda: self._load_and_turn(said))
        self._attempt(lambda: end_tools(self._talk, display))
        if isinstance(report.error, BrokenPipeError):
            raise report.error
        display.pause()
        self._say_what_was_left_out()
        self._out.finish(report)
        if report.end == "stopped":
            with hold(False):
                look_to_the_end(display.warn)
            if self._talk.worker.busy:
                end_now(report.code)  # a C call doesn't notice Ctrl-C, and Python's own exit would wait for it
        settle(report.code)
        self._give_back()
        if isinstance(report.error, Exception):
            raise report.error
        if report.end == "silent":
            raise ExitError(_SILENT, ExitCode.SILENT)
        if report.code == ExitCode.MISFIT:
            nothing = ", so nothing is printed" if isinstance(self._out, Answer) else ""
            raise ExitError(f"{_MISFIT}{nothing}: {report.misfit}", ExitCode.MISFIT)
        show_last_line(report, self._settings, display)
        return int(report.code)

    def _attempt(self, part: Callable[[], None]) -> None:
        """A part of the run, which an interrupt may end; the first error is noted."""
        try:
            with hold(False):
                part()
        except (KeyboardInterrupt, Exception) as error:
            if self._report.error is None:
                self._report.fail(error)

    def _load_and_turn(self, said: UserText) -> None:
        self._load()
        self._turn(said)

    def _load(self) -> None:
        """Load on the worker's thread: Ctrl-C is answered meanwhile."""
        talk, report = self._talk, self._report
        spec = tools_spec(self._resolved, self._folder)  # what is missing is refused before anything is loaded
        begun = self._begin()
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

    def _specs(self) -> Mapping[str, ToolSpec]:
        return self._talk.tools.toolbox.by_name if self._talk.tools else {}

    def _tap(self, ids: Sequence[int]) -> None:
        if turn := self._talk.turn:
            turn.tap(ids)

    def _begin(self) -> Begun:
        """Begin the model: a server has the seconds of a turn to answer, a model here takes its time."""
        control, limit_s = Control(), self._settings.timeout if is_server(self._settings.engine) else None
        try:
            with deadline(control, limit_s):
                return begin_model(self._resolved, self._display, self._talk.worker, stop=control)
        except EngineFailed:
            if control.stop_reason != "time":
                raise
            raise ExitError(f"the server wasn't ready within --timeout ({limit_s:g} s)", ExitCode.CUT) from None

    def _turn(self, said: UserText) -> None:
        settings, talk = self._settings, self._talk
        assert talk.tools is not None
        self._warn_of_control_names(said.text, "the prompt")
        self._warn_of_control_names(read_instructions(settings.instructions) or "", "--instructions")
        refused, tools = self._report.refused, talk.tools
        asker = Asker(self._display, yes=settings.yes, store=tools.store, refused=refused, hint=tools.hint)
        said = with_mentioned(said, settings, talk, display=self._display)
        turn, orders = talk.say(said, limits=limits_of(settings, talk.options.effort)), self._orders
        if orders:
            orders.begin(turn, self._publisher, asker, tools.store)
        if self._lines:
            self._lines.write(Begin(self._report.model, talk.opened.session_id))
        tick = orders.tick if orders else self._out.tick
        frame_s = 0.0 if self._lines else FRAME_S  # whoever reads lines has each event at once
        follow(turn, self._display, self._see, asker=orders or asker, tick=tick, frame_s=frame_s)

    def _say_what_was_left_out(self) -> None:
        """The calls that were refused, the texts that the turn didn't take, a session that isn't stored."""
        report, store = self._report, self._talk.store
        planned = (done.call.name for done in report.calls if (fault := done.result.fault) and fault.kind == "planning")
        for line in (refused_line((one.name for one in report.refused), NOBODY), refused_line(planned, PLANNING)):
            if line:
                self._display.note(f"ossia: {line}", "refused")
        if self._orders:
            self._orders.end()
        if store and store.problem:
            self._display.warn(f"the session is not stored: {store.problem}")

    def _give_back(self) -> None:
        """Store the caches of the session and of the prompt's beginning, close everything.

        In this order: the second one cuts the cache back. After an interrupt, the second one is left out.
        """
        talk, worker = self._talk, self._talk.worker
        if model := talk.model:
            end_stdout()  # nobody waits for what is stored
            if talk.session.entries:
                talk.save_cache()
            if self._report.end != "stopped":
                worker.submit(lambda: save_prompt_cache(model.engine))
            model.close()
        worker.close()
        if talk.store and not talk.store.problem and talk.session.entries and not talk.opened.resumed:
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
