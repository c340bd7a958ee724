"""`container.exec` under each confinement, through the toolbox: what works, what is contained, what is cut and ended.

Spec tools §4, row 29, is the section "hostile row 29".
"""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.sandbox import SHELL_LIMITS, Confinement, Job, _cgroup, hostile_folder
from ossia.tools.sandbox._bwrap import Bwrap
from ossia.tools.sandbox._landlock import Landlock
from ossia.tools.sandbox._seatbelt import Seatbelt, profile
from ossia.tools.sandbox.usage import available_bytes
from ossia.tools.spec import (
    ApprovalAsked,
    Decision,
    NoStop,
    Stop,
    ToolCall,
    ToolContext,
    ToolFailed,
    ToolOutput,
    ToolResult,
)
from ossia.tools.toolbox import Toolbox
from ossia.tools.undo.journal import Journal, KeepLimits
from ossia.tools.work._command import Command
from ossia.tools.work.exec import Exec, ShellTiming
from ossia.tools.work.result import for_people
from ossia.tools.workspace import Workspace
from tests.support.floods import flood
from tests.support.kernels import NO_BWRAP, StopByHand, count_tokens, descendants, shell_confinement, with_python
from tests.support.trees import snapshot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

SECRET = "a-secret-of-the-user"
ROOT = os.geteuid() == 0
LIMITS = replace(SHELL_LIMITS, processes=60, memory_bytes=300 << 20, file_bytes=20 << 20)
TIMING = ShellTiming(grace_s=0.3, stop_grace_s=0.15)


@dataclass
class Ran:
    """A finished call: what the screen got, what the model gets, what was asked."""

    outputs: list[ToolOutput]
    result: ToolResult
    asked: list[ApprovalAsked]

    @property
    def text(self) -> str:
        """The output, and the status if it isn't 0; what stands around it is held by the tests of the form."""
        return for_people(self.result.text, "container.exec")


class Shell:
    """One workspace with a repository, its journal, and a toolbox with the shell in it."""

    def __init__(self, folder: Path, confinement: Confinement, user_home: Path, **options: object) -> None:
        self.root = (folder / "ws").resolve()
        self.root.mkdir()
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        (self.root / "inner").mkdir()
        (self.root / "inner" / "a.txt").write_text("a")
        (self.root / "top.txt").write_text("top")
        self.data = folder / "data"
        self.data.mkdir()
        (self.data / "key").write_text(SECRET)
        self.journal = Journal(self.data, self.root)
        settled = {"limits": LIMITS, "timing": TIMING, **with_python(), **options}
        self.tool = Exec(confinement=confinement, home=user_home, **settled)  # type: ignore[arg-type]
        self.trusted, self.keeper = True, True
        self.count_tokens: Callable[[str], int] = count_tokens

    @property
    def name(self) -> str:
        return self.tool.confinement.name

    def run(
        self,
        command: str | list[str],
        *,
        stop: Stop | None = None,
        answer: bool = True,
        give: bool = True,
        **arguments: object,
    ) -> Ran:
        """One call; a text is a command for bash. A `stop` by hand is stopped at the first output.

        `give` False: what it needs beyond its confinement is refused.
        """
        words = ["bash", "-lc", command] if isinstance(command, str) else command
        workspace = Workspace(self.root, self.trusted, self.journal if self.keeper else None)
        context = ToolContext(NoStop(), workspace, self.data, self.count_tokens)
        toolbox = Toolbox([self.tool], policy=Policy([Rule("*", "ask")]), context=context)
        call = ToolCall("call_1", "container.exec", json.dumps({"command": words, **arguments}))
        running = toolbox.run(call, stop=stop or NoStop())
        ran, decision = Ran([], ToolResult(""), []), None
        while True:
            try:
                event = running.send(decision)
            except StopIteration as end:
                ran.result = end.value
                return ran
            decision = None
            if isinstance(event, ToolOutput):
                ran.outputs.append(event)
                if isinstance(stop, StopByHand):
                    stop.stop()
            elif isinstance(event, ApprovalAsked):
                ran.asked.append(event)
                decision = Decision("call_1", answer and (give or not event.preview.needs))


@pytest.fixture
def user_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that commands don't see. Wherever TMPDIR leads: they may see that (docs/confinement.md says so)."""
    with tempfile.TemporaryDirectory(prefix="ossia-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture(params=[pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock"])
def shell(request: pytest.FixtureRequest, tmp_path: Path, user_home: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("OSSIA_SECRET", SECRET)
    (user_home / ".ssh").mkdir()
    (user_home / ".ssh" / "id_rsa").write_text(SECRET)
    return Shell(tmp_path, shell_confinement(request.param), user_home)


under_the_strongest = pytest.mark.parametrize("shell", [""], ids=["strongest"], indirect=True)
"""For what is the same under each confinement: what is asked, counted, cut, and watched from outside."""


@pytest.fixture
def bwrap(tmp_path: Path, user_home: Path) -> Shell:
    return Shell(tmp_path, shell_confinement("bwrap"), user_home)


def replaced_timing(shell: Shell, *, waits_s: float) -> Exec:
    """The same shell with less patience."""
    return Exec(confinement=shell.tool.confinement, limits=LIMITS, timing=replace(TIMING, waits_s=waits_s),
                **with_python())  # fmt: skip


def landlocked(shell: Shell) -> bool:
    return shell.name == "landlock"


@pytest.fixture(autouse=True)
def _others() -> Iterator[None]:
    """Processes of other tests' fixtures, which are none of a call's."""
    OTHERS.update(descendants(os.getpid()))
    yield
    OTHERS.clear()


OTHERS: set[int] = set()


def no_process_left() -> bool:
    """Nothing that a call started lives on: given a moment, since the kernel ends a namespace in its own time."""
    for _ in range(100):
        if OTHERS.issuperset(descendants(os.getpid())):
            return True
        time.sleep(0.05)
    return False


# -- what works --------------------------------------------------------------------------------------------------------


def test_output_of_both_streams_in_its_order_and_the_exit_status(shell: Shell) -> None:
    ran = shell.run("echo one; echo two >&2; echo three; exit 3")
    text = f"<returncode>3</returncode>\n<output>\none\ntwo\nthree\n</output>\ncwd: {shell.root}"
    assert ran.result == ToolResult(text, error=True, taints=frozenset({"private"}))
    assert "".join(output.text for output in ran.outputs) == "one\ntwo\nthree\n"
    ran = shell.run("true")
    text = f"<returncode>0</returncode>\n<output>\n</output>\ncwd: {shell.root}"
    assert ran.result == ToolResult(text, taints=frozenset({"private"})) and ran.outputs == []


def test_it_is_bash_in_the_workspace(shell: Shell) -> None:
    text = shell.run("pwd; [[ a == a ]] && echo bash; cat inner/a.txt; cat <(echo ' sub'); git status --short").text
    assert text.splitlines() == [str(shell.root), "bash", "a sub", "?? inner/", "?? top.txt"]


def test_programs_it_cannot_start_hide_none_that_it_can(shell: Shell, user_home: Path) -> None:
    """Folders of the home (shims), links into it, a folder closed by its mode, empty and relative entries."""
    shims, tools, closed = user_home / "shims", shell.root / "tools", shell.root / "closed"
    for folder, name in ((shims, "sort"), (shims, "cat"), (tools, "mine"), (closed, "head")):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("#!/bin/sh\necho from $0\n")
        (folder / name).chmod(0o755)
    (tools / "cat").symlink_to(shims / "cat")
    (user_home / "bin").symlink_to(tools)
    closed.chmod(0)
    entries = [shims, closed, user_home / "bin", "", ".", "inner", shims / "cat", tools]
    path = os.pathsep.join(map(str, entries))
    shell.tool = Exec(confinement=shell.tool.confinement, home=user_home, search_path=path)
    shell.keeper = False
    ran = shell.run("printf 'b\\na\\n' | sort; cat top.txt; echo; mine; head -n 1 top.txt; echo; echo $PATH")
    closed.chmod(0o755)
    *lines, searched = ran.text.splitlines()
    assert lines == ["a", "b", "top", f"from {tools}/mine", "top"], ran.text
    folders = [folder for folder in searched.split(":") if not folder.startswith(("/usr", "/bin", "/sbin"))]
    assert folders[-1] == str(tools) and len(folders) == (2 if landlocked(shell) else 1), searched


def test_it_writes_the_workspace_and_undo_takes_it_back(shell: Shell) -> None:
    first = snapshot(shell.root)
    shell.journal.begin_turn("t")
    ran = shell.run("echo more >> inner/a.txt; mkdir inner/x; mv inner/a.txt inner/x/b.txt; echo y > top.txt")
    assert ran.text == ""
    assert (shell.root / "inner" / "x" / "b.txt").read_text() == "amore\n"
    shell.journal.end_turn()
    undone = shell.journal.undo()
    assert undone and undone.skipped == ()
    assert snapshot(shell.root) == first


@under_the_strongest
def test_the_output_streams_as_it_comes(shell: Shell) -> None:
    """The command waits for a file that is made only once its first line was seen."""
    workspace = Workspace(shell.root, True, None)
    context = ToolContext(NoStop(), workspace, shell.data, count_tokens)
    command = "echo first; while [ ! -e inner/go ]; do sleep 0.02; done; echo second"
    arguments = {"command": ["bash", "-lc", command]}
    running = shell.tool.run(arguments, call_id="call_1", context=context)
    assert next(running) == ToolOutput("call_1", "first\n")
    (shell.root / "inner" / "go").touch()
    assert next(running) == ToolOutput("call_1", "second\n")
    running.close()


@under_the_strongest
def test_text_is_decoded_across_pieces_and_cleaned(shell: Shell) -> None:
    ran = shell.run(r"printf '\303'; sleep 0.2; printf '\251 \377 \033[31mred\033[0m 10%%\r100%%\033[K\n'")
    assert ran.text == "100%"
    assert "".join(output.text for output in ran.outputs) == "é � \x1b[31mred\x1b[0m 10%\r100%\x1b[K\n"


@under_the_strongest
def test_the_question(shell: Shell) -> None:
    ran = shell.run("rm -rf inner", answer=False)
    (asked,) = ran.asked
    assert ran.result.error and (shell.root / "inner").exists()
    assert asked.preview.summary == "Run rm -rf inner"
    assert asked.preview.conditions == f"confined by {shell.name}, no network"
    assert (asked.preview.detail, asked.preview.subjects, asked.preview.command) == (
        "rm -rf inner", ("rm -rf inner",), True,
    )  # fmt: skip
    assert asked.preview.unconfined is False


@under_the_strongest
def test_the_question_says_what_cannot_be_undone(shell: Shell) -> None:
    shell.keeper = False
    assert "it can't be undone: nothing keeps what it changes" in shell.run("true").asked[0].preview.conditions
    shell.keeper = True
    shell.journal = Journal(shell.data, shell.root, limits=KeepLimits(command_files=2))
    ran = shell.run("echo x > inner/new; echo done")
    assert "it can't be undone: the workspace holds more than 2 files" in ran.asked[0].preview.conditions
    assert ran.text == "done"


@under_the_strongest
def test_without_a_question_the_first_result_says_what_cannot_be_undone(shell: Shell) -> None:
    shell.journal = Journal(shell.data, shell.root, limits=KeepLimits(command_files=2))
    (told,) = shell.run("echo x").result.notices
    assert told.startswith("commands can't be undone here: the workspace holds more than 2 files")
    assert shell.run("echo x").result.notices == ()


@under_the_strongest
def test_without_git_commands_cannot_be_undone(shell: Shell) -> None:
    shell.journal = Journal(shell.data, shell.root, programs=())
    conditions = shell.run("true").asked[0].preview.conditions
    assert "it can't be undone: git, which keeps what commands change, isn't installed; only changes of" in conditions


@under_the_strongest
def test_what_git_ignores_is_said_once(shell: Shell) -> None:
    (shell.root / ".gitignore").write_text("*.o\n")
    (shell.root / "a.o").touch()
    said = "undo won't restore what git ignores (a.o), only files there that run or instruct later tools"
    assert shell.run("true").result.notices == (said,)
    assert shell.run("true").result.notices == ()


@under_the_strongest
def test_what_it_brings(shell: Shell) -> None:
    shell.trusted = False
    assert shell.run("echo x").result.taints == {"private", "outside"}


@under_the_strongest
@pytest.mark.parametrize(
    "command",
    [
        "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF",
        "cd inner && apply_patch '*** Begin Patch'",
        "cat <<'EOF' | apply_patch\n*** Begin Patch\n*** End Patch\nEOF",
        "apply_patch <<'EOF' && ls\n*** Begin Patch\n*** End Patch\nEOF",
        "ls\n  /bin/apply_patch < a.patch",
        "applypatch x",
    ],
)
def test_a_patch_as_a_command_is_sent_to_its_tool(shell: Shell, command: str) -> None:
    ran = shell.run(command)
    assert ran.result.error and ran.asked == []
    assert ran.text.startswith("Error: apply_patch is not a program: call the tool repo_browser.apply_patch")


@under_the_strongest
@pytest.mark.parametrize("text", ['{"command": ["ls"', '["ls", "-l"', '[ "ls", "-l" ]', ' {"cmd": "ls"} '])
def test_json_is_no_command(shell: Shell, text: str) -> None:
    ran = shell.run(text)
    assert ran.text.startswith("Error: `command` holds JSON") and ran.asked == []


@under_the_strongest
def test_a_command_that_only_names_apply_patch_runs(shell: Shell) -> None:
    ran = shell.run("cat <<'EOF'; echo apply_patch\napply_patch <<X\n*** Begin Patch\nEOF")
    assert ran.text == "apply_patch <<X\n*** Begin Patch\napply_patch"


@under_the_strongest
@pytest.mark.parametrize("command", ["", "  \n", "echo \0", "echo \ud800", "echo " + "x" * 100_001])
def test_commands_that_are_none(shell: Shell, command: str) -> None:
    """By itself: the toolbox mends or refuses some of these before."""
    context = ToolContext(NoStop(), Workspace(shell.root), shell.data, count_tokens)
    with pytest.raises(ToolFailed, match="Error: `command` "):
        shell.tool.preview({"command": ["bash", "-lc", command]}, context=context)


@under_the_strongest
def test_without_a_workspace_and_in_the_systems_folders(shell: Shell, user_home: Path) -> None:
    context = ToolContext(NoStop(), None, shell.data, count_tokens)
    call = ToolCall("c", "container.exec", '{"command": ["ls"]}')
    for workspace, said in (
        (None, "there is no workspace"),
        (Workspace(Path("/")), "/ belongs to the system"),
        (Workspace(Path("/proc/self")), "belongs to the system"),
        (Workspace(user_home.parent.resolve()), "holds whole home folders"),
    ):
        toolbox = Toolbox([shell.tool], policy=Policy(), context=ToolContext(
            context.stop, workspace, shell.data, count_tokens))  # fmt: skip
        running = toolbox.run(call, stop=NoStop())
        with pytest.raises(StopIteration) as end:
            while True:
                next(running)
        assert said in end.value.value.text


@under_the_strongest
def test_the_wish_for_time_is_bounded(shell: Shell) -> None:
    assert shell.run("echo x", timeout=10_000_000).text == "x"
    assert shell.run("echo x", timeout=0).text == "x"
    assert shell.run("sleep 20", timeout=0.2).text == (
        "[ERROR] timed out after 0.2 s: the command and all it started were ended; "
        "a longer `timeout` can be given, at most 600000"
    )


def test_landlock_has_the_folders_of_cargo_and_the_like_made(tmp_path: Path, user_home: Path) -> None:
    shell = Shell(tmp_path, shell_confinement("landlock"), user_home)
    (shell.root / ".git").mkdir(exist_ok=True)
    cargo = "cargo() { mkdir -p target/debug && echo built > target/debug/a; }; cargo build"
    assert shell.run(["bash", "-c", cargo]).text == ""
    assert (shell.root / "target" / "debug" / "a").read_text() == "built\n"
    assert shell.run(["bash", "-c", "npm() { ls -d node_modules; }; npm ls"]).text == "node_modules"
    assert not (shell.root / "node_modules").exists()
    assert "Permission denied" in shell.run(["bash", "-c", "mkdir other"]).text


# -- what a call asks for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell_name", ["bash", "sh", "/bin/bash", "/bin/sh", "/usr/bin/bash", "/usr/bin/sh"])
@pytest.mark.parametrize("flag", ["-c", "-lc"])
def test_these_spellings_are_a_command_for_a_shell(tmp_path: Path, user_home: Path, shell_name: str, flag: str) -> None:
    shell = Shell(tmp_path, shell_confinement("unconfined"), user_home)
    ran = shell.run([shell_name, flag, "echo $((40 + 2)); cat top.txt"])
    assert (ran.text, ran.asked[0].preview.subjects) == ("42\ntop", ("echo $((40 + 2)); cat top.txt",))


@under_the_strongest
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["echo", "$HOME;ls"], "echo '$HOME;ls'"),
        (["bash", "-lc", "echo $1", "y"], "bash -lc 'echo $1' y"),
        (["env", "bash", "-c", "echo x"], "env bash -c 'echo x'"),
        (["bash", "-x", "-c", "true"], "bash -x -c true"),
        (["bash", "-cl", "true"], "bash -cl true"),
        (["BASH", "-c", "true"], "BASH -c true"),
        (["/tmp/bash", "-c", "true"], "/tmp/bash -c true"),
        (["./bash", "-lc", "true"], "./bash -lc true"),
    ],
)
def test_every_other_list_runs_without_one_and_is_shown_as_its_words(
    shell: Shell, words: list[str], shown: str
) -> None:
    ran = shell.run(words)
    assert ran.asked[0].preview.subjects == (shown,)
    if words[0] == "echo":
        assert ran.text == "$HOME;ls"
    ruling = Policy([Rule("container.exec", "allow", "true")]).rule_on(shell.tool.spec, ran.asked[0].preview)
    assert ruling.action == "ask"


def test_a_bash_of_the_workspace_is_not_the_one_that_runs(tmp_path: Path, user_home: Path) -> None:
    shell = Shell(tmp_path, shell_confinement("landlock"), user_home, search_path=f"{tmp_path / 'ws'}:.:/usr/bin:/bin")
    for name in ("bash", "sh"):
        (shell.root / name).write_text("#!/bin/echo FAKE")
        (shell.root / name).chmod(0o755)
    for words in (["bash", "-lc", "echo real"], ["sh", "-c", "echo real"]):
        assert shell.run(words).text == "real"


@under_the_strongest
def test_the_folder_that_it_begins_in(shell: Shell, tmp_path: Path) -> None:
    (shell.root / "in").symlink_to("inner")
    (shell.root / "out").symlink_to(tmp_path)
    for workdir, there, shown in ((".", "", "pwd"), ("", "", "pwd"), ("inner", "/inner", "cd inner && pwd"),
                                  (str(shell.root / "inner"), "/inner", "cd inner && pwd"),
                                  ("in", "/inner", "cd inner && pwd")):  # fmt: skip
        for words in (["bash", "-lc", "pwd"], ["pwd"]):
            ran = shell.run(words, workdir=workdir)
            assert (ran.text, ran.asked[0].preview.subjects) == (f"{shell.root}{there}", (shown,))
            assert ran.result.text.endswith(f"</output>\ncwd: {shell.root}{there}")
    for workdir in ("..", "/", str(tmp_path), "out", "top.txt", "missing", "in/../.."):
        ran = shell.run(["touch", "made"], workdir=workdir)
        assert ran.result.error and ran.asked == [], workdir
    assert not list(tmp_path.rglob("made"))


@under_the_strongest
def test_a_rule_for_a_command_is_about_the_workspace_itself(shell: Shell) -> None:
    for name in ("container.exec", "container.*"):
        policy = Policy([Rule(name, "allow", "make*")])
        for arguments, action in (({"workdir": "."}, "allow"), ({}, "allow"), ({"workdir": "inner"}, "ask")):
            (asked,) = shell.run(["make", "all"], answer=False, **arguments).asked
            assert policy.rule_on(shell.tool.spec, asked.preview).action == action
        (asked,) = shell.run("make all", answer=False, workdir="inner").asked
        assert Policy([Rule(name, "deny", "make*")]).rule_on(shell.tool.spec, asked.preview).action == "deny"


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [
        (5, 5), (999, 600), (5000, 5), (1000, 1), (100_000, 100), (10_000_000, 600), (0.5, 0.5), (0, 60), (-1, 60),
        (None, 60), (float("nan"), 60), (float("inf"), 600), (10**400, 600),
    ],
)  # fmt: skip
def test_a_small_timeout_is_meant_as_seconds(tmp_path: Path, timeout: float | None, seconds: float) -> None:
    arguments = {"command": ["ls"]} | ({} if timeout is None else {"timeout": timeout})
    assert Command.of(arguments, tmp_path.resolve()).timeout_s == seconds


def test_the_returncode(shell: Shell) -> None:
    def code(words: list[str], **arguments: object) -> str:
        return shell.run(words, **arguments).result.text.partition("\n")[0]

    assert code(["false"]) == code(["bash", "-lc", "exit 1"]) == "<returncode>1</returncode>"
    assert code(["bash", "-lc", "kill -KILL $$"]) == "<returncode>137</returncode>"
    assert code(["sleep", "20"], timeout=0.2) == "<returncode>124</returncode>"
    assert code(["no-such-program-here"]) == "<returncode>127</returncode>"
    assert shell.run(["bash", "-lc", "exit 124"]).text == "[exit status 124]"


@under_the_strongest
def test_of_much_output_head_and_tail_are_kept(shell: Shell) -> None:
    text = shell.run(["seq", "1", "5000"]).text
    head, told, tail = text.partition("\n[... ")
    assert told and head.startswith("1\n2\n3\n") and tail.endswith("\n4999\n5000") and "characters omitted]" in tail
    assert 9_000 < len(text) <= 10_100
    assert shell.run(["seq", "1", "1000"]).text.count("\n") == 999  # 3,892 characters: whole


@under_the_strongest
@pytest.mark.whole_program
@pytest.mark.parametrize("vocabulary", ["etude_tokenizer", "o200k_tokenizer"])
def test_it_is_cut_once_by_characters_and_tokens(shell: Shell, vocabulary: str, request: pytest.FixtureRequest) -> None:
    tokenizer = request.getfixturevalue(vocabulary)
    shell.count_tokens = lambda text: len(tokenizer.encode(text))
    text = shell.run("for i in $(seq 2000); do echo 7 1 4 2; done").text
    head, _, rest = text.partition("\n[... ")
    omitted, _, tail = rest.partition(" characters omitted]\n")
    assert len(head) + int(omitted) + len(tail) in range(15_990, 16_001)
    assert 7_000 < shell.count_tokens(text) < 7_700 and "omitted" not in head + tail


# -- hostile row 29 ----------------------------------------------------------------------------------------------------


def test_row_29_the_repository_is_only_read(shell: Shell) -> None:
    before = snapshot(shell.root / ".git")
    shell.run("echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; ln -s ../../x .git/hooks/post-merge")
    shell.run("rm -rf .git; mv .git elsewhere; git config core.fsmonitor evil; git $(echo commit) --allow-empty; true")
    shell.run("cp inner/a.txt .git/config; mkdir .git/new; mv inner/a.txt .git/; rmdir .git; ln -sfn inner .git")
    assert snapshot(shell.root / ".git") == before
    assert shell.run("git log 2>&1 | head -1; test -e .git/HEAD && echo there").text.endswith("there")


@pytest.mark.parametrize("kind", [".git file", ".ossia", "link"])
def test_row_29_other_guarded_places(shell: Shell, kind: str) -> None:
    if kind == ".git file":
        shutil.rmtree(shell.root / ".git")
        (shell.root / ".git").write_text("gitdir: ../elsewhere")
    elif kind == ".ossia":
        (shell.root / ".ossia").mkdir()
        (shell.root / ".ossia" / "config.toml").write_text("x")
    else:
        (shell.root / ".git").rename(shell.root / "real")
        (shell.root / ".git").symlink_to("real")
    before = snapshot(shell.root)
    shell.run("echo y > .git; rm -rf .ossia; echo y > .ossia/config.toml; echo y > .git/config; echo y > .git/hooks/z")
    assert snapshot(shell.root) == before


@pytest.mark.needs_bwrap
def test_rules_that_a_command_makes_are_told(bwrap: Shell) -> None:
    """A run with --trust would start the servers that they name, unconfined."""
    before = snapshot(bwrap.root)
    text = bwrap.run("mkdir .ossia; echo '{}' > .ossia/mcp.json; chmod 500 .").text
    assert "[a command changed files that run or instruct later tools: .ossia; " in text
    (bwrap.root / ".ossia" / "mcp.json").unlink()
    bwrap.root.chmod(0o700)
    (bwrap.root / ".ossia").rmdir()
    bwrap.root.chmod(0o755)
    assert snapshot(bwrap.root) == before


def test_beside_a_repository_further_down_it_reads_and_writes(shell: Shell) -> None:
    subprocess.run(["git", "init", "-q", str(shell.root / "inner" / "sub")], check=True)
    assert shell.run("cat inner/a.txt; echo x > inner/sub/file; echo y > inner/a.txt").text == "a"
    assert (shell.root / "inner" / "a.txt").read_text() == "y\n" and (shell.root / "inner" / "sub" / "file").exists()


@pytest.mark.needs_bwrap
def test_row_29_a_repository_further_down_is_only_read_too(bwrap: Shell) -> None:
    subprocess.run(["git", "init", "-q", str(bwrap.root / "inner" / "sub")], check=True)
    before = snapshot(bwrap.root / "inner" / "sub" / ".git")
    bwrap.run("echo evil > inner/sub/.git/hooks/pre-commit; rm -rf inner/sub/.git; echo x > inner/sub/file")
    assert snapshot(bwrap.root / "inner" / "sub" / ".git") == before
    assert (bwrap.root / "inner" / "sub" / "file").exists()


def test_row_29_it_kills_only_its_own(shell: Shell) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            shell.run(f"kill -9 {bystander.pid} {os.getpid()} {os.getppid()}; kill -9 -1; echo left")
            assert bystander.poll() is None
        finally:
            bystander.kill()
    assert shell.run("echo still here").text == "still here"


def test_row_29_nothing_outlives_the_call(shell: Shell) -> None:
    ran = shell.run(
        "sleep 300 & disown; (setsid sleep 300 &); nohup sleep 300 >/dev/null 2>&1 & "
        "(trap '' TERM HUP INT; exec setsid -f sleep 300) ; echo started"
    )
    begin, end = "started\n[ended with the command: ", "A server and its client belong in one command]"
    assert ran.text.startswith(begin) and ran.text.endswith(end) and not ran.result.error
    assert no_process_left()


def test_what_it_left_running_is_named(shell: Shell) -> None:
    serve = "python3 -c 'import sys, time; open(sys.argv[1], \"w\"); time.sleep(300)'"
    ran = shell.run(f"{serve} inner/a & setsid {serve} inner/b & "
                    "while [ ! -e inner/a -o ! -e inner/b ]; do sleep 0.02; done; exit 3")  # fmt: skip
    named = "[ended with the command: python3 (2 processes). A server and its client belong in one command]"
    assert ran.text == f"{named}\n[exit status 3]"
    assert shell.run("sleep 0.01 & wait").text == ""


ON_ITS_OUTPUT = "import select; select.select([1], [], [])"
ON_A_TERMINAL = "import pty; pty.spawn(['/bin/cat'])"


@pytest.mark.parametrize(
    ("code", "program"),
    [(ON_ITS_OUTPUT, "python3"), pytest.param(ON_A_TERMINAL, "cat", marks=pytest.mark.needs_bwrap)],
)
def test_a_program_that_waits_for_a_person_is_ended(shell: Shell, code: str, program: str) -> None:
    if code == ON_A_TERMINAL and landlocked(shell):
        pytest.skip("Landlock refuses terminals")
    shell.tool = replaced_timing(shell, waits_s=0.3)
    ran = shell.run(["python3", "-c", code])
    waited = "waited for input, and nobody types: use a file, options, another way"
    assert ran.text == f"[ERROR] the command was ended: {program} {waited}"
    assert ran.result.error and no_process_left()


@under_the_strongest
def test_a_program_that_waits_goes_on_while_another_may_feed_it(shell: Shell) -> None:
    shell.tool = replaced_timing(shell, waits_s=0.3)
    waits = f"python3 -c {shlex.quote(ON_ITS_OUTPUT)}"
    assert shell.run(f"{waits} & sleep 2; kill $!; wait; echo done").text == "done"


@under_the_strongest
def test_a_question_to_nobody_is_explained(shell: Shell) -> None:
    nobody = "[nobody can answer: the command's input is empty, and there is no terminal]"
    assert shell.run("printf 'Proceed? [y/n] '; read answer").text == f"Proceed? [y/n] \n{nobody}\n[exit status 1]"
    assert shell.run(["sh"]).text == nobody
    assert shell.run("echo Proceed?").text == "Proceed?"


def test_row_29_no_network(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ran = shell.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED; exec 3<>/dev/udp/192.0.2.1/53 && "
                        "echo SENT >&3 && echo UDP; getent hosts example.com && echo RESOLVED", give=False)  # fmt: skip
        if shutil.which("curl"):
            ran.outputs += shell.run(f"curl -sm 2 http://127.0.0.1:{port}/ && echo CONNECTED", give=False).outputs
        assert select.select([server], [], [], 0)[0] == []
    shown = "".join(output.text for output in ran.outputs)
    assert "CONNECTED" not in shown and "RESOLVED" not in shown and "UDP" not in ran.text.replace("SENT", "")


def test_row_29_sockets_with_a_path_outside_the_workspace(shell: Shell, elsewhere: Path) -> None:
    path = elsewhere / "docker.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        python = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r}); print('CONNECTED')"
        assert "CONNECTED" not in shell.run(f'python3 -c "{python}"').text
        assert select.select([server], [], [], 0)[0] == []


@under_the_strongest
def test_row_29_a_flood_of_output_is_cut_while_it_comes(shell: Shell) -> None:
    ran = shell.run("echo begin; head -c 300000000 /dev/zero | tr '\\0' x; echo; echo end", timeout=120)
    assert ran.text.startswith("begin\n") and ran.text.endswith("end") and "characters omitted]" in ran.text
    assert count_tokens(ran.text) < 4200
    assert sum(len(output.text) for output in ran.outputs) < 2_000_000
    assert "[... not all is shown while it runs]" in ran.outputs[-1].text


def test_row_29_the_input_is_empty(shell: Shell) -> None:
    assert shell.run("cat; read line || echo nothing to read").text == "nothing to read"


def test_row_29_ignoring_sigterm_does_not_help(shell: Shell) -> None:
    ran = shell.run("trap '' TERM INT HUP; while :; do sleep 0.05; done", timeout=0.4)
    assert ran.text.startswith("[ERROR] timed out after 0.4 s") and ran.result.error
    assert no_process_left()


def test_row_29_it_is_asked_to_end_first(shell: Shell) -> None:
    ran = shell.run("trap 'echo cleaned up; exit 0' TERM; while :; do sleep 0.05; done", timeout=2)
    assert "cleaned up\n[ERROR] timed out after 2 s" in ran.text


def test_a_stop_ends_it(shell: Shell) -> None:
    ran = shell.run("trap '' TERM; echo on; sleep 300 & sleep 300", stop=StopByHand(stop_reason="time"))
    assert ran.text == "on\n[ERROR] interrupted: out of time: the command and all it started were ended"
    assert no_process_left()


def test_closing_the_call_ends_it(shell: Shell) -> None:
    context = ToolContext(NoStop(), Workspace(shell.root, True, shell.journal), shell.data, count_tokens)
    running = shell.tool.run(
        {"command": ["bash", "-lc", "echo x > inner/new; echo on; sleep 300"]}, call_id="c", context=context
    )
    assert next(running).text == "on\n"
    running.close()
    assert no_process_left()
    undone = shell.journal.undo()
    assert undone and undone.removed == ("inner/new",)


# -- what it doesn't see -----------------------------------------------------------------------------------------------


def test_secrets_are_not_there(shell: Shell, user_home: Path, elsewhere: Path) -> None:
    (elsewhere / "other").write_text(SECRET)
    places = [user_home / ".ssh" / "id_rsa", shell.data / "key", elsewhere / "other", "/etc/shadow", "/root/.bashrc",
              f"/proc/{os.getpid()}/environ", f"/proc/{os.getppid()}/environ", "/proc/1/environ"]  # fmt: skip
    look = '; do [ -s "$f" ] && cat "$f" | head -c 300; done'
    text = shell.run("env; for f in " + " ".join(map(str, places)) + look).text
    assert SECRET not in text and "root:" not in text and "LANG=C.UTF-8" in text
    variables = {line.split("=")[0] for line in shell.run("env").text.splitlines()}
    known = {"PATH", "LANG", "TERM", "HOME", "TMPDIR", "PWD", "PAGER", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "SHLVL", "_",
             "OLDPWD", "npm_config_yes", "npm_config_fetch_retries"}  # fmt: skip
    assert variables <= known
    inside = shell.run("for p in /proc/[0-9]*; do cat $p/environ 2>/dev/null; done | tr '\\0' '\\n'").text
    assert SECRET not in inside


@pytest.mark.skipif(not ROOT, reason="only root can make a folder that no list of folders has")
def test_ossias_data_and_an_unusual_home_are_hidden_wherever_they_lie(shell: Shell) -> None:
    place = Path(tempfile.mkdtemp(prefix="ossia-", dir="/srv"))
    try:
        for name in ("data", "people/ann"):
            (place / name).mkdir(parents=True)
            (place / name / "key").write_text(SECRET)
        (place / "open").write_text("the rest of the system")
        shell.data = place / "data"
        shell.tool = Exec(confinement=shell.tool.confinement, home=place / "people" / "ann")
        text = shell.run(f"cat {place}/open; cat {place}/data/key {place}/people/ann/key; ls {place}/data").text
        assert SECRET not in text and (landlocked(shell) or "the rest of the system" in text)
        if not landlocked(shell):
            assert shell.run("echo x > ~/x && cat ~/x && echo ~").text == f"x\n{place}/people/ann"
            assert [path.name for path in (place / "people" / "ann").iterdir()] == ["key"]
    finally:
        shutil.rmtree(place)


def test_nothing_outside_is_written(shell: Shell, tmp_path: Path, user_home: Path) -> None:
    places = ["/x", "/usr/x", "/etc/x", "/var/x", "/run/x", "/opt/x", str(tmp_path / "x"), str(shell.data / "x"),
              f"{shell.root}/../x"]  # fmt: skip
    shell.run("; ".join(f"echo x > {place}" for place in places) + "; ln -s / inner/out; echo x > inner/out/x")
    assert [place for place in places if Path(place).exists()] == []
    shell.run("echo x > ~/x; echo x > /tmp/x; ls ~ /tmp")  # in memory, or a folder that is gone
    assert not (user_home / "x").exists()


def test_set_user_id_files_cannot_be_made(shell: Shell) -> None:
    shell.run("cp /bin/true inner/t; chmod 4755 inner/t; chmod u+s inner/t; install -m 4755 /bin/true inner/t2")
    assert not any(path.stat().st_mode & 0o6000 for path in (shell.root / "inner").iterdir())


def test_links_in_the_workspace_grant_nothing(shell: Shell, user_home: Path) -> None:
    (shell.root / "keys").symlink_to(user_home / ".ssh")
    (shell.root / "inner" / "key").symlink_to(user_home / ".ssh" / "id_rsa")
    text = shell.run("cat keys/id_rsa inner/key; echo x > keys/new; echo x > inner/key").text
    assert SECRET not in text
    assert (user_home / ".ssh" / "id_rsa").read_text() == SECRET and not (user_home / ".ssh" / "new").exists()


def test_the_home_as_the_workspace_hides_its_secrets(shell: Shell, user_home: Path) -> None:
    shell.root = user_home.resolve()
    shell.journal = Journal(shell.data, shell.root)
    (user_home / "notes.txt").write_text("notes")
    text = shell.run("cat notes.txt .ssh/id_rsa; echo x >> notes.txt; rm -rf .ssh/id_rsa").text
    assert text.startswith("notes") and SECRET not in text
    assert (user_home / ".ssh" / "id_rsa").read_text() == SECRET


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (":(){ : | : & }; f() { sleep 30 & f; }; f", ("processes", "fork", "Resource temporarily unavailable")),
        ("python3 -c \"x = ['y' * 9_000_000 for _ in range(99)]; import time; time.sleep(9)\"", ("memory",)),
        ("head -c 50000000 /dev/zero > inner/big; ls -l inner/big", ("File size limit", "20971520", "File too large")),
    ],
    ids=["processes", "memory", "a file"],
)
def test_limits(shell: Shell, script: str, said: tuple[str, ...]) -> None:
    text = shell.run(script, timeout=20).text
    assert any(one in text for one in said), text[-300:]
    assert sum(path.stat().st_size for path in (shell.root / "inner").iterdir()) < 400 << 20
    assert no_process_left()


@under_the_strongest
def test_the_disk_is_a_limit(shell: Shell) -> None:
    """Of the whole disk, on which others write, too: so only here it is small."""
    limits = replace(LIMITS, disk_bytes=60 << 20)
    shell.tool = Exec(confinement=shell.tool.confinement, home=None, limits=limits, timing=TIMING, **with_python())
    fill = "i=0; while :; do i=$((i+1)); head -c 15000000 /dev/zero > inner/$i; sleep 0.05; done"
    assert "disk space" in shell.run(fill, timeout=60).text
    assert no_process_left()


@under_the_strongest
@pytest.mark.parametrize("make", [
    "os.close(os.open(name, os.O_CREAT))", "os.mkdir(name)", "os.link('a', name)", "os.symlink('a', name)",
    "os.mkdir(name), os.chdir(name)", "os.mkfifo(name)",
])  # fmt: skip
def test_the_number_of_new_files_is_a_limit(shell: Shell, make: str) -> None:
    limits = replace(LIMITS, new_names=500)
    shell.tool = Exec(confinement=shell.tool.confinement, home=None, limits=limits, timing=TIMING, **with_python())
    flood = ("import os, itertools, time\nos.chdir('inner'); open('a', 'w')\n"
             f"for name in map(str, itertools.count()): {make}")  # fmt: skip
    try:
        text = shell.run(f"python3 -c \"{flood}; name != '2999' or time.sleep(60)\"", timeout=90).text
    finally:  # too deep for pytest, which removes what earlier runs left
        hostile_folder.remove(shell.root / "inner")
    assert "[ERROR] the command was ended: it made more than 500 files, folders and links" in text
    assert no_process_left()


@under_the_strongest
def test_a_flood_leaves_the_machine_some_memory(shell: Shell) -> None:
    """Sockets, which are no process's own memory."""
    limits = replace(LIMITS, available_bytes=available_bytes() - (200 << 20))
    shell.tool = Exec(confinement=shell.tool.confinement, home=None, limits=limits, timing=TIMING, **with_python())
    (shell.root / "flood.py").write_text(flood("sockets", 1 << 30))
    text = shell.run("python3 flood.py", timeout=120).text
    assert "it left the machine less than" in text or (_cgroup.found() and "it used more than 300 MB" in text)
    assert no_process_left()


def test_ordinary_work_has_room(shell: Shell) -> None:
    """A server and its clients on their own machine, pipes, and some files open at once."""
    (shell.root / "inner" / "work.py").write_text("""
import os, socket
pairs = [socket.socketpair() for _ in range(150)]
for a, b in pairs:
    a.sendall(b'x' * 100_000)
for a, b in pairs:
    while len(b.recv(1 << 20)) == 1 << 20: pass
files = [open(__file__) for _ in range(400)]
pipes = [os.pipe() for _ in range(100)]
import time; time.sleep(1)
print('done')
""")
    limits = replace(LIMITS, memory_bytes=SHELL_LIMITS.memory_bytes)
    shell.tool = Exec(confinement=shell.tool.confinement, home=None, limits=limits, timing=TIMING, **with_python())
    assert shell.run("python3 inner/work.py", timeout=120).text == "done"


def test_ossia_killed_leaves_nothing_running(shell: Shell, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ossia.tools import sandbox\n"
        "from ossia.tools.work.exec import Exec\n"
        "from ossia.tools.spec import NoStop, ToolContext; from ossia.tools.workspace import Workspace\n"
        f"tool = Exec(confinement=sandbox.choose(bwrap={NO_BWRAP if landlocked(shell) else None!r}))\n"
        f"context = ToolContext(NoStop(), Workspace(Path({str(shell.root)!r})), Path({str(tmp_path)!r}), len)\n"
        "command = ['bash', '-lc', 'echo on; sleep 300 & sleep 300']\n"
        "for output in tool.run({'command': command}, call_id='c', context=context):\n"
        "    print(output.text, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as ours:
        assert ours.stdout is not None and ours.stdout.readline() == b"on\n"
        started = descendants(ours.pid)
        assert started
        ours.send_signal(signal.SIGKILL)
        ours.wait()
    for _ in range(200):
        alive = [pid for pid in started if _is_a_sleep(pid)]
        if not alive:
            break
        time.sleep(0.05)
    assert alive == []


def _is_a_sleep(pid: int) -> bool:
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


# -- choosing ----------------------------------------------------------------------------------------------------------


@pytest.mark.needs_bwrap
def test_bubblewrap_is_the_first_choice() -> None:
    assert shell_confinement("bwrap").reason == ""


def test_without_bubblewrap_landlock_and_the_reason() -> None:
    found = shell_confinement("landlock")
    assert "bubblewrap doesn't work here" in found.reason and f"why: {found.reason}" in found.describe()


def test_with_nothing_it_is_off_unless_asked_for(tmp_path: Path, user_home: Path) -> None:
    off = sandbox.choose(bwrap=NO_BWRAP, allow_landlock=False)
    assert off.name == "off" and "--unconfined" in off.reason
    ran = Shell(tmp_path, off, user_home).run("ls")
    assert ran.text.startswith("Error: the shell is off on this machine: bubblewrap") and ran.asked == []


def test_unconfined_runs_and_says_so(tmp_path: Path, user_home: Path) -> None:
    shell = Shell(tmp_path, sandbox.choose(unconfined=True), user_home)
    ran = shell.run(f"echo x > {tmp_path}/outside; echo ~; sleep 300 & disown")
    assert ran.text.startswith(f"{user_home}\n[ended with the command: ") and (tmp_path / "outside").exists()
    assert ran.asked[0].preview.unconfined and "UNCONFINED" in ran.asked[0].preview.conditions
    assert no_process_left()


@pytest.mark.parametrize(("platform", "said"), [("win32", "WSL2"), ("freebsd14", "--unconfined")])
def test_other_systems(monkeypatch: pytest.MonkeyPatch, platform: str, said: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    found = sandbox.choose()
    assert found.name == "off" and said in found.reason


@pytest.mark.parametrize("found", [Bwrap("shell", program=Path("bwrap")), Landlock("shell", abi=5), Seatbelt("shell")])
def test_each_says_what_it_does_not_hold(found: Confinement) -> None:
    text = found.describe()
    assert text.startswith(f"shell: {found.name}\n") and found.confines
    assert [gap for gap in found.gaps if f"  not confined: {gap}" not in text.splitlines()] == []


def test_the_profile_of_macos_names_what_is_only_read(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    job = Job(root, root, SHELL_LIMITS, command="ls", guarded=(root / ".git",))
    text = profile(job)
    assert text.startswith("(version 1)\n(deny default)\n")
    assert f'(deny file-write* (subpath "{root}/.git"))' in text.splitlines()[-1]
