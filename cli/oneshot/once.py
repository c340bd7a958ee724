"""One turn from the command line, once the flags of `ossia run` are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ossia.agent.conversation import OpenSession
from ossia.agent.sessions.session import UserText
from ossia.cli.attach.content import CUTS, STDIN, Cut
from ossia.cli.clean import one_line
from ossia.cli.code_blocks import Extract
from ossia.cli.exits import ExitError
from ossia.cli.interrupts import hold, settle
from ossia.cli.oneshot.control import Control as Orders
from ossia.cli.oneshot.lines import Lines
from ossia.cli.oneshot.output import Json
from ossia.cli.oneshot.output_file import OutputFile, is_stdout
from ossia.cli.oneshot.prompt import Asked, asked_of
from ossia.cli.oneshot.report import Report
from ossia.cli.oneshot.running import Run
from ossia.cli.runtime.consent import agree
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.runtime.schema import read_schema
from ossia.cli.runtime.session import ELSEWHERE, Resume, moved_from, open_session, stores_always
from ossia.cli.runtime.skills import option_of, skill_named, skills_of, with_options, with_skill
from ossia.cli.settings.config import ConfigError, resolve
from ossia.cli.settings.table import Settings
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.terminal.keyboard import plain_keys
from ossia.cli.words import count
from ossia.harmony.messages import ResponseFormat
from ossia.tools.folder import Folder
from ossia.tools.skills import Skill

_NO_SCHEMA = "off"
_NOT_BOTH = {
    "--schema": ("--schema-multi",),
    "-x": ("--schema", "--schema-multi", "--raw", "--jsonl"),
    "-o": ("--raw", "--jsonl"),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One run as its command line asks for it, beside the settings.

    `resume`: the stored session to go on with; `save`: store a new one; `schema`: what `read_schema` takes, that the
    answer must follow, or "off"; `schema_multi`: the same of each of its items; `extract`: the code blocks that alone
    are printed; `output`: the file for what would be on stdout; `stream` False: a terminal gets the answer at its end;
    `skill`: the name of one to call; `control`: "stdin" for `cli.oneshot.control`. `files`: what to attach, as `-f`
    names it; `truncate`: "head", "tail" or "middle", what to leave out where there is too little room.
    """

    prompt: str | None = None
    resume: Resume = field(default_factory=Resume)
    save: bool = False
    schema: str | None = None
    schema_multi: str | None = None
    extract: Extract | None = None
    output: str | None = None
    stream: bool = True
    skill: str | None = None
    control: str | None = None
    files: tuple[str, ...] = ()
    truncate: str | None = None

    @property
    def schema_of_answer(self) -> str | None:
        """The schema, for one answer or for its items; None: the session's own, or free text."""
        return self.schema if self.schema_multi is None else self.schema_multi


@plain_keys()
def run_once(wanted: Wanted, flags: Mapping[str, object]) -> int:
    """Answer one prompt; returns the exit code. Raises the errors that `cli.main` reports.

    An error before the turn begins is also printed as `--json`'s line, or `--jsonl`'s result.
    """
    with hold():
        lines = Lines()
        try:
            with hold(False):
                run, said = _prepared(wanted, flags, lines)
        except (KeyboardInterrupt, Exception) as error:
            report = Report(model=str(flags.get("model") or ""))
            report.fail(error)
            if (form := _json_form(flags)) == "jsonl" or (form and is_stdout(wanted.output)):
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


def _prepared(wanted: Wanted, flags: Mapping[str, object], lines: Lines) -> tuple[Run, Asked]:
    """The run, and its question. Refuses all it can before the model is loaded."""
    resolved, folder = resolve_with_folder(flags)
    skill = skill_named(wanted.skill, skills_of(folder), folder=folder) if wanted.skill is not None else None
    has_schema = wanted.schema_of_answer is not None
    resolved, by_skill = with_options(resolved, skill, schema=has_schema) if skill else (resolved, "")
    settings = resolved.settings
    agree(settings)
    if sum((settings.raw, settings.json, settings.jsonl)) > 1:
        raise ExitError("use one of --raw, --json and --jsonl")
    _require_output(wanted, settings)
    _require_control(wanted, settings)
    display = make_display(settings)
    if settings.jsonl:
        display.publish = lines.write
    orders = Orders(lines.write) if wanted.control is not None else None
    answer = _schema(wanted, skill, display)
    file = None if is_stdout(wanted.output) else OutputFile(wanted.output or "")
    said = _said(wanted, skill, folder, quiet=settings.quiet)
    if wanted.save and settings.private and resolved.origins["private"] == "--private":
        raise ExitError("use --save or --private, not both")
    for warning in resolved.warnings:
        display.warn(warning)
    if by_skill:
        display.aside(f"skill {wanted.skill} sets {by_skill}")
    save = wanted.save or stores_always(settings)
    opened = _opened(open_session(resolved, folder, resume=wanted.resume, save=save), folder, display)
    if opened.session.options.planning != settings.plan:
        opened.session.options = replace(opened.session.options, planning=settings.plan)
    if wanted.schema_of_answer is not None or answer:
        opened.session.options = replace(opened.session.options, response_format=answer)
    elif opened.session.options.response_format:
        display.note("ossia: the answer follows the session's schema; --schema off ends that", "note")
    if wanted.extract and opened.session.options.response_format:
        raise ExitError("a schema holds the answer to JSON, without code blocks: -x needs --schema off")
    asked = wanted.save or opened.resumed
    lines_or_none = lines if settings.jsonl else None
    return Run(resolved, folder, display, opened, lines_or_none, orders, wanted, file, stays=asked), said


def _schema(wanted: Wanted, skill: Skill | None, display: Display) -> ResponseFormat | None:
    """The schema by the flags, or else by the skill."""
    given, multi = wanted.schema_of_answer, wanted.schema_multi is not None
    of = "--schema-multi" if multi else "--schema"
    by_skill = given is None and skill is not None
    if by_skill and skill:
        given, of = skill.options.get("schema"), option_of(skill, "schema")
    if given is None or given == _NO_SCHEMA:
        return None
    return read_schema(given, of=of, warn=display.warn, multi=multi, files=not by_skill)


def _said(wanted: Wanted, skill: Skill | None, folder: Folder | None, *, quiet: bool) -> Asked:
    """The question, typed, piped or of a skill, with what is attached to it."""
    words = "" if wanted.prompt == "-" else (wanted.prompt or "").strip()
    typed, cut = wanted.prompt if skill is None else f"/{skill.name} {words}".strip(), _cut(wanted.truncate)
    workspace = folder.workspace if folder else None
    asked = asked_of(typed, wanted.files, cut=cut, workspace=workspace, quiet=quiet, piped=wanted.control is None)
    if skill is None:
        return asked

    def compose(piped: str) -> UserText:
        return with_skill(asked.compose("" if skill.takes_input else piped), skill.called(words, piped))

    return replace(asked, compose=compose)


def _cut(truncate: str | None) -> Cut | None:
    if truncate is not None and truncate not in CUTS:
        raise ExitError(f"--truncate {one_line(truncate, 40)}: expected head, tail or middle, the part to leave out")
    return truncate


def _opened(opened: OpenSession, folder: Folder | None, display: Display) -> OpenSession:
    """The session, once its problems and its length are reported."""
    for problem in filter(None, [opened.problem, moved_from(opened.worked_in, folder)]):
        display.warn(problem)
    if opened.resumed:
        turns = count(len(opened.session.ends), "turn")
        display.aside(f'continuing "{one_line(opened.title)}" ({turns}){f"; {ELSEWHERE}" if opened.elsewhere else ""}')
    return opened


def _require_output(wanted: Wanted, settings: Settings) -> None:
    """Raises ExitError for flags that exclude one another."""
    schema = wanted.schema not in (None, _NO_SCHEMA)
    given = {
        "--schema": schema, "--schema-multi": wanted.schema_multi is not None, "-x": wanted.extract is not None,
        "-o": not is_stdout(wanted.output), "--raw": settings.raw, "--jsonl": settings.jsonl,
    }  # fmt: skip
    for one, others in _NOT_BOTH.items():
        for other in others:
            if given[one] and given[other]:
                raise ExitError(f"use {one} or {other}, not both")


def _require_control(wanted: Wanted, settings: Settings) -> None:
    if wanted.control is None:
        return
    if wanted.control != "stdin":
        raise ExitError(f"--control {one_line(wanted.control, 40)}: expected stdin, as in: ossia run --jsonl "
                        '--control stdin "What is 48*17?"')  # fmt: skip
    if not settings.jsonl:
        raise ExitError("--control stdin needs --jsonl: the events say what is asked")
    if any(name in STDIN for name in wanted.files):
        raise ExitError("--control stdin and -f - both read stdin: attach a file instead")
    if wanted.prompt == "-" or (not (wanted.prompt or "").strip() and wanted.skill is None):
        raise ExitError("--control stdin needs the question as an argument: stdin holds the lines of control")
