"""One turn from the command line: what `ossia run` does once its flags are read."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn, TypeVar

from agent.control import Control
from agent.events import ApprovalAsked, Delta, Event, MessageAdded, ToolFinished, TurnEnd
from agent.limits import Limits
from agent.loop import run_turn
from agent.sessions.session import UserText
from agent.worker import Tapped, Worker
from cli.exits import ExitCode, ExitError
from cli.oneshot.ask import Asker, told_of
from cli.oneshot.output import Answer, Json, Output, Raw
from cli.oneshot.report import Report
from cli.oneshot.stdin import read_stdin
from cli.runtime.assemble import Assembly, begin
from cli.runtime.kv_cache import keep_static, keep_warm, warm_up
from cli.runtime.options import read_instructions
from cli.runtime.progress import Display, make_display
from cli.runtime.schema import read_schema
from cli.runtime.session import NO_OLDER, Kept, Wanted, bring_back, open_saved
from cli.settings.config import ConfigError, Resolved, resolve
from cli.settings.workspace import Folder, settle
from cli.streams import end_stdout, stdout

_TICK_S = 0.05
_FRAME_S = 0.03
"""Text is shown that often while it comes. To wake this thread for each token costs the token a hundredth of its time:
the threads that decode take all the processors, and each one waits for the slowest."""
_GRACE_S = 0.6
"""How long an interrupted turn may take to end by itself: all in all it must be over within a second."""
_CUT: dict[TurnEnd, str] = {
    "tokens": "the answer is cut: --max-tokens was reached",
    "time": "the answer is cut: --timeout was reached",
    "context": "the answer is cut: the context is full, use a larger --context",
    "loop": "the answer is cut: the model repeated itself, ask again, or with another --seed",
    "steps": "the step limit was reached: this is the answer from what there is",
}

_SILENT = "no answer came: the model ended its turn without one; ask again, or with another --seed"
_NO_SCHEMA = "off"
_MISFIT = "the answer doesn't follow the schema"
_NOT_WHOLE = "; nothing is printed, since half of it is no answer by the schema"

_R = TypeVar("_R")


def run_once(
    prompt: str | None,
    flags: Mapping[str, object],
    *,
    wanted: Wanted = NO_OLDER,
    save: bool = False,
    schema: str | None = None,
) -> int:
    """Answer one prompt; returns the exit code. Raises what `cli.main` turns into one line and a code.

    `wanted`: the stored session to go on with; `save`: store what is a new one; `schema`: a JSON Schema, or its file,
    that the answer must follow. What ends it before there is a turn is
    `--json`'s line, too.
    """
    try:
        run, text = _prepared(prompt, flags, wanted=wanted, save=save, schema=schema)
    except (KeyboardInterrupt, Exception) as error:
        if _as_json(flags):
            report = Report(model=str(flags.get("model") or ""))
            report.fail(error)
            Json().finish(report)
        raise
    return run.answer(text, prompt or "")


def _as_json(flags: Mapping[str, object]) -> bool:
    """Is `--json` wanted? By its flag alone where the settings can't be read."""
    try:
        return resolve(flags, environ=os.environ).settings.json
    except ConfigError:
        return flags.get("json") is True


def _prepared(
    prompt: str | None, flags: Mapping[str, object], *, wanted: Wanted, save: bool, schema: str | None
) -> tuple[_Run, str]:
    """The run, and what is asked: all that can be refused before anything is loaded."""
    resolved, folder = settle(flags)
    settings = resolved.settings
    if settings.raw and settings.json:
        raise ExitError("--raw and --json both want stdout: expected one of them", ExitCode.USAGE)
    answer = read_schema(schema, of="--schema") if schema not in (None, _NO_SCHEMA) else None
    text = _question(prompt, quiet=settings.quiet)
    if save and settings.private and resolved.origins["private"] == "--private":
        raise ExitError("--save stores the session, --private nothing: expected one of them", ExitCode.USAGE)
    display = make_display(settings)
    for warning in resolved.warnings:
        display.warn(warning)
    kept = open_saved(resolved, folder, wanted=wanted, save=save)
    if kept.problem:
        display.warn(kept.problem)
    if schema is not None:
        kept.session.options = replace(kept.session.options, response_format=answer)
    elif kept.session.options.response_format:
        display.note("ossia: the answer follows the session's schema; --schema off ends that")
    return _Run(resolved, folder, display, kept), text


class _Run:
    """One run: loads, drives the turn, writes what came."""

    def __init__(self, resolved: Resolved, folder: Folder | None, display: Display, kept: Kept) -> None:
        settings = resolved.settings
        self._resolved, self._folder, self._settings = resolved, folder, settings
        self._display, self._kept = display, kept
        self._worker = Worker()
        self._control = Control()
        answer = kept.session.options.response_format
        self._report = Report(
            model=settings.model or "", strict=settings.strict_approvals, schema=answer.schema if answer else None
        )
        self._raw = Raw() if settings.raw else None
        self._out: Output = self._raw or (Json() if settings.json else Answer(self._report, before=display.pause))
        if isinstance(self._out, Answer):
            display.before = self._out.end_line

    def answer(self, text: str, typed: str) -> int:
        """The whole run; `typed` is the part of `text` that wasn't piped in.

        What ends it early is in the report, for `--json`'s line, and raised again at the end.
        """
        assembly: Assembly | None = None
        try:
            assembly = self._load()
            self._turn(assembly, text, typed)
        except BrokenPipeError:
            raise
        except (KeyboardInterrupt, Exception) as error:
            self._report.fail(error)
        finally:
            self._control.stop()  # whatever ended this: a turn that nobody reads any more must not go on
            if assembly:
                assembly.close_tools()
        self._display.pause()
        self._out.finish(self._report)
        if self._report.end == "stopped":
            look_to_the_end(self._display.warn)
        if self._worker.busy and self._report.end == "stopped":
            end_now(self._report.code)  # it is in a C call that doesn't know of Ctrl-C; Python's way out would wait
        if self._report.refused:
            self._display.note(f"ossia: {told_of(self._report.refused)}")
        if assembly:
            end_stdout()  # what is kept for later is written now: nobody waits for that
            self._keep_caches(assembly)
            self._worker.submit(assembly.close_engine)
        self._worker.close()
        self._close_session()
        if isinstance(self._report.error, Exception):
            raise self._report.error
        if self._report.end == "silent":
            raise ExitError(_SILENT, ExitCode.SILENT)
        if self._report.code == ExitCode.MISFIT:
            nothing = ", so nothing is printed" if isinstance(self._out, Answer) else ""
            raise ExitError(f"{_MISFIT}{nothing}: {self._report.misfit}", ExitCode.MISFIT)
        self._last_line()
        return int(self._report.code)

    def _load(self) -> Assembly:
        """Everything the turn needs. The weights are loaded by the worker, so that Ctrl-C is answered meanwhile."""
        self._display.line.set("loading")
        loading = begin(self._resolved, self._folder, self._display, self._worker, self._wait)
        self._report.model = loading.model_name
        assembly = loading.finish(tap=self._worker.tap(self._control) if self._raw else None)
        self._report.load_s, self._report.plan = assembly.load_s, assembly.plan
        if self._raw:
            self._raw.codec = assembly.codec
        return assembly

    def _turn(self, assembly: Assembly, text: str, typed: str) -> None:
        settings, tools, session = self._settings, assembly.tools, self._kept.session
        self._report.origin, self._display.fix = tools.origin, tools.fixes(settings).of
        assembly.warn_of_control_names(text, "the prompt")
        assembly.warn_of_control_names(read_instructions(settings.instructions) or "", "--instructions")
        self._begin_session(assembly)
        tools.begin_turn(text)
        turn = run_turn(
            session,
            UserText(text, typed),
            responder=assembly.responder,
            tools=tools.toolbox,
            limits=Limits(max_tokens=settings.max_tokens, max_seconds=settings.timeout),
            control=self._control,
        )
        done = self._worker.submit(lambda: self._worker.drive(turn, self._control))
        try:
            while not (done.done() and self._worker.inbox.empty()):
                event = self._next_event(assembly)
                if isinstance(event, Delta) and self._worker.inbox.empty():
                    with suppress(TimeoutError):
                        done.exception(timeout=_FRAME_S)
        except KeyboardInterrupt:
            self._control.stop()
            give_up_at = time.monotonic() + _GRACE_S
            while not (done.done() and self._worker.inbox.empty()) and time.monotonic() < give_up_at:
                self._next_event(assembly)
            self._report.interrupted()
        if done.done():
            done.result()  # a bug of ours on the worker's thread becomes a traceback here

    def _begin_session(self, assembly: Assembly) -> None:
        """The model is there: what it says is stored under its name, and it finds its pages again."""
        kept = self._kept
        kept.session.vocabulary, kept.session.model = assembly.engine.vocabulary.digest, self._report.model
        if kept.store:
            kept.store.count_tokens = lambda text: len(assembly.codec.tokenizer.encode(text))
        if kept.resumed:
            self._report.states += kept.session.states
            bring_back(kept.session, assembly.tools)
            if kept.session_id:
                session_id = kept.session_id
                self._wait(self._worker.submit(lambda: warm_up(assembly.engine, session_id)))

    def _keep_caches(self, assembly: Assembly) -> None:
        """Keep the model's cache beside a session that is stored, and what its prompt began with for any other run.

        In this order: for the second one the cache is cut back. Whoever interrupted the run waits for neither.
        """
        session_id = self._kept.session_id
        if self._kept.store and session_id and self._kept.session.entries:
            self._worker.submit(lambda: keep_warm(assembly.engine, session_id))
        if self._report.end != "stopped":
            self._worker.submit(lambda: keep_static(assembly.engine))

    def _close_session(self) -> None:
        kept = self._kept
        if kept.store is None:
            return
        if kept.store.problem:
            self._display.warn(f"the session is not stored: {kept.store.problem}")
        elif kept.session.entries and not kept.resumed:
            self._display.aside(f"stored; go on with it: ossia run --resume {kept.session_id}")
        kept.store.close()

    def _next_event(self, assembly: Assembly) -> Event | Tapped | None:
        """Take note of the next event, which is returned; None when none came for a while."""
        try:
            event = self._worker.inbox.get(timeout=_TICK_S)
        except queue.Empty:
            self._display.line.tick()
            return None
        if not isinstance(event, Tapped):
            self._report.see(event)
            self._display.see(event)
        self._out.see(event)
        if isinstance(event, MessageAdded) and event.message.role == "tool":
            assembly.warn_of_control_names(event.message.text, f"the result of {event.message.name}")
        self._display.line.tick()
        if isinstance(event, ApprovalAsked):
            tools = assembly.tools
            refused = self._report.refused
            asker = Asker(self._display, yes=self._settings.yes, store=tools.store, refused=refused, hint=tools.hint)
            self._worker.answer(asker.decide(event, given_up=lambda: self._control.stopped))
        if isinstance(event, ToolFinished) and (warning := assembly.tools.view_warning()):
            self._display.note(f"ossia: {warning}")
        for notice in event.result.notices if isinstance(event, ToolFinished) else ():
            self._display.tell(notice)
        return event

    def _wait(self, future: Future[_R]) -> _R:
        """The future's result, with the live line going on; in steps, since Windows can't interrupt a wait."""
        while not future.done():
            self._display.line.tick()
            time.sleep(_TICK_S / 5)
        return future.result()

    def _last_line(self) -> None:
        report = self._report
        if report.end in _CUT:
            half = isinstance(self._out, Answer) and report.schema is not None and report.answer is None
            self._display.note(f"ossia: {_CUT[report.end]}{_NOT_WHOLE if half else ''}")
        elif report.end == "answered":
            speed = f" · {_speed(report.tokens_per_s)} tok/s" if report.tokens_per_s else ""
            self._display.aside(f"{report.model} · {report.completion_tokens} tokens{speed}")


def _speed(tokens_per_s: float) -> str:
    return f"{tokens_per_s:.{0 if tokens_per_s >= 100 else 1}f}"


def _question(prompt: str | None, *, quiet: bool) -> str:
    """The user's text: PROMPT, a blank line, standard input; whatever there is of them."""
    parts = [part for part in (prompt, read_stdin(quiet=quiet)) if part and part.strip()]
    if not parts:
        raise ExitError('expected a question, as in: ossia run "What is 48*17?"', ExitCode.USAGE)
    return "\n\n".join(parts)


def look_to_the_end(warn: Callable[[str], None]) -> None:
    """Before the process ends: what a command left is still looked at, unless there is one more Ctrl-C."""
    from tools import ending

    if not ending.is_under_way():
        return
    warn("what the command left is looked at before this ends (Ctrl-C ends it at once)")
    try:
        whole = ending.wait()
    except KeyboardInterrupt:
        whole = False
    if not whole:
        warn("what the command left was not looked at to the end: look at what it changed yourself")


def end_now(code: int) -> NoReturn:
    """End the process without waiting for threads: one is in a C call that doesn't know of us."""
    for stream in (stdout(), sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(code)
