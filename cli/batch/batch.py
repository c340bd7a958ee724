"""The whole of `ossia batch`, once its flags are read: asks what isn't answered yet, several questions at once."""

from __future__ import annotations

import hashlib
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from ossia.agent.build import Model, models
from ossia.agent.errors import EngineFailed, ServerRefused
from ossia.agent.stream.events import to_json
from ossia.cli import paths
from ossia.cli.batch.answers import Answered, Answers, reason_of
from ossia.cli.batch.lane import Lane
from ossia.cli.batch.progress import Tally
from ossia.cli.batch.questions import OPTIONS, Line, lines_of, number_of, opened
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.interrupts import hold
from ossia.cli.oneshot.ask import NOBODY, refused_line
from ossia.cli.oneshot.report import Report
from ossia.cli.runtime.assembly import collect, model_spec, tools_spec
from ossia.cli.runtime.consent import agree
from ossia.cli.runtime.ending import end_now, look_to_the_end
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.runtime.schema import read_schema
from ossia.cli.runtime.session import fresh_options
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.terminal.keyboard import plain_keys
from ossia.cli.words import json_line
from ossia.tools.folder import Folder

_TICK_S, _GRACE_S = 0.05, 0.6
_MAX_WAITING = 1000
"""So many lines may be asked before the first unanswered one is written."""
_SETTINGS = (*OPTIONS, "instructions", "guide", "tools", "no_tools", "workspace", "web", "plan", "context")
"""The settings that may change an answer."""

Given = Mapping[str, object]
_Answer = tuple[Line, str | int | None, Report]


@plain_keys()
def batch(source: str, out: str | None, flags: Given, *, parallel: int, schema: str | None, retry: bool) -> int:
    """Answer the questions in `source` that `out` doesn't have yet; returns the exit code.

    `source` "-" is stdin, `out` None or "-" stdout; `retry`: also those that failed. Raises what `cli.main` reports.
    """
    out = None if out == "-" else out
    if retry and out is None:
        raise ExitError("--retry needs -o OUT, the file with the answers")
    resolved, folder = resolve_with_folder(flags)
    agree(resolved.settings)
    display = make_display(resolved.settings)
    for warning in resolved.warnings:
        display.warn(warning)
    with ExitStack() as open_files:
        file = open_files.enter_context(opened(source, out))
        answers = open_files.enter_context(Answers(Path(out) if out is not None else None, retry=retry))
        work = _Batch(resolved, folder, flags, display, answers, schema)
        code = work.whole(file, parallel)
    if work.busy:
        end_now(code)  # a C call doesn't notice Ctrl-C
    return code


class _Batch:
    """The questions of one input, the lanes that answer them, and the answers."""

    def __init__(
        self,
        resolved: Resolved,
        folder: Folder | None,
        flags: Given,
        display: Display,
        answers: Answers,
        schema: str | None,
    ) -> None:
        self._resolved, self._settings, self._folder = resolved, resolved.settings, folder
        self._flags, self._display, self._answers = flags, display, answers
        self._schema = None if schema is None else read_schema(schema, of="--schema", warn=display.warn)
        self._options = fresh_options(resolved, folder)
        said = {key: getattr(self._settings, key) for key in _SETTINGS} | {"instructions": self._options.instructions}
        said["schema"] = self._schema and self._schema.schema
        self._digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]
        self._models: tuple[Model, ...] = ()
        self._lanes: list[Lane] = []
        self._lines: queue.Queue[Line | Exception | None] = queue.Queue(64)  # as they are read
        self._asked: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[_Answer | str | Exception] = queue.SimpleQueue()
        self._under_way, self._ended = 0, False
        self._refused, self._allow = Counter[str](), dict[str, None]()
        self._tally, self._other = Tally(), set[tuple[str, str]]()

    def whole(self, file: IO[bytes], parallel: int) -> int:
        """Do all of it; returns the exit code. At an interrupt, what is answered by then is written."""
        try:
            lines = lines_of(file)
            self._tally.total = number_of(file)
            lines = self._answers.compare(lines, self._see_before)
            if (first := next(lines, None)) is None:
                return self._finish()
            self._load(parallel)
            if self._answers.retry:
                self._answers.reopen(first.number)
            threading.Thread(target=self._read, args=(first, lines), name="ossia-batch-read", daemon=True).start()
            for lane in self._lanes:
                threading.Thread(target=self._work, args=(lane,), name="ossia-batch-lane", daemon=True).start()
            self._answer_all()
        except KeyboardInterrupt:
            try:
                self._end()
                return self._interrupted()
            except KeyboardInterrupt:
                end_now(ExitCode.INTERRUPTED)
        except BaseException:
            self._end()
            if self._lanes:
                self._display.note(f"ossia: {self._so_far}")
            raise
        self._end()
        return self._finish()

    @property
    def busy(self) -> bool:
        """True while a lane is at work, though it was stopped."""
        return any(model.worker.busy for model in self._models)

    # -- before --------------------------------------------------------------------------------------------------------

    def _see_before(self, one: Answered) -> None:
        self._tally.before(one.number, one.exit, one.reason)
        self._other.add((one.model, one.settings))

    def _load(self, parallel: int) -> None:
        """A model and tools for each lane. What is missing is refused before anything is loaded."""
        resolved, display = self._resolved, self._display
        folders = [self._folder, *(resolve_with_folder(self._flags)[1] for _ in range(parallel - 1))]
        specs = [tools_spec(resolved, folder) for folder in folders]
        spec = model_spec(resolved, stays=True)
        self._models = models(spec, paths.host(), display.report, lanes=parallel)
        display.once = True  # the tools of each lane say the same
        for one, tools in zip(self._models, specs, strict=True):
            built = collect(tools, resolved, display, one.tokenizer)
            self._lanes.append(Lane(one, built, self._options, self._settings, self._schema, self._done.put))
        display.once = False
        name = self._models[0].name
        if self._other - {(name, self._digest)}:
            others = ", ".join(sorted({model for model, _ in self._other} - {name}))
            how = f"by {others}" if others else "with other settings"
            display.warn(f"the answers from before were given {how}: they stay, and {name} answers the rest")

    # -- on other threads ----------------------------------------------------------------------------------------------

    def _read(self, first: Line, lines: Iterator[Line]) -> None:
        """Read ahead a little: whoever writes the input may be slow."""
        try:
            self._lines.put(first)
            for line in lines:
                self._lines.put(line)
            self._lines.put(None)
        except Exception as error:
            self._lines.put(error)

    def _work(self, lane: Lane) -> None:
        while (line := self._asked.get()) is not None:
            try:
                self._done.put((line, *lane.answer(line)))
            except Exception as error:
                self._done.put(error)

    # -- meanwhile -----------------------------------------------------------------------------------------------------

    def _answer_all(self) -> None:
        self._tally.begin()
        self._display.line.set(self._tally.text)
        while True:
            with hold():
                self._ask()
            if self._ended and not self._under_way:
                return
            with suppress(queue.Empty):
                self._take_one(_TICK_S)
            self._display.line.tick()

    def _ask(self) -> None:
        """Ask the lines that are read, as many as the lanes can soon begin with."""
        answers = self._answers
        while not self._ended and self._under_way < 2 * len(self._lanes) and answers.waiting < _MAX_WAITING:
            try:
                line = self._lines.get_nowait()
            except queue.Empty:
                return
            if isinstance(line, Exception):
                raise line
            self._ended = line is None
            if line is not None:
                if before := answers.expect(line):
                    if line.number > answers.compared:
                        self._tally.before(line.number, before.exit, before.reason)
                else:
                    self._under_way += 1
                    self._asked.put(line)

    def _take_one(self, wait_s: float) -> None:
        """Write the next answer that comes within so many seconds. Raises queue.Empty."""
        done = self._done.get(timeout=wait_s)
        with hold():
            if isinstance(done, str):
                self._display.notice(done)
            elif isinstance(done, Exception):
                raise done
            else:
                self._under_way -= 1
                self._write(*done)

    def _write(self, line: Line, own_id: str | int | None, report: Report) -> None:
        if report.end == "stopped":
            return
        if isinstance(report.error, EngineFailed) and not isinstance(report.error, ServerRefused):
            raise report.error  # so would all the other questions
        head = {"line": line.number, "id": own_id, "digest": line.digest, "model": report.model}
        refused = [one.to_json() for one in report.refused]
        result = to_json(report.result(exit_code=int(report.code)), 1)
        answer = {**head, "settings": self._digest, **result, "refused": refused}
        if self._answers.path is None:  # the live line is on the same terminal, perhaps
            self._display.line.erase()
        self._answers.add(line.number, json_line(answer, in_file=self._answers.path is not None))
        self._refused.update(one.name for one in report.refused)
        self._allow |= dict.fromkeys(one.allow for one in report.refused if one.allow)
        self._tally.add(line.number, int(report.code), report.sums.completion, reason_of(result))

    # -- afterwards ----------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Stop what is under way, write what was answered by then, end the tools and the models."""
        with suppress(queue.Empty):
            while self._asked.get_nowait():
                self._under_way -= 1
        for lane in self._lanes:
            lane.stop()
            self._asked.put(None)
        until = time.monotonic() + _GRACE_S
        while self._under_way and (left := until - time.monotonic()) > 0:
            with suppress(queue.Empty, Exception):
                self._take_one(left)
        for lane in self._lanes:
            lane.tools.close()
        for model in self._models:
            model.close()
            model.worker.close(0)
        self._display.pause()

    def _interrupted(self) -> int:
        with suppress(KeyboardInterrupt):
            look_to_the_end(self._display.warn)
        self._display.note(f"ossia: interrupted: {self._so_far}")
        return int(ExitCode.INTERRUPTED)

    @property
    def _so_far(self) -> str:
        goes_on = self._answers.goes_on
        way = "the same command goes on" if goes_on else "with -o FILE, the same command could go on"
        return f"{self._tally.counted} are answered; {way} from there"

    def _finish(self) -> int:
        display, tally = self._display, self._tally
        way = next(iter(self._allow), "")
        helps = way and f"; {way} allows {'it' if len(self._allow) == 1 else 'the first'}"
        refused = refused_line(self._refused.elements(), NOBODY)
        for line in (refused and refused + helps, tally.failures):
            if line:
                display.note(f"ossia: {line}")
        if self._models:
            display.aside(tally.whole(self._models[0].name))
        else:
            retry = "; --retry asks those that failed again" if tally.failed else ""
            display.note(f"ossia: nothing to ask: {tally.counted} are done{retry}")
        return int(ExitCode.FAILED if tally.failed else ExitCode.ANSWERED)
