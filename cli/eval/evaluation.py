"""All the tasks, one after another, once the flags of `ossia eval` are read."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import get_terminal_size

from ossia import __version__
from ossia.agent.build import Model, free_memory
from ossia.agent.sessions.session import Options
from ossia.agent.sessions.store import SessionStore
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.chart import draws_blocks, rows, svg
from ossia.cli.clean import clean
from ossia.cli.eval import chain, harmony, repo, sums
from ossia.cli.eval.forecast import Speed, remaining_s
from ossia.cli.eval.play import Player
from ossia.cli.eval.results import Outcome, Results, Row, by_suite, chart_of, duration, published, row_of, table
from ossia.cli.eval.task import Task
from ossia.cli.eval.workbench import missing, remove_left
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.export.forms import write_text
from ossia.cli.runtime.assembly import begin_model
from ossia.cli.runtime.consent import agree
from ossia.cli.runtime.ending import end_now
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.runtime.session import sampling_of
from ossia.cli.settings.config import Resolved, nearest, resolve
from ossia.cli.settings.kinds import Value
from ossia.cli.settings.table import SAMPLING, Settings
from ossia.cli.streams import shown, stdout
from ossia.cli.terminal.keyboard import plain_keys
from ossia.cli.words import count, json_line, speed_of

_MAX_TOKENS, _MAX_SECONDS = 32_768, 1800.0
"""Of one task, where the user names no limits: a task that doesn't end must not keep the others waiting for ever."""
_SPEED_PROMPT, _SPEED_TOKENS = "Write the numbers from 1 to 40, one a line.", 64
SUITES = {"harmony": harmony.tasks, "chain": chain.tasks, "repo": repo.tasks, "math": sums.tasks}


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """The tasks that the command line names. `runs` of each; `anew`: results from before don't count.

    `svg`: the file for the picture of the table.
    """

    suites: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    runs: int = 1
    anew: bool = False
    aime: Path | None = None
    svg: str | None = None


def list_tasks(request: TaskRequest, flags: Mapping[str, object]) -> None:
    """Print the ids of the tasks, a line each."""
    seed = resolve(flags, environ=os.environ).settings.seed or 0
    for task in chosen(request.suites, request.tasks, seed=seed, aime=request.aime):
        print(shown(task.id), file=stdout())


@plain_keys()
def evaluate(request: TaskRequest, flags: Mapping[str, object]) -> int:
    """Run what isn't done yet, print the table; returns the exit code. Raises the errors that `cli.main` reports."""
    resolved = _plain(resolve(flags, environ=os.environ))
    settings = resolved.settings
    agree(settings)
    if request.svg is not None:
        _check_place(request.svg)
    tasks = chosen(request.suites, request.tasks, seed=settings.seed or 0, aime=request.aime)
    display = make_display(settings)
    for warning in resolved.warnings:
        display.warn(warning)
    remove_left()
    tasks = _possible(tasks, settings, display)
    return _Evaluation(resolved, display, tasks, request).whole()


def _check_place(name: str) -> None:
    """Raise ExitError for a file that can't be written, as far as that shows beforehand."""
    path = paths.expanded(name)
    why = "it is a folder" if path.is_dir() else "its folder doesn't exist" if not path.parent.is_dir() else ""
    if why or not os.access(path.parent, os.W_OK):
        raise ExitError(f"--svg {name} can't be written: {why or 'its folder takes no new files'}")


def _plain(resolved: Resolved) -> Resolved:
    """The settings without a user's own tools, rules and instructions: everybody's tasks are the same."""
    own: dict[str, Value] = {"workspace": None, "tools": None, "no_tools": True, "instructions": None, "web": None}
    own |= {"plan": False, "dry_run": False, "unconfined": False, "allow": (), "deny": (), "raw": False}
    own |= {"allow_network": (), "allow_git": False}
    now = resolved.settings
    limits: dict[str, Value] = {"max_tokens": now.max_tokens or _MAX_TOKENS, "timeout": now.timeout or _MAX_SECONDS}
    return replace(resolved, settings=replace(now, **own, **limits), approvals=(), folder_approvals=())  # type: ignore[arg-type]


def _possible(tasks: Sequence[Task], settings: Settings, display: Display) -> list[Task]:
    """The tasks whose tools are here; a line about each kind that is left out. Raises ExitError if all are."""
    lacking = missing(tasks, settings, display)
    kept = list(tasks)
    for need, why in lacking.items():
        out = [task for task in kept if (task.python if need == "python" else task.files is not None)]
        if out:
            needs = f"task needs {need} and is" if len(out) == 1 else f"tasks need {need} and are"
            display.warn(f"{len(out)} {needs} left out: {why}")
        kept = [task for task in kept if task not in out]
    if not kept:
        raise ExitError("none of these tasks can run here")
    return kept


class _Evaluation:
    """The remaining tasks, on one loaded model."""

    def __init__(self, resolved: Resolved, display: Display, tasks: Sequence[Task], request: TaskRequest) -> None:
        self._resolved, self._settings, self._display = resolved, resolved.settings, display
        self._tasks, self._request = tasks, request
        self._worker = Worker()
        self._speed: Speed | None = None
        self._done: list[Outcome] = []
        self._left: list[tuple[Task, int]] = []
        self._model = ""
        self._results = Results(None, {})

    def whole(self) -> int:
        settings = self._settings
        try:
            model = begin_model(self._resolved, self._display, self._worker, stays=True).finish()
            self._model = model.name
            self._begin(model)
            store = None if settings.private else SessionStore(paths.eval_sessions_file(), now=time.time)
            player = Player(model, self._display, settings, self._options(), store, self._progress)
            self._announce_time(player, model)
            self._play_all(player)
            if store:
                store.close()
        except KeyboardInterrupt:
            return self._interrupted()
        finally:
            self._display.pause()
        model.close()
        self._worker.close()
        self._print()
        return int(ExitCode.ANSWERED)

    # -- before --------------------------------------------------------------------------------------------------------

    def _begin(self, model: Model) -> None:
        """Load the results from before, and list the remaining tasks."""
        self._results = Results(None if self._settings.private else paths.eval_dir(), self._identity(model))
        if self._request.anew:
            self._results.delete()
        wanted = {(task.id, run): task for run in range(1, self._request.runs + 1) for task in self._tasks}
        found = {(one.task, one.run): one for one in self._results.load()}
        valid = {key: one for key, one in found.items() if key in wanted and wanted[key].digest == one.task_digest}
        self._done = list(valid.values())
        self._left = [(task, key[1]) for key, task in wanted.items() if key not in valid]
        if self._done:
            self._display.note(f"ossia: {len(self._done)} of {len(wanted)} are done from before; --new runs them again")
        if self._settings.json:
            for one in self._done:
                self._print_line(one)

    def _identity(self, model: Model) -> dict[str, object]:
        """The conditions of a result: only equal ones stand in one table."""
        settings = self._settings
        sampling = {key: getattr(settings, key) for key in SAMPLING}
        limits = {key: getattr(settings, key) for key in ("guide", "max_tokens", "think_tokens", "timeout")}
        of_model = {"model": self._model, "weights": _file_of(settings) if model.plan else settings.engine}
        vocabulary = {"vocabulary": model.engine.vocabulary.digest}
        return {"ossia": __version__, **of_model, **vocabulary, "effort": settings.effort, **sampling, **limits}

    def _options(self) -> Options:
        settings = self._settings
        return Options(settings.effort, None, datetime.date.today().isoformat(), sampling=sampling_of(settings))

    def _announce_time(self, player: Player, model: Model) -> None:
        """Forecast the time before the first task, and name the basis."""
        if not self._left:
            return
        how = "by the mean of those done"
        if self._seconds() is None and model.plan is not None:
            sums = player.warm_up(_SPEED_PROMPT, _SPEED_TOKENS).sums
            if sums.tokens_per_s:
                self._speed = Speed(sums.tokens_per_s, sums.prefill_per_s or sums.tokens_per_s)
                how = f"at {speed_of(sums.tokens_per_s)}, by a guess of what such tasks take"
        seconds = self._seconds()
        about = "how long that takes is known after the first ones" if seconds is None else (
            f"about {duration(seconds)}, {how}"
        )  # fmt: skip
        self._display.note(f"ossia: {count(len(self._left), 'task')} with {self._model}: {about}")

    def _seconds(self) -> float | None:
        return remaining_s((task for task, _ in self._left), self._done, self._speed, self._settings.effort)

    # -- meanwhile -----------------------------------------------------------------------------------------------------

    def _play_all(self, player: Player) -> None:
        while self._left:
            outcome = player.play(*self._left[0])
            self._results.add(outcome)
            del self._left[0]
            self._done.append(outcome)
            if self._settings.json:
                self._print_line(outcome)
            if not outcome.passed:
                look = f" · ossia sessions show {outcome.session}" if outcome.session else ""
                run = f", run {outcome.run}" if self._request.runs > 1 else ""
                self._display.note(clean(f"failed: {outcome.task}{run}: {outcome.reason[:160]}{look}"))

    def _progress(self, doing: str) -> str:
        whole, passed = len(self._done) + len(self._left), sum(one.passed for one in self._done)
        seconds = self._seconds()
        left = f" · {duration(seconds)} left" if seconds is not None else ""
        return f"{len(self._done) + 1} of {whole} · {passed} solved{left} · {doing}"

    def _interrupted(self) -> int:
        self._display.pause()
        whole = len(self._done) + len(self._left)
        if self._results.path and whole:
            again = "the same command goes on from there"
            self._display.note(f"ossia: interrupted: {len(self._done)} of {whole} are done and kept; {again}")
        else:
            self._display.note("ossia: interrupted")
        if self._worker.busy:
            end_now(ExitCode.INTERRUPTED)  # a C call doesn't notice Ctrl-C
        return int(ExitCode.INTERRUPTED)

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def _print_line(self, outcome: Outcome) -> None:
        print(json_line({"type": "run", **asdict(outcome)}), file=stdout(), flush=True)

    def _print(self) -> None:
        settings = self._settings
        found = [row_of(suite, outcomes) for suite, outcomes in by_suite(self._done).items()]
        if settings.json:
            head = {"model": self._model, "effort": settings.effort, "seed": settings.seed, "ossia": __version__}
            print(json_line({"type": "table", **head, "suites": [asdict(row) for row in found]}), file=stdout())
        else:
            self._print_table(found)
        if self._request.svg is not None:
            title = f"{self._model}, effort {settings.effort}: tasks solved"
            write_text(self._request.svg, svg([chart_of(found, title)]))

    def _print_table(self, found: Sequence[Row]) -> None:
        settings = self._settings
        runs = f" · {count(self._request.runs, 'run')} of each"
        tasks = count(sum(row.tasks for row in found), "task")
        head_line = f"{self._model} · effort {settings.effort} · {tasks}{runs if self._request.runs > 1 else ''}"
        near = published(found, model=self._model, effort=settings.effort)
        chart: list[str] = []
        if stdout().isatty():
            ascii = not draws_blocks(stdout().encoding)
            chart = ["", *rows(chart_of(found, "solved"), get_terminal_size().columns, ascii=ascii)]
        for line in (head_line, "", *table(found), *near, *chart):
            print(shown(line), file=stdout())


def _file_of(settings: Settings) -> list[object]:
    """The model's file as it is now: other weights may have the same name, even the same size."""
    from ossia.agent.models.find import locations
    from ossia.agent.models.resolve import resolve as find_model

    path = find_model(settings.model, locations=locations(paths.host()), memory=free_memory()).path.resolve()
    status = path.stat()
    return [str(path), status.st_size, status.st_mtime_ns]


def chosen(suites: Sequence[str], ids: Sequence[str], *, seed: int, aime: Path | None) -> list[Task]:
    """The tasks of these suites (empty: all), of which only `ids` if any are named. Raises ExitError."""
    for name in suites:
        if name not in SUITES:
            raise ExitError(f"there is no suite {name!r}: {', '.join(SUITES)} are known")
    wanted = suites or ([] if aime else list(SUITES))
    tasks = [task for name in SUITES if name in wanted for task in SUITES[name](seed)]
    tasks += sums.aime(aime) if aime else []
    known = {task.id: task for task in tasks}
    for one in ids:
        if one not in known:
            raise ExitError(f"--task {one}: there is no such task in {', '.join(wanted)}{_near(one, list(known))}")
    return [known[one] for one in dict.fromkeys(ids)] if ids else tasks


def _near(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    return near if "did you mean" in near else ": `ossia eval --list` lists them all"
