"""A command that was given git: what it does to the repository is kept as git would have it, and nothing else is."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.tools.spec import NoStop, ToolContext, ToolResult
from ossia.tools.undo.journal import Journal
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.support.kernels import BACKENDS, count_tokens, shell_confinement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

DATE = "1700000000 +0000"
ENV = {"PATH": "/usr/bin:/bin", "GIT_AUTHOR_DATE": DATE, "GIT_COMMITTER_DATE": DATE, "GIT_CONFIG_NOSYSTEM": "1",
       "HOME": "/nowhere", "LANG": "C.UTF-8"}  # fmt: skip
DATED = f"export GIT_AUTHOR_DATE='{DATE}' GIT_COMMITTER_DATE='{DATE}' GIT_CONFIG_NOSYSTEM=1\n"
TAKEN = ("objects", "refs", "logs", "packed-refs", "HEAD", "index", "ORIG_HEAD", "MERGE_HEAD", "MERGE_MSG",
         "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE", "SQUASH_MSG", "COMMIT_EDITMSG",
         "FETCH_HEAD")  # fmt: skip
FIRST = """\
git init -q -b main . && git config user.name a && git config user.email a@b
mkdir src lib; for i in 1 2 3 keep; do echo base $i > src/f$i; echo lib $i > lib/g$i; done
git add . && git commit -qm first
printf '#!/bin/sh\\necho hooked >> src/hook.log\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit
"""


def unconfined(root: Path, script: str) -> str:
    done = subprocess.run(["bash", "-c", script], cwd=root, env=ENV, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def made(root: Path) -> Path:
    root.mkdir(parents=True)
    unconfined(root, FIRST)
    return root.resolve()


class Given:
    """A repository, and calls that are given git in it. The files lie below its top: Landlock makes none there."""

    def __init__(self, folder: Path, confinement: str) -> None:
        self.root = made(folder / "ws")
        self.data = folder / "data"
        self.journal = Journal(self.data, self.root)
        self.tool = Exec(confinement=shell_confinement(confinement), home=folder / "home")

    def run(self, script: str, *, keep: bool = False) -> ToolResult:
        args = {"command": ["bash", "-c", DATED + script]}
        workspace = Workspace(self.root, True, self.journal if keep else None)
        context = ToolContext(NoStop(), workspace, self.data, count_tokens, given=lambda _: frozenset({"git"}))
        preview = self.tool.preview(args, context=context)
        running = self.tool.run(args, call_id="call_1", context=replace(context, preview=preview))
        while True:
            try:
                next(running)
            except StopIteration as end:
                result: ToolResult = end.value
                unsaid = [line for line in result.notices if not line.startswith("commands can't be undone")]
                return replace(result, notices=tuple(unsaid))

    def fixed(self) -> dict[str, bytes]:
        """All of the git folder that no command may change."""
        found = {}
        for path in (self.root / ".git").rglob("*"):
            name = path.relative_to(self.root / ".git").as_posix()
            if path.is_file() and (name.partition("/")[0] not in TAKEN or name.startswith("objects/info/")):
                found[name] = path.read_bytes()
        return found


@pytest.fixture(params=BACKENDS)
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Given:
    return Given(tmp_path, request.param)


def state(root: Path) -> str:
    """All that git says of a repository, and its files."""
    return unconfined(root, """
        git for-each-ref --format='%(refname) %(objectname)'; git symbolic-ref -q HEAD || git rev-parse HEAD
        git ls-files --stage; git stash list --format='%gd %H %gs'; git reflog --format='%H %gs'
        git status --porcelain --branch; ls .git | grep _HEAD; find [a-z]* -type f | sort | xargs sha256sum
    """)


def assert_sound(root: Path) -> None:
    found = subprocess.run(["git", "fsck", "--no-dangling"], cwd=root, env=ENV, capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, ""), found


# -- what git does -----------------------------------------------------------------------------------------------------


def drawn(chance: random.Random, number: int) -> str:
    """A command as people give it to git; some of them fail."""
    branch, other = (chance.choice(("main", "b1", "b2", "x/y")) for _ in range(2))
    file = chance.choice(("src/f1", "src/f2", "lib/g1", "src/new"))
    return chance.choice((
        f"echo {number} >> {file}; git add -A; git commit -qm 'c {number}'",
        f"echo {number} >> {file}; git add -A; git commit -qm 'c {number}'",
        f"echo {number} > src/n{number}; git add src",
        f"echo {number} >> {file}; git stash push -q -m w{number}",
        "git stash pop", "git stash drop", f"git switch -c {branch}", f"git checkout -q {branch}",
        f"git checkout -qf {branch}", f"git merge -q --no-edit {branch}",
        f"git merge -q --no-edit {branch} || git merge --abort", "git add -A; git commit -q --no-edit",
        "git reset -q --soft HEAD~1", "git reset -q HEAD~1", "git reset -q --hard HEAD~1", f"git tag -am m t{number}",
        f"git branch -D {branch}", f"git branch -m {branch} {other}", f"git cherry-pick {branch}",
        "git revert --no-edit HEAD || git revert --abort", f"git rm -qf {file}", f"git mv {file} src/m{number}",
        "git gc -q", "git pack-refs --all", f"git rebase -q {branch} || git rebase --abort", "git checkout -q --detach",
        "git commit -q --amend --no-edit",
    ))  # fmt: skip


def test_it_leaves_what_git_without_confinement_leaves(given: Given, tmp_path: Path) -> None:
    twin, chance, fixed = made(tmp_path / "twin"), random.Random(31), given.fixed()
    scripts = ["echo 1 >> src/f1; git commit -qam 'with a hook'", "echo 1 >> src/f2; git stash push -q"]
    scripts += [drawn(chance, number) for number in range(18)]
    for script in scripts:
        result = given.run(script)
        unconfined(twin, script)
        assert state(given.root) == state(twin), (script, result)
        assert result.notices == () and given.fixed() == fixed, (script, result.notices)
        assert_sound(given.root)
    assert "hooked" in (given.root / "src" / "hook.log").read_text()
