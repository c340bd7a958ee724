"""`container.exec`: one command in the workspace, confined, its output bounded as it arrives."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ossia.tools._scratch import Scratch
from ossia.tools.approval.autorun_look import Look
from ossia.tools.approval.needs import named, needs_of, words_for
from ossia.tools.ending import to_its_end
from ossia.tools.present import COMMAND
from ossia.tools.sandbox import SHELL_LIMITS, Confinement, Job, Limits, choose
from ossia.tools.sandbox.confinement import Unconfined
from ossia.tools.sandbox.job import Toolchains
from ossia.tools.saying import command_line
from ossia.tools.spec import Need, Preview, ToolContext, ToolFailed, ToolOutput, ToolResult, ToolSpec
from ossia.tools.work._command import Command, ShellTiming, run_job
from ossia.tools.work._place import guarded_in, look_at, outside, repository_shown, with_folders_for, workspace_of
from ossia.tools.work._wants import advice, on_sockets, wanted, with_git, with_notices, with_the_top
from ossia.tools.workspace import Keeper, Workspace

if TYPE_CHECKING:
    from ossia.tools.sandbox.git.copy import GitCopy

__all__ = ["NAME", "SECTION", "Exec", "ShellTiming"]

NAME = "container.exec"
SECTION = """\
Runs commands in the workspace, each in a process of its own, confined and without network.
Network, and changes of .git such as a commit, need the user's word: call such a command by itself; they are asked."""
DESCRIPTION = """\
Runs a program and returns its output, e.g. ["bash", "-lc", "pytest -q"]. workdir: a folder of the workspace; timeout: \
milliseconds (60000 if left out)."""
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


@dataclass(frozen=True, slots=True)
class _Plan:
    """A previewed command. `undoable`: if this is no longer so at run, nothing runs. `cannot`: why it isn't undoable.

    `read_only`: it can change nothing, so there is nothing to undo. `needs`: what it is given beyond the confinement.
    """

    command: Command
    undoable: bool
    cannot: str = ""
    read_only: bool = False
    needs: frozenset[Need] = frozenset()


class Exec:
    """Runs commands, each in a process of its own that ends with the call and takes all it started with it.

    `confinement` None: the strongest one is chosen at the first call. `home`: the user's home, hidden from the
    commands. `search_path`: folders, in PATH's form, that are searched before the system's. `toolchains` finds those of
    the home before each command, `has` names them to the model. Changes that a command makes in the workspace are kept
    for undo by the workspace's keeper.

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
        toolchains: Callable[[], Toolchains] = Toolchains,
        has: str = "",
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
            note=f"Commands can use {has}." if has else "",
        )
        self._confinement, self._home, self._search_path = confinement, home, search_path
        self._limits, self._timing = limits or SHELL_LIMITS, timing or ShellTiming()
        self._toolchains = toolchains
        self._warned = False  # that nothing can be undone here: said once, in case nobody is asked

    @property
    def confinement(self) -> Confinement:
        """The confinement of commands here. The first access tries what is available, some 20 ms."""
        if self._confinement is None:
            self._confinement = choose()
        return self._confinement

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        workspace = workspace_of(context, self.confinement, self._home)
        command = Command.of(args, workspace.root)
        name = self.confinement.name
        if context.read_only and name != "unconfined":
            return replace(
                _preview_of(command),
                effects=frozenset({"run"}),
                conditions=f"confined by {name}, no network, nothing in the folder can be changed",
                plan=_Plan(command, undoable=False, read_only=True),
            )
        needs = frozenset[Need]()
        if name != "unconfined":
            needs = needs_of(command.shown) | context.given(command.shown)
            needs -= _never_given(workspace)
        return self._preview(command, needs, workspace, context)

    def _preview(self, command: Command, needs: frozenset[Need], workspace: Workspace, context: ToolContext) -> Preview:
        """The preview of a command that may change things, and is given what it needs."""
        needs = frozenset({"unconfined"}) if "unconfined" in needs else needs
        name = self._confines(needs).name
        keeper = workspace.keeper
        cannot = keeper.commands_cannot_be_undone() if keeper else "nothing keeps what it changes"
        kept = not cannot
        why = cannot = "" if kept else self._but_for_autorun(workspace, context, cannot)
        confined = f"confined by {name}, {words_for(needs)}"
        if name == "unconfined":
            confined = "UNCONFINED: it can reach everything you can"
            cannot = cannot or "only what it changes in the workspace, outside .git, is kept"
        return replace(
            _preview_of(command),
            effects=self.spec.effects | ({"send"} if "network" in needs else frozenset()),
            unconfined=name == "unconfined",
            needs=needs,
            conditions=confined + (f"; it can't be undone: {cannot}" if cannot else ""),
            plan=_Plan(command, kept, why, needs=needs),
        )

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        """Run the previewed command. The result holds the output of both streams, in the order it came."""
        workspace = workspace_of(context, self.confinement, self._home)
        plan = context.preview.plan if context.preview else None
        if not isinstance(plan, _Plan):
            plan = _Plan(Command.of(args, workspace.root), undoable=False, read_only=context.read_only)
        confinement = self._confines(plan.needs)
        keeper = None if plan.read_only else workspace.keeper
        with to_its_end(), closing(Scratch()) as scratch, ExitStack() as after:
            look = None if plan.read_only else after.enter_context(closing(look_at(workspace, context)))
            before = keeper.before_command() if keeper else None
            if plan.undoable and before is None:
                raise ToolFailed("Error: the workspace has outgrown what undo can keep: call again, to be asked anew")
            notices: list[str] = []
            nested: list[str] = []
            if look:
                if keeper and before is not None:
                    after.callback(keeper.after_command, before, look.inodes)
                after.callback(lambda: notices.extend(_changed(look, keeper, before, confinement)))
                nested = look.repositories[:_MAX_REPOSITORIES] if confinement.name != "landlock" else []
            repository = repository_shown(workspace, confinement, home=self._home, data=context.data_dir)
            shown = None if isinstance(repository, str) else repository
            job = replace(self._job(plan, workspace, context, scratch.path, nested), repository=shown)
            given = plan.needs
            if "git" in given and confinement.name != "unconfined":
                from ossia.tools.sandbox.git.copy import GitCopy, GitRefused  # few commands need it

                try:
                    git = GitCopy.of(workspace.root, scratch.path, mounted=confinement.name == "bwrap",
                                     data=context.data_dir, repository=shown)  # fmt: skip
                    job = git.given_to(job)
                    after.callback(lambda: notices.extend(_taken_over(git, keeper)))
                except GitRefused as why:
                    given -= {"git"}
                    notices.append(f"git can't be given to commands in this repository: {why}")
            if confinement.name == "landlock" and not plan.read_only:
                after.enter_context(with_folders_for(plan.command.shown, job))
            result = yield from run_job(
                confinement, job, self._timing, plan.command.timeout_s, call_id=call_id, context=context
            )
            result = (
                with_the_top(result, confinement)
                if job.git
                else with_git(result, repository, plan.command, workspace.root)
            )
            try:
                after.close()
            except ToolFailed as error:
                raise ToolFailed("\n".join([str(error), *notices]), fault=error.fault) from error
            result = self._with_wants(with_notices(result, notices), plan, given, workspace, context)
            line = keeper.ignored_line() if keeper and before is not None else self._warning(plan)
            return replace(result, notices=(line, *result.notices)) if line else result

    def close(self) -> None:
        """Nothing to do: each call ends what it started."""

    def _confines(self, needs: frozenset[Need]) -> Confinement:
        return Unconfined("shell") if "unconfined" in needs else self.confinement

    def _job(self, plan: _Plan, workspace: Workspace, context: ToolContext, scratch: Path,
             nested: Sequence[str]) -> Job:  # fmt: skip
        command = plan.command
        return Job(
            workspace.root,
            scratch,
            self._limits,
            command=command.text or "",
            words=command.words if command.text is None else (),
            read_only=plan.read_only,
            start_in=None if command.folder == "." else workspace.root / command.folder,
            guarded=guarded_in(workspace.root, nested),
            hidden=(context.data_dir,),
            home=self._home,
            own=workspace.own.places,
            # what a confined command left in a `.venv/bin` isn't the `docker` that may run unconfined
            search_path=outside(self._search_path, workspace.root) if "unconfined" in plan.needs else self._search_path,
            toolchains=self._toolchains(),  # each time: the last command may have made a `.venv`
            network="network" in plan.needs,
        )

    def _with_wants(self, result: ToolResult, plan: _Plan, given: frozenset[Need], workspace: Workspace,
                    context: ToolContext) -> ToolResult:  # fmt: skip
        """The result, with a line on what the command was given; if it failed for want of more, how to run it again."""
        if given:
            gone = "; what it stored outside of the workspace is gone" if "network" in given else ""
            words = "unconfined" if "unconfined" in given else f"with {named(given)}{gone}"
            result = replace(result, text=f"{result.text}\n[ran {words}]")
        name = self._confines(plan.needs).name
        if plan.read_only or name == "unconfined" or not result.error:
            return result
        wants = wanted(result.text, name) - plan.needs - _never_given(workspace)
        line = on_sockets(result.text, name, plan.needs) or ("" if wants else advice(result.text, name))
        result = replace(result, text=f"{result.text}\n[{line}]") if line else result
        retry = self._preview(plan.command, plan.needs | wants, workspace, context) if wants else None
        return replace(result, retry=retry)

    def _but_for_autorun(self, workspace: Workspace, context: ToolContext, cannot: str) -> str:
        """The reason why a command can't be undone, and which autorun files can."""
        if workspace.keeper is None:
            return cannot
        with closing(look_at(workspace, context, keep=False)) as look:
            lost = f", all but {look.not_kept}," if look.not_kept else ""
        return f"{cannot}; only changes of files that run or instruct later tools{lost} can"

    def _warning(self, plan: _Plan) -> str:
        """A notice at the first command that can't be undone: with `--yes` no question says so."""
        if not plan.cannot or self._warned:
            return ""
        self._warned = True
        return f"commands can't be undone here: {plan.cannot}"


def _preview_of(command: Command) -> Preview:
    shown = command.shown
    return Preview(command_line(shown), shown, "bash", subjects=(shown,), command=True)


def _changed(look: Look, keeper: Keeper | None, before: Any, confinement: Confinement) -> Iterator[str]:
    """Lines about the autorun files that the command changed. What the keeper doesn't see itself is kept here."""
    covered = (lambda paths: set()) if before is None else before.covered
    changed = look.changed(restore_git=confinement.name != "unconfined", can_undo=keeper is not None, covered=covered)
    yield from changed.lines
    if keeper:
        keeper.keep_changes(changed.before, changed.after, changed.kept)


def _never_given(workspace: Workspace) -> frozenset[Need]:
    """The needs that no command here can be given: git's folder, in a workspace without one."""
    return frozenset() if os.path.lexists(workspace.root / ".git") else frozenset({"git"})


def _taken_over(git: GitCopy, keeper: Keeper | None) -> tuple[str, ...]:
    """Take over what a command did to the repository; returns lines about what wasn't kept."""
    taken = git.take_over()
    if keeper and taken.moved:
        keeper.note_git(taken.moved)
    return taken.lines
