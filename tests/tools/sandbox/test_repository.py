"""git in a workspace that doesn't hold its git folder: what a command reads of it, and which pointers are believed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.tools.sandbox.job import Repository
from ossia.tools.sandbox.repository import repository_of
from ossia.tools.spec import NoStop, ToolContext
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.support.kernels import count_tokens, shell_confinement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")

WORKSPACES = ("linked", "main/sub", "outer/deps/lib", "of-submodule", "of-bare", "linked/sub", "here")
SECRET = "a-secret-of-the-user"
DATA = Path("/nowhere")


def git(folder: Path, *words: str) -> None:
    names = [word for role in ("AUTHOR", "COMMITTER") for word in (f"GIT_{role}_NAME=a", f"GIT_{role}_EMAIL=a@b")]
    command = ["env", *names, "git", "-c", "protocol.file.allow=always", *words]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def user_home() -> Iterator[Path]:
    """A home with repositories. In /tmp, where commands see nothing."""
    with tempfile.TemporaryDirectory(prefix="ossia-", dir="/tmp") as name:
        home = Path(name).resolve()
        git(home, "init", "-q", "main")
        (home / "main" / "sub").mkdir()
        (home / "main" / "sub" / "file").write_text("one\n")
        git(home / "main", "add", ".")
        git(home / "main", "commit", "-qm", "the first")
        git(home / "main", "worktree", "add", "-q", "../linked")
        git(home, "clone", "-q", "--bare", "main", "bare.git")
        git(home / "bare.git", "worktree", "add", "-q", "../of-bare")
        git(home, "init", "-q", "outer")
        git(home / "outer", "submodule", "--quiet", "add", "../main", "deps/lib")
        git(home / "outer" / "deps" / "lib", "worktree", "add", "-q", str(home / "of-submodule"))
        git(home, "clone", "-q", "main", "here")
        for folder in ("main", "linked", "of-bare", "outer/deps/lib", "of-submodule", "here"):
            (home / folder / "sub" / "file").write_text("two\n")
        yield home


@pytest.fixture(params=[pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "landlock"])
def tool(request: pytest.FixtureRequest, user_home: Path) -> Exec:
    found = shell_confinement(request.param)
    return Exec(confinement=found, home=user_home)


def said(tool: Exec, root: Path, command: str, *, trusted: bool = True) -> str:
    context = ToolContext(NoStop(), Workspace(root, trusted), Path("/nowhere"), count_tokens)
    running = tool.run({"command": ["bash", "-lc", command]}, call_id="call_1", context=context)
    while True:
        try:
            next(running)
        except StopIteration as end:
            return str(end.value.text)


@pytest.mark.parametrize("folder", WORKSPACES)
def test_git_reads_but_cannot_write(tool: Exec, user_home: Path, folder: str) -> None:
    root = user_home / folder
    reading = (
        "git log --format=%s && git diff --stat -- . && git show HEAD:./$(git ls-files | head -n 1) && git status -s ."
    )
    text = said(tool, root, f"{reading} && git blame -s $(git ls-files | head -n 1) && echo read")
    assert "the first\n" in text and "1 file changed" in text and "one\n" in text and "\nread\n" in text, text
    before = subprocess.run(["git", "for-each-ref"], cwd=root, capture_output=True, check=True).stdout
    text = said(tool, root, "git config user.name x; git branch other; git add -A && git commit -qm no")
    assert "could not lock config file" in text and "Unable to create" in text, text
    if folder != "here":
        above = "; it can be changed in a workspace that is the whole repository" if folder.endswith("/sub") else ""
        assert text.endswith(f"[git's folder can only be read here, not changed{above}]")
    assert subprocess.run(["git", "for-each-ref"], cwd=root, capture_output=True, check=True).stdout == before


def test_secrets_of_its_settings_are_not_shown(tool: Exec, user_home: Path) -> None:
    main, root = (user_home / f"{name}-{tool.confinement.name}" for name in ("secretive", "its-tree"))
    git(user_home, "clone", "-q", "main", str(main))
    git(main, "worktree", "add", "-q", str(root))
    (main / ".git" / "token").write_text(SECRET)
    for name, value in (
        ("remote.origin.url", f"https://me:{SECRET}@a.example/b"),
        ("remote.origin.proxy", f"http://{SECRET}@a.example"),
        ("http.https://a.example.extraHeader", SECRET),
        (f"url.https://{SECRET}@a.example/.insteadOf", "https://a.example/"),
        (f"lfs.https://{SECRET}@a.example/.access", "basic"),
        ("credential.helper", f"!echo {SECRET}"),
        ("some.accessToken", SECRET),
        ("alias.x", f'!curl "{SECRET}"'),
        ("gitlab.key", SECRET),
        ("filter.crypt.smudge", f"openssl enc -d -k {SECRET}"),
        ("diff.crypt.textconv", f"openssl enc -d -k {SECRET}"),
        ("submodule.x.update", f"!curl {SECRET}"),
        ("remote.a.url", f"ext::curl -u me:{SECRET} %S"),
        ("remote.b.url", f"https://a.example/b?private_key={SECRET}"),
        ("remote.c.url", f"https://me:with/{SECRET}@a.example/b"),
        ("remote.d.url", f"me:{SECRET}@a.example:b"),
        ("user.name", 'A "quoted" \\ name\n#'),
    ):
        git(main, "config", name, value)
    with (main / ".git" / "logs" / "HEAD").open("a") as log:  # as git 2.39 writes it
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=main, capture_output=True, check=True, text=True).stdout
        log.write(
            f"{head.strip()} {head.strip()} a <a@b> 1 +0000\tpull -q https://me:{SECRET}@a.example/b main: Merge\n"
        )
    shown = repository_of(root, home=user_home, data=DATA, trusted=False)
    assert isinstance(shown, Repository) and len(shown.left_out) == 17
    assert shown.settings[main / ".git" / "logs" / "HEAD"].endswith(" a <a@b> 1 +0000\tpull -q … main: Merge\n")
    text = said(
        tool,
        root,
        f"git log --format=%s; git config user.name; git remote -v; cat {main}/.git/{{config,token,logs/HEAD}}",
    )
    assert SECRET not in text, text
    if tool.confinement.name == "bwrap":
        assert 'the first\nA "quoted" \\ name\n#\norigin\thttps://a.example/b (fetch)' in text, text
    else:
        assert "[git's folder can't be read here: its settings or logs hold what commands mustn't see (" in text, text


def test_a_pointer_is_believed_only_if_it_is_returned(tmp_path: Path, user_home: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (user_home / ".ssh").mkdir()
    (tmp_path / "pointer").write_text(f"gitdir: {user_home}/main/.git\n")
    copied = tmp_path / "archive" / "worktrees" / "x"  # somebody's: it returns, but leads to another's objects
    copied.mkdir(parents=True)
    (copied / "gitdir").write_text(f"{root}/.git\n")
    (copied / "commondir").write_text(f"{user_home}/main/.git\n")
    for text in (
        f"gitdir: {user_home}/.ssh",
        f"gitdir: {user_home}/main/.git",
        f"gitdir: {user_home}/main/.git/worktrees/linked",
        f"gitdir: {user_home}/outer/.git/modules/deps/lib",
        f"gitdir: {tmp_path}/pointer",
        f"gitdir: {copied}",
        f"gitdir: {user_home}",
        "gitdir: /",
        "gitdir: \0",
        "gitdir: /" + "a" * 5000,
        "\udcff",
        "[core]",
        "",
    ):
        (root / ".git").write_text(text, errors="surrogateescape")
        assert isinstance(repository_of(root, home=user_home, data=DATA, trusted=True), str), text
    for target in (user_home / "main" / ".git", user_home / "linked" / ".git"):
        (root / ".git").unlink()
        (root / ".git").symlink_to(target)
        assert isinstance(repository_of(root, home=user_home, data=DATA, trusted=True), str), target
    (root / ".git").unlink()
    os.mkfifo(root / ".git")
    assert isinstance(repository_of(root, home=user_home, data=DATA, trusted=True), str)


def test_a_git_folder_that_needs_another_one_says_so(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    git(home, "init", "-q", "main")
    git(home / "main", "commit", "-qm", "x", "--allow-empty")
    git(home, "init", "-q", "--separate-git-dir", "apart.git", "apart")
    git(home, "clone", "-q", "--shared", "main", "shared")
    for tree in ("other", "linked"):
        git(home / "main", "worktree", "add", "-q", f"../{tree}")
    (home / "main/.git/worktrees/other/commondir").write_text(f"{home}/shared/.git\n")
    (home / "link").symlink_to("main")
    (home / "linked/.git").write_text(f"gitdir: {home}/link/.git/worktrees/linked\n")
    reasons = {
        "apart": f"{home}/apart/.git names {home}/apart.git, which doesn't name this folder in turn",
        "shared": f"some of its objects lie in {home}/main/.git/objects: `git repack -ad`, outside, brings them here",
        "other": f"{home}/main/.git/worktrees/other/commondir doesn't lead to {home}/main/.git",
        "linked": f"{home}/linked/.git leads through a link: `git worktree repair` in the other folder writes it anew",
    }
    assert {name: repository_of(home / name, home=home, data=DATA, trusted=True) for name in reasons} == reasons


def test_submodules_of_a_linked_worktree_are_shown(tool: Exec, user_home: Path) -> None:
    root = user_home / f"tree-{tool.confinement.name}"
    git(user_home / "outer", "commit", "-qm", "a submodule", "--allow-empty")
    git(user_home / "outer", "worktree", "add", "-q", str(root))
    git(root, "submodule", "--quiet", "update", "--init")
    (root / "deps" / "lib" / "sub" / "file").write_text("three\n")
    text = said(tool, root, "git status -s && git -C deps/lib log --format=%s && git submodule status --cached")
    assert " m deps/lib\nthe first\n" in text and "fatal" not in text, text


def test_where_there_is_nothing_to_show(tmp_path: Path, user_home: Path) -> None:
    """The workspace's own folder; none at all; a repository that is the home, or above an untrusted folder."""
    assert repository_of(user_home / "here", home=user_home, data=DATA, trusted=True) is None
    assert repository_of(user_home / ".ssh", home=user_home, data=DATA, trusted=True) is None
    git(tmp_path, "init", "-q", "home")
    (tmp_path / "home" / "folder").mkdir()
    assert repository_of(tmp_path / "home" / "folder", home=tmp_path / "home", data=DATA, trusted=True) is None
    untrusted = repository_of(user_home / "main" / "sub", home=user_home, data=DATA, trusted=False)
    assert isinstance(untrusted, str) and "isn't trusted" in untrusted


def test_a_folder_that_others_write_is_not_shown(tmp_path: Path) -> None:
    """Python's code writes in our data, other users where all may: a link could take the place of what was checked."""
    data, root = tmp_path / "data", tmp_path / "ws"
    own = data / "python-1" / "worktrees" / "x"
    for folder in (root, own, data / "python-1" / "objects"):
        folder.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{root}/.git\n")
    (root / ".git").write_text(f"gitdir: {own}\n")
    assert isinstance(repository_of(root, home=None, data=DATA, trusted=True), Repository)
    assert repository_of(root, home=None, data=data, trusted=True) == f"{own} is ossia's own"
    own.parent.parent.chmod(0o777)
    said = repository_of(root, home=None, data=DATA, trusted=True)
    assert isinstance(said, str) and said.endswith("others can write it")
