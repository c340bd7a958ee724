"""The workspace's edge: nothing outside is read or written, whatever a name or a link says. Hostile row 27."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from ossia.tools.approval import sensitive
from ossia.tools.approval.rules import Rule
from ossia.tools.approval.sensitive import Caution
from ossia.tools.safe_files import Place, locate, open_root, opened_folder, read_bytes, require_inside
from ossia.tools.spec import ToolFailed
from tests.support.folders import Folder, tree

SECRET = b"a secret of another folder"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_bytes(SECRET)
    folder = Folder(tmp_path / "w")
    folder.write("docs/a.md", "alpha\n")
    return folder


def _patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


# -- names --


@pytest.mark.parametrize(
    "name",
    [
        *("docs/a.md", "./docs/a.md", "docs//a.md", "docs/./a.md", "docs/../docs/a.md", "docs/sub/../a.md"),
        "{root}/docs/a.md",
    ],
)
def test_names_that_lead_to_a_file_inside(folder: Folder, name: str) -> None:
    (folder.root / "docs" / "sub").mkdir()
    assert locate(folder.root, name.format(root=folder.root)) == Place("docs/a.md", "docs/a.md", "file")


def test_the_workspace_itself_and_what_is_missing(folder: Folder) -> None:
    assert locate(folder.root, ".") == locate(folder.root, "") == Place(".", ".", "folder")
    assert locate(folder.root, "new/deep/b.md") == Place("new/deep/b.md", "new/deep/b.md", "missing")
    assert locate(folder.root, "docs").kind == "folder"


@pytest.mark.parametrize(
    "name",
    [
        *("..", "../outside/secret.txt", "docs/../../outside/secret.txt", "docs/../..", "/etc/passwd", "/", "~", "~/x"),
        *("{root}/../outside/secret.txt", "{root}x/secret.txt", "a\0b", "docs/a.md/../../../x", "\ud800"),
        "new/../../x",
    ],
)
def test_names_that_lead_out_are_refused(folder: Folder, name: str) -> None:
    """Hostile row 27: `../x`, absolute."""
    with pytest.raises(ToolFailed, match=r"^Error: "):
        locate(folder.root, name.format(root=folder.root))


def test_links_are_followed_inside_and_never_out(folder: Folder, tmp_path: Path) -> None:
    """Hostile row 27: symlink out."""
    links = {
        "near": "docs/a.md", "docs/up": "../docs/a.md", "whole": str(folder.root / "docs"), "dangling": "docs/new.md",
        "out": "../outside/secret.txt", "far": str(tmp_path / "outside"), "loop": "loop", "by": "near",
        "docs/out": "../../outside/secret.txt", "zero": "/dev/zero", "proc": "/proc/self/environ",
    }  # fmt: skip
    for name, target in links.items():
        (folder.root / name).symlink_to(target)
    assert locate(folder.root, "near") == Place("docs/a.md", "near", "file", link=True)
    assert locate(folder.root, "near").subjects == ("docs/a.md", "near")
    assert locate(folder.root, "by").name == locate(folder.root, "docs/up").name == "docs/a.md"
    assert locate(folder.root, "whole/a.md") == Place("docs/a.md", "whole/a.md", "file")
    assert locate(folder.root, "dangling") == Place("docs/new.md", "dangling", "missing", link=True)
    for name in ("out", "far", "far/secret.txt", "loop", "docs/out", "zero", "proc", "far/../outside/secret.txt"):
        with pytest.raises(ToolFailed):
            locate(folder.root, name)
        for result in (
            folder.call("open_file", path=name),
            folder.call("apply_patch", patch=_patch(f"*** Add File: {name}", "+x")),
            folder.call("list_dir", path=name),
            folder.call("search", query=".", path=name),
            folder.call("print_tree", path=name, depth=2),
            folder.call("apply_patch", patch=_patch(f"*** Update File: {name}", "@@", f"-{SECRET.decode()}", "+x")),
            folder.call("apply_patch", patch=_patch(f"*** Delete File: {name}")),
            folder.call("apply_patch", patch=_patch(f"*** Add File: {name}/x", "+x")),
            folder.call("apply_patch", patch=_patch("*** Update File: docs/a.md", f"*** Move to: {name}/x")),
        ):
            assert result.error and result.text.startswith("Error: ") and "secret of" not in result.text
    assert tree(tmp_path / "outside") == {"secret.txt": SECRET}
    assert folder.kept.paths == []


def test_another_name_of_the_root(tmp_path: Path) -> None:
    """On macOS /tmp is /private/tmp: what the model was told may be either."""
    folder = Folder(tmp_path / "w")
    folder.write("a.md", "x")
    (tmp_path / "alias").symlink_to(folder.root)
    assert locate(folder.root, str(tmp_path / "alias" / "a.md")).name == "a.md"


# -- what isn't a plain file --


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.parametrize("make", [_fifo, _socket, _device])
def test_what_is_no_plain_file_is_neither_read_nor_written(home: Path, make: Callable[[Path], None]) -> None:
    """Hostile row 27: FIFO, /dev/zero."""
    folder = Folder(home / "w")
    make(folder.root / "odd")
    for result in (
        folder.call("open_file", path="odd"),
        folder.call("apply_patch", patch=_patch("*** Update File: odd", "@@", "-x", "+y")),
        folder.call("search", query=".", path="odd"),
        folder.call("apply_patch", patch=_patch("*** Delete File: odd")),
    ):
        assert result.error, result
        assert "no plain file" in result.text
    assert folder.text("list_dir") == "odd\n"
    assert folder.text("search", query=".") == "No matches in 0 files.\n"
    with pytest.raises(ToolFailed, match="no plain file"):  # not even if the look before is passed by
        read_bytes(folder.root, "odd")


def test_a_file_of_5_gb_is_refused(folder: Folder) -> None:
    """Hostile row 27: 5 GB file."""
    os.truncate(folder.write("large.log", "text " * 2_000), 5 << 30)
    assert folder.call("open_file", path="large.log").text == (
        "Error: 'large.log' has 5368.7 MB, and at most 16.8 MB are read. Search it."
    )
    assert folder.call("apply_patch", patch=_patch("*** Update File: large.log", "@@", "+x")).error
    assert folder.call("apply_patch", patch=_patch("*** Delete File: large.log")).error
    assert "too large" in folder.text("search", query="x")
    assert (folder.root / "large.log").stat().st_size == 5 << 30


# -- swapped between the look and the use --


def test_a_file_that_became_a_link_is_not_read(folder: Folder, tmp_path: Path) -> None:
    """Hostile row 27: symlink swapped between check and open."""
    (folder.root / "docs" / "a.md").unlink()
    (folder.root / "docs" / "a.md").symlink_to(tmp_path / "outside" / "secret.txt")
    with pytest.raises(ToolFailed, match="no plain file"):
        read_bytes(folder.root, "docs/a.md")
    (folder.root / "docs" / "a.md").unlink()
    (folder.root / "docs").rmdir()
    (folder.root / "docs").symlink_to(tmp_path / "outside")
    with pytest.raises(ToolFailed, match="no longer the folder it was"):
        read_bytes(folder.root, "docs/secret.txt")
    with pytest.raises(ToolFailed), opened_folder(folder.root, "docs", make=[]):
        pass


def test_a_folder_moved_out_while_it_is_open(folder: Folder, tmp_path: Path) -> None:
    top = open_root(folder.root)
    try:
        with opened_folder(folder.root, "docs") as docs:
            require_inside(top, docs, "docs")
            (folder.root / "docs").rename(tmp_path / "outside" / "docs")
            with pytest.raises(ToolFailed, match="no longer lies in the workspace"):
                require_inside(top, docs, "docs")
    finally:
        os.close(top)


@pytest.fixture
def swapping(folder: Folder, tmp_path: Path) -> Iterator[Folder]:
    """`race/f.txt`: a file, a link to the secret, or below a folder that is itself a link, changing all the time."""
    folder.write("race/f.txt", "inside\n")
    outside = tmp_path / "outside"
    (outside / "f.txt").write_bytes(SECRET)
    folder.write("plain.txt", "inside\n")
    (folder.root / "folder-link").symlink_to(outside)
    (folder.root / "file-link").symlink_to(outside / "secret.txt")
    (folder.root / "other").mkdir()
    folder.write("other/f.txt", "inside\n")
    over = threading.Event()

    def step(move: Callable[..., object], *paths: Path) -> None:
        with suppress(OSError):  # a tool has made something of that name meanwhile: the next round goes on
            move(*paths)

    def swap() -> None:
        race, aside, link = folder.root / "race", folder.root / "aside", folder.root / "folder-link"
        while not over.is_set():
            step(os.rename, race, aside)
            step(os.rename, link, race)
            step(os.rename, race, link) if race.is_symlink() else step(shutil.rmtree, race)
            step(os.rename, aside, race)
            for source in ("file-link", "plain.txt"):
                step(partial(os.link, follow_symlinks=False), folder.root / source, race / "new")
                step(os.replace, race / "new", race / "f.txt")
            rounds.append(1)

    rounds: list[int] = []
    thread = threading.Thread(target=swap)
    thread.start()
    yield folder
    over.set()
    thread.join(10)
    assert len(rounds) > 100


def test_a_race_never_leaks(swapping: Folder) -> None:
    """Hostile row 27: symlink swapped between check and open, some hundred times."""
    calls = read = 0
    while calls < 400 or (read == 0 and calls < 20_000):  # on a busy machine it may be a while until one is in time
        result = swapping.call("open_file", path="race/f.txt")
        assert "secret" not in result.text
        calls, read = calls + 1, read + ("\ninside\n" in result.text)
    for _ in range(10):
        assert "a secret" not in swapping.call("search", query="secret|inside", path="race").text
        assert "a secret" not in swapping.call("search", query="secret|inside").text
    assert read > 0


def test_a_race_never_writes_outside(swapping: Folder, tmp_path: Path) -> None:
    """Hostile row 27, the other way: what is written lands inside, or nowhere."""
    before = tree(tmp_path / "outside")
    calls = done = 0
    while calls < 150 or (done == 0 and calls < 10_000):
        done += not swapping.put("race/f.txt", f"round {calls}\n").error
        swapping.call("apply_patch", patch=_patch(f"*** Add File: race/n{calls}.txt", "+new"))
        calls += 1
    assert tree(tmp_path / "outside") == before
    assert done > 0


# -- what is asked about --


@pytest.mark.parametrize(
    "name",
    [
        *(".env", "sub/.env.local", ".ENV", "prod.env", "key.pem", "a/id_rsa", "id_ed25519_work", ".netrc", ".npmrc"),
        *(".git/config", "sub/.git/config", ".git/modules/x/config", ".aws/credentials", "credentials.json", ".ssh/x"),
        *("server.KEY", "secrets.yaml", ".g\u200cit/config", ".kube/config", "terraform.tfstate", ".pgpass"),
    ],
)
def test_secrets_are_asked_about(folder: Folder, name: str) -> None:
    assert sensitive.of_reading(name) == f"it reads {name}, which often holds secrets"
    assert sensitive.of_writing(name).reason
    folder.write(name, "k=v\n")
    assert folder.text("open_file", path=name) == "k=v\n"
    assert len(folder.asked) == 1 and "often holds secrets" in folder.asked[0].reason


@pytest.mark.parametrize(
    "name",
    [
        *("src/a.py", "environment.md", "id_rsa.pub", "keys.py", "secretary.txt", "monkey.key.md", "gitconfig"),
        *("secrets.py", "identity.ts", "credentials.go", "src/hooks/use.ts", "hooks/use.ts", "config", "AGENTS.md.txt"),
    ],
)
def test_plain_files_are_not(folder: Folder, name: str) -> None:
    folder.write(name, "x\n")
    assert (sensitive.of_reading(name), sensitive.of_writing(name)) == ("", Caution())
    assert not folder.call("open_file", path=name).error
    assert folder.asked == []


@pytest.mark.parametrize(
    "name",
    [
        *(".git/hooks/pre-commit", ".git", "sub/.git/x", ".GIT/config", ".githooks/x", ".husky/pre-push"),
        *("x.git/hooks/update", ".pre-commit-config.yaml", ".bashrc", ".ossia/rules.toml", ".env"),
        *(".envrc", "AGENTS.md"),
    ],
)
def test_what_can_run_code_or_widen_rights_is_written_after_a_question(tmp_path: Path, name: str) -> None:
    """A rule that allows every write doesn't answer it."""
    folder = Folder(tmp_path / "w", rules=(Rule("repo_browser.apply_patch", "allow"),))
    folder.write("a.md", "old\n")
    assert not folder.put("b.md", "x").error
    assert folder.asked == []
    assert folder.put(name, "x", answer=False).error
    patch = _patch("*** Update File: a.md", f"*** Move to: {name}", "@@", "-old", "+new")
    assert folder.send("apply_patch", json.dumps({"patch": patch}), answer=False).error
    assert [asked.preview.caution for asked in folder.asked] == [sensitive.of_writing(name).reason] * 2
    assert folder.tree() == {"a.md": b"old\n", "b.md": b"x\n"}


def test_a_write_protected_file_is_changed_after_a_question(tmp_path: Path) -> None:
    """It would be replaced, which its permissions don't hinder."""
    folder = Folder(tmp_path / "w", rules=(Rule("repo_browser.apply_patch", "allow"),))
    folder.write("a.txt", "old\n").chmod(0o444)
    for name, arguments in (
        ("apply_patch", {"patch": _patch("*** Update File: a.txt", "@@", "-old", "+new")}),
        ("apply_patch", {"patch": _patch("*** Add File: b.txt", "+x", "*** Delete File: a.txt")}),
    ):
        assert folder.send(name, json.dumps(arguments), answer=False).error
    assert [asked.preview.caution for asked in folder.asked] == ["it changes a.txt, which is write-protected"] * 2


def test_a_link_to_a_secret_is_a_secret(folder: Folder) -> None:
    folder.write(".env", "TOKEN=1\n")
    (folder.root / "harmless.txt").symlink_to(".env")
    folder.call("open_file", path="harmless.txt")
    assert [asked.preview.subjects for asked in folder.asked] == [(".env", "harmless.txt")]
