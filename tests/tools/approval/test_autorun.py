"""Files that run or instruct later tools: writers ask about them whatever `--yes` says; changes by commands told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
from contextlib import closing
from pathlib import Path

import pytest

from ossia.tools.approval import autorun, sensitive
from ossia.tools.approval.autorun_look import Look
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import NoStop, ToolCall, ToolContext, ToolResult
from ossia.tools.toolbox import Toolbox
from ossia.tools.undo.journal import Journal
from ossia.tools.undo.shadow import PROGRAMS
from ossia.tools.work.exec import Exec
from ossia.tools.work.result import for_people, formed
from ossia.tools.workspace import Workspace
from tests.support.command import OSSIA, ossia_text, write_script
from tests.support.documents import answer
from tests.support.folders import Folder
from tests.support.kernels import count_tokens, shell_confinement
from tests.support.pty import PtyChat
from tests.support.trees import snapshot
from tests.support.work_calls import runs, writes

ALLOWED = (Rule("repo_browser.apply_patch", "allow"), Rule("container.exec", "allow"))
CHANGED = "a command changed files that run or instruct later tools: "
UNDO = "; ossia undo (/undo) restores them"
NAMES = [name.replace("*", "x") for _, names in autorun.NAMES for name in names]
DOTTED = (".git/config", ".ossia/mcp.json", ".vscode/x", ".gdbinit", ".mise.toml", ".github/workflows/x.yml",
          ".eslintrc.js",          ".qwen/a", ".tool-versions", ".terraformrc", ".new-in-2030/x")  # fmt: skip


def _patch(*lines: str) -> str:
    return json.dumps({"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))})


# -- writers -----------------------------------------------------------------------------------------------------------


def test_the_table_in_the_docs_is_the_one_that_holds() -> None:
    page = Path(__file__).parents[3].joinpath("docs", "approvals.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ((?:`[^`|]+`(?:, )?)+) \|$", page, re.MULTILINE)
    named = [(kind, tuple(re.findall("`([^`]+)`", names))) for kind, names in rows]
    everyday = ("the next test or build", sensitive.EVERYDAY)
    assert named == [*autorun.NAMES, everyday]


@pytest.mark.parametrize("name", [
    *NAMES, *DOTTED, *(f"a/b/{name}" for name in (*NAMES[::5], *DOTTED)), ".VSCODE/x", "claude.md",
    "CLAUDE.MD.", ".//.ZSHRC", "a/b.PTH", "node_modules/a/.b", "x/site-packages/a.py", ".venv/x",
    ".pytest_cache/.git/x",
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
    folder.send("apply_patch", _patch("*** Add File: x.pem", "+x", "*** Add File: AGENTS.md", "+x"), answer=False)
    assert [(asked.firm, asked.reason) for asked in folder.asked] == [(True, f"it changes AGENTS.md, {autorun.WHY}")]


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
    assert [asked.firm for asked in folder.asked] == [True] and autorun.WHY in folder.asked[0].reason
    exact = tuple(Rule("repo_browser.apply_patch", "allow", where + name) for name in written.split())
    folder = Folder(tmp_path / "w", rules=exact)
    assert not folder.send("apply_patch", _patch(*sections), answer=False).error


def test_what_a_link_with_such_a_name_leads_to(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "w", rules=ALLOWED)
    folder.write("docs/notes.md", "old\n")
    (folder.root / "CLAUDE.md").symlink_to("docs/notes.md")
    assert folder.put("docs/notes.md", "x", answer=False).error
    assert [(asked.firm, asked.reason) for asked in folder.asked] == [
        (True, f"it changes docs/notes.md, where CLAUDE.md leads, {autorun.WHY}")
    ]


# -- commands ----------------------------------------------------------------------------------------------------------


class Shell:
    """A workspace, and commands in it that nobody is asked about. `journaled`: git is there, so they can be undone."""

    def __init__(self, folder: Path, confinement: str, *, journaled: bool) -> None:
        self.root = (folder / "ws").resolve()
        (self.root / "sub").mkdir(parents=True)
        (self.root / "sub" / "a.txt").write_text("a\n")
        self.journal = Journal(folder / "data", self.root, programs=PROGRAMS if journaled else ())
        found = shell_confinement(confinement)
        self.name, self.journaled = found.name, journaled
        home = folder / "home"
        home.mkdir()
        self.context = ToolContext(NoStop(), Workspace(self.root, True, self.journal), folder / "data", count_tokens)
        self.tool = Exec(confinement=found, home=home)
        self.toolbox = Toolbox([self.tool], policy=Policy(ALLOWED), context=self.context)

    def write(self, name: str, text: str = "old\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def question(self, command: str) -> str:
        """What would be asked about it."""
        arguments = {"command": ["bash", "-lc", command]}
        return self.tool.preview(arguments, context=self.context).conditions

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


CONFINED = [pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock", "unconfined"]


@pytest.fixture(params=CONFINED)
def confined(request: pytest.FixtureRequest) -> str:
    if sys.platform != "linux":
        pytest.skip("bubblewrap and Landlock are Linux's")
    return str(request.param)


@pytest.fixture(params=["journal", "no journal"])
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Shell:
    """One under the strongest confinement here, and one whose changes aren't kept, under Landlock."""
    if sys.platform != "linux":
        pytest.skip("bubblewrap and Landlock are Linux's")
    journaled = request.param == "journal"
    return Shell(tmp_path, "" if journaled else "landlock", journaled=journaled)


def _told(result: ToolResult) -> tuple[str, ...]:
    """What the user is told of autorun files; the model must be told the same."""
    notices = tuple(notice for notice in result.notices
                    if "can't be undone" not in notice and not notice.startswith("undo won't restore"))  # fmt: skip
    assert result.text.endswith("".join(f"\n[{notice}]" for notice in notices))
    return notices


def test_a_command_that_changes_none_tells_nothing(tmp_path: Path, confined: str) -> None:
    shell = Shell(tmp_path, confined, journaled=True)
    shell.write("AGENTS.md")
    shell.write(".vscode/settings.json")
    shell.write("node_modules/x/AGENTS.md")
    shell.write(".venv/lib/python3/site-packages/x/y.py")
    before = snapshot(shell.root)
    result = shell.run(
        "touch AGENTS.md .vscode; mkdir sub/x; echo x | tee sub/x/config sub/HEAD sub/b.txt > Makefile; rm sub/HEAD; "
        "cat AGENTS.md; chmod 600 AGENTS.md; chmod 644 AGENTS.md; echo x > .venv/lib/python3/site-packages/x/z.py; "
        "mkdir -p .pytest_cache/v .mypy_cache sub/.fingerprint/a; echo {} > sub/.rustc_info.json; "
        "echo x | tee .pytest_cache/.gitignore .mypy_cache/a.json "
        ".coverage > sub/c"
    )
    assert _told(result) == () and for_people(result.text, "container.exec") == "old"
    shell.run("rm -r sub/x sub/[bc]* sub/.[fr]* Makefile .p* .m* .coverage .venv/lib/python3/site-packages/x/z.py")
    assert snapshot(shell.root) == before


@pytest.mark.parametrize(("command", "told"), [
    ("echo evil > AGENTS.md; echo evil >> .vscode/tasks.json; echo x > .vscode/new; mkdir -p sub/.q; echo > sub/.q/x",
     "AGENTS.md, .vscode (2), sub/.q"),
    ("mkdir x; echo > x/tasks.json; mv x .new", ".new"), ("ln -s sub .new", ".new"), ("mkdir -m 000 .new", ".new"),
    ("mkfifo GEMINI.md; ln -s nowhere sub/mise.toml", "GEMINI.md, sub/mise.toml"),
    ("rm -r .vscode; ln -s sub .vscode", ".vscode"), ("rm -r .vscode sub", ".vscode, sub/.npmrc"),
    ("mv .vscode plain; mv sub/.npmrc sub/.n", ".vscode, sub/.n, sub/.npmrc"),
    ("ln .vscode/tasks.json h; echo evil >> h", ".vscode"), ("echo evil > docs/notes.md", "docs/notes.md"),
    ("echo x > $(printf 'AGENTS.md\\342\\200\\213')", "AGENTS.md\\u200b"), ("echo x > 'Claude.MD.'", "Claude.MD."),
    ("mkdir -p n/closed; echo evil > n/closed/.envrc; chmod 000 n/closed", "n/closed/.envrc"),
    ("mkdir -p node_modules/.bin node_modules/a; echo | tee node_modules/a/.x node_modules/a/CLAUDE.md "
     "> node_modules/.bin/b", "node_modules (3)"),
    ("echo x | tee old/bin/python > old/lib/site-packages/a.py", "old/bin, old/lib/site-packages"),
    ("mkdir -p .venv/bin; echo x | tee .venv/bin/python > .venv/pyvenv.cfg", ".venv, a new Python environment (2)"),
    ("mkdir -p env/bin; echo x | tee env/bin/python > env/pyvenv.cfg", "env, a new Python environment (2)"),
    ("mkdir docs/hooks; echo x > docs/HEAD; echo x > docs/hooks/update", "docs (2)"),
])  # fmt: skip
def test_what_a_command_changes_is_told_in_one_line_and_undone(shell: Shell, command: str, told: str) -> None:
    """In a workspace of any size, ignored by git or not."""
    for name in (".vscode/tasks.json", "sub/.npmrc", "docs/notes.md", "old/pyvenv.cfg", "old/lib/site-packages/b/c",
                 "old/bin/sh"):  # fmt: skip
        shell.write(name)
    shell.write(".gitignore", ".vscode\nold/\n.npmrc\n" if shell.journaled else "*\n")
    (shell.root / "CLAUDE.md").symlink_to("docs/notes.md")
    before = snapshot(shell.root)
    line = CHANGED + told + UNDO
    if command.startswith("mkdir -m") and shell.name == "landlock":
        pytest.skip("modes can't be changed there")
    assert _told(shell.run(command)) == (line,)
    undone = shell.journal.undo()
    assert undone and undone.skipped == ()
    after = snapshot(shell.root)
    if shell.journaled:
        assert after == before
    else:  # no more than that is kept, so nothing else is undone
        kept = {path for path in {**before, **after} if autorun.part_of(path)}
        assert {path: after.get(path) for path in kept} == {path: before.get(path) for path in kept}


def test_a_new_repository_and_what_was_moved_stay_whole(tmp_path: Path, confined: str) -> None:
    """Where not all is kept, undo removes nothing that may be the only copy."""
    shell = Shell(tmp_path, confined, journaled=False)
    for name in ("old/a", "old/.git/config", "old/.git/objects/x"):
        shell.write(name)
    told = _told(shell.run("git init -q; rm .git/hooks/*; mv old/a .a; mv sub .sub; mkdir -p .pytest_cache/.git; "
                           "echo > .pytest_cache/.git/config; mv old new"))  # fmt: skip
    assert told[0].endswith("ossia undo (/undo) restores all but .a, .git, .sub, new/.git, .pytest_cache/.git")
    shell.journal.undo()
    for name in (".a", ".sub/a.txt", ".git/HEAD", "new/.git/config", "new/.git/objects/x"):
        assert (shell.root / name).exists()


def test_packages_that_come_later_are_told_in_few_names(shell: Shell) -> None:
    loop = "for i in $(seq 40); do echo > .f$i; mkdir -p node_modules/m$i; echo > node_modules/m$i/.x; done"
    told = _told(shell.run(loop))
    (line,) = told
    assert line.startswith(f"{CHANGED}.f1, .f10, ") and line.endswith(f" and 21 more{UNDO}")


def _environment(shell: Shell, name: str) -> Path:
    """Its `site-packages`, in an environment that git ignores.

    Beside it `wheel`: a package with a module outside of its folder, which it needs, as compiled ones have.
    """
    shell.write(".gitignore", f"{name}\n/wheel\n")
    shell.write("wheel/pack/__init__.py", "from beside_pack import x\n")
    shell.write("wheel/pack/.data")
    shell.write("wheel/beside_pack.py", "x = 6\n")
    shell.write("wheel/pack-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pack\nVersion: 1.0\n")
    venv.create(shell.root / name, symlinks=True)
    return next((shell.root / name).glob("lib/python*/site-packages"))


def _works(environment: Path) -> bool:
    script = [str(environment / "bin/python"), "-Bc", "import pack; print(pack.x)"]
    return subprocess.run(script, capture_output=True).stdout == b"6\n"


@pytest.mark.parametrize("name", [".venv", "env"])
def test_undo_leaves_packages_whole_but_not_what_runs_at_pythons_start(shell: Shell, name: str) -> None:
    site = _environment(shell, name)
    inside = site.relative_to(shell.root).as_posix()
    hostile = f"echo x > {inside}/evil.pth; mkdir {inside}/sitecustomize; echo x > {inside}/sitecustomize/__init__.py"
    (told,) = _told(shell.run(f"cp -r wheel/. {inside}; {hostile}; echo x >> {name}/bin/activate"))
    assert told.startswith(f"{CHANGED}{name}/bin, {inside} (")
    assert told.endswith(f"; ossia undo (/undo) restores all but packages in {inside}")
    undone = shell.journal.undo()
    assert undone and undone.skipped == () and undone.restored == (f"{name}/bin/activate",)
    gone = ("evil.pth", "sitecustomize", "sitecustomize/__init__.py")
    assert sorted(undone.removed) == [f"{inside}/{one}" for one in gone]
    assert _works(shell.root / name)
    (told,) = _told(shell.run(f"cd {inside}; rm -r pack* beside_pack.py"))
    assert told.startswith(f"{CHANGED}{inside}") and told.endswith("; ossia undo (/undo) doesn't restore them")
    assert shell.journal.undo() is None and not (site / "pack").exists()


def test_undo_leaves_a_new_environment_with_packages_whole(shell: Shell) -> None:
    _environment(shell, "made")
    shell.write(".gitignore", ".venv\nmade\nwheel\n")
    before = shell.write("AGENTS.md")
    command = "cp -r made .venv; cp -r wheel/. .venv/lib/python*/site-packages; cd .venv/lib/python*/site-packages"
    (told,) = _told(shell.run(f"{command}; echo x > evil.pth; echo x > ../../../../AGENTS.md"))
    assert told.startswith(f"{CHANGED}AGENTS.md, .venv, a new Python environment (")
    assert told.endswith("; ossia undo (/undo) restores all but .venv, a new Python environment")
    undone = shell.journal.undo()
    assert undone and undone.skipped == () and undone.restored == ("AGENTS.md",) and before.read_text() == "old\n"
    assert [path.rpartition("/")[2] for path in undone.removed] == ["evil.pth"]
    assert _works(shell.root / ".venv")
    (told,) = _told(shell.run("rm -r .venv"))
    assert told.endswith("; ossia undo (/undo) doesn't restore them") and shell.journal.undo() is None


def test_what_git_would_ignore_is_undone_where_it_is_new(tmp_path: Path, confined: str) -> None:
    shell = Shell(tmp_path, confined, journaled=True)
    shell.write(".gitignore", ".envrc\n/env/\nsub/new/x\n*.kept\n")
    before = snapshot(shell.root)
    command = "mkdir -p env/bin sub/x a/b; echo x | tee .envrc env/.npmrc sub/x/.envrc sub/AGENTS.md"
    (told,) = _told(shell.run(f"{command}; echo x > a/b/.x.kept"))
    assert told.endswith(UNDO)
    undone = shell.journal.undo()
    assert undone and undone.skipped == ()
    after = snapshot(shell.root)
    assert not [path for path in after if autorun.part_of(path) and path not in before]


def test_undo_restores_a_module_that_changed_without_packages(shell: Shell) -> None:
    site = _environment(shell, ".venv")
    inside, old = site.relative_to(shell.root).as_posix(), site / "old.py"
    old.write_text("old\n")
    (told,) = _told(shell.run(f"cd {inside}; echo x | tee new.py > old.py"))
    assert told == f"{CHANGED}{inside} (2){UNDO}"
    undone = shell.journal.undo()
    assert undone and not undone.skipped and old.read_text() == "old\n" and not (site / "new.py").exists()


def test_a_repository_that_was_there_names_the_programs_that_it_named(tmp_path: Path, confined: str) -> None:
    """Where commands are confined. Under bubblewrap the `.git`s can't be changed at all."""
    shell = Shell(tmp_path, confined, journaled=True)
    for arguments in (["-q", "sub/old"], ["-q", "--bare", "sub/bare"]):
        subprocess.run(["git", "init", *arguments], cwd=shell.root, check=True)
    result = shell.run("echo x | tee sub/old/.git/hooks/pre-commit sub/bare/hooks/update; git -C sub/bare config a.b c;"
                       "echo x > sub/old/.git/info/attributes; "
                       "rm -rf sub/old/.git; git init -q sub/old; git -C sub/old config a.b c; true")  # fmt: skip
    told = _told(result)
    settings = [(shell.root / name).read_text() for name in ("sub/old/.git/config", "sub/bare/config")]
    hooks = [(shell.root / name).exists() for name in ("sub/old/.git/hooks/pre-commit", "sub/bare/hooks/update")]
    if shell.name == "unconfined":
        assert len(told) == 1 and "sub/bare (2)" in told[0] and "sub/old/.git" in told[0]
        assert all("b = c" in text for text in settings) and hooks == [False, True]
    else:
        assert len(told) == 1 and "repositories, which are as they were again: sub/bare (2)" in told[0]
        assert not any("b = c" in text for text in settings) and hooks == [False, False]


def test_a_repository_that_is_replaced_by_a_link_gets_its_settings_back(tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("Landlock is Linux's")
    shell = Shell(tmp_path, "landlock", journaled=False)
    shell.write("sub/.git/config")
    shell.write("evil/config", "evil\n")
    shell.run("rm -r sub/.git; ln -s ../evil sub/.git")
    assert (shell.root / "sub/.git/config").read_text() == "old\n"


def test_what_was_there_isnt_removed_because_it_counts_only_now(tmp_path: Path, confined: str) -> None:
    """`hooks` and `bin` of the user's own, beside a `HEAD` and a `pyvenv.cfg` that a command makes."""
    shell = Shell(tmp_path, confined, journaled=False)
    for name in ("a/hooks/mine", "a/config", "b/bin/mine"):
        shell.write(name)
    shell.run("echo x | tee a/HEAD > b/pyvenv.cfg")
    undone = shell.journal.undo(force=True)
    assert undone and sorted(undone.removed) == ["a/HEAD", "b/pyvenv.cfg"] and undone.restored == ()
    assert [(shell.root / name).exists() for name in ("a/hooks/mine", "a/config", "b/bin/mine")] == [True] * 3


def test_what_is_more_than_is_kept_is_said_before_the_command(tmp_path: Path, confined: str) -> None:
    shell = Shell(tmp_path, confined, journaled=False)
    shell.write(".big", "x" * 1_100_000)
    shell.write(".small")
    question = shell.question("true")
    assert "only changes of files that run or instruct later tools, all but .big, can" in question
    told = _told(shell.run("echo x > .big; echo x > .small"))
    assert told == (f"{CHANGED}.big, .small; ossia undo (/undo) restores all but .big",)
    undone = shell.journal.undo()
    assert undone and [skip.path for skip in undone.skipped] == [".big"] and undone.restored == (".small",)


def test_names_are_told_on_one_line(shell: Shell) -> None:
    (told,) = _told(shell.run('mkdir "$(printf "a\\nb\\033[2J")"; echo x > "$(printf "a\\nb\\033[2J")"/AGENTS.md'))
    assert told == f"{CHANGED}a\\nb\\x1b[2J/AGENTS.md{UNDO}"


def test_an_unconfined_command_is_told_of_the_workspaces_own_repository(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "unconfined", journaled=False)
    subprocess.run(["git", "init", "-q", str(shell.root)], check=True)
    commit = "git -c user.name=x -c user.email=x@x commit -q"
    assert _told(shell.run(f"git add sub && {commit} -m x")) == ()
    assert _told(shell.run("echo x > .git/hooks/pre-commit")) == (f"{CHANGED}.git{UNDO}",)
    assert (shell.root / ".git/hooks/pre-commit").exists()


def test_a_command_cut_off_by_a_closed_call_is_undone_too(tmp_path: Path, confined: str) -> None:
    shell = Shell(tmp_path, confined, journaled=False)
    call = ToolCall("c", "container.exec", json.dumps({"command": "echo x > AGENTS.md; echo on; sleep 300"}))
    running = shell.toolbox.run(call, stop=NoStop())
    while "on" not in getattr(next(running), "text", ""):
        pass
    running.close()
    shell.journal.undo()
    assert not (shell.root / "AGENTS.md").exists()


@pytest.mark.parametrize("confined", ["unconfined"], indirect=True)  # the look is the same after any command
def test_all_names_are_looked_at_in_a_large_workspace(tmp_path: Path, confined: str) -> None:
    shell = Shell(tmp_path, confined, journaled=False)
    many = shell.root / "a"
    many.mkdir()
    for number in range(20_100):
        (many / str(number)).touch()
    shell.write("a/deep/AGENTS.md")
    told = _told(shell.run("echo x > a/deep/AGENTS.md; echo x > a/deep/.envrc"))
    assert told == (f"{CHANGED}a/deep/.envrc, a/deep/AGENTS.md{UNDO}",)
    shell.journal.undo()
    assert (shell.root / "a/deep/AGENTS.md").read_text() == "old\n" and not (shell.root / "a/deep/.envrc").exists()


def test_beyond_the_names_that_are_looked_at_nothing_is_taken_for_a_commands(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / ".envrc").write_text("old\n")
    with closing(Look(tmp_path, max_names=2)) as look:
        assert look.not_kept == "whatever lies beyond the first 2 names"
        (tmp_path / "a" / ".new").touch()
        changed = look.changed(restore_git=True)
    assert changed.lines == (f"{CHANGED}a/.new{UNDO}",) and list(changed.before) == ["a/.new"]


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() == 0, reason="root reads every file")
@pytest.mark.parametrize("mode", ["000", "200", "400"])
def test_closed_folders_hide_nothing(tmp_path: Path, mode: str) -> None:
    """One command closes the folder, the next one opens it; and folders stay as closed as they are left."""

    def run(text: str) -> tuple[str, ...]:
        with closing(Look(tmp_path)) as look:
            subprocess.run(["sh", "-c", text], cwd=tmp_path, check=True)
            return look.changed(restore_git=True).lines

    assert run(f"mkdir new; echo evil > new/AGENTS.md; chmod {mode} new") == (f"{CHANGED}new/AGENTS.md{UNDO}",)
    assert (tmp_path / "new").stat().st_mode & 0o777 == int(mode, 8)
    assert run("chmod 700 new; cat new/AGENTS.md") == ()


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
        f"ossia: repo_browser.apply_patch was refused: it changes .ossia/mcp.json, {autorun.WHY}, "
        "and --yes doesn't answer that; --allow 'repo_browser.apply_patch:.ossia/mcp.json' allows it",
        f"ossia: repo_browser.apply_patch was refused: it changes .git/hooks/pre-commit, {autorun.WHY}, and "
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
    said = f"{CHANGED}AGENTS.md{UNDO}"
    assert done.returncode == 0 and done.stderr == f"ossia: warning: {said}\n"
    assert way == "run" or done.stdout == f"{formed('', work.resolve())}\n[{said}]\n"


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
    assert (running.returncode, "Traceback" in said) == (130, False), said
    assert ossia_text("undo", "--workspace", str(work)).returncode == 0 and not (work / "AGENTS.md").exists()


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
    said = f"{CHANGED}AGENTS.md{UNDO}"
    assert (done.stderr, call["notices"]) == (f"ossia: warning: {said}\n", [said])


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_a_chat_tells_it(work: Path, tmp_path: Path, terminal: str) -> None:
    script = write_script(tmp_path, runs("echo x > AGENTS.md"), answer("Done."), tokens_per_s=300)
    flags = ("--engine", script, "--workspace", str(work), "--trust", "--allow", "container.exec")
    with PtyChat(*flags, environ={"TERM": terminal}) as chat:
        chat.until(lambda: any(row.startswith((">", "›")) for row in chat.display))
        chat.press("go\r")
        chat.until("Done.")
        chat.until("restores them")
        assert f"{CHANGED}AGENTS.md" in " ".join(" ".join(chat.rows).split())
