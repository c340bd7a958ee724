"""A command that was given git: what it does to the repository is kept as git would have it, and nothing else is."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.tools.sandbox.git.copy import GitCopy, GitRefused, Moved, Taken
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
    scripts += [drawn(chance, number) for number in range(10)]
    for script in scripts:
        result = given.run(script)
        unconfined(twin, script)
        assert state(given.root) == state(twin), (script, result)
        assert result.notices == () and given.fixed() == fixed, (script, result.notices)
        assert_sound(given.root)
    assert "hooked" in (given.root / "src" / "hook.log").read_text()


def test_a_linked_worktree(given: Given, tmp_path: Path) -> None:
    main = given.root
    unconfined(main, "git branch side; git worktree add -q -b work ../linked; git worktree add -q ../third side")
    given.root = (tmp_path / "linked").resolve()
    config = (main / ".git" / "config").read_bytes()
    result = given.run("echo x >> src/f1; git commit -qam 'in the linked one' && git stash list; git config a.b c")
    assert "<returncode>0</returncode>" in result.text or "had no effect: config" in result.notices[-1], result
    assert unconfined(main, "git log -1 --format=%s work") == "in the linked one\n"
    said = unconfined(given.root, "git status --porcelain; git reflog -1 --format=%gs")
    assert said == "?? src/hook.log\ncommit: in the linked one\n"
    assert "already" in given.run("git checkout main").text and "already" in given.run("git checkout side").text
    assert unconfined(main, "git status --porcelain --branch") == "## main\n"
    assert (main / ".git" / "config").read_bytes() == config
    assert_sound(main)


def test_with_a_submodule(given: Given, tmp_path: Path) -> None:
    made(tmp_path / "other")
    unconfined(tmp_path / "other", "git commit -q --allow-empty -m theirs")
    unconfined(given.root, "git -c protocol.file.allow=always submodule --quiet add ../other lib/sub")
    unconfined(given.root, "git commit -qm sub")
    result = given.run("git status --porcelain && git -C lib/sub log -1 --format=%s; echo x > src/new; git add src")
    assert "\ntheirs\n" in result.text and result.notices == (), result
    assert "A  src/new" in unconfined(given.root, "git status --porcelain")
    assert "cd lib" in given.run("cd lib && git commit -q --allow-empty -m 'cd lib'; git log -1 --format=%s").text
    assert "Unable to create" in given.run("cd lib/sub && git add . && git commit -q --allow-empty -m no").text
    assert unconfined(given.root, "git -C lib/sub log -1 --format=%s; git log -1 --format=%s") == "theirs\ncd lib\n"
    named = "git -c user.name=a -c user.email=a@b"
    given.run(f"git init -q lib/mine && cd lib/mine && {named} commit -q --allow-empty -m mine")
    assert unconfined(given.root, "git -C lib/mine log --format=%s; git log -1 --format=%s") == "mine\ncd lib\n"


def test_a_file_at_the_top(given: Given) -> None:
    unconfined(given.root, "echo 1 > top; git add top; git commit -qm 1; echo 2 > top; git commit -qam 2")
    result = given.run("git reset -q --hard HEAD~1")
    if given.tool.confinement.name == "landlock":
        assert "Landlock makes, replaces and deletes no files directly at the top" in result.notices[0]
    else:
        assert unconfined(given.root, "cat top; git status --porcelain").startswith("1\n") and result.notices == ()
    assert_sound(given.root)


# -- what undo says ----------------------------------------------------------------------------------------------------


def test_undo_restores_the_files_and_says_how_git_goes_back(given: Given) -> None:
    def git_says() -> str:
        return unconfined(given.root, "git for-each-ref; git symbolic-ref HEAD; git status --porcelain; git stash list")

    unconfined(given.root, "git branch side; git commit -q --allow-empty -m 'on main'; rm .git/hooks/pre-commit")
    before, main = git_says(), unconfined(given.root, "git rev-parse main").strip()
    for script, ways in (
        ("echo x >> src/f1; git add -A; git commit -qm x", (f"git reset {main}",)),
        ("echo x >> src/f1; git stash -q", ("git stash drop",)),
        ("git switch -q side; git branch -q -D main", None),
        ("git switch -qc new; git tag t; git rm -q lib/g1; git commit -qm y", None),
    ):
        given.journal.begin_turn(script)
        assert given.run(script, keep=True).notices == () and git_says() != before
        given.journal.end_turn()
        undone = given.journal.undo()
        assert undone is not None and undone.skipped == () and (undone.git == ways or ways is None), undone
        unconfined(given.root, "\n".join(undone.git))
        assert git_says() == before, (script, undone)


def test_undo_leaves_what_the_user_moved_since(tmp_path: Path) -> None:
    root = made(tmp_path / "ws")
    journal = Journal(tmp_path / "data", root)
    journal.begin_turn("t")
    old, new = (unconfined(root, f"git commit -q --allow-empty -m {n}; git rev-parse HEAD").strip() for n in "ab")
    head = "ref: refs/heads/main"
    journal.note_git([Moved("HEAD", head, head), Moved("refs/heads/main", old, new)])
    journal.end_turn()
    unconfined(root, "git commit -q --allow-empty -m c")
    undone = journal.undo()
    assert undone is not None and undone.git == ("# refs/heads/main was moved since",)


# -- what a command may try, here without a confinement ----------------------------------------------------------------


def copied(root: Path, script: str, meanwhile: str = "") -> Taken:
    """Give git to a script that knows where the copy is, `$C`. `meanwhile`: the user's own, before the take-over."""
    scratch = root.parent / f"scratch-{time.monotonic_ns()}"
    scratch.mkdir()
    git = GitCopy.of(root, scratch, mounted=False, data=root.parent / "data")
    copy = str(scratch / "git")
    env = {**ENV, "C": copy, "GIT_DIR": copy, "GIT_WORK_TREE": str(root)}
    subprocess.run(["bash", "-c", script], cwd=root, env=env, check=False, capture_output=True)
    unconfined(root, meanwhile)
    return git.take_over()


BIG_TREE = """
import hashlib, os, struct, zlib
size_of_1_gib = bytes([0xA0, 0x80, 0x80, 0x80, 0x20])
data = b"PACK" + struct.pack(">II", 2, 1) + size_of_1_gib + zlib.compress(b"")
data += hashlib.sha1(data).digest()
open(os.environ["C"] + "/objects/pack/pack-" + data[-20:].hex() + ".pack", "wb").write(data)
"""
REFUSED = {
    "rm $C/HEAD; ln -s /etc/passwd $C/HEAD": "HEAD can't be read",
    "echo 'ref: refs/../config' > $C/HEAD": "HEAD names no branch",
    "echo 'ref: refs/heads/a..b' > $C/HEAD": "HEAD names no branch",
    "rm -rf $C/*": "HEAD holds no object's name",
    "rm -f $C/index; mkfifo $C/index": "index is no plain file",
    "truncate -s 300M $C/index": "index holds more than 256 MB",
    "rm -rf $C/refs; ln -s /etc $C/refs": "refs can't be read",
    "cd $C/refs; for i in $(seq 99); do mkdir d; cd d; done": "refs holds folders more than 64 deep",
    "for i in $(seq 201); do touch $C/objects/pack/pack-$(printf %040d $i).pack; done": "more than 200 packs",
    "o=$(git rev-parse HEAD); for i in $(seq 20001); do echo $o refs/tags/$i; done >> $C/packed-refs":
        "it changed more than 20,000 references",
    "yes '' | head -c 65M > $C/packed-refs": "packed-refs holds more than 64 MB",
    "for i in 1 2; do git branch b$i; truncate -s 60M $C/logs/refs/heads/b$i; done": "has a line that isn't git's",
    f"{sys.executable} -c '{BIG_TREE}'": "git index-pack: attempting to allocate",
    "printf '%040d' 1 > $C/refs/heads/zz": "bad object 0000000000000000000000000000000000000001",
    "echo nonsense > $C/refs/heads/zz": "refs/heads/zz holds no object's name",
    "ln -s /etc/passwd $C/MERGE_MSG": "MERGE_MSG can't be read",
    "echo x > $C/MERGE_HEAD": "a head names no object",
    "mkdir $C/rebase-merge; git branch x": "a rebase that isn't finished",
    "git rebase -q -x false HEAD~1": "a rebase that isn't finished",
    "git bisect start": "a bisect that isn't finished",
    "git tag x; git rev-parse HEAD > $C/shallow": "it changed the depth of the history",
    "git tag x; echo garbage >> $C/logs/HEAD": "logs/HEAD has a line that isn't git's",
    "d=$C/objects/aa; mkdir -p $d; echo junk > $d/$(printf '%038d' 0); git tag x": "an object isn't what its name says",
    "git update-ref refs/heads/x $(echo x | git commit-tree "
    "$(printf '100644 f\\0AAAAAAAAAAAAAAAAAAAA' | git hash-object -w -t tree --stdin --literally))": "missing blob",
    "git tag x; printf 'tree %s\\n\\nx\\n' $(git rev-parse HEAD^{tree}) "
    "| git hash-object -w -t commit --stdin --literally": "missingAuthor",
}


@pytest.mark.parametrize("script", REFUSED)
def test_nothing_is_taken_from_a_copy_that_is_odd(tmp_path: Path, script: str) -> None:
    root = made(tmp_path / "ws")
    unconfined(root, "git commit -q --allow-empty -m second")
    before = state(root)
    taken = copied(root, script)
    assert taken.moved == () and "nothing of what" in taken.lines[0], taken
    assert REFUSED[script] in taken.lines[0], taken.lines
    assert state(root) == before
    assert_sound(root)


WITHOUT_EFFECT = {
    "git config core.hooksPath /tmp/evil; git remote add o https://a.example/b": "config",
    "echo x > $C/hooks/post-checkout": "hooks/post-checkout",
    "echo x > $C/hooks/pre-commit; rm $C/info/exclude": "hooks/pre-commit, info/exclude",
    "ln -s /etc/passwd $C/info/attributes": "info/attributes",
    "git worktree add -q lib/wt": "worktrees/wt",
    "mkdir -p $C/modules/x": "modules/x",
    "git symbolic-ref refs/heads/sym refs/heads/main": "refs/heads/sym",
    "git replace -f HEAD $(git commit-tree -m x HEAD^{tree})": "refs/replace/",
    "git rev-parse HEAD > $C/refs/heads/a..b": "refs/heads/a..b",
    "echo ../../x > $C/commondir; echo /tmp > $C/objects/info/alternates": "",
}


@pytest.mark.parametrize("script", WITHOUT_EFFECT)
def test_settings_and_hooks_stay(tmp_path: Path, script: str) -> None:
    root = made(tmp_path / "ws")
    names = {path.name for path in (root / ".git").iterdir()} | {"packed-refs"}
    before = state(root), (root / ".git" / "config").read_bytes()
    taken = copied(root, script)
    unconfined(root, "git branch -D wt; rm -rf lib/wt; rm -f .git/ORIG_HEAD")
    assert before == (state(root), (root / ".git" / "config").read_bytes())
    assert names == {path.name for path in (root / ".git").iterdir()} | {"packed-refs"}
    said = f"so this had no effect: {WITHOUT_EFFECT[script]}"
    assert said in taken.lines[0] if WITHOUT_EFFECT[script] else taken.lines == ()
    assert not (root / ".git" / "hooks" / "post-checkout").exists()
    assert_sound(root)


def test_the_users_own_git_has_precedence(tmp_path: Path) -> None:
    root = made(tmp_path / "ws")
    taken = copied(root, "git commit -q --allow-empty -m theirs", "git commit -q --allow-empty -m ours")
    assert "nothing of what" in taken.lines[0] and "somebody else changed refs/heads/main meanwhile" in taken.lines[0]
    taken = copied(root, "echo x >> src/f1; git add src", "echo y > src/g; git add src/g")
    assert "somebody else changed the index meanwhile" in taken.lines[0]
    taken = copied(root, "git tag x", "touch .git/index.lock")
    assert "another git works here (index.lock exists)" in taken.lines[0]
    said = unconfined(root, "rm .git/index.lock; git log --format=%s; git tag; git ls-files src/g")
    assert said == "ours\nfirst\nsrc/g\n"
    taken = copied(root, "git tag x; git commit -qm z", "git update-index --refresh; git branch other")
    assert taken.lines == () and [one.name for one in taken.moved] == ["HEAD", "refs/heads/main", "refs/tags/x"]
    assert_sound(root)


def test_a_pack_that_was_fetched(tmp_path: Path) -> None:
    root, other = made(tmp_path / "ws"), made(tmp_path / "other")
    unconfined(other, "for i in $(seq 120); do echo $i > lib/n$i; done; git add .; git commit -qm many; git tag v1")
    unconfined(root, f"git remote add o {other}; git branch gone; git branch -q a")
    taken = copied(root, "git fetch -q o && git merge -q o/main && git branch -qd gone a && git branch a/b")
    assert (taken.lines, [one.name for one in taken.moved]) == ((), [
        "HEAD", "refs/heads/a", "refs/heads/a/b", "refs/heads/gone", "refs/heads/main", "refs/remotes/o/main",
        "refs/tags/v1"])  # fmt: skip
    assert unconfined(root, "git log -1 --format=%s; git branch --format='%(refname:short)'") == "many\na/b\nmain\n"
    assert unconfined(root, "git reflog --format=%gs o/main") == "fetch -q o: storing head\n"
    assert list((root / ".git" / "objects" / "pack").glob("*.pack"))
    assert_sound(root)


FAKED = """
import hashlib, os, struct
path = os.environ["C"] + "/index"
data = bytearray(open(path, "rb").read()[:-20])
{change}
open(path, "wb").write(data + hashlib.sha1(data).digest())
"""


@pytest.mark.parametrize(("change", "said"), [
    ("data[:] = data.replace(b'lib/g1\\0', b'.git/x\\0')", "the index names '.git/x', which git wouldn't add"),
    ("data[:] = data.replace(b'lib/g1\\0', b'lib/..\\0')", "the index names 'lib/..', which git wouldn't add"),
    ("data[:] = data.replace(b'lib/g1\\0', b'.GIT /x\\0'[:6] + b'\\0')", "which git wouldn't add"),
    ("data[:] = data.replace(b'lib/g1\\0', b'zib/g1\\0')", "the index isn't sorted"),
    ("data[8:12] = struct.pack('>I', 9999)", "the index is damaged"),
    ("data += b'link' + struct.pack('>I', 0)", "the index is split or sparse (link)"),
    ("data[12 + 24:12 + 28] = struct.pack('>I', 0o40000)", "the index has an entry of mode 40000"),
])  # fmt: skip
def test_an_index_that_git_would_believe(tmp_path: Path, change: str, said: str) -> None:
    root = made(tmp_path / "ws")
    script = FAKED.format(change=change)
    taken = copied(root, f"echo x >> lib/g1; git add lib; {sys.executable} - <<'E'\n{script}E\n")
    assert said in taken.lines[0] and unconfined(root, "git diff --cached --name-only") == ""


def test_a_command_cannot_hide_its_changes(tmp_path: Path) -> None:
    root = made(tmp_path / "ws")
    copied(root, "git update-index --assume-unchanged src/f1; echo x >> src/f1")
    fake = """
status = os.stat("src/f2")
at = data.index(b"src/f2") - 62
data[at:at + 40] = struct.pack(">10I", int(status.st_ctime), status.st_ctime_ns % 10**9, int(status.st_mtime),
    status.st_mtime_ns % 10**9, status.st_dev, status.st_ino, 0o100644, status.st_uid, status.st_gid, status.st_size)
"""
    copied(root, f"echo y >> src/f2; sleep 0.02; {sys.executable} - <<'E'\n{FAKED.format(change=fake)}E\n")
    assert unconfined(root, "git status --porcelain") == " M src/f1\n M src/f2\n"


def test_repositories_that_cannot_be_copied(tmp_path: Path) -> None:
    def refused(setup: str) -> str:
        root = made(tmp_path / f"ws-{time.monotonic_ns()}")
        unconfined(root, setup)
        with pytest.raises(GitRefused) as error:
            copied(root, "")
        return str(error.value)

    assert refused("rm -rf .git") == "the workspace isn't the top folder of a repository"
    assert refused("git config core.bare true") == "it is a bare repository"
    assert refused("git config core.worktree /tmp") == "its work tree is /tmp"
    assert refused("git config extensions.x y") == "ossia can't work with its setting extensions.x"
    assert refused("git config remote.o.promisor true") == "ossia can't work with its setting remote.o.promisor"
    assert refused("mv .git/objects/pack ../p; ln -s ../../../p .git/objects/pack") == "objects/pack is a link"
    assert refused("mkdir .git/lfs") == "it has lfs, which ossia can't work with"
    assert refused("mv .git lib/git; echo gitdir: lib/git > .git") == "the git folder lies elsewhere in the workspace"
