"""What runs later or instructs later: asked about by writers whatever `--yes` says, put aside after commands, told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.command import OSSIA, ossia_text, write_script
from tests.support.documents import answer
from tests.support.folders import Folder
from tests.support.kernels import NO_BWRAP, count_tokens
from tests.support.pty import PtyChat
from tests.support.trees import snapshot
from tests.support.work_calls import runs, writes
from tools import sandbox
from tools.approval import sensitive
from tools.approval.policy import Policy
from tools.approval.rules import Rule
from tools.spec import NoStop, ToolCall, ToolContext, ToolResult
from tools.toolbox import Toolbox
from tools.undo.journal import Journal, KeepLimits
from tools.work.exec import Exec
from tools.work.result import for_people, formed
from tools.workspace import Workspace

ALLOWED = (Rule("repo_browser.apply_patch", "allow"), Rule("container.exec", "allow"))
CODE = "which can make other programs run code"
WORDS = "whose words are instructions for every later run"
LOOK = "look at its settings and hooks before you use git there"
NAMES = [name.replace("*", "x") for later in sensitive.LATER for name in later.names]
ASK = "[repo_browser.apply_patch asks the user about such files]"


def _patch(*lines: str) -> str:
    return json.dumps({"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))})


# -- writers -----------------------------------------------------------------------------------------------------------


def test_the_table_in_the_docs_is_the_one_that_holds() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "approvals.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ((?:`[^`|]+`(?:, )?)+) \|$", page, re.MULTILINE)
    named = [(kind, tuple(re.findall("`([^`]+)`", names))) for kind, names in rows]
    everyday = ("the next test or build", sensitive.EVERYDAY)
    assert named == [*((later.kind, later.names) for later in sensitive.LATER), everyday]


@pytest.mark.parametrize("name", [
    *NAMES, *(f"a/b/{name}" for name in NAMES), ".VSCODE/x", "a/.v\u017fcode/x", ".git./x", "claude.md", "CLAUDE.MD",
    ".//.ZSHRC", "a/b.PTH", ".yarnrc", ".yarnrc.yml", ".yarnrc.yaml",
])  # fmt: skip
def test_yes_answers_for_none_of_them(tmp_path: Path, name: str) -> None:
    """Neither does a rule without a pattern, nor one that doesn't name it: written, moved onto it, or deleted."""
    folder = Folder(tmp_path / "w", rules=(*ALLOWED, Rule("repo_browser.apply_patch", "allow", "**")))
    folder.write("a.md", "old\n")
    assert folder.put(name, "x", answer=False).error
    move = _patch("*** Update File: a.md", f"*** Move to: {name}", "@@", "-old", "+new")
    assert folder.send("apply_patch", move, answer=False).error
    assert folder.tree() == {"a.md": b"old\n"}
    assert [asked.firm for asked in folder.asked] == [True] * 2
    folder.write(name, "x")
    assert folder.send("apply_patch", _patch("*** Delete File: " + name), answer=False).error
    assert folder.asked[-1].firm


def test_a_rule_that_names_it_answers(tmp_path: Path) -> None:
    rules = [Rule("repo_browser.apply_patch", "allow", name) for name in ("**/AGENTS.md", ".vscode/**", ".npmrc")]
    folder = Folder(tmp_path / "w", rules=tuple(rules))
    for name in ("AGENTS.md", "a/AGENTS.md", ".vscode/tasks.json", ".npmrc"):
        assert not folder.put(name, "x").error
    assert folder.asked == []


@pytest.mark.parametrize("name", ["conftest.py", "tests/conftest.py", "Makefile", "web/package.json"])
def test_tests_and_builds_are_everyday_work(tmp_path: Path, name: str) -> None:
    folder = Folder(tmp_path / "w", rules=ALLOWED)
    assert not folder.put(name, "x").error
    assert [(asked.firm, asked.reason) for asked in folder.asked] == [
        (False, f"it changes {name}, which runs with the next test or build")
    ]
    folder = Folder(tmp_path / "w2", rules=(Rule("repo_browser.apply_patch", "allow", "**"),))
    assert not folder.put(name, "x").error and folder.asked == []


def test_of_several_reasons_the_firm_one_counts(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "w", rules=ALLOWED)
    folder.send("apply_patch", _patch("*** Add File: .env", "+x", "*** Add File: AGENTS.md", "+x"), answer=False)
    assert [(asked.firm, asked.reason) for asked in folder.asked] == [(True, f"it changes AGENTS.md, {WORDS}")]


@pytest.mark.parametrize(("there", "written"), [
    ("HEAD", "config"), ("config", "HEAD"), ("HEAD", "hooks/update"), ("hooks/update", "HEAD"), ("HEAD", "commondir"),
    ("HEAD", "config.worktree"), ("", "HEAD config"),
])  # fmt: skip
@pytest.mark.parametrize("where", ["", "docs/"])
def test_a_repository_without_a_work_tree(tmp_path: Path, where: str, there: str, written: str) -> None:
    """Whichever of its files comes last."""
    folder = Folder(tmp_path / "w", rules=(*ALLOWED, Rule("repo_browser.apply_patch", "allow", "**")))
    if there:
        assert not folder.send("apply_patch", _patch(f"*** Add File: {where}{there}", "+x")).error
    assert folder.asked == []
    sections = [line for name in written.split() for line in (f"*** Add File: {where}{name}", "+x")]
    assert folder.send("apply_patch", _patch(*sections), answer=False).error
    assert [asked.firm for asked in folder.asked] == [True] and CODE in folder.asked[0].reason
    exact = tuple(Rule("repo_browser.apply_patch", "allow", where + name) for name in written.split())
    folder = Folder(tmp_path / "w", rules=exact)
    assert not folder.send("apply_patch", _patch(*sections), answer=False).error


def test_what_a_link_with_such_a_name_leads_to(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "w", rules=ALLOWED)
    folder.write("docs/notes.md", "old\n")
    (folder.root / "CLAUDE.md").symlink_to("docs/notes.md")
    assert folder.put("docs/notes.md", "x", answer=False).error
    assert [(asked.firm, asked.reason) for asked in folder.asked] == [
        (True, f"it changes docs/notes.md, where CLAUDE.md leads, {WORDS}")
    ]


# -- commands ----------------------------------------------------------------------------------------------------------


class Shell:
    """A workspace, and commands in it that nobody is asked about. `journaled`: small enough for undo."""

    def __init__(self, folder: Path, confinement: str, *, journaled: bool) -> None:
        self.root = (folder / "ws").resolve()
        (self.root / "sub").mkdir(parents=True)
        (self.root / "sub" / "a.txt").write_text("a\n")
        self.journal = Journal(folder / "data", self.root, limits=None if journaled else KeepLimits(command_files=1))
        found = sandbox.choose(bwrap=NO_BWRAP if confinement == "landlock" else None,
                                     unconfined=confinement == "unconfined")  # fmt: skip
        if found.name != confinement:
            pytest.skip(f"no {confinement} here: {found.reason}")
        self.name, self.journaled = found.name, journaled
        home = folder / "home"
        home.mkdir()
        context = ToolContext(NoStop(), Workspace(self.root, True, self.journal), folder / "data", count_tokens)
        self.toolbox = Toolbox([Exec(confinement=found, home=home)], policy=Policy(ALLOWED), context=context)

    def write(self, name: str, text: str = "old\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, command: str) -> ToolResult:
        """One turn with one call. The command must end well."""
        self.journal.begin_turn("t")
        call = ToolCall("c", "container.exec", json.dumps({"command": ["bash", "-lc", command]}))
        running = self.toolbox.run(call, stop=NoStop())
        try:
            while True:
                next(running)
        except StopIteration as end:
            assert isinstance(end.value, ToolResult)
            assert not end.value.error, end.value.text
            return end.value
        finally:
            self.journal.end_turn()

    def asides(self) -> dict[str, str]:
        """What was put aside: the name it had, and the one it has."""
        found = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*-made-by-a-command-*")]
        return {re.sub(r"-made-by-a-command-[0-9a-f]{6}$", "", path): path for path in found}


CONFINED = [pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock", "unconfined"]


@pytest.fixture(params=CONFINED)
def confined(request: pytest.FixtureRequest) -> str:
    if sys.platform != "linux":
        pytest.skip("bubblewrap and Landlock are Linux's")
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["journal", "no journal"])
def shell(request: pytest.FixtureRequest, tmp_path: Path, confined: str) -> Shell:
    return Shell(tmp_path, confined, journaled=request.param)


def _told(result: ToolResult) -> tuple[str, ...]:
    """What the user is told of what runs later; the model must be told the same."""
    notices = tuple(notice for notice in result.notices if "can't be undone" not in notice)
    for notice in notices:
        assert f"[{notice}]\n" in result.text
    assert (ASK in result.text) == bool(notices)
    return notices


def _made(path: str) -> str:
    """The shell's words that make such a file or folder, with those above it."""
    return f'mkdir -p "$(dirname {path})"; echo x > {path}'


def test_a_command_that_plants_nothing_tells_nothing(shell: Shell) -> None:
    shell.write("AGENTS.md")
    shell.write(".vscode/settings.json")
    shell.write("node_modules/x/AGENTS.md")
    before = snapshot(shell.root)
    result = shell.run("touch AGENTS.md .vscode; mkdir sub/x; echo x | tee sub/x/config sub/HEAD sub/b.txt > Makefile; "
                       "cat AGENTS.md; chmod 600 AGENTS.md; chmod 644 AGENTS.md; rm sub/HEAD")  # fmt: skip
    assert _told(result) == () and for_people(result.text, "container.exec") == "old"
    shell.run("rm -r sub/x sub/b.txt Makefile")
    assert snapshot(shell.root) == before


def test_every_name_is_put_aside_and_told(shell: Shell) -> None:
    """Those of the table, at the top and further down; and undo takes all of it away."""
    before = snapshot(shell.root)
    for where in ("", "sub/"):
        names = [name for name in NAMES if name not in (".git", "git~1")]
        result = shell.run("; ".join(_made(where + name) for name in names))
        weights = {"sub/x.pth"} if where else set()
        # `x.git/config` and `.cargo/config.toml` were put aside alone, in the folders that were made for them
        assert set(shell.asides()) == {where + name for name in names} - weights
        told = _told(result)
        assert len(told) == 21 and told[-1] == f"and so for {len(names) - 20} more"
        assert told[bool(where)].startswith(
            f"a command made {where}.Renviron, {CODE}: it was put aside as {where}.Renviron-made-by-a-command-"
        )
        if shell.journaled:
            assert shell.journal.undo() is not None and snapshot(shell.root) == before
        else:
            subprocess.run("rm -rf .[!.]* [!s]* sit* sub/.[!.]* sub/[!a]*", shell=True, cwd=shell.root, check=True)


def test_a_changed_one_is_as_it_was(shell: Shell) -> None:
    names = ("AGENTS.md", ".vscode/tasks.json", ".npmrc", "sub/.envrc", ".cargo/config.toml")
    for name in names:
        shell.write(name)
    before = snapshot(shell.root)
    result = shell.run("; ".join(f"echo evil >> {name}" for name in names) + "; echo x > .vscode/new.json; echo y > y")
    asides = shell.asides()
    assert {name: (shell.root / name).read_text() for name in names} == dict.fromkeys(names, "old\n")
    assert not (shell.root / ".vscode" / "new.json").exists()
    assert sorted(asides) == [".cargo/config.toml", ".npmrc", ".vscode", "AGENTS.md", "sub/.envrc"]
    assert (shell.root / asides["AGENTS.md"]).read_text() == "old\nevil\n"
    assert sorted(path.name for path in (shell.root / asides[".vscode"]).iterdir()) == ["new.json", "tasks.json"]
    told = _told(result)
    assert len(told) == 6
    assert (f"a command changed AGENTS.md, {WORDS}: it is as it was again, and what the command made of it was "
            f"put aside as {asides['AGENTS.md']}") in told  # fmt: skip
    assert f"a command made .vscode/new.json, {CODE}: it was put aside as {asides['.vscode']}/new.json" in told
    if shell.journaled:
        undone = shell.journal.undo()
        assert undone and undone.skipped == () and snapshot(shell.root) == before


@pytest.mark.parametrize("command", [
    "mkdir x; echo x > x/tasks.json; mv x .vscode", "ln -s sub .vscode", "mkdir .VSCODE; echo x > .VSCODE/tasks.json",
    "mkdir .vscode; echo x > .vscode/tasks.json; chmod 500 .", "mkdir -m 000 .vscode", "mkfifo .vscode",
    "mkdir x; echo x > x/tasks.json; mv -T x .vscode; chmod 000 .vscode", "ln -s nowhere .vscode",
])  # fmt: skip
def test_ways_to_make_one(shell: Shell, command: str) -> None:
    before = snapshot(shell.root)
    told = _told(shell.run(command))
    ((name, aside),) = shell.asides().items()
    assert name.casefold() == ".vscode" and [path for path in shell.root.iterdir() if path.name == name] == []
    assert told == (f"a command made {name}, {CODE}: it was put aside as {aside}",)
    if shell.journaled:
        shell.journal.undo()
        assert snapshot(shell.root) == before


@pytest.mark.parametrize("command", [
    "rm -r .vscode; mkdir x; echo evil > x/tasks.json; mv x .vscode", "rm -r .vscode; ln -s sub .vscode",
    "rm -r .vscode; echo x > .vscode", "rm -r .vscode/deep; echo x > .vscode/deep; echo evil > .vscode/tasks.json",
    "ln .vscode/tasks.json sub/h; echo evil >> sub/h", "ln -s ../.vscode sub/l; echo evil > sub/l/tasks.json",
    "chmod +x .vscode/tasks.json",
])  # fmt: skip
def test_ways_to_change_one(shell: Shell, command: str) -> None:
    if command.startswith("chmod") and shell.name == "landlock":
        pytest.skip("modes can't be changed there")
    shell.write(".vscode/tasks.json")
    shell.write(".vscode/deep/x")
    before = snapshot(shell.root / ".vscode")
    told = _told(shell.run(command))
    assert len(told) >= 1 and all("put aside as" in line for line in told)
    assert {path: found for path, found in before.items()
            if "deep" not in path} == {path: found for path, found in snapshot(shell.root / ".vscode").items()
                                       if "deep" not in path}  # fmt: skip
    assert list(shell.asides()) == [".vscode"]


def test_what_a_link_leads_to_is_put_back_too(shell: Shell) -> None:
    shell.write("docs/notes.md")
    shell.write("shared/tasks.json")
    (shell.root / "CLAUDE.md").symlink_to("docs/notes.md")
    (shell.root / ".vscode").symlink_to("shared")
    (shell.root / ".cursorrules").symlink_to("missing.md")
    told = _told(shell.run("echo evil > docs/notes.md; echo evil > shared/tasks.json; echo evil > missing.md"))
    assert [(shell.root / name).read_text() for name in ("docs/notes.md", "shared/tasks.json")] == ["old\n", "old\n"]
    assert not (shell.root / "missing.md").exists()
    assert sorted(line.partition(",")[0] for line in told) == [
        "a command changed docs/notes.md (where CLAUDE.md leads)",
        "a command changed shared/tasks.json",
        "a command made missing.md (where .cursorrules leads)",
    ]


@pytest.mark.parametrize("command", [
    "rm docs; mkdir docs; echo evil > docs/notes.md", "ln -sfn sub docs; echo evil > sub/notes.md",
    "echo evil > x; rm next; mv x next", "echo evil > sub/x; ln -sf sub/x next",
    "mv real y; mkdir x; echo evil > x/notes.md; ln -s x real", "rm -r real; ln -s sub real; echo evil > sub/notes.md",
])  # fmt: skip
def test_each_step_on_the_way_of_a_link_is_as_it_was(shell: Shell, command: str) -> None:
    """`CLAUDE.md` leads to what lies behind two more links: whoever turns one of them, or a folder, turns the first."""
    shell.write("real/notes.md")
    for name, target in (("CLAUDE.md", "next"), ("next", "docs/notes.md"), ("docs", "real")):
        (shell.root / name).symlink_to(target)
    told = _told(shell.run(command))
    assert told and all(line.startswith(("a command changed ", "a command made ")) for line in told)
    assert (shell.root / "CLAUDE.md").read_text() == "old\n"


@pytest.mark.parametrize("closed", ["000", "200", "400", "500"])
def test_a_folder_that_a_command_closes_hides_nothing(shell: Shell, closed: str) -> None:
    """Neither for itself nor for the next one, which may open it. Closed to a plain user: for root nothing is."""
    shell.write("sub/.envrc")
    made = ["sub/.envrc", "sub/AGENTS.md", "x/AGENTS.md", "y/z/.envrc"]
    told = _told(shell.run(f"mkdir -p x y/z; for name in {' '.join(made)}; do echo evil > $name; done; "
                           f"chmod {closed} x y sub"))  # fmt: skip
    assert len(told) == 4 and sorted(shell.asides()) == made
    assert _told(shell.run("chmod 700 x y sub; cat sub/.envrc")) == ()
    assert _told(shell.run(f"chmod {closed} sub")) == ()
    told = _told(shell.run("chmod 700 sub; echo evil > sub/.npmrc"))
    assert told[0].startswith("a command made sub/.npmrc,")


def test_a_closed_workspace_is_the_models_fault(shell: Shell) -> None:
    shell.run("echo evil > AGENTS.md; chmod 000 .")
    assert list(shell.asides()) == ["AGENTS.md"] or not os.access(shell.root, os.X_OK)
    shell.root.chmod(0o700)
    assert list(shell.asides()) == ["AGENTS.md"]


def test_very_deep_names_are_judged_at_once() -> None:
    deep = "a/" * 500_000
    assert sensitive.of_later(f"{deep}.vscode/x") == sensitive.Place(f"{deep}.vscode", CODE)


def test_a_new_repository_at_the_top(shell: Shell) -> None:
    before = snapshot(shell.root)
    told = _told(shell.run("git init -q . && git config core.fsmonitor evil"))
    aside = shell.asides()[".git"]
    assert told == (f"a command made .git, {CODE}: it was put aside as {aside}",)
    assert not (shell.root / ".git").exists() and "evil" in (shell.root / aside / "config").read_text()
    if shell.journaled:
        shell.journal.undo()
        assert snapshot(shell.root) == before


def test_a_new_repository_further_down(shell: Shell) -> None:
    told = _told(shell.run("git init -q sub/new; git init -q --bare sub/bare; git init -q --bare x.git"))
    assert told == tuple(
        f"a command made the repository {name}, {CODE}: {LOOK}" for name in ("sub/bare", "sub/new/.git", "x.git")
    )
    assert shell.asides() == {} and (shell.root / "sub" / "new" / ".git" / "HEAD").exists()


def test_a_repository_that_was_there_names_the_programs_that_it_named(shell: Shell) -> None:
    """Where commands are confined. Under bubblewrap the `.git`s that a journal names can't be changed at all."""
    for arguments in (["-q", "sub/old"], ["-q", "--bare", "sub/bare"]):
        subprocess.run(["git", "init", *arguments], cwd=shell.root, check=True)
    result = shell.run("echo x | tee sub/old/.git/hooks/pre-commit sub/bare/hooks/update; git -C sub/bare config a.b c;"
                       "rm -rf sub/old/.git; git init -q sub/old; git -C sub/old config a.b c; true")  # fmt: skip
    told = _told(result)
    settings = [(shell.root / name).read_text() for name in ("sub/old/.git/config", "sub/bare/config")]
    hooks = [(shell.root / name).exists() for name in ("sub/old/.git/hooks/pre-commit", "sub/bare/hooks/update")]
    if shell.name == "unconfined":
        assert [line.split(",")[0] for line in told] == [
            "a command changed the repository sub/bare", "a command changed the repository sub/old/.git",
        ]  # fmt: skip
        assert all("b = c" in text for text in settings) and hooks == [False, True]
    else:
        assert told and all("put aside as" in line for line in told)
        assert not any("b = c" in text for text in settings) and hooks == [False, False]


def test_the_workspace_becomes_a_repository_itself(shell: Shell) -> None:
    text = "[core]\\nfsmonitor=x"
    told = _told(shell.run(f"mkdir objects refs; echo 'ref: refs/heads/main' > HEAD; printf '{text}' > config"))
    assert sorted(shell.asides()) == ["HEAD", "config"] and len(told) == 2
    assert subprocess.run(["git", "rev-parse", "--git-dir"], cwd=shell.root, capture_output=True,
                          env={**os.environ, "GIT_CEILING_DIRECTORIES": str(shell.root.parent)}).returncode  # fmt: skip


def test_packages_are_told_and_stay(shell: Shell) -> None:
    """What an installation brings isn't taken apart; a folder of packages that was there is another thing."""
    shell.write("old/site-packages/x.py")
    told = _told(shell.run(
        "; ".join(map(_made, ("node_modules/a/AGENTS.md", "node_modules/b/.npmrc", "new/site-packages/a.pth",
                              "old/site-packages/a.pth", "old/site-packages/y/AGENTS.md"))))
    )  # fmt: skip
    assert list(shell.asides()) == ["old/site-packages/a.pth"]
    assert [line for line in told if "put aside" not in line] == [
        f"a command put a file into new/site-packages {CODE}: new/site-packages/a.pth",
        f"a command put 2 files into node_modules {WORDS}: node_modules/a/AGENTS.md",
        f"a command put a file into old/site-packages {WORDS}: old/site-packages/y/AGENTS.md",
    ]


def test_names_are_told_on_one_line_and_long_ones_are_moved_too(shell: Shell) -> None:
    shell.run('mkdir "$(printf "a\\nb\\033[2J")"; echo x > "$(printf "a\\nb\\033[2J")"/AGENTS.md')
    long = "y" * 250 + ".pth"
    told = _told(shell.run(f"echo x > {long}"))
    assert len(told) == 1 and f"a command made {long}," in told[0]
    assert not (shell.root / long).exists()


def test_a_deleted_one_at_the_top_is_told(shell: Shell) -> None:
    shell.write(".npmrc")
    assert _told(shell.run("rm .npmrc")) == (f"a command deleted .npmrc, {CODE}",)


def test_an_unconfined_command_is_told_of_the_workspaces_own_repository(tmp_path: Path) -> None:
    for journaled in (True, False):
        (tmp_path / str(journaled)).mkdir()
        shell = Shell(tmp_path / str(journaled), "unconfined", journaled=journaled)
        subprocess.run(["git", "init", "-q", str(shell.root)], check=True)
        commit = "git -c user.name=x -c user.email=x@x commit -q"
        assert _told(shell.run(f"git add sub && {commit} -m x")) == ()
        told = (f"a command changed the repository .git, {CODE}: {LOOK}",)
        assert _told(shell.run("echo x > .git/hooks/pre-commit")) == told
        assert _told(shell.run("git config user.name y")) == told
        assert shell.asides() == {}


def test_a_command_cut_off_by_a_closed_call_leaves_nothing_either(tmp_path: Path, confined: str) -> None:
    shell = Shell(tmp_path, confined, journaled=True)
    call = ToolCall("c", "container.exec", json.dumps({"command": "echo x > AGENTS.md; echo on; sleep 300"}))
    running = shell.toolbox.run(call, stop=NoStop())
    while "on" not in getattr(next(running), "text", ""):
        pass
    running.close()
    assert list(shell.asides()) == ["AGENTS.md"]


def test_a_large_workspace_is_looked_at_from_the_top(tmp_path: Path, confined: str) -> None:
    """Beyond some 20,000 names it isn't known what was there: nothing of the user's own is taken for a command's."""
    shell = Shell(tmp_path, confined, journaled=False)
    many = shell.root / "a"
    many.mkdir()
    for number in range(20_100):
        (many / str(number)).touch()
    shell.write("a/deep/AGENTS.md")
    shell.write("AGENTS.md")
    told = _told(shell.run("echo x > AGENTS.md; echo x > .envrc; echo y > a/deep/x"))
    assert sorted(shell.asides()) == [".envrc", "AGENTS.md"] and len(told) == 2
    assert (shell.root / "a" / "deep" / "AGENTS.md").read_text() == "old\n"


# -- as users see it ---------------------------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Path, home: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.needs_bwrap
def test_yes_writes_no_rules_and_no_hooks(work: Path, tmp_path: Path) -> None:
    """What `ossia run --yes` did before: rules that the next --trust obeys, and a hook that the next commit runs."""
    calls = [writes(name, "x") for name in (".ossia/mcp.json", ".git/hooks/pre-commit")]
    script = write_script(tmp_path, *calls, answer("Done."))
    done = ossia_text("run", "hi", "--engine", script, "--workspace", str(work), "--trust", "--yes")
    assert list(work.iterdir()) == [] and done.returncode == 0
    assert done.stderr.splitlines() == [
        "ossia: repo_browser.apply_patch was refused: it changes .ossia/mcp.json, which holds rules for this program, "
        "and --yes doesn't answer that; --allow 'repo_browser.apply_patch:.ossia/mcp.json' allows it",
        f"ossia: repo_browser.apply_patch was refused: it changes .git/hooks/pre-commit, {CODE}, and "
        "--yes doesn't answer that; --allow 'repo_browser.apply_patch:.git/hooks/pre-commit' allows it",
        "ossia: 2 calls were refused, since nobody could be asked: repo_browser.apply_patch (2)",
    ]


@pytest.mark.parametrize("way", ["run", "call"])
def test_a_script_is_told_on_stderr(work: Path, tmp_path: Path, way: str) -> None:
    command, ending = "echo x > AGENTS.md; echo y > b", ["--workspace", str(work), "--trust", "--yes"]
    if way == "run":
        script = write_script(tmp_path, runs(command), answer("Done."))
        done = ossia_text("run", "hi", "--engine", script, *ending)
        assert done.stdout == "Done.\n"
    else:
        done = ossia_text("tools", "call", "shell", json.dumps({"command": command}), *ending)
    (aside,) = work.glob("AGENTS.md*")
    said = f"a command made AGENTS.md, {WORDS}: it was put aside as {aside.name}"
    assert done.returncode == 0 and done.stderr == f"ossia: warning: {said}\n"
    assert way == "run" or done.stdout == f"{formed('', work.resolve())}\n[{said}]\n{ASK}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")
@pytest.mark.parametrize("way", ["run", "tools call"])
def test_a_ctrl_c_ends_the_command_and_not_the_look_after_it(work: Path, tmp_path: Path, way: str) -> None:
    """A look at 5,000 changed files takes longer than a Ctrl-C waits for a turn."""
    for number in range(5_000):
        (work / f"f{number}").write_text("x\n" * 500)
    command, ending = "sed -i s/x/y/ f*; echo x > AGENTS.md; sleep 60", ["--workspace", str(work), "--trust", "--yes"]
    script = write_script(tmp_path, runs(command), answer("Done."))
    call = ["run", "hi", "--engine", script] if way == "run" else [
        "tools", "call", "shell", json.dumps({"command": command})]  # fmt: skip
    with subprocess.Popen([OSSIA, *call, *ending], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as running:  # fmt: skip
        while not (work / "AGENTS.md").exists() and running.poll() is None:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1].decode()
    assert running.returncode == 130 and "Traceback" not in said
    assert [path.name[:10] for path in work.glob("AGENTS.md*")] == ["AGENTS.md-"]


@pytest.mark.parametrize("way", ["run", "call"])
def test_a_quiet_script_is_told_too_and_json_has_it(work: Path, tmp_path: Path, way: str) -> None:
    command, ending = "echo x > AGENTS.md", ["--workspace", str(work), "--trust", "--yes", "--quiet", "--json"]
    if way == "run":
        script = write_script(tmp_path, runs(command), answer("Done."))
        done = ossia_text("run", "hi", "--engine", script, *ending)
        (call,) = json.loads(done.stdout)["calls"]
    else:
        done = ossia_text("tools", "call", "shell", json.dumps({"command": command}), *ending)
        call = json.loads(done.stdout)
    (aside,) = work.glob("AGENTS.md*")
    said = f"a command made AGENTS.md, {WORDS}: it was put aside as {aside.name}"
    assert (done.stderr, call["notices"]) == (f"ossia: warning: {said}\n", [said])


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_a_chat_tells_it(work: Path, tmp_path: Path, terminal: str) -> None:
    script = write_script(tmp_path, runs("echo x > AGENTS.md"), answer("Done."), tokens_per_s=300)
    flags = ("--engine", script, "--workspace", str(work), "--trust", "--allow", "shell")
    with PtyChat(*flags, environ={"TERM": terminal}) as chat:
        chat.until(lambda: any(row.startswith((">", "›")) for row in chat.display))
        chat.press("go\r")
        chat.until("Done.")
        chat.until("made-by-a-command-")
        assert "a command made AGENTS.md" in " ".join(" ".join(chat.rows).split())
