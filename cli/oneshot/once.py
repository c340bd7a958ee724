"""One turn from the command line: what `ossia run` does once its flags are read."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from ossia.agent.build import Begun
from ossia.agent.control import Control
from ossia.agent.errors import EngineFailed
from ossia.agent.events import Delta, Event, MessageAdded, ToolFinished, TurnEnd
from ossia.agent.kv_cache import load_session_cache, save_prompt_cache, save_session_cache
from ossia.agent.prompt import with_plan
from ossia.agent.sessions.session import UserText
from ossia.agent.worker import Tapped, Worker
from ossia.cli import paths
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.mentions import mentions
from ossia.cli.oneshot.ask import Asker, told_of, told_of_plan
from ossia.cli.oneshot.output import Answer, Json, Raw
from ossia.cli.oneshot.pump import Pump
from ossia.cli.oneshot.report import Report
from ossia.cli.oneshot.stdin import read_stdin
from ossia.cli.runtime.assemble import Assembly, assemble, begin_model
from ossia.cli.runtime.consent import agree
from ossia.cli.runtime.ending import end_now, look_to_the_end
from ossia.cli.runtime.options import read_instructions
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.runtime.schema import read_schema
from ossia.cli.runtime.session import OpenSession, Resume, bring_back, moved_from, open_session
from ossia.cli.runtime.toolset import fixes_for
from ossia.cli.settings.config import ConfigError, Resolved, resolve
from ossia.cli.settings.engines import is_server
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.streams import end_stdout
from ossia.cli.terminal.keyboard import plain_keys
from ossia.cli.words import speed_of
from ossia.tools.workspace import Folder

_FRAME_S = 0.03
"""How often text is shown while it comes. Waking this thread for each token would make the token take 1 % longer:
the decoding threads use all the processors, and each of them waits for the slowest."""
_GRACE_S = 0.6
"""How long an interrupted turn may take to end by itself: the whole run must be over within a second."""
_CUT: dict[TurnEnd, str] = {
    "tokens": "the answer is cut: --max-tokens was reached",
    "time": "the answer is cut: --timeout was reached",
    "context": "the answer is cut: the context is full; ask for less, or use a larger --context, up to the model's own",
    "loop": "the answer is cut: the model repeated itself; ask again in other words",
    "steps": "the step limit was reached: this is the answer from what there is",
}
_SILENT = "no answer came: the model ended its turn without one; ask again, or use another --seed"
_NO_SCHEMA = "off"
_UNBOUND: dict[TurnEnd, str] = {
    "loop": "the answer is cut: the model repeated itself",
    "context": "the answer is cut: the context is full",
}
_BOUND = "; a bound in the schema (maximum, maxLength, maxItems) or --max-tokens stops it sooner"
"""Said of an answer by a schema: the guide lets a number, a text or a list without a bound grow to the end."""
_MISFIT = "the answer doesn't follow the schema"
_NOT_WHOLE = "; nothing is printed, since half an answer doesn't follow the schema"


@plain_keys()
def run_once(
    prompt: str | None, flags: Mapping[str, object], *, resume: Resume, save: bool = False, schema: str | None = None
) -> int:
    """Answer one prompt; returns the exit code. Raises what `cli.main` turns into one line and a code.

    `resume`: the stored session to go on with; `save`: store a new one; `schema`: a JSON Schema, or its file, that the
    answer must follow. An error before the turn begins is also printed as `--json`'s line.
    """
    try:
        run, text = _prepared(prompt, flags, resume=resume, save=save, schema=schema)
    except (KeyboardInterrupt, Exception) as error:
        if _as_json(flags):
            report = Report(model=str(flags.get("model") or ""))
            report.fail(error)
            Json().finish(report)
        raise
    return run.answer(text, prompt or "")


def _as_json(flags: Mapping[str, object]) -> bool:
    """Is `--json` wanted? If the settings can't be read, only the flag counts."""
    try:
        return resolve(flags, environ=os.environ).settings.json
    except ConfigError:
        return flags.get("json") is True


def _prepared(
    prompt: str | None, flags: Mapping[str, object], *, resume: Resume, save: bool, schema: str | None
) -> tuple[_Run, str]:
    """The run, and what is asked. Everything that can be refused before the model is loaded is refused here."""
    resolved, folder = resolve_with_folder(flags)
    settings = resolved.settings
    agree(settings)
    if settings.raw and settings.json:
        raise ExitError("use --raw or --json, not both")
    display = make_display(settings)
    given = schema if schema != _NO_SCHEMA else None
    answer = read_schema(given, of="--schema", warn=display.warn) if given is not None else None
    text = _question(prompt, quiet=settings.quiet)
    if save and settings.private and resolved.origins["private"] == "--private":
        raise ExitError("use --save or --private, not both")
    for warning in resolved.warnings:
        display.warn(warning)
    opened = open_session(resolved, folder, resume=resume, save=save)
    for said in filter(None, [opened.problem, moved_from(opened.worked_in, folder)]):
        display.warn(said)
    if opened.session.options.planning != settings.plan:
        opened.session.options = replace(opened.session.options, planning=settings.plan)
    if schema is not None:
        opened.session.options = replace(opened.session.options, response_format=answer)
    elif opened.session.options.response_format:
        display.note("ossia: the answer follows the session's schema; --schema off ends that")
    return _Run(resolved, folder, display, opened), text


class _Run:
    """One run: loads, drives the turn, writes what came."""

    def __init__(self, resolved: Resolved, folder: Folder | None, display: Display, opened: OpenSession) -> None:
        settings = resolved.settings
        self._resolved, self._folder, self._settings = resolved, folder, settings
        self._display, self._opened = display, opened
        self._worker = Worker()
        self._control = Control()
        answer = opened.session.options.response_format
        self._report = Report(
            model=settings.model or "", strict=settings.strict_approvals, schema=answer.schema if answer else None
        )
        self._raw = Raw() if settings.raw else None
        self._out: Answer | Json | Raw = self._raw or (
            Json() if settings.json else Answer(self._report, before=display.pause)
        )
        if isinstance(self._out, Answer):
            display.before = self._out.end_line

    def answer(self, text: str, typed: str) -> int:
        """The whole run; `typed` is the part of `text` that wasn't piped in.

        An error that ends it early is noted in the report, for `--json`'s line, and raised again at the end.
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
            self._control.stop()  # however this ended: a turn that nobody follows any more must not go on
            if assembly:
                assembly.close_tools()
        self._display.pause()
        self._out.finish(self._report)
        if self._report.end == "stopped":
            look_to_the_end(self._display.warn)
        if self._worker.busy and self._report.end == "stopped":
            end_now(self._report.code)  # a C call doesn't notice Ctrl-C, and Python's own exit would wait for it
        if self._report.refused:
            self._display.note(f"ossia: {told_of(self._report.refused)}")
        if self._settings.plan and (told := told_of_plan(self._report.calls)):
            self._display.note(f"ossia: {told}")
        if assembly:
            end_stdout()  # what is kept for later is written now: nobody waits for that
            self._keep_caches(assembly)
            assembly.model.close()
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
        begun = self._begin()
        self._report.model = begun.name
        tap = self._worker.tap(self._control) if self._raw else None
        assembly = assemble(begun, self._resolved, self._folder, self._display, tap=tap)
        self._report.load_s, self._report.plan = assembly.model.load_s, assembly.model.plan
        if self._raw:
            self._raw.codec = assembly.model.codec
        return assembly

    def _begin(self) -> Begun:
        """A server gets the seconds of a turn for what it is asked before; a model here may take its time."""
        stop, limit_s = Control(), self._settings.timeout if is_server(self._settings.engine) else None
        late = threading.Timer(min(limit_s or 0, threading.TIMEOUT_MAX), stop.stop, ["time"])
        late.daemon = True
        if limit_s is not None:
            late.start()
        try:
            return begin_model(self._resolved, self._folder, self._display, self._worker, stop=stop)
        except EngineFailed:
            if stop.stop_reason != "time":
                raise
            raise ExitError(f"the server said too little within --timeout ({limit_s:g} s)", ExitCode.CUT) from None
        finally:
            late.cancel()

    def _turn(self, assembly: Assembly, text: str, typed: str) -> None:
        settings, tools = self._settings, assembly.tools
        self._report.origin, self._display.fix = tools.origin, fixes_for(tools, settings).of
        assembly.warn_of_control_names(text, "the prompt")
        assembly.warn_of_control_names(read_instructions(settings.instructions) or "", "--instructions")
        self._begin_session(assembly)
        tools.begin_turn(text)
        said = self._with_mentioned(UserText(text, typed), assembly)
        said = with_plan(said, self._opened.session) if settings.plan else said
        turn = assembly.turn(self._opened.session, said, settings, self._control)
        refused = self._report.refused
        asker = Asker(self._display, yes=settings.yes, store=tools.store, refused=refused, hint=tools.hint)
        pump = Pump(self._worker, self._display, asker, lambda event: self._see(event, assembly))
        done = self._worker.submit(lambda: self._worker.drive(turn, self._control))
        try:
            while not pump.is_over(done):
                if isinstance(pump.next(self._control), Delta) and self._worker.inbox.empty():
                    with suppress(TimeoutError):
                        done.exception(timeout=_FRAME_S)
        except KeyboardInterrupt:
            self._control.stop()
            give_up_at = time.monotonic() + _GRACE_S
            while not pump.is_over(done) and time.monotonic() < give_up_at:
                pump.next(self._control)
            self._report.fail(KeyboardInterrupt("interrupted"))
        if done.done():
            done.result()  # a bug of ours on the worker's thread becomes a traceback here

    def _with_mentioned(self, said: UserText, assembly: Assembly) -> UserText:
        if not mentions(said.typed):
            return said
        from ossia.cli.oneshot.mentioned import with_mentioned

        return with_mentioned(
            said,
            self._settings,
            workspace=self._folder.workspace if self._folder else None,
            room_tokens=assembly.model.engine.context_tokens // 2,
            display=self._display,
            worker=self._worker,
            stop=self._control,
        )

    def _begin_session(self, assembly: Assembly) -> None:
        """The model is loaded: name it in the session; a resumed session gets its pages and its KV cache back."""
        opened = self._opened
        opened.session.vocabulary, opened.session.model = assembly.model.engine.vocabulary.digest, self._report.model
        if opened.store:
            opened.store.count_tokens = lambda text: len(assembly.model.tokenizer.encode(text))
        if opened.resumed:
            self._report.states += opened.session.states
            bring_back(opened.session, assembly.tools)
            if opened.session_id:
                engine, kv, session_id = assembly.model.engine, paths.host().kv, opened.session_id
                self._display.wait(self._worker.submit(lambda: load_session_cache(engine, kv, session_id)))

    def _keep_caches(self, assembly: Assembly) -> None:
        """Keep the KV cache of a stored session, and that of the prompt's beginning for any other run.

        In this order: the second one cuts the cache back. After an interrupt, the second one is left out.
        """
        session_id, kv = self._opened.session_id, paths.host().kv
        if self._opened.store and session_id and self._opened.session.entries:
            self._worker.submit(lambda: save_session_cache(assembly.model.engine, kv, session_id))
        if self._report.end != "stopped":
            self._worker.submit(lambda: save_prompt_cache(assembly.model.engine))

    def _close_session(self) -> None:
        opened = self._opened
        if opened.store is None:
            return
        if opened.store.problem:
            self._display.warn(f"the session is not stored: {opened.store.problem}")
        elif opened.session.entries and not opened.resumed:
            self._display.aside(f"stored; continue it with: ossia run --resume {opened.session_id}")
        opened.store.close()

    def _see(self, event: Event | Tapped, assembly: Assembly) -> None:
        if not isinstance(event, Tapped):
            self._report.see(event)
            self._display.see(event)
        self._out.see(event)
        if isinstance(event, MessageAdded) and event.message.role == "tool":
            assembly.warn_of_control_names(event.message.text, f"the result of {event.message.name}")
        if isinstance(event, ToolFinished):
            if warning := assembly.tools.counter.warning():
                self._display.note(f"ossia: {warning}")
            for notice in event.result.notices:
                self._display.tell(notice)

    def _last_line(self) -> None:
        report = self._report
        if report.end in _CUT:
            half = isinstance(self._out, Answer) and report.schema is not None and report.answer is None
            why = self._servers_limit() or _CUT[report.end]
            if half and report.end in _UNBOUND:
                why = _UNBOUND[report.end] + _BOUND
            self._display.note(f"ossia: {why}{_NOT_WHOLE if half else ''}")
        elif report.end == "answered":
            speed = f" · {speed_of(tokens_per_s)}" if (tokens_per_s := report.sums.tokens_per_s) else ""
            self._display.aside(f"{report.model} · {report.sums.completion} tokens{speed}")

    def _servers_limit(self) -> str:
        """What is said where a server cut the answer by a limit that isn't ours; "" where none did."""
        report, settings = self._report, self._settings
        if not is_server(settings.engine):
            return ""
        if report.end == "context":
            ours = " (or a larger --context)" if isinstance(settings.context, int) else ""
            return f"the answer is cut: the context is full; give the server a larger one{ours}"
        if report.end != "tokens":
            return ""
        if settings.max_tokens is None:
            return "the answer is cut at the server's own limit: give --max-tokens N, or the server a larger context"
        reached = report.sums.completion >= settings.max_tokens
        return "" if reached else "the answer is cut at the server's own limit, before --max-tokens"


def _question(prompt: str | None, *, quiet: bool) -> str:
    """The user's text: PROMPT and standard input with a blank line between them, or whichever there is."""
    parts = [part for part in (prompt, read_stdin(quiet=quiet)) if part and part.strip()]
    if not parts:
        raise ExitError('no question: ask one, as in: ossia run "What is 48*17?"')
    return "\n\n".join(parts)
