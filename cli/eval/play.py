"""One run of one task: a session of its own, the turn, the verdict."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ossia.agent.build import Model
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.errors import ContextFull
from ossia.agent.events import Event
from ossia.agent.prompt import WORK
from ossia.agent.sessions.session import Options, Session
from ossia.agent.sessions.store import SessionStore
from ossia.agent.stream.account import Account
from ossia.agent.turn import Tapped
from ossia.cli import paths
from ossia.cli.eval.results import Outcome
from ossia.cli.eval.task import Task, Verdict
from ossia.cli.eval.workbench import Bench, fault_in, set_up
from ossia.cli.oneshot.pump import follow
from ossia.cli.runtime.activity import Activity
from ossia.cli.runtime.assembly import limits_of
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.table import Settings
from ossia.cli.words import ENDS


@dataclass(slots=True)
class Player:
    """Plays tasks on one loaded model. `store` None: sessions aren't stored. `says`: the live line of a run."""

    model: Model
    display: Display
    settings: Settings
    options: Options
    store: SessionStore | None
    says: Callable[[str], str]

    def play(self, task: Task, run: int) -> Outcome:
        """Run a task to its end. Raises KeyboardInterrupt, and every error but the model's."""
        started = time.monotonic()
        tokenizer = self.model.tokenizer
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
        figures = (time.monotonic() - started, sums.completion, sums.evaluated + sums.unreported, len(report.calls))
        known = (verdict.passed, verdict.reason, verdict.f1, report.end)
        return Outcome(task.id, run, *known, *figures, kept, task.digest)

    def warm_up(self, prompt: str, max_tokens: int) -> Account:
        """Measure the model's speed by a short turn without tools; nothing is stored."""
        task = Task("speed/measured", prompt)
        short = replace(self.settings, max_tokens=max_tokens)
        with set_up(task, self.settings, self.display, self.model.tokenizer) as bench:
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
        return session, self.store.keep(session, title=f"eval {task.id}, run {run}") if self.store else None

    def _turn(self, task: Task, session: Session, bench: Bench) -> Account:
        report = self._driven(session, task, bench, self.settings, lambda doing: self.says(f"{task.id} · {doing}"))
        if report.error is not None and not isinstance(report.error, ContextFull):
            raise report.error
        return report

    def _driven(
        self, session: Session, task: Task, bench: Bench, settings: Settings, says: Callable[[str], str]
    ) -> Account:
        """The turn, event by event; `says`: the live line. What a person would have to be asked about is refused."""
        talk = Conversation(OpenSession(session), self.model.worker, paths.host(), private=settings.private)
        talk.use(self.model, bench.tools)
        session.model = self.settings.model or self.model.name
        report, activity = Account(session.model, schema=task.schema.schema if task.schema else None), Activity()
        self.display.line.set(lambda: says(activity.text()))

        def see(event: Event | Tapped) -> None:
            if not isinstance(event, Tapped):
                report.see(event)
                activity.see(event)

        limits = limits_of(settings, session.options.effort)
        follow(talk.say(task.prompt, limits=limits), self.display, see, asker=None)
        return report

    def _verdict(self, task: Task, report: Account, bench: Bench) -> Verdict:
        verdict = task.judge(report)
        if report.end != "answered":  # whatever there is by then: it didn't come to its end
            verdict = replace(verdict, passed=False, reason=ENDS.get(report.end, report.end))
        if not verdict.passed or bench.folder is None:
            return verdict
        root, tokenizer = bench.folder.workspace.root, self.model.tokenizer
        fault = fault_in(root, task, self.settings, self.display, tokenizer)
        return replace(verdict, passed=not fault, reason=fault)
