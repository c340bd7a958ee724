"""The journal: what turns changed comes back byte by byte, and nothing that the user made is lost."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.tools.spec import ToolFailed
from ossia.tools.undo.journal import Journal, KeepLimits, Skipped, Turn, Undone
from ossia.tools.undo.turns import TurnFolder
from tests.oracle.undo import play
from tests.support.trees import snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="undo works by descriptors of folders")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's")
ROOT = os.geteuid() == 0 if sys.platform != "win32" else False


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "ws").resolve()
    (folder / "docs" / "empty").mkdir(parents=True)
    (folder / "a.py").write_bytes(b"one\r\n\x00\xff")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "docs" / "b.md").write_text("b")
    (folder / "docs" / "link").symlink_to("../a.py")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def journal(data: Path, root: Path) -> Journal:
    return Journal(data, root)


@pytest.fixture
def first(root: Path) -> Iterator[dict[str, object]]:
    """The tree before; where a test doesn't say otherwise, undo has to give it back."""
    return snapshot(root)


def write(journal: Journal, path: Path, data: bytes) -> None:
    """As a tool does it."""
    journal.keep(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name("tmp")
    temporary.write_bytes(data)
    temporary.replace(path)


def command(journal: Journal, root: Path, script: str) -> None:
    """As the shell tool does it, without a sandbox: that is tested elsewhere."""
    before = journal.before_command()
    assert before is not None
    try:
        subprocess.run(["/bin/sh", "-ec", script], cwd=root, check=True, timeout=30, stdin=subprocess.DEVNULL)
    finally:
        journal.after_command(before)


# -- what tools write --------------------------------------------------------------------------------------------------


def test_a_turn_of_writes_comes_back(journal: Journal, root: Path, first: dict[str, object]) -> None:
    journal.begin_turn("make it better")
    write(journal, root / "a.py", b"two")
    write(journal, root / "run.sh", b"gone")
    write(journal, root / "new" / "deep" / "c.txt", b"c")
    journal.keep(root / "docs" / "b.md")
    (root / "docs" / "b.md").unlink()
    journal.keep(root / "docs" / "link")
    (root / "docs" / "link").unlink()
    journal.end_turn()
    assert journal.undo() == Undone(
        "make it better",
        restored=("a.py", "run.sh", "docs/b.md", "docs/link"),
        removed=("new", "new/deep", "new/deep/c.txt"),
    )
    assert snapshot(root) == first
    assert journal.undo() is None


def test_the_first_state_of_a_turn_counts(journal: Journal, root: Path, first: dict[str, object]) -> None:
    journal.begin_turn("t")
    for data in (b"1", b"2", b"3"):
        write(journal, root / "a.py", data)
    journal.end_turn()
    journal.undo()
    assert snapshot(root) == first


def test_turns_are_undone_one_by_one(journal: Journal, root: Path) -> None:
    states = [snapshot(root)]
    for number in range(3):
        journal.begin_turn(f"turn {number}")
        write(journal, root / "a.py", b"%d" % number)
        write(journal, root / f"{number}.txt", b"x")
        journal.end_turn()
        states.append(snapshot(root))
    assert [turn.label for turn in journal.turns()] == ["turn 2", "turn 1", "turn 0"]
    for number in (2, 1, 0):
        assert snapshot(root) == states.pop()
        undone = journal.undo()
        assert undone and undone.label == f"turn {number}"
    assert snapshot(root) == states.pop()


def test_a_turn_that_changed_nothing_is_no_turn(journal: Journal, root: Path) -> None:
    journal.begin_turn("looked")
    journal.keep(root / "a.py")
    command(journal, root, "cat a.py >/dev/null; touch a.py")
    journal.end_turn()
    assert journal.turns() == ()


def test_another_process_can_undo(journal: Journal, data: Path, root: Path, first: dict[str, object]) -> None:
    """`ossia undo` beside a chat that goes on: what the chat writes then is a turn of its own."""
    journal.begin_turn("one")
    write(journal, root / "a.py", b"two")
    other = Journal(data, root)
    assert other.undo() == Undone("one", restored=("a.py",))
    write(journal, root / "a.py", b"three")
    journal.end_turn()
    assert [turn.paths for turn in other.turns()] == [("a.py",)]
    assert journal.undo() == Undone("one", restored=("a.py",))
    assert snapshot(root) == first


def test_what_cannot_be_kept_is_not_changed(data: Path, root: Path) -> None:
    journal = Journal(data, root, limits=KeepLimits(file_bytes=1 << 20))
    with (root / "big").open("wb") as file:
        file.truncate(3 << 20)
    os.mkfifo(root / "fifo")
    with pytest.raises(ToolFailed, match="big holds 3 MB, more than is kept for undo"):
        journal.keep(root / "big")
    with pytest.raises(ToolFailed, match="fifo is no plain file"):
        journal.keep(root / "fifo")
    with pytest.raises(ToolFailed, match="not in the workspace"):
        journal.keep(root.parent / "x")
    assert journal.turns() == ()


def test_a_journal_that_cannot_be_written_is_a_fault_of_the_call(data: Path, root: Path) -> None:
    data.write_text("a file where the folder should be")
    journal = Journal(data, root)
    with pytest.raises(ToolFailed, match=r"a\.py can't be kept for undo .*, so it isn't changed"):
        journal.keep(root / "a.py")
    with pytest.raises(ToolFailed, match="so nothing is run"):
        journal.before_command()
    assert "can't be kept" in journal.commands_cannot_be_undone()


def test_the_journal_is_private(journal: Journal, data: Path, root: Path) -> None:
    journal.begin_turn("t")
    write(journal, root / "a.py", b"two")
    command(journal, root, "echo x > docs/b.md")
    journal.end_turn()
    inside = [data / "undo", *(data / "undo").rglob("*")]
    open_to_others = [path for path in inside[1:] if path.stat().st_mode & 0o077]
    assert open_to_others == []


# -- what the user does in between -------------------------------------------------------------------------------------


def test_a_file_that_the_user_changed_since_stays(journal: Journal, root: Path, first: dict[str, object]) -> None:
    journal.begin_turn("t")
    write(journal, root / "a.py", b"two")
    write(journal, root / "b.py", b"b")
    write(journal, root / "c.py", b"c")
    journal.end_turn()
    (root / "a.py").write_bytes(b"the user's own")
    (root / "b.py").write_bytes(b"the user's too")
    refused = (Skipped("a.py", "changed since"), Skipped("b.py", "changed since"))
    assert journal.undo() == Undone("t", removed=("c.py",), skipped=refused)
    assert (root / "a.py").read_bytes() == b"the user's own"
    assert journal.undo() == Undone("t", skipped=refused)  # it stays to be decided
    assert journal.undo(force=True, dry_run=True) == Undone("t", restored=("a.py",), removed=("b.py",))
    assert (root / "a.py").read_bytes() == b"the user's own"
    assert journal.undo(force=True) == Undone("t", restored=("a.py",), removed=("b.py",))
    assert snapshot(root) == first
    assert journal.turns() == ()


def test_skip_leaves_it_and_goes_on(journal: Journal, root: Path) -> None:
    for number in (1, 2):
        journal.begin_turn(f"turn {number}")
        write(journal, root / f"{number}.py", b"x")
        journal.end_turn()
    (root / "2.py").write_bytes(b"mine")
    assert journal.undo(skip=True) == Undone("turn 2", skipped=(Skipped("2.py", "changed since"),))
    assert journal.undo() == Undone("turn 1", removed=("1.py",))
    assert (root / "2.py").read_bytes() == b"mine"


def test_a_file_of_the_users_in_a_made_folder_stays(journal: Journal, root: Path) -> None:
    journal.begin_turn("t")
    command(journal, root, "mkdir made; echo x > made/x")
    journal.end_turn()
    (root / "made" / "mine").write_text("mine")
    assert journal.undo(force=True) == Undone(
        "t", removed=("made/x",), skipped=(Skipped("made", "the folder now holds other files"),)
    )
    assert (root / "made" / "mine").read_text() == "mine"


def test_what_the_user_put_back_already_is_no_fault(journal: Journal, root: Path, first: dict[str, object]) -> None:
    journal.begin_turn("t")
    write(journal, root / "docs" / "b.md", b"two")
    write(journal, root / "new", b"x")
    journal.end_turn()
    (root / "docs" / "b.md").write_text("b")
    (root / "new").unlink()
    assert journal.undo() == Undone("t")
    assert snapshot(root) == first


def test_what_the_user_wrote_between_two_commands_is_not_the_turns(journal: Journal, root: Path) -> None:
    journal.begin_turn("t")
    command(journal, root, "echo 1 > one")
    (root / "mine").write_text("mine")
    command(journal, root, "echo 2 > two")
    journal.end_turn()
    assert journal.undo() == Undone("t", removed=("one", "two"))
    assert (root / "mine").read_text() == "mine"


def test_undo_follows_no_link_out(journal: Journal, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.md").write_text("not ours")
    journal.begin_turn("t")
    write(journal, root / "docs" / "b.md", b"two")
    journal.end_turn()
    (root / "docs").rename(root / "moved")
    (root / "docs").symlink_to(outside)
    for force in (False, True):
        undone = journal.undo(force=force)
        assert undone and undone.restored == () and [one.path for one in undone.skipped] == ["docs/b.md"]
    assert snapshot(outside) == {"b.md": snapshot(outside)["b.md"]}
    assert (outside / "b.md").read_text() == "not ours"


# -- what commands change ----------------------------------------------------------------------------------------------

SCRIPTS = {
    "content": "echo more >> a.py; printf x | dd of=docs/b.md conv=notrunc 2>/dev/null",
    "in place, the same size, the times set back": "cp -p a.py ../t; printf ONE | dd of=a.py conv=notrunc 2>/dev/null; "
    "touch -r ../t a.py",
    "deleted": "rm -rf docs a.py",
    "renamed": "mv a.py z.py; mv docs manuals; mv manuals/b.md manuals/c.md",
    "modes": "chmod 600 a.py; chmod 700 docs; chmod 4644 run.sh; chmod 444 docs/b.md",
    "folders": "rmdir docs/empty; mkdir -p x/y/z; mkdir docs/more",
    "links": "ln -sf /etc/passwd docs/link; ln -s nowhere dangling; ln a.py hard; rm a.py; ln -s run.sh a.py",
    "kinds": "rm -r docs; echo file > docs; rm a.py; mkdir a.py; echo x > a.py/x",
    "kinds the other way": "rm docs/link; mkdir docs/link; echo x > docs/link/x",
    "special": "mkfifo fifo; rm run.sh; mkfifo run.sh",
    "odd names": "echo x > \"$(printf 'new\\nline')\"; echo x > \"$(printf 'not-utf8-\\377')\"; : > '*'; : > -n",
    "a new repository": "mkdir -p sub/.git/hooks; echo evil > sub/.git/hooks/post-checkout",
    "a closed folder": "echo x > docs/empty/x; chmod 000 docs/empty; chmod 500 docs",
    "empty file": ": > a.py; : > new",
    "many": "i=0; while [ $i -lt 300 ]; do echo $i > f$i; i=$((i+1)); done",
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_a_command_comes_back(journal: Journal, root: Path, first: dict[str, object], script: str) -> None:
    journal.begin_turn("t")
    command(journal, root, script)
    journal.end_turn()
    assert snapshot(root) != first
    undone = journal.undo()
    assert undone and undone.skipped == ()
    assert snapshot(root) == first
    assert journal.turns() == ()


def test_commands_and_writes_of_one_turn(journal: Journal, root: Path, first: dict[str, object]) -> None:
    journal.begin_turn("t")
    write(journal, root / "a.py", b"two")
    command(journal, root, "echo three > a.py; echo x > made; chmod 600 run.sh")
    write(journal, root / "made", b"by a tool")
    command(journal, root, "mv made made2; rm docs/b.md")
    journal.end_turn()
    undone = journal.undo()
    assert undone and undone.skipped == ()
    assert snapshot(root) == first


def test_two_changes_within_a_tick_of_the_clock_are_seen(journal: Journal, root: Path) -> None:
    """The same inode, size and, by a coarse clock, the same times: such a file is read again."""
    journal.begin_turn("t")
    for number in range(30):
        (root / "a.py").write_bytes(b"%06d" % number)
        before = snapshot(root)
        command(journal, root, "")
        script = f"printf %06d {number + 500} 1<>a.py"
        journal.begin_turn("t")
        command(journal, root, script)
        journal.end_turn()
        undone = journal.undo()
        assert undone == Undone("t", restored=("a.py",)) and snapshot(root) == before


def test_a_file_written_just_before_a_look_is_read_again_at_the_next(journal: Journal, data: Path, root: Path) -> None:
    """On file systems with a coarse clock two writes can have the same times; this kernel's may be finer."""

    def looked() -> dict[str, list[int]]:
        before = journal.before_command()
        assert before is not None
        (seen,) = (data / "undo").rglob("seen.jsonl")
        keys = {row[0]: row[1] for row in map(json.loads, filter(None, seen.read_bytes().split(b"\n")))}
        journal.after_command(before)
        return keys

    for attempt in range(50):  # on a busy machine a look can come late: the file is no longer fresh then
        (root / "fresh").write_text(str(attempt))
        if (keys := looked())["fresh"][0] == -1:
            break
    assert keys["fresh"][0] == -1
    command(journal, root, "sleep 0.1")
    keys |= looked()
    assert keys["fresh"][0] == (root / "fresh").stat().st_mode and keys["a.py"][0] == (root / "a.py").stat().st_mode


def test_hard_links_stay_together(journal: Journal, root: Path, first: dict[str, object]) -> None:
    (root / "twin").hardlink_to(root / "a.py")
    journal.begin_turn("t")
    command(journal, root, "echo more >> twin; chmod 600 twin")
    journal.end_turn()
    journal.undo()
    assert (root / "twin").samefile(root / "a.py")
    (root / "twin").unlink()
    assert snapshot(root) == first


def test_what_no_copy_can_be_had_of_is_named(journal: Journal, root: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(root / "sock"))
        os.mkfifo(root / "fifo")
        journal.begin_turn("t")
        command(journal, root, "rm sock fifo; echo x > new")
        journal.end_turn()
        lost = (Skipped("sock", "its earlier content wasn't kept"),)
        assert journal.undo() == Undone("t", restored=("fifo",), removed=("new",), skipped=lost)


@pytest.mark.skipif(ROOT, reason="root reads every file")
def test_unreadable_files_and_folders(journal: Journal, root: Path) -> None:
    (root / "secret").write_text("s")
    (root / "secret").chmod(0)
    (root / "closed").mkdir()
    (root / "closed" / "inner").write_text("i")
    (root / "closed").chmod(0)
    journal.begin_turn("t")
    command(journal, root, "chmod 600 secret; echo x > secret; chmod 700 closed; rm closed/inner; echo x > closed/new")
    journal.end_turn()
    undone = journal.undo()
    lost = Skipped("secret", "its earlier content wasn't kept")
    assert undone == Undone("t", restored=("closed", "closed/inner"), removed=("closed/new",), skipped=(lost,))
    assert (root / "closed").stat().st_mode & 0o777 == 0
    (root / "closed").chmod(0o700)
    assert [path.name for path in (root / "closed").iterdir()] == ["inner"]


def test_the_workspaces_own_repository_is_not_looked_into(journal: Journal, root: Path) -> None:
    (root / ".git" / "objects").mkdir(parents=True)
    (root / "sub" / ".git").mkdir(parents=True)
    before = journal.before_command()
    assert before and sorted(before.seen.repositories) == [".git", "sub/.git"]
    assert [path for path in before.seen.known if ".git" in path] == ["sub/.git"]
    journal.after_command(before)


def test_a_command_that_fills_the_disk_is_a_result_that_says_so(
    journal: Journal, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.begin_turn("t")
    with monkeypatch.context() as patched:

        def full(self: TurnFolder, states: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr(TurnFolder, "add_before", full)
        with pytest.raises(ToolFailed, match=r"has run, but .* can't be undone \(No space.*\)"):
            command(journal, root, "echo two > a.py")
    command(journal, root, "echo new > new.txt")
    journal.end_turn()
    undone = journal.undo()
    assert undone and undone.removed == ("new.txt",)


def test_a_turn_begins_though_the_one_before_could_not_be_ended(
    journal: Journal, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.begin_turn("t")
    write(journal, root / "a.py", b"two")
    with monkeypatch.context() as patched:

        def full(self: TurnFolder, states: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr(TurnFolder, "add_after", full)
        journal.begin_turn("next")
    write(journal, root / "a.py", b"three")
    journal.end_turn()
    assert [turn.label for turn in journal.turns()] == ["next", "t"]


def test_a_repository_further_down_moves_with_its_folder(journal: Journal, root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root / "docs" / "sub")], check=True)
    before = snapshot(root)
    journal.begin_turn("t")
    command(journal, root, "mv docs manuals")
    journal.end_turn()
    journal.undo()
    assert snapshot(root) == before


@pytest.mark.parametrize("where", [".", "sub"])
def test_a_repository_that_the_user_went_on_with_stays_whole(journal: Journal, root: Path, where: str) -> None:
    journal.begin_turn("t")
    command(journal, root, f"git init -q {where}; echo x > new")
    journal.end_turn()
    git = ["git", "-C", str(root / where), "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "mine"], check=True)
    undone = journal.undo()
    assert undone and undone.removed == ("new",)
    assert subprocess.run([*git, "log", "--format=%s"], check=True, capture_output=True).stdout == b"mine\n"


def test_ossias_own_data_in_the_workspace_is_left_out(root: Path) -> None:
    journal = Journal(root / "docs" / "data", root)
    journal.begin_turn("t")
    before = journal.before_command()
    assert before and not any("data" in path for path in before.seen.known)
    journal.after_command(before)
    assert journal.turns() == ()


@linux_only
def test_random_turns_of_the_tools_are_undone_to_the_first_tree() -> None:
    """A tenth of `python -m tests.oracle.undo`, and a fifth of its turns."""
    report = play(10, seed=7)
    assert report.turns == 10 and report.undone > 5
    assert set(report.calls) == {"repo_browser.apply_patch", "container.exec"}


# -- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [KeepLimits(command_files=5), KeepLimits(command_bytes=1 << 20)])
def test_a_workspace_that_holds_too_much_says_so(data: Path, root: Path, limits: KeepLimits) -> None:
    (root / "big").write_bytes(bytes(2 << 20))
    journal = Journal(data, root, limits=limits)
    assert journal.before_command() is None
    assert "the workspace holds more than" in journal.commands_cannot_be_undone()
    write(journal, root / "a.py", b"two")  # what tools write is kept all the same
    assert journal.undo() == Undone("(calls by hand)", restored=("a.py",))


def test_a_command_that_makes_more_than_is_kept(data: Path, root: Path, first: dict[str, object]) -> None:
    journal = Journal(data, root, limits=KeepLimits(command_files=20))
    journal.begin_turn("t")
    command(journal, root, "for i in 1 2 3 4 5 6 7 8 9; do mkdir d$i; echo x > d$i/x; echo x > f$i; done; rm a.py")
    assert "more than 20 files" in journal.commands_cannot_be_undone()
    journal.end_turn()
    undone = journal.undo()
    assert undone and undone.skipped == () and len(undone.removed) == 27 and undone.restored == ("a.py",)
    assert snapshot(root) == first


def test_old_turns_are_dropped(data: Path, root: Path) -> None:
    journal = Journal(data, root, limits=KeepLimits(turns=3))
    for number in range(5):
        journal.begin_turn(f"turn {number}")
        write(journal, root / "a.py", b"%d" % number)
        journal.end_turn()
    assert [turn.label for turn in journal.turns()] == ["turn 4", "turn 3", "turn 2"]
    journal = Journal(data, root, limits=KeepLimits(total_bytes=2 << 20))
    for number in range(3):
        journal.begin_turn(f"big {number}")
        write(journal, root / "big", os.urandom(3 << 19))
        journal.end_turn()
    assert [turn.label for turn in journal.turns()] == ["big 2"]


def test_copies_that_nothing_needs_any_more_are_removed(data: Path, root: Path) -> None:
    """Where they take more room than the workspace's files, and some more."""
    journal = Journal(data, root, limits=KeepLimits(spare_bytes=64 << 10))
    for _ in range(20):
        (root / "a.py").write_bytes(os.urandom(20_000))
        command(journal, root, "true")
    (objects,) = (data / "undo").glob("*/seen/git/objects")
    journal.begin_turn("t")
    command(journal, root, "rm docs/b.md")
    assert sum(path.stat().st_size for path in objects.rglob("*")) < 200_000
    command(journal, root, "rm a.py run.sh")
    journal.undo()
    assert (root / "docs" / "b.md").read_text() == "b" and (root / "a.py").stat().st_size == 20_000


# -- crashes -----------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from ossia.tools.undo.journal import Journal
data, root, where = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
journal = Journal(data, root)
journal.begin_turn("cut off")
journal.keep(root / "docs" / "b.md")
(root / "docs" / "b.md").write_text("tool")
if where != "after a write":
    before = journal.before_command()
    subprocess.run(["sh", "-c", "echo x > made; rm a.py; chmod 600 run.sh; echo y > docs/b.md"], cwd=root)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("where", ["after a write", "in a command", "in a command, the list torn"])
def test_killed_in_the_middle_of_a_turn(data: Path, root: Path, first: dict[str, object], where: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command_line = [sys.executable, "-c", KILLED, str(data), str(root), where]
    assert subprocess.run(command_line, env=environment, timeout=30).returncode == -signal.SIGKILL
    assert snapshot(root) != first
    if "torn" in where:
        (file,) = (data / "undo").rglob("turn.jsonl")
        file.write_bytes(file.read_bytes()[:-5])
    undone = Journal(data, root).undo()
    assert undone and (undone.label, undone.skipped) == ("cut off", ())
    assert snapshot(root) == first


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_torn_lists_are_read_as_far_as_they_are_whole(data: Path, root: Path, cut: int) -> None:
    journal = Journal(data, root)
    journal.begin_turn("t")
    write(journal, root / "a.py", b"two")
    command(journal, root, "echo x > docs/b.md")
    journal.end_turn()
    for file in (*(data / "undo").rglob("turn.jsonl"), *(data / "undo").rglob("seen.jsonl")):
        file.write_bytes(file.read_bytes()[:-cut])
    journal = Journal(data, root)
    assert journal.undo() is not None
    assert (root / "a.py").read_bytes() == b"one\r\n\x00\xff" and (root / "docs" / "b.md").read_text() == "b"
    before = snapshot(root)
    journal.begin_turn("next")
    command(journal, root, "echo y > docs/b.md; echo z > a.py")
    journal.end_turn()
    journal.undo()
    assert snapshot(root) == before


def test_junk_in_a_list_is_left_out(data: Path, root: Path, first: dict[str, object]) -> None:
    journal = Journal(data, root)
    journal.begin_turn("t")
    write(journal, root / "a.py", b"two")
    journal.end_turn()
    (file,) = (data / "undo").rglob("turn.jsonl")
    state = ["file", 420, "0" * 64, "", None]
    junk = [b"[]", b"7", b"{}", b'{"path": 1}', b'{"path": "x", "before": ["what", 1, "", "", null]}', b"\xff",
            json.dumps({"path": "../outside", "before": state}).encode(),
            json.dumps({"path": "missing", "before": state}).encode()]  # fmt: skip
    file.write_bytes(file.read_bytes() + b"\n".join(junk) + b"\n")
    undone = Journal(data, root).undo()
    assert undone and undone.restored == ("a.py",)
    assert [one.path for one in undone.skipped] == ["../outside", "missing"]
    assert snapshot(root) == first


def test_the_list_of_turns(journal: Journal, root: Path) -> None:
    journal.begin_turn("x" * 500)
    write(journal, root / "a.py", b"two")
    (turn,) = journal.turns()
    assert turn == Turn("x" * 200, ("a.py",), turn.changed_at)
