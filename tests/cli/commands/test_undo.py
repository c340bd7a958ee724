"""`ossia undo`, as its users run it."""

from __future__ import annotations

import sys
from pathlib import Path

import pexpect
import pytest

from ossia.tools.sandbox.git.copy import Moved
from ossia.tools.undo.journal import Journal
from tests.support.command import ossia, ossia_text, write_script
from tests.support.pty import spawn
from tests.support.trees import snapshot
from tests.support.work_calls import patch, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="undo works by descriptors of folders")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    return folder.resolve()


def data_dir(home: Path) -> Path:
    """Where the command looks: the home of a test is its own."""
    return home / ("Library/Application Support" if sys.platform == "darwin" else ".local/share") / "ossia"


def change(home: Path, root: Path, label: str, **files: str) -> None:
    journal = Journal(data_dir(home), root)
    journal.begin_turn(label)
    for name, text in files.items():
        path = root / f"{name}.txt"
        journal.keep(path)
        path.write_text(text)
    journal.end_turn()


def test_a_turn_that_moved_a_branch(home: Path, root: Path) -> None:
    old, new, head = "a" * 40, "b" * 40, "ref: refs/heads/main"
    journal = Journal(data_dir(home), root)
    journal.begin_turn("commit it")
    journal.note_git([Moved("HEAD", head, head), Moved("refs/heads/main", "f" * 40, old)])
    journal.note_git([Moved("HEAD", head, head), Moved("refs/heads/main", old, new), Moved("refs/tags/t", "", new)])
    journal.end_turn()
    assert ossia_text("undo", "--list", cwd=root).stdout.endswith("   only git  commit it\n")
    done = ossia_text("undo", cwd=root)
    assert done.stdout == f"  git reset {'f' * 40}\n  git update-ref -d refs/tags/t {new}\n" and done.returncode == 0
    stays = "git's branches and commits are not undone: run this in the workspace to restore them:"
    assert done.stderr == f"ossia: nothing was restored: commit it\nossia: {stays}\n"
    assert ossia_text("undo", cwd=root).returncode == 1


def test_a_folder_with_other_files_is_not_forced(home: Path, root: Path) -> None:
    journal = Journal(data_dir(home), root)
    journal.begin_turn("make b")
    journal.keep(root / "b")
    (root / "b").mkdir()
    journal.end_turn()
    (root / "b/mine.txt").write_text("mine")
    for flags in ((), ("--force",)):
        done = ossia_text("undo", *flags, cwd=root)
        assert done.stdout == "left as it is  b  (the folder now holds other files)\n"
        assert done.stderr.endswith("error: 1 file not restored: --skip forgets about it\n")


def test_the_last_turn_then_the_one_before(home: Path, root: Path) -> None:
    first = snapshot(root)
    change(home, root, "make a better", a="two")
    change(home, root, "add b\nand more", a="three", b="b")
    listed = ossia_text("undo", "--list", cwd=root)
    lines = [line.split("  ", 1)[1].strip() for line in listed.stdout.splitlines()]
    assert (lines, listed.stderr, listed.returncode) == (["2 files  add b and more", "1 file  make a better"], "", 0)
    dry = ossia_text("undo", "--dry-run", cwd=root)
    assert dry.stdout == "would be restored  a.txt\nwould be removed   b.txt\n"
    assert dry.stderr == "ossia: this would be undone: add b and more\n" and dry.returncode == 0
    done = ossia_text("undo", cwd=root)
    assert (done.stdout, done.returncode) == ("restored  a.txt\nremoved   b.txt\n", 0)
    assert done.stderr == "ossia: undone: add b and more\n"
    done = ossia_text("undo", "--workspace", str(root))
    assert (done.stdout, done.stderr) == ("restored  a.txt\n", "ossia: undone: make a better\n")
    assert snapshot(root) == first
    done = ossia_text("undo", cwd=root)
    assert (done.stdout, done.returncode) == ("", 1)
    assert done.stderr == f"ossia: error: there is nothing to undo in {root}; --workspace DIR names another folder\n"


def test_in_a_folder_below_the_workspace_the_way_is_said(home: Path, root: Path) -> None:
    change(home, root, "t", a="two")
    (root / "sub").mkdir()
    done = ossia_text("undo", cwd=root / "sub")
    assert done.stderr == (
        f"ossia: error: there is nothing to undo in {root / 'sub'}; in {root} there is: ossia undo --workspace {root}\n"
    )
    assert (root / "a.txt").read_text() == "two"


def test_what_the_user_changed_since(home: Path, root: Path) -> None:
    change(home, root, "t", a="two", b="b")
    (root / "a.txt").write_text("mine")
    done = ossia_text("undo", cwd=root)
    assert (done.stdout, done.returncode) == (
        "removed   b.txt\nleft as it is  a.txt  (changed since)\n", 1,
    )  # fmt: skip
    assert done.stderr.endswith("error: 1 file not restored: --force overwrites it, --skip forgets about it\n")
    again = ossia_text("undo", cwd=root)
    assert again.stderr.startswith("ossia: nothing was restored: t\n") and again.returncode == 1
    assert ossia_text("undo", "--dry-run", cwd=root).stderr.startswith("ossia: nothing would be restored: t\n")
    skipped = ossia_text("undo", "--skip", cwd=root)
    assert (skipped.stderr, skipped.returncode) == ("ossia: forgotten: t\n", 0)
    assert (root / "a.txt").read_text() == "mine"
    assert ossia("undo", "--force", cwd=root).returncode == 1  # it is forgotten
    change(home, root, "t", a="two")
    (root / "a.txt").write_text("mine again")
    assert ossia_text("undo", "--force", cwd=root).stdout == "restored  a.txt\n"
    assert (root / "a.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [("--workspace", "/nowhere/at/all"), ("--force", "--skip"), ("--workspace", __file__), ("extra",)]
)
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    done = ossia_text("undo", *arguments)
    assert (done.stdout, done.returncode) == ("", 2) and len(done.stderr.splitlines()) == 1


def test_names_and_labels_reach_no_terminal_as_they_are(home: Path, root: Path) -> None:
    journal = Journal(data_dir(home), root)
    journal.begin_turn("a\x1b]52;c;aGk=\x07label")
    name = "x\x1b[2J\ny\u202e.txt"
    journal.keep(root / name)
    (root / name).write_text("x")
    journal.end_turn()
    for arguments in (["undo", "--list"], ["undo"]):
        child = spawn(*arguments, cwd=root)
        child.expect(pexpect.EOF)
        text = str(child.before)
        child.close()
        assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text
        assert "label" in text
    assert "x␛[2J␊y⟨U+202E⟩.txt" in text


@pytest.mark.parametrize("way", ["run", "call"])
def test_what_the_user_wrote_after_a_turn_is_not_lost(way: str, root: Path, tmp_path: Path) -> None:
    if way == "run":
        final = "<|channel|>final<|message|>Done.<|return|>"
        script = write_script(tmp_path, writes("a.txt", "two", before="one"), final)
        done = ossia("run", "make it two", "--engine", script, "--workspace", str(root), "--yes")
    else:
        arguments = patch("a.txt", "two", before="one")
        done = ossia("tools", "call", "apply_patch", arguments, "--workspace", str(root), "--yes")
    assert done.returncode == 0 and (root / "a.txt").read_text() == "two", done.stderr
    label = "make it two" if way == "run" else "ossia tools call"
    assert label in ossia_text("undo", "--list", cwd=root).stdout
    (root / "a.txt").write_text("three, by hand")
    undone = ossia_text("undo", cwd=root)
    assert undone.returncode == 1 and "a.txt" in undone.stdout + undone.stderr
    assert (root / "a.txt").read_text() == "three, by hand"
    (root / "a.txt").write_text("two")
    assert ossia_text("undo", cwd=root).returncode == 0
    assert (root / "a.txt").read_text() == "one"
