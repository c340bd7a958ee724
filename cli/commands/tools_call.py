"""`ossia tools call`: one call, or a script of them, through the same toolbox as a model's."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import IO

from ossia.agent.control import Control
from ossia.agent.events import Event
from ossia.agent.limits import deadline
from ossia.agent.turn import Tapped, Turn
from ossia.agent.vocabulary import own_tokenizer
from ossia.agent.worker import Worker
from ossia.cli import paths
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.oneshot.ask import NOBODY, Asker, Unasked, refused_line
from ossia.cli.oneshot.pump import follow
from ossia.cli.runtime.assembly import collect, fixes_for, tools_spec
from ossia.cli.runtime.ending import look_to_the_end
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.streams import shown, stdout
from ossia.cli.terminal.keyboard import plain_keys, without_sequences
from ossia.cli.words import json_line
from ossia.tools.build import Toolset
from ossia.tools.calls.names import resolve_name
from ossia.tools.spec import ApprovalAsked, ApprovalDecided, Taint, ToolCall, ToolFinished, ToolShown

_GRACE_S = 5.0


@plain_keys()
def call_once(name: str, arguments: str, flags: Mapping[str, object]) -> ExitCode:
    """Run one call and print its text. Returns the exit code: see `_Caller.code`."""
    with closing(_Caller(flags)) as caller:
        caller.call(name, arguments, typed=arguments)
        caller.require_asked()
        return caller.code


@plain_keys()
def call_script(source: str, flags: Mapping[str, object]) -> ExitCode:
    """Run the calls of a file, or of standard input (`-`), in one session; each is answered before the next is read."""
    with _opened(source) as lines, closing(_Caller(flags)) as caller:
        for name, arguments in _calls(lines, source):
            caller.call(name, arguments, typed="")
        caller.require_asked()
        return caller.code


class _Caller:
    """One session: what a call's result brings taints the calls after it, as it would in a model's prompt.

    `code` is that of the first call that didn't succeed: USAGE if there is no such tool, UNASKED if it was refused, CUT
    if its time was up (the run's, or its own), FAILED if it failed.
    """

    def __init__(self, flags: Mapping[str, object]) -> None:
        resolved, folder = resolve_with_folder(flags)
        settings = resolved.settings
        self.code = ExitCode.ANSWERED
        self._as_json = settings.json
        self._shows_results = not settings.json and stdout().isatty() and sys.stderr.isatty()
        self._display: Display = make_display(settings)
        for warning in resolved.warnings:
            self._display.warn(warning)
        spec, tokenizer = tools_spec(resolved, folder), own_tokenizer(settings.model, paths.host())
        self._tools: Toolset = collect(spec, resolved, self._display, tokenizer)
        self._tools.browses = True  # a call by hand asks for it
        self._tools.offer(but=())
        self._refused: list[Unasked] = []
        self._strict = settings.strict_approvals
        self._fixes = fixes_for(self._tools, settings)
        self._asker = Asker(
            self._display, yes=settings.yes, store=self._tools.store, refused=self._refused, hint=self._tools.hint
        )
        self._worker = Worker()
        self._finished: ToolFinished | None = None
        self._went = ExitCode.FAILED
        self._timeout_s = settings.timeout
        self._taint: frozenset[Taint] = frozenset()
        self._numbers = itertools.count(1)
        self._tools.begin_turn("ossia tools call")

    def call(self, name: str, arguments: str, *, typed: str) -> None:
        """Run one call to its end, and print its result; `typed` is the part of it that the user typed just now."""
        control = Control()
        call = ToolCall(f"call_{next(self._numbers)}", name, arguments)
        running = self._tools.toolbox.run(call, stop=control, taint=self._taint, said=typed)
        unknown = resolve_name(name, self._tools.toolbox.by_name) is None
        self._finished, self._went = None, ExitCode.USAGE if unknown else ExitCode.FAILED
        turn = Turn(self._worker, running, control)
        try:
            with deadline(control, self._timeout_s):
                follow(turn, self._display, self._see, asker=self._asker, grace_s=_GRACE_S)
        except KeyboardInterrupt:
            look_to_the_end(self._display.warn)
            for event in turn.take():
                self._see(event)
            if self._finished:
                self._warn(self._finished)
            raise
        finally:
            self._display.pause()
        assert self._finished is not None
        finished, went = self._finished, self._went
        self._taint |= finished.result.taints
        if warning := self._tools.counter.warning():
            self._display.note(f"ossia: {warning}")
        self._warn(finished)
        if finished.result.error and self.code == ExitCode.ANSWERED:
            kind = finished.result.fault.kind if finished.result.fault else ""
            cut = control.stopped or kind == "timeout"
            self.code = ExitCode.CUT if cut else ExitCode.UNASKED if kind == "unasked" else went
        if self._as_json:
            _print_json(finished)
        else:
            text = shown(finished.result.text)
            print(text, end="" if text.endswith("\n") or not text else "\n", file=stdout(), flush=True)
        if fix := self._fixes.of(finished):
            self._display.aside(f"→ {fix}")

    def require_asked(self) -> None:
        """With `--strict-approvals`: raises ExitError where a call was refused since nobody could be asked."""
        if self._strict and self._refused:
            raise ExitError(refused_line((one.name for one in self._refused), NOBODY), ExitCode.UNASKED)

    def close(self) -> None:
        self._tools.close()
        self._worker.close()

    def _warn(self, done: ToolFinished) -> None:
        for notice in done.result.notices:
            self._display.notice(notice)

    def _see(self, event: Event | Tapped) -> None:
        if isinstance(event, ToolFinished):
            self._finished = event
        elif isinstance(event, ApprovalDecided) and not event.allow:
            self._went = ExitCode.UNASKED
        if isinstance(event, ToolShown) and self._shows_results:  # the result says the same
            return
        if not isinstance(event, Tapped | ToolFinished | ApprovalAsked):
            self._display.see(event)


def _opened(source: str) -> IO[str]:
    if not source:
        raise ExitError("--script: must be a file, or - for standard input, not ''")
    try:
        return os.fdopen(os.dup(0), encoding="utf-8") if source == "-" else Path(source).open(encoding="utf-8")
    except OSError as error:
        raise ExitError(f"--script {source}: {error.strerror}") from None


def _calls(lines: IO[str], source: str) -> Iterator[tuple[str, str]]:
    """The calls, as they come. Raises ExitError at a line that isn't one."""
    for number in itertools.count(1):
        try:
            line = lines.readline()
        except UnicodeDecodeError:
            raise ExitError(f"--script {source}: line {number}: not UTF-8 text") from None
        if not line:
            return
        if line.strip():
            yield _call(without_sequences(line), f"--script {source}: line {number}")


def _call(line: str, where: str) -> tuple[str, str]:
    """The name and arguments of a line. Arguments that are a text are passed on as they are, others as JSON."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ExitError(f"{where}: not a call in JSON: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or set(value) - {"name", "arguments"}:
        expected = '{"name": "browser.open", "arguments": {…}}'
        raise ExitError(f"{where}: must be {expected}, not {line.strip()[:80]}")
    arguments = value.get("arguments", {})
    return value["name"], arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _print_json(done: ToolFinished) -> None:
    result = done.result
    line: dict[str, object] = {"name": done.call.name, "text": result.text, "notices": list(result.notices)}
    line |= {"error": result.error, "ms": done.ms}
    print(json_line(line), file=stdout(), flush=True)
