"""`container.exec` and what a command needs beyond the confinement: asked before, recognised after, given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import parse_rule
from ossia.tools.calls.results import RAN_ONCE, REFUSED, UNASKED, UNASKED_PARTS
from ossia.tools.sandbox import ConfinementName
from ossia.tools.spec import ApprovalAsked, Decision, Need, NoStop, ToolCall, ToolContext, ToolResult
from ossia.tools.toolbox import Toolbox
from ossia.tools.work._wants import advice, wanted
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.support.kernels import count_tokens, shell_confinement, with_python

LOCKED = "fatal: Unable to create '/w/.git/index.lock': "


@pytest.mark.parametrize(
    ("output", "needs"),
    [
        (f"{LOCKED}Read-only file system", {"git"}),
        (f"{LOCKED}Permission denied", {"git"}),
        (f"{LOCKED}File exists.\n\nAnother git process seems to be running", set()),
        ("fatal: cannot lock ref 'refs/tags/v1': Unable to create '/w/.git/refs/tags/v1.lock': Read-only", set()),
        ("error: cannot open '.git/FETCH_HEAD': Read-only file system", {"git"}),
        ("error: insufficient permission for adding an object to repository database .git/objects", {"git"}),
        ("error: unable to create temporary file: Read-only file system\nfatal: unable to write note object", {"git"}),
        ("error: could not lock config file .git/config: Read-only file system", set()),
        ("curl: (6) Could not resolve host: a.test", {"network"}),
        ("curl: (7) Failed to connect to 10.0.0.1 port 80 after 0 ms: Couldn't connect to server", {"network"}),
        ("curl: (7) Failed to connect to 127.0.0.1 port 80 after 0 ms: Couldn't connect to server", set()),
        ("wget: unable to resolve host address ‘a.test’", {"network"}),
        ("ssh: Could not resolve hostname github.com: Temporary failure in name resolution", {"network"}),
        ("…: Failed to establish a new connection: [Errno -2] Name or service not known')': /six/", {"network"}),
        ("  cause: failed to lookup address information: Temporary failure in name resolution", {"network"}),
        ("  [6] Could not resolve hostname (Could not resolve host: index.crates.io)", {"network"}),
        ("npm error request to https://r.test/x failed, reason: getaddrinfo EAI_AGAIN r.test", {"network"}),
        ("npm error errno ENETUNREACH", {"network"}),
        ("Error: getaddrinfo ENOTFOUND a.test", {"network"}),
        ("a.pom: Unknown host repo.test: Temporary failure in name resolution", {"network"}),
        ("Exception in thread main java.net.UnknownHostException: a.test", {"network"}),
        ('proxy: Get "https://p.test/x": dial tcp: lookup p.test: no such host', {"network"}),
        ("x.go:2:8: mkdir /h/go/pkg/mod/cache/download/a.test: read-only file system", {"network"}),
        ("[ERROR] /h/.m2/repository/a/1/a-1.pom.part.lock (No such file or directory)", {"network"}),
        ("OSError: [Errno 101] Network is unreachable", {"network"}),
        ("OSError: [Errno 97] Address family not supported by protocol", {"network"}),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", {"unconfined"}),
        ("permission denied while trying to connect to the Docker daemon socket at unix:///…", {"unconfined"}),
        ("git@a.test: Permission denied (publickey).", {"unconfined"}),
        ("fatal: could not read Username for 'https://a.test': terminal prompts disabled", {"unconfined"}),
        ("make: *** [x] Error 1", set()),
    ],
)
def test_what_the_output_of_a_failed_command_shows(output: str, needs: set[Need]) -> None:
    assert wanted(f"before\n{output}\nafter", "bwrap") == needs


def test_a_service_of_this_machine_is_no_network() -> None:
    refused = "curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect to server"
    assert wanted(refused, "bwrap") == set() and "start it and use it in one command" in advice(refused, "bwrap")
    python = "ConnectionRefusedError: [Errno 111] Connection refused"
    assert wanted(python, "bwrap") == set() and "the user's own servers" in advice(python, "bwrap")
    assert wanted(refused, "landlock") == {"network"}, "there even a server can't start without"
    assert advice("make: *** Error 1", "landlock") == ""
    assert "needs network" in advice("npm error code ENOTCACHED", "bwrap")
    denied = "error: failed to create directory `/w/.venv`: Permission denied (os error 13)"
    assert "only in its folders" in advice(denied, "landlock") and advice(denied, "bwrap") == ""
    said = f"{denied}\ncwd: /w\n[Landlock makes, replaces and deletes no files …]"
    assert advice(said, "landlock") == ""


def test_an_environment_that_is_not_there_may_lie_above() -> None:
    missing = "/bin/bash: line 1: .venv/bin/python: No such file or directory"
    assert "one above the workspace isn't shown" in advice(missing, "bwrap")
    assert advice("cat: .venv/pyvenv.cfg: No such file or directory", "bwrap") == ""


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")


class Shell:
    """A workspace with a repository, a secret beside it, and the questions that were asked."""

    def __init__(self, folder: Path, name: ConfinementName, *rules: str) -> None:
        self.root = (folder / "ws").resolve()
        self.root.mkdir()
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        (self.root / "in").mkdir()
        home = folder / "home"
        home.mkdir()
        self.secret = home / "secret"
        self.secret.write_text("a-secret")
        given = with_python()
        path = os.pathsep.join([str(self.root / "in"), given.get("search_path", "")])
        tool = Exec(confinement=shell_confinement(name), home=home, **{**given, "search_path": path})
        context = ToolContext(NoStop(), Workspace(self.root, trusted=True), folder / "data", count_tokens)
        self.policy = Policy([parse_rule(rule, "allow") for rule in rules])
        self.box = Toolbox([tool], policy=self.policy, context=context)
        self.asked: list[ApprovalAsked] = []
        self.nobody = False

    def run(self, command: str, *, answer: bool = False) -> ToolResult:
        call = ToolCall("c", "container.exec", json.dumps({"command": ["bash", "-lc", command]}))
        running, decision = self.box.run(call, stop=NoStop()), None
        while True:
            try:
                event = running.send(decision)
            except StopIteration as end:
                return end.value
            decision = None
            if isinstance(event, ApprovalAsked):
                self.asked.append(event)
                decision = Decision("c", answer, unasked=not answer and self.nobody)

    @property
    def needs(self) -> list[set[Need]]:
        return [set(one.preview.needs) for one in self.asked]


@pytest.fixture(params=[pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock"])
def name(request: pytest.FixtureRequest) -> ConfinementName:
    return request.param


def test_a_plain_need_is_asked_before_the_first_run(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec")
    result = shell.run("touch in/ran; git add in")
    assert (result.text, shell.needs, (shell.root / "in" / "ran").exists()) == (REFUSED, [{"git"}], False)
    assert shell.asked[0].firm and f"{name}, no network, with a writable .git" in shell.asked[0].preview.conditions


def test_an_unconfined_command_finds_no_program_of_the_workspace(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec", "container.exec[unconfined]:docker ps")
    made = shell.run("cp /bin/echo in/docker && cp /bin/echo in/only-here && only-here found")
    assert "\nfound\n" in made.text and not shell.asked
    assert "ps\n" not in shell.run("docker ps").text and not shell.asked


def test_sockets_that_cannot_be_made_are_explained(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec", "container.exec[network]:python3 in/path.py 1")
    listens = "import socket\nsocket.socket(socket.AF_INET).listen()\n"
    (shell.root / "in" / "listen.py").write_text(listens)
    (shell.root / "in" / "path.py").write_text(
        "import socket\nsocket.socket(socket.AF_UNIX).bind('in/s')\nsocket.socket(socket.AF_UNIX).connect('in/s')"
    )
    heard = shell.run("python3 in/listen.py")
    assert heard.error == (name == "landlock") == ("\n[without network nothing can listen here" in heard.text)
    assert "\n[with network a command has TCP and UDP only" in shell.run("python3 in/path.py 1").text
    reached = shell.run("python3 in/path.py")
    assert (name == "landlock") == ("\n[without network nothing can listen here" in reached.text)


def test_a_need_is_recognised_and_asked_about_once(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec")
    (shell.root / "x.sh").write_text("echo ran >> in/log\ngit add in\n")
    result = shell.run("sh x.sh")
    assert shell.needs == [{"git"}] and shell.asked[0].reason.startswith(RAN_ONCE)
    assert result.error and "index.lock" in result.text
    assert "\n[not given: a writable .git; the user said no" in result.text
    assert (shell.root / "in" / "log").read_text() == "ran\n"
    shell.run("sh x.sh")
    assert len(shell.asked) == 1
    resolves = "import socket; socket.getaddrinfo('host.invalid', 80)"
    shell.run(f'{sys.executable} -IS -c "{resolves}" || python3 -IS -c "{resolves}"')
    assert shell.needs[1:] == [{"network"}]


def test_without_a_person_the_model_reads_that_parts_may_be_allowed(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec[git]:git *")
    shell.nobody = True
    assert [shell.run("echo 1 > in/a && git add in").text for _ in range(2)] == [UNASKED_PARTS] * 2
    assert shell.run("git pull").text == UNASKED and not shell.run("git add in").error


def test_git_is_not_offered_where_it_cannot_be_given(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec")
    (shell.root / ".git").rename(shell.root / "in" / ".git")
    assert shell.run(f"echo \"{LOCKED}Permission denied\"; false").error
    assert shell.asked == []


def test_settings_of_git_are_for_the_user(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec")
    said = "[git's settings, remotes among them, stay as they are: only the user can change them]"
    assert said in shell.run("git remote add up ../up").text
    assert shell.asked == []


def test_what_succeeded_wants_nothing(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec")
    assert not shell.run("echo 'Could not resolve host: evil.test'").error
    assert shell.asked == []


def test_no_repository_needs_no_permission(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec")
    subprocess.run(["rm", "-rf", str(shell.root / ".git")], check=True)
    assert not shell.run("git init -q . && git add -A").error
    assert shell.asked == []


def test_a_rule_gives_all_rights_to_one_command(name: ConfinementName, tmp_path: Path) -> None:
    shell = Shell(tmp_path, name, "container.exec")
    assert "a-secret" not in shell.run(f"cat {shell.secret}").text
    shell.policy.rules = (*shell.policy.rules, parse_rule(f"container.exec[unconfined]:cat {shell.secret}", "allow"))
    assert "a-secret" in (given := shell.run(f"cat {shell.secret}")).text and given.text.endswith("\n[ran unconfined]")
    assert "a-secret" not in shell.run(f"cat {shell.secret}; true").text
    assert shell.asked == []
