"""While a plan is made nothing can be changed: the policy refuses it, and commands run where they can't."""

from __future__ import annotations

import json
import select
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.tools.approval.policy import PLANNING, Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.sandbox import Confinement
from ossia.tools.sandbox._seatbelt import profile
from ossia.tools.sandbox.job import SHELL_LIMITS, Job
from ossia.tools.spec import Decision, Effect, NoStop, Preview, Provenance, ToolCall, ToolContext, ToolResult, ToolSpec
from ossia.tools.toolbox import Toolbox
from ossia.tools.undo.journal import Journal
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.support.kernels import count_tokens, shell_confinement
from tests.support.trees import snapshot

EVERYTHING = [Rule("*", "allow"), Rule("container.exec", "allow"), Rule("repo_browser", "allow")]
ADD = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch"


class Planner:
    """A workspace in which a plan is made, all rules allowing everything, and a user who says yes to everything."""

    def __init__(self, folder: Path, confinement: Confinement) -> None:
        self.root = (folder / "ws").resolve()
        (self.root / "inner").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        (self.root / "inner" / "a.txt").write_text("a\n")
        self.data = folder / "data"
        self.data.mkdir()
        self.policy = Policy(EVERYTHING)
        self.policy.read_only = self.policy.accepts_edits = True
        self.journal = Journal(self.data, self.root)
        workspace = Workspace(self.root, trusted=True, keeper=self.journal)
        context = ToolContext(NoStop(), workspace, self.data, count_tokens)
        self.toolbox = Toolbox([*workspace_tools(), Exec(confinement=confinement)], policy=self.policy, context=context)

    def call(self, name: str, **arguments: object) -> ToolResult:
        running = self.toolbox.run(ToolCall("call_1", name, json.dumps(arguments)), stop=NoStop())
        decision = None
        while True:
            try:
                running.send(decision)
            except StopIteration as end:
                assert isinstance(end.value, ToolResult)
                return end.value
            decision = Decision("call_1", True)

    def command(self, text: str) -> ToolResult:
        return self.call("container.exec", command=["bash", "-lc", text])


@pytest.fixture(params=[pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock"])
def planner(request: pytest.FixtureRequest, tmp_path: Path) -> Planner:
    found = shell_confinement(request.param)
    return Planner(tmp_path, found)


def test_it_looks_and_runs_but_changes_nothing(planner: Planner) -> None:
    before = snapshot(planner.root)
    assert "a\n" in planner.call("repo_browser.open_file", path="inner/a.txt").text
    assert "inner/" in planner.call("repo_browser.print_tree", path="", depth=1).text
    assert "<output>\na\n</output>" in planner.command("cat inner/a.txt").text
    written = planner.command("mktemp >/dev/null && echo temporary files work")
    assert "temporary files work" in written.text, written.text
    refused = planner.call("repo_browser.apply_patch", patch=ADD)
    assert refused.error and PLANNING in refused.text
    for attempt in (
        "echo x >inner/a.txt",
        "echo x >new.txt",
        "rm inner/a.txt",
        "mv inner moved",
        "mkdir made",
        "ln -s /etc/passwd link",
        "echo x >.git/hooks/pre-commit",
        "git config user.name x",
        "truncate -s 0 inner/a.txt",
        f"cd / && echo x >{planner.root}/inner/a.txt",
    ):
        done = planner.command(attempt)
        assert done.error and done.notices == (), (attempt, done.text)
    planner.command("chmod 777 inner/a.txt; touch -d 2001-01-01 inner/a.txt new.txt")  # Landlock's pretends to
    assert snapshot(planner.root) == before
    assert list(planner.journal.turns()) == []


REACH = """\
import os, socket
def attempt(kind, what):
    try:
        what()
        print(kind, "was reached")
    except OSError as error:
        print(kind, error.strerror)
attempt("stream", lambda: socket.socket(socket.AF_UNIX).connect("stream"))
attempt("sent", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "datagrams"))
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    attempt("pair", lambda: socket.socketpair(socket.AF_UNIX, kind)[0].sendmsg([b"x"], [], 0, "datagrams"))
left, right = socket.socketpair()
left.send(b"pairs work")
print(right.recv(20).decode())
"""


def test_no_program_is_reached_that_could_change_it(planner: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's tmux or debugger may listen at a socket in the workspace."""
    (planner.root / "reach.py").write_text(REACH)
    monkeypatch.chdir(planner.root)  # a socket's path may have 108 bytes
    with socket.socket(socket.AF_UNIX) as stream, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams:
        stream.bind("stream")
        stream.listen()
        datagrams.bind("datagrams")
        text = planner.command("/usr/bin/python3 reach.py").text
        assert select.select([stream, datagrams], [], [], 0)[0] == []
    assert "was reached" not in text and "pairs work" in text, text
    loop = "import asyncio; asyncio.run(asyncio.sleep(0))"
    for program in ("git status --short", "ls -l", "id", f"/usr/bin/python3 -c '{loop}'"):
        done = planner.command(program)
        assert not done.error, done.text


def test_in_another_folder_it_changes_nothing_either(planner: Planner) -> None:
    before = snapshot(planner.root)
    done = planner.call("container.exec", command=["cp", "a.txt", "b.txt"], workdir="inner")
    assert done.error and snapshot(planner.root) == before
    assert done.text.endswith(f"cwd: {planner.root}/inner")


def test_once_it_is_over_calls_are_ruled_on_as_before(planner: Planner) -> None:
    planner.policy.read_only = False
    assert not planner.call("repo_browser.apply_patch", patch=ADD).error
    assert not planner.command("mv inner/a.txt inner/b.txt").error
    assert (planner.root / "inner" / "b.txt").exists() and (planner.root / "new.txt").exists()


@pytest.mark.parametrize(
    ("provenance", "name", "effects", "allowed"),
    [
        ("built-in", "browser.search", {"read", "send"}, True),
        ("built-in", "repo_browser.apply_patch", {"write"}, False),
        ("built-in", "python", {"run"}, True),
        ("built-in", "container.exec", {"run", "write"}, False),
        ("user", "functions.lookup", {"read"}, True),
        ("user", "functions.post", {"read", "send"}, False),
        ("user", "functions.plain", set(), False),
        ("user", "functions.other", {"run"}, False),
        ("mcp", "functions.s__search", {"read", "send"}, True),
        ("mcp", "functions.s__write", {"read", "write", "run", "send"}, False),
    ],
)
def test_what_may_be_called(provenance: Provenance, name: str, effects: set[Effect], allowed: bool) -> None:
    """Whatever the rules say, and whatever was answered before."""
    policy = Policy(EVERYTHING)
    spec = ToolSpec(name, "", effects=frozenset(effects), trained="functions" not in name, provenance=provenance)
    policy.remember(spec, Preview("x"), {})
    policy.accepts_edits = policy.read_only = True
    ruling = policy.rule_on(spec, Preview("x"), {})
    assert (ruling.action != "deny") is allowed and (allowed or ruling.reason == PLANNING)


def test_always_is_not_offered() -> None:
    """The rule would allow the same call later, when it can change things."""
    spec = ToolSpec("container.exec", "", effects=frozenset({"run", "write"}), trained=True, provenance="built-in")
    policy, preview = Policy(), Preview("x", subjects=("make x",), command=True, effects=frozenset({"run"}))
    offered = policy.rule_on(spec, preview).rules
    policy.read_only = True
    assert (offered, policy.rule_on(spec, preview).rules) == (("container.exec:make x",), ())


def test_nothing_unconfined_runs() -> None:
    spec = ToolSpec("python", "", effects=frozenset({"run"}), trained=True, provenance="built-in")
    policy = Policy(EVERYTHING)
    policy.read_only = True
    assert policy.rule_on(spec, Preview("x", unconfined=True)).action == "deny"


def test_the_profile_of_macos_lets_it_read_only(tmp_path: Path) -> None:
    job = Job(tmp_path / "ws", tmp_path / "scratch", SHELL_LIMITS, command="true")
    folder = f'"{tmp_path.resolve()}/ws"'
    writes = {
        read_only: next(
            line for line in profile(replace(job, read_only=read_only)).splitlines() if "allow file-write*" in line
        )
        for read_only in (False, True)
    }
    assert folder in writes[False] and folder not in writes[True]
    assert folder in next(line for line in profile(replace(job, read_only=True)).splitlines() if "file-read* " in line)
