"""One run of one task: a session of its own, the turn, the verdict."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace

from ossia.agent.control import Control
from ossia.agent.errors import ContextFull
from ossia.agent.events import ApprovalAsked, Event
from ossia.agent.prompt import WORK
from ossia.agent.sessions.session import Options, Session, UserText
from ossia.agent.sessions.store import SessionStore
from ossia.agent.worker import Tapped, Worker
from ossia.cli.eval.keep import Outcome
from ossia.cli.eval.task import Task, Verdict
from ossia.cli.eval.workbench import Bench, fault_in, set_up
from ossia.cli.oneshot.pump import TICK_S
from ossia.cli.oneshot.report import Report
from ossia.cli.runtime.assemble import Assembly
from ossia.cli.runtime.doing import Doing
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.table import Settings
from ossia.cli.words import ENDS

_GRACE_S = 0.6


@dataclass(slots=True)
class Player:
    """Plays tasks on one loaded model. `store` None: no session is kept. `says`: what the live line says of a run."""

    assembly: Assembly
    worker: Worker
    display: Display
    settings: Settings
    options: Options
    store: SessionStore | None
    says: Callable[[str], str]

    def play(self, task: Task, run: int) -> Outcome:
        """Run a task to its end. Raises KeyboardInterrupt, and what broke if it wasn't the model's fault."""
        started = time.monotonic()
        tokenizer = self.assembly.model.tokenizer
        with set_up(task, self.settings, self.display, tokenizer) as bench:
            session, kept = self._session(task, run)
            try:
                report = self._turn(task, session, bench)
                verdict = self._verdict(task, report, bench)
            finally:
                if self.store:
                    self.store.release(session)
        if self.store and kept:
            self.store.rename(kept, f"eval {task.id}, run {run}: {'solved' if verdict.passed else 'failed'}")
        sums = report.sums
        figures = (time.monotonic() - started, sums.completion, sums.evaluated + sums.untold, len(report.calls))
        known = (verdict.passed, verdict.reason, verdict.f1, report.end)
        return Outcome(task.id, run, *known, *figures, kept, task.digest)

    def warm_up(self, prompt: str, max_tokens: int) -> Report:
        """A short turn without tools, of which nothing is kept: how fast is the model?"""
        task = Task("speed/measured", prompt)
        short = replace(self.settings, max_tokens=max_tokens)
        with set_up(task, self.settings, self.display, self.assembly.model.tokenizer) as bench:
            return self._driven(Session(self.options), task, bench, short, "measuring the speed · {}".format)

    def _session(self, task: Task, run: int) -> tuple[Session, str | None]:
        sampling = self.options.sampling
        seed = None if sampling.seed is None else sampling.seed + run - 1
        session = Session(
            replace(
                self.options,
                effort=task.effort or self.options.effort,
                instructions=WORK if task.files is not None else None,
                response_format=task.schema,
                sampling=replace(sampling, seed=seed),
            )
        )
        session.vocabulary = self.assembly.model.engine.vocabulary.digest
        session.model = self.settings.model or self.assembly.model.name
        return session, self.store.keep(session, title=f"eval {task.id}, run {run}") if self.store else None

    def _turn(self, task: Task, session: Session, bench: Bench) -> Report:
        report = self._driven(session, task, bench, self.settings, lambda doing: self.says(f"{task.id} · {doing}"))
        if report.error is not None and not isinstance(report.error, ContextFull):
            raise report.error
        return report

    def _driven(
        self, session: Session, task: Task, bench: Bench, settings: Settings, says: Callable[[str], str]
    ) -> Report:
        """The turn, event by event; `says`: the live line. What a person would have to be asked about is refused."""
        schema = task.schema.schema if task.schema else None
        report, control = Report(model=session.model or "", schema=schema), Control()
        bench.tools.begin_turn(task.id)
        assembly = replace(self.assembly, tools=bench.tools)
        turn = assembly.turn(session, UserText(task.prompt, task.prompt), settings, control)
        done = self.worker.submit(lambda: self.worker.drive(turn, control))
        doing = Doing()
        self.display.line.set(lambda: says(doing.text()))
        try:
            while not self._is_over(done):
                event = self._next()
                if isinstance(event, Tapped) or event is None:
                    continue
                report.see(event)
                doing.see(event)
                if isinstance(event, ApprovalAsked):
                    self.worker.answer(None)
        except KeyboardInterrupt:
            control.stop()
            give_up_at = time.monotonic() + _GRACE_S
            while not self._is_over(done) and time.monotonic() < give_up_at:
                self._next()
            raise
        done.result()  # a bug of ours on the worker's thread becomes a traceback here
        return report

    def _is_over(self, done: Future[None]) -> bool:
        return done.done() and self.worker.inbox.empty()

    def _next(self) -> Event | Tapped | None:
        self.display.line.tick()
        try:
            return self.worker.inbox.get(timeout=TICK_S)
        except queue.Empty:
            return None

    def _verdict(self, task: Task, report: Report, bench: Bench) -> Verdict:
        verdict = task.judge(report)
        if report.end != "answered":  # whatever there is by then: it didn't come to its end
            verdict = replace(verdict, passed=False, reason=ENDS.get(report.end, report.end))
        if not verdict.passed or bench.folder is None:
            return verdict
        root, tokenizer = bench.folder.workspace.root, self.assembly.model.tokenizer
        fault = fault_in(root, task, self.settings, self.display, tokenizer)
        return replace(verdict, passed=not fault, reason=fault)
