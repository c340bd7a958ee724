"""`container.exec`: one command in the workspace, confined, its output bounded as it arrives."""

from __future__ import annotations

import codecs
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ossia.tools._scratch import Scratch
from ossia.tools.approval.autorun_look import Look
from ossia.tools.ending import to_its_end
from ossia.tools.own import Own
from ossia.tools.present import COMMAND
from ossia.tools.sandbox import SHELL_LIMITS, Confinement, ConfinementName, Job, Limits, choose
from ossia.tools.sandbox.job import Repository
from ossia.tools.sandbox.private import GUARDED, too_wide
from ossia.tools.sandbox.repository import repository_of
from ossia.tools.spec import (
    Fault,
    Preview,
    Stop,
    ToolContext,
    ToolFailed,
    ToolOutput,
    ToolResult,
    ToolSpec,
    interrupted,
)
from ossia.tools.text import Bounded
from ossia.tools.work._command import MAX_TIMEOUT_S, Command
from ossia.tools.work.result import MAX_CHARS, TIMED_OUT, formed, share
from ossia.tools.workspace import Keeper, Workspace

NAME = "container.exec"
SECTION = "Runs commands in the workspace, each in a process of its own, confined and without network."
DESCRIPTION = """\
Runs a program and returns its output, e.g. ["bash", "-lc", "pytest -q"]. workdir: a folder of the workspace; timeout: \
milliseconds (60000 if left out)."""
_MAX_STREAMED_CHARS = 200_000
_MAX_REPOSITORIES = 500
"""Each needs one more mount. Landlock would have to close the whole top-level folder that it lies in."""
_PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "workdir": {"type": "string"},
        "timeout": {"type": "number"},
    },
    "required": ["command"],
    "additionalProperties": False,
}
_NAMES_GIT, _GIT_FAILED = re.compile(r"\bgit\b"), re.compile(r"^(?:fatal|error): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ShellTiming:
    """Seconds between the request to end (SIGTERM) and the kill: after a time-out, and after a stop of the turn."""

    grace_s: float = 2.0
    stop_grace_s: float = 0.15


@dataclass(frozen=True, slots=True)
class _Plan:
    """A previewed command. `undoable`: if this is no longer so at run, nothing runs. `cannot`: why it isn't undoable.

    `read_only`: it can change nothing, so there is nothing to undo.
    """

    command: Command
    undoable: bool
    cannot: str = ""
    read_only: bool = False


class Exec:
    """Runs commands, each in a process of its own that ends with the call and takes all it started with it.

    `confinement` None: the strongest one is chosen at the first call. `home`: the user's home, hidden from the
    commands. `search_path`: folders, in PATH's form, that are searched before the system's. Changes that a
    command makes in the workspace are kept for undo by the workspace's keeper.

        tool = Exec(home=Path("/home/user"))
        Toolbox([tool], …).run(ToolCall("call_1", "container.exec", '{"command": ["ls"]}'), stop=control)
    """

    def __init__(
        self,
        *,
        confinement: Confinement | None = None,
        home: Path | None = None,
        search_path: str = "",
        limits: Limits | None = None,
        timing: ShellTiming | None = None,
    ) -> None:
        self.spec = ToolSpec(
            NAME,
            DESCRIPTION,
            _PARAMETERS,
            effects=frozenset({"run", "write"}),
            trained=True,
            section=SECTION,
            provenance="built-in",
            present=COMMAND,
        )
        self._confinement, self._home, self._search_path = confinement, home, search_path
        self._limits, self._timing = limits or SHELL_LIMITS, timing or ShellTiming()
        self._warned = False  # that nothing can be undone here: said once, in case nobody is asked

    @property
    def confinement(self) -> Confinement:
        """The confinement of commands here. The first access tries what is available, some 20 ms."""
        if self._confinement is None:
            self._confinement = choose()
        return self._confinement

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        workspace = self._workspace_of(context)
        command = Command.of(args, workspace.root)
        name = self.confinement.name
        if context.read_only and name != "unconfined":
            return Preview(
                f"run a command in {workspace.root}, which it can't change ({name}, no network)",
                command.shown,
                "bash",
                subjects=(command.shown,),
                command=True,
                effects=frozenset({"run"}),
                plan=_Plan(command, undoable=False, read_only=True),
            )
        keeper = workspace.keeper
        cannot = keeper.commands_cannot_be_undone() if keeper else "nothing keeps what it changes"
        kept = not cannot
        why = cannot = "" if kept else self._but_for_autorun(workspace, context, cannot)
        confined = f"{name}, no network" if name != "unconfined" else "UNCONFINED: it can reach everything you can"
        if name == "unconfined" and not cannot:
            cannot = "only what it changes in the workspace, outside .git, is kept"
        return Preview(
            f"run a command in {workspace.root} ({confined})" + (f"; it can't be undone: {cannot}" if cannot else ""),
            command.shown,
            "bash",
            subjects=(command.shown,),
            command=True,
            unconfined=name == "unconfined",
            plan=_Plan(command, kept, why),
        )

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """Run the previewed command. The result holds the output of both streams, in the order it came."""
        workspace = self._workspace_of(context)
        plan = context.preview.plan if context.preview else None
        if not isinstance(plan, _Plan):
            plan = _Plan(Command.of(args, workspace.root), undoable=False, read_only=context.read_only)
        keeper = None if plan.read_only else workspace.keeper
        with to_its_end(), closing(Scratch()) as scratch, ExitStack() as after:
            look = None if plan.read_only else after.enter_context(closing(_look(workspace, context)))
            before = keeper.before_command() if keeper else None
            if plan.undoable and before is None:
                raise ToolFailed("Error: the workspace has outgrown what undo can keep: call again, to be asked anew")
            notices: list[str] = []
            nested: list[str] = []
            if look:
                if keeper and before is not None:
                    after.callback(keeper.after_command, before, look.inodes)
                after.callback(lambda: notices.extend(self._changed(look, keeper, before)))
                nested = look.repositories[:_MAX_REPOSITORIES] if self.confinement.name != "landlock" else []
            repository = self._repository(workspace, context.data_dir)
            shown = None if isinstance(repository, str) else repository
            job = replace(self._job(plan, workspace, context, scratch.path, nested), repository=shown)
            result = yield from self._run_job(job, plan.command.timeout_s, call_id, context)
            result = _with_git(result, repository, plan.command)
            try:
                after.close()
            except ToolFailed as error:
                raise ToolFailed("\n".join([str(error), *notices]), fault=error.fault) from error
            result = _with(result, notices)
            line = keeper.ignored_line() if keeper and before is not None else self._warning(plan)
            return replace(result, notices=(line, *result.notices)) if line else result

    def _changed(self, look: Look, keeper: Keeper | None, before: Any) -> Iterator[str]:
        """Lines about the autorun files that the command changed. What the keeper doesn't see itself is kept here."""
        covered = (lambda path: False) if before is None else before.covers
        changed = look.changed(restore_git=self.confinement.name != "unconfined", can_undo=keeper is not None,
                               covered=covered)  # fmt: skip
        yield from changed.lines
        if keeper:
            keeper.keep_changes(changed.before, changed.after, changed.kept)

    def _but_for_autorun(self, workspace: Workspace, context: ToolContext, cannot: str) -> str:
        """The reason why a command can't be undone, and which autorun files can."""
        if workspace.keeper is None:
            return cannot
        with closing(_look(workspace, context, keep=False)) as look:
            lost = f", all but {look.not_kept}," if look.not_kept else ""
        return f"{cannot}; only changes of files that run or instruct later tools{lost} can"

    def _warning(self, plan: _Plan) -> str:
        """A notice at the first command that can't be undone: with `--yes` no question says so."""
        if not plan.cannot or self._warned:
            return ""
        self._warned = True
        return f"commands can't be undone here: {plan.cannot}"

    def close(self) -> None:
        """Nothing to do: each call ends what it started."""

    def _workspace_of(self, context: ToolContext) -> Workspace:
        if context.workspace is None:
            raise ToolFailed("Error: there is no workspace to run commands in. Answer without the shell")
        if self.confinement.name == "off":
            raise ToolFailed(f"Error: the shell is off on this machine: {self.confinement.reason}")
        refused = too_wide(context.workspace.root, self._home)
        if refused and self.confinement.name != "unconfined":
            raise _no_commands(f"{refused}. Choose another way")
        cannot = _cannot_be_held(context.workspace.own, self.confinement.name)
        if cannot:
            raise _no_commands(f"{cannot}. Tell the user; choose another way")
        return context.workspace

    def _repository(self, workspace: Workspace, data: Path) -> Repository | str | None:
        """The git folder to show where it lies outside of the workspace, or why it isn't shown."""
        if self.confinement.name == "unconfined":
            return None
        home = self._home and self._home.resolve()
        found = repository_of(workspace.root, home=home, data=data, trusted=workspace.trusted)
        if isinstance(found, Repository) and found.left_out and self.confinement.name != "bwrap":
            names = ", ".join(found.left_out[:3])
            what = f"its settings or logs hold what commands mustn't see ({names})"
            return f"{what}; only bubblewrap can show them without that"
        return found

    def _job(self, plan: _Plan, workspace: Workspace, context: ToolContext, scratch: Path,
             nested: Sequence[str]) -> Job:  # fmt: skip
        command = plan.command
        try:
            guarded = [_guarded(workspace.root, name) for name in dict.fromkeys([*GUARDED, *nested])]
        except OSError as error:
            why = f"it can't be looked into ({error.strerror or error})"
            raise _no_commands(f"{why}. Tell the user") from error
        return Job(
            workspace.root,
            scratch,
            self._limits,
            command=command.text or "",
            words=command.words if command.text is None else (),
            read_only=plan.read_only,
            start_in=None if command.folder == "." else workspace.root / command.folder,
            guarded=tuple(path for path in guarded if path is not None),
            hidden=(context.data_dir,),
            home=self._home,
            own=workspace.own.places,
            search_path=self._search_path,
        )

    def _run_job(
        self, job: Job, timeout_s: float, call_id: str, context: ToolContext
    ) -> Generator[ToolOutput, None, ToolResult]:
        from ossia.tools.sandbox._process import CommandProcess  # imports psutil, which a start can do without

        output = _Output(call_id)
        try:
            launch = self.confinement.launch(job)
            process = CommandProcess(launch, job, timeout_s=timeout_s, grace_s=self._timing.grace_s)
        except OSError as error:
            raise ToolFailed(f"Error: the shell can't be started: {error.strerror or error}") from error
        forget = context.stop.on_stop(lambda: process.stop(self._timing.stop_grace_s))
        try:
            for chunk in process.output:
                yield from output.take(chunk)
            yield from output.take(b"", last=True)
            status = process.status
        finally:
            forget()
            process.close()
        remark = _remark(process.ended_by, timeout_s, context.stop)
        text = output.kept.cleaned(MAX_CHARS, share(context.count_tokens))
        text = "\n".join(part for part in (text, remark) if part)
        status = TIMED_OUT if process.ended_by == "timeout" else status
        text = formed(text, job.start_in or job.folder, status=status)
        fault = Fault("timeout") if process.ended_by == "timeout" else None
        return ToolResult(text, error=bool(remark or status), fault=fault)


class _Output:
    """The output of a command: bounded for the model, streamed for the screen up to a limit."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.kept = Bounded()
        self._room = _MAX_STREAMED_CHARS

    def take(self, chunk: bytes, *, last: bool = False) -> Generator[ToolOutput, None, None]:
        text = self._decoder.decode(chunk, last)
        self.kept.add(text)
        shown = text[: self._room]
        if shown:
            self._room -= len(shown)
            cut = "\n[... more output, not shown while it runs]\n" if not self._room else ""
            yield ToolOutput(self._call_id, shown + cut)


def _remark(ended_by: str, timeout_s: float, stop: Stop) -> str:
    """A remark on a command that didn't end by itself."""
    if ended_by == "timeout":
        most = f"{MAX_TIMEOUT_S * 1000:.0f}"
        more = f"; a longer `timeout` can be given, at most {most}" if timeout_s < MAX_TIMEOUT_S else ""
        return f"[ERROR] timed out after {timeout_s:g} s: the command and all it started were ended{more}"
    if ended_by == "stopped":
        return f"[ERROR] {interrupted(stop)}: the command and all it started were ended"
    return f"[ERROR] the command was ended: {ended_by}" if ended_by else ""


def _cannot_be_held(own: Own, confinement: ConfinementName) -> str:
    """The reason why a command could change parts of ossia itself, in words for people; empty if it can't."""
    if confinement == "unconfined":
        return ""
    if own.gone:
        return f"a part of ossia itself has disappeared ({own.gone[0]}): start ossia again"
    if own.links and confinement != "landlock":
        return f"a link in it leads to a part of ossia itself ({own.links[0]}), which {confinement} can't protect"
    return own.problem


def _no_commands(why: str) -> ToolFailed:
    return ToolFailed(f"Error: no commands run in this workspace: {why}", fault=Fault("workspace"))


def _guarded(root: Path, name: str) -> Path | None:
    """The path to make read-only: itself, or as a link its target in the workspace; None if it doesn't exist."""
    path = root / name
    if path.is_symlink():
        target = path.resolve()
        return target if target.exists() and target.is_relative_to(root) and target != root else None
    return path if path.exists() else None


def _with_git(result: ToolResult, repository: Repository | str | None, command: Command) -> ToolResult:
    """The result; if git failed in it, with what it can do here."""
    failed = _GIT_FAILED.search(result.text) or result.error
    if repository is None or not failed or not _NAMES_GIT.search(command.shown):
        return result
    limit = f"can't be read here: {repository}" if isinstance(repository, str) else "can only be read here, not changed"
    return replace(result, text=f"{result.text}\n[git's folder {limit}]")


def _look(workspace: Workspace, context: ToolContext, *, keep: bool = True) -> Look:
    try:
        return Look(workspace.root, left_out=(context.data_dir,), keep=keep)
    except OSError as error:
        why = f"it can't be looked into ({error.strerror or error})"
        raise _no_commands(f"{why}. Tell the user") from error


def _with(result: ToolResult, notices: Sequence[str]) -> ToolResult:
    """The result, with what the command did to files that run or instruct later tools: for the model and the user."""
    lines = "".join(f"\n[{line}]" for line in notices)
    return replace(result, text=result.text + lines, notices=(*result.notices, *notices)) if notices else result
