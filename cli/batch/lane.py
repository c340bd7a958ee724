"""One lane: a model with tools of its own, which answers one question at a time on a thread of its own."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import replace

from ossia.agent.build import Model
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.events import ApprovalAsked, Decision, ToolFinished
from ossia.agent.sessions.session import Options, Session
from ossia.agent.turn import Tapped, Turn
from ossia.cli import paths
from ossia.cli.batch.questions import Line, Question, id_of, question_of, value_of
from ossia.cli.exits import exit_code
from ossia.cli.oneshot.ask import unasked
from ossia.cli.oneshot.report import Report
from ossia.cli.runtime.assembly import limits_of
from ossia.cli.runtime.session import following, sampling_of
from ossia.cli.settings.table import Settings
from ossia.harmony.messages import ResponseFormat
from ossia.tools.build import Toolset


class Lane:
    """Answers lines. `options`, `settings` and `schema` are those of the command line.

    Each question has a session of its own, a python kernel and a browser that hold nothing of another's. `warn` gets
    what the user must see.
    """

    def __init__(
        self,
        model: Model,
        tools: Toolset,
        options: Options,
        settings: Settings,
        schema: ResponseFormat | None,
        warn: Callable[[str], object],
    ) -> None:
        self.model, self.tools, self._warn = model, tools, warn
        self._options, self._settings, self._schema = options, settings, schema
        self._browses = tools.browses
        self._turn: Turn | None = None
        self._lock, self._stopped = threading.Lock(), False

    def answer(self, line: Line) -> tuple[str | int | None, Report]:
        """The line's own id, and the account of its turn. Whatever breaks is in that, and breaks nothing else."""
        strict, own_id = self._settings.strict_approvals, None
        report = Report(self.model.name, stopped=lambda: self._stopped, strict=strict)
        try:
            value = value_of(line)
            own_id = id_of(value)
            self._ask(question_of(value, self._settings, self._schema, self._warn), line, report)
        except Exception as error:
            report.fail(error)
        if report.end == "error" and report.error is not None and exit_code(report.error) is None:
            self._warn(f"line {line.number}: {''.join(traceback.format_exception(report.error))}")
        return own_id, report

    def stop(self) -> None:
        """End the turn under way, and let no other one begin. From any thread."""
        with self._lock:
            self._stopped = True
            if self._turn:
                self._turn.stop()

    def _ask(self, question: Question, line: Line, report: Report) -> None:
        talk, tools = self._talk(question), self.tools
        report.schema, report.origin = question.schema.schema if question.schema else None, tools.origin
        with self._lock:
            if self._stopped:
                report.fail(KeyboardInterrupt())
                return
            self._turn = talk.say(question.prompt, limits=limits_of(question.settings, question.settings.effort))
        for event in self._turn:
            if isinstance(event, Tapped):
                continue
            report.see(event)
            if isinstance(event, ApprovalAsked):
                self._turn.answer(self._decision(event, report))
            elif isinstance(event, ToolFinished):
                for notice in event.result.notices:
                    self._warn(f"line {line.number}: {notice}")
        self._turn.result()
        if warning := tools.counter.warning():
            self._warn(warning)

    def _talk(self, question: Question) -> Conversation:
        """A new conversation, in which nothing is left of the one before."""
        settings, tools = question.settings, self.tools
        options = replace(
            self._options,
            effort=settings.effort,
            sampling=sampling_of(settings),
            response_format=question.schema,
        )
        if question.instructions is not None:
            options = following(replace(options, instructions=question.instructions), tools.folder)
        if tools.python:
            tools.python.begin_anew(announced=False)
        tools.browses = self._browses
        talk = Conversation(OpenSession(Session(options)), self.model.worker, paths.host(), private=settings.private)
        talk.use(self.model, tools)
        return talk

    def _decision(self, asked: ApprovalAsked, report: Report) -> Decision:
        """Nobody can be asked: `--yes` answers, or no; `report` lists the call, and the rule that allows it."""
        if self._settings.yes and not asked.firm:
            return Decision(asked.call.id, True)
        if asked.form is None:
            report.refused.append(unasked(asked))
        return Decision(asked.call.id, False, unasked=True)
