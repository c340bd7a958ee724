"""The shadow git: what git ignores isn't undone, and nothing in a workspace reaches the git that undo uses."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ossia.tools.undo.journal import Journal, Undone
from ossia.tools.undo.shadow import find_git
from tests.support.trees import snapshot

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or find_git(()) is None, reason="undo of commands needs git, and descriptors of folders"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "ws").resolve()
    folder.mkdir()
    return folder


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def command(journal: Journal, root: Path, script: str) -> None:
    """As the shell tool does it, without a sandbox."""
    before = journal.before_command()
    assert before is not None
    there = {path.lstat().st_ino for path in root.rglob("*")}
    subprocess.run(["/bin/sh", "-ec", script], cwd=root, check=True, timeout=30, stdin=subprocess.DEVNULL)
    journal.after_command(before, there)


def undone(journal: Journal) -> Undone:
    journal.end_turn()
    done = journal.undo()
    assert done is not None and done.skipped == ()
    return done


def git(root: Path, *arguments: str) -> None:
    somebody = ("-c", "user.name=x", "-c", "user.email=x@x")
    subprocess.run(["git", *somebody, *arguments], cwd=root, check=True, capture_output=True)


# -- attacks -----------------------------------------------------------------------------------------------------------


def test_nothing_in_a_workspace_runs_or_changes_a_byte(root: Path, tmp_path: Path) -> None:
    """Filters, line ends, encodings, hooks and monitors, of the workspace's repository and of one in it."""
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    write(root, {
        ".gitattributes": "* text=auto eol=crlf ident filter=evil working-tree-encoding=UTF-16\n",
        "crlf.txt": b"one\r\ntwo\r\n", "lf.txt": b"one\ntwo\n", "mixed.txt": b"one\r\ntwo\n$Id$\n",
        "utf16.txt": "Grüße\r\n".encode("utf-16"), "binary": bytes(range(256)) * 20, "empty": b"",
    })  # fmt: skip
    for folder in (root, root / "sub"):
        git(root, "init", "-q", str(folder))
        for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"):
            git(folder, "config", key, str(evil))
        git(folder, "config", "core.hooksPath", str(tmp_path))
        git(folder, "config", "core.worktree", "/")
    write(root / "sub", {".gitattributes": "* filter=evil\n", "in.txt": b"a\r\n", ".git/info/attributes": "* text\n"})
    before = snapshot(root)
    journal = Journal(tmp_path / "data", root)
    journal.begin_turn("t")
    command(journal, root, "rm -rf sub *.txt; echo x > binary; echo x >> empty; rm .gitattributes")
    assert undone(journal).removed == ()
    assert snapshot(root) == before and not (tmp_path / "ran").exists()


def test_a_git_in_a_folder_that_calls_can_write_is_not_run(root: Path, tmp_path: Path) -> None:
    """Nor one that PATH names, nor what the environment tells git."""
    write(root, {"bin/git": f"#!/bin/sh\ntouch {tmp_path}/ran\n", "a": "a"})
    (root / "bin/git").chmod(0o755)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/git").symlink_to(root / "bin/git")
    assert find_git((root,), [str(root / "bin"), str(tmp_path / "linked")]) is None
    script = (
        "import sys, subprocess; from pathlib import Path; from ossia.tools.undo.journal import Journal\n"
        "from ossia.tools.undo.shadow import PROGRAMS\n"
        "root, data = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "journal = Journal(data, root, programs=(str(root / 'bin'), *PROGRAMS))\n"
        "before = journal.before_command(); (root / 'a').unlink(); journal.after_command(before); journal.undo()\n"
    )
    environ = {
        **os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": f"{root}/bin:{os.environ['PATH']}",
        "GIT_DIR": str(root), "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(root / "bin/git"), "GIT_EXEC_PATH": str(root / "bin"), "HOME": str(root),
    }  # fmt: skip
    arguments = [sys.executable, "-c", script, str(root), str(tmp_path / "data")]
    subprocess.run(arguments, check=True, env=environ, timeout=60)
    assert (root / "a").read_text() == "a" and not (tmp_path / "ran").exists()


def test_rules_that_a_command_writes_hide_nothing(root: Path, tmp_path: Path) -> None:
    """Neither from the look after it, nor from the next command of the same turn."""
    write(root, {"a": "a", "deep/b": "b", ".gitignore": "*.o\n", "c.o": "kept by nobody"})
    before = snapshot(root)
    journal = Journal(tmp_path / "data", root)
    journal.begin_turn("t")
    command(journal, root, "echo '*' | tee .gitignore > deep/.gitignore; echo x > new; echo x > deep/b")
    command(journal, root, "rm -r deep; rm a; mkdir made; echo '*' > made/.gitignore; echo x > made/x")
    assert undone(journal).removed == ("new", "made", "made/.gitignore", "made/x")
    assert snapshot(root) == before
    journal.begin_turn("the user's own rules count in the next turn")
    write(root, {".gitignore": "a\n"})
    command(journal, root, "rm a c.o; echo x > d")
    assert undone(journal) == Undone("the user's own rules count in the next turn", ("c.o",), ("d",))


def test_a_folder_that_becomes_a_link_while_it_is_restored_leads_nowhere(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, {f"f{number}": "not ours" for number in range(20)})
    write(root, {f"sub/f{number}": "ours" for number in range(20)})
    (root / "link").symlink_to(outside)
    journal, stopped = Journal(tmp_path / "data", root), threading.Event()

    def swap() -> None:
        while not stopped.is_set():
            for one, other in (("sub", "was"), ("link", "sub"), ("sub", "link"), ("was", "sub")):
                (root / one).rename(root / other)

    for attempt in range(5):
        journal.begin_turn("t")
        command(journal, root, f"for i in sub/f*; do echo {attempt} > $i; done")
        journal.end_turn()
        stopped.clear()
        swapping = threading.Thread(target=swap)
        swapping.start()
        journal.undo(force=True)
        stopped.set()
        swapping.join()
        assert {path.read_text() for path in outside.iterdir()} == {"not ours"}
    (root / "link").unlink()
    (root / "link").symlink_to("/")


def test_odd_names_are_names(root: Path, tmp_path: Path) -> None:
    """To git they could be options, patterns or several names."""
    names = [":(exclude)*", ":/", "-n", "--stdin", "new\nline", "!x", "#x", '"', "a\\b", "sub/.git/x", " ", "…"]
    write(root, {".gitignore": "*.o\nbuild/\n", **{name: name for name in names}, "build": "a file"})
    (root / os.fsdecode(b"\xff.txt")).write_text("not UTF-8")
    before = snapshot(root)
    journal = Journal(tmp_path / "data", root)
    journal.begin_turn("t")
    command(journal, root, "rm -rf ./* sub; mkdir build; echo x > :x; echo x > ./-o")
    assert undone(journal).removed == ("-o", ":x")
    assert snapshot(root) == before


# -- what git ignores --------------------------------------------------------------------------------------------------

IGNORED = {
    ".gitignore": "*.o\nbuild/*\n!build/keep\n/dist/\nlogs\n", "src/.gitignore": "!main.o\n/gen/\n", "a.o": "a",
    "build/x": "x", "build/keep": "k", "dist/deep/y": "y", "src/dist/z": "z", "src/main.o": "m", "src/gen/g": "g",
    "logs/l": "l", "src/logs": "l", "b.c": "b", "src/other.o": "o",
}  # fmt: skip
KEPT = {".gitignore", "src/.gitignore", "build/keep", "src/dist/z", "src/main.o", "b.c"}


@pytest.mark.parametrize("repository", [True, False])
def test_ignored_files_are_those_of_git(root: Path, tmp_path: Path, repository: bool) -> None:
    """A tracked file isn't ignored, whatever the rules say of it."""
    write(root, IGNORED)
    tracked = {"logs/l", "src/other.o"} if repository else set()
    if repository:
        git(root, "init", "-q")
        git(root, "add", "-f", *tracked)
    journal = Journal(tmp_path / "data", root)
    journal.begin_turn("t")
    command(journal, root, "for f in $(find . -type f -not -path './.git/*'); do echo new > $f; done; rm -r dist")
    assert set(undone(journal).restored) == KEPT | tracked
    found = {name for name, data in IGNORED.items() if (root / name).exists() and (root / name).read_text() == data}
    assert found == KEPT | tracked
    assert undone_again(journal, root) == ("b.c",)


def undone_again(journal: Journal, root: Path) -> tuple[str, ...]:
    journal.begin_turn("t2")
    command(journal, root, "rm b.c a.o; echo x > new.o; mkdir -p dist; echo x > dist/new")
    return undone(journal).restored


def test_it_is_said_once_which_files_are_ignored(root: Path, tmp_path: Path) -> None:
    write(root, IGNORED)
    journal = Journal(tmp_path / "data", root)
    assert journal.ignored_line() == ""
    command(journal, root, "true")
    assert journal.ignored_line() == (
        "undo won't restore what git ignores (dist/, logs/, a.o, src/gen/, build/x, src/logs, src/other.o), only files "
        "there that run or instruct later tools"
    )
    assert journal.ignored_line() == "" and Journal(tmp_path / "data", root).ignored_line() == ""


def test_what_was_moved_out_of_an_ignored_folder_is_not_removed(root: Path, tmp_path: Path) -> None:
    """Nobody has another copy."""
    write(root, {".gitignore": "/cache/\n*.o\n", "cache/deep/a": "the only copy", "b.o": "so is this", "c": "c"})
    journal = Journal(tmp_path / "data", root)
    journal.begin_turn("t")
    command(journal, root, "sleep 0.1; mv cache other; mv b.o b; mv c d; echo x > e")
    assert undone(journal) == Undone("t", restored=("c",), removed=("d", "e"))
    assert (root / "other/deep/a").read_text() == "the only copy" and (root / "b").read_text() == "so is this"


# -- the store ---------------------------------------------------------------------------------------------------------


def test_a_damaged_store_is_made_anew(root: Path, tmp_path: Path) -> None:
    write(root, {f"f{number}": "x" * number for number in range(150)})
    command(Journal(tmp_path / "data", root), root, "true")
    (folder,) = (tmp_path / "data/undo").glob("*/seen/git")
    for damage in (lambda: shutil.rmtree(folder / "objects/pack"), lambda: (folder / "HEAD").write_text("junk"),
                   lambda: shutil.rmtree(folder)):  # fmt: skip
        damage()
        before = snapshot(root)
        journal = Journal(tmp_path / "data", root)
        journal.begin_turn("t")
        command(journal, root, "rm f1*; echo x > f20")
        undone(journal)
        assert snapshot(root) == before


def test_a_lost_list_takes_nothing_away(root: Path, tmp_path: Path) -> None:
    """After a crash in a command: what isn't known to be new isn't removed."""
    write(root, {"a": "a", "b": "b"})
    script = ("import os, sys; from pathlib import Path; from ossia.tools.undo.journal import Journal\n"
              "root = Path(sys.argv[1]); journal = Journal(Path(sys.argv[2]), root); journal.before_command()\n"
              "(root / 'a').write_text('changed'); os._exit(1)")  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    for lost in ("seen.jsonl", "git"):
        subprocess.run([sys.executable, "-c", script, str(root), str(tmp_path / "data")], env=environ, timeout=60)
        (path,) = (tmp_path / "data/undo").glob(f"*/seen/{lost}")
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        journal = Journal(tmp_path / "data", root)
        journal.undo()
        assert {path.name for path in root.iterdir()} == {"a", "b"}
        journal.undo(skip=True)


def test_a_private_conversation_leaves_no_copy_of_the_workspace(root: Path, tmp_path: Path) -> None:
    write(root, {"a": "a secret", "b": "b"})
    journal = Journal(tmp_path / "data", root, private=True)
    journal.begin_turn("(a private turn)")
    command(journal, root, "rm b")
    inside = [path.relative_to(tmp_path / "data") for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert not any("seen" in path.parts for path in inside)
    del journal
    gc.collect()
    journal = Journal(tmp_path / "data", root)
    assert undone(journal).restored == ("b",)


def test_without_git_commands_are_not_kept(root: Path, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "data", root, programs=())
    assert journal.before_command() is None
    assert journal.commands_cannot_be_undone() == "git, which keeps what commands change, isn't installed"
