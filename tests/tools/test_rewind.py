"""Several turns undone at once: a conversation's own, with what others changed left alone and named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ossia.tools.sandbox.git.copy import Moved
from ossia.tools.undo.journal import Journal, Skipped, Undone
from tests.support.trees import snapshot

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="undo works by descriptors of folders")

MINE = {"m1", "m2", "m3"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = (tmp_path / "ws").resolve()
    (folder / "docs").mkdir(parents=True)
    (folder / "a.py").write_text("0")
    (folder / "docs" / "b.md").write_text("b")
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def journal(data: Path, root: Path) -> Journal:
    return Journal(data, root)


def writes(journal: Journal, mark: str, files: dict[Path, str], label: str = "t") -> None:
    """A turn of a tool's writes."""
    journal.begin_turn(label, mark)
    for path, text in files.items():
        journal.keep(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    journal.end_turn()


def runs(journal: Journal, mark: str, root: Path, script: str) -> None:
    """A turn of one command."""
    journal.begin_turn("t", mark)
    before = journal.before_command()
    assert before is not None
    subprocess.run(["/bin/sh", "-ec", script], cwd=root, check=True, timeout=30, stdin=subprocess.DEVNULL)
    journal.after_command(before)
    journal.end_turn()


def go(journal: Journal, marks: set[str]) -> Undone:
    """Look, then go back."""
    agreed = journal.rewind(marks)
    assert agreed is not None
    undone = journal.rewind(marks, agreed=agreed)
    assert undone is not None
    return undone


def test_a_file_of_three_turns_and_what_moved_in_them_come_back(journal: Journal, root: Path) -> None:
    first = snapshot(root)
    writes(journal, "m1", {root / "a.py": "1", root / "new" / "c.txt": "1"})
    runs(journal, "m2", root, "echo 2 >a.py; mv docs/b.md new/b.md; rmdir docs; rm new/c.txt")
    runs(journal, "m3", root, "echo 3 >a.py; mkdir new/c.txt; echo x >new/c.txt/d; echo y >docs; chmod 700 a.py")
    last = snapshot(root)
    looked = journal.rewind(MINE)
    assert looked == Undone("", ("a.py", "docs", "docs/b.md"), ("new", "new/b.md", "new/c.txt", "new/c.txt/d"))
    assert snapshot(root) == last, "a look changes nothing"
    assert journal.rewind({"m2", "m3"}) == Undone(
        "", ("a.py", "docs", "docs/b.md", "new/c.txt"), ("new/b.md", "new/c.txt/d")
    )
    assert go(journal, MINE) == looked
    assert snapshot(root) == first and journal.turns() == ()
    assert journal.rewind(MINE) == Undone("")


def test_only_the_turns_with_these_marks_are_undone(journal: Journal, root: Path) -> None:
    writes(journal, "m1", {root / "a.py": "1"})
    writes(journal, "m2", {root / "two": "2"})
    writes(journal, "", {root / "by hand": "x"})
    writes(journal, "m3", {root / "three": "3"})
    assert go(journal, {"m2", "m3"}) == Undone("", removed=("three", "two"))
    assert (root / "a.py").read_text() == "1" and (root / "by hand").exists()
    assert [turn.mark for turn in journal.turns()] == ["", "m1"]


def test_another_turn_of_the_same_file_in_between_keeps_it(data: Path, root: Path, journal: Journal) -> None:
    other = Journal(data, root)  # of another process
    writes(journal, "m1", {root / "a.py": "1", root / "one": "1"})
    writes(other, "theirs", {root / "a.py": "other", root / "docs" / "b.md": "B"}, label="their\nwork")
    writes(journal, "m2", {root / "a.py": "2", root / "two": "2"})
    left = Skipped("a.py", "also changed by another turn: their\\nwork")
    assert go(journal, {"m1", "m2"}) == Undone("", removed=("one", "two"), skipped=(left,))
    assert (root / "a.py").read_text() == "2" and (root / "docs" / "b.md").read_text() == "B"
    assert [(turn.mark, turn.paths) for turn in journal.turns()] == [
        ("m2", ("a.py",)),
        ("theirs", ("a.py", "docs/b.md")),
        ("m1", ("a.py",)),
    ]
    writes(other, "theirs", {root / "late": "x"})
    writes(journal, "m3", {root / "late": "y"})
    assert go(journal, {"m3"}) == Undone("", restored=("late",)), "a turn before them is in nobody's way"


def test_what_the_user_changed_since_or_between_stays(journal: Journal, root: Path) -> None:
    writes(journal, "m1", {root / "a.py": "1", root / "b": "1", root / "c": "1"})
    (root / "a.py").write_text("by the user")
    writes(journal, "m2", {root / "a.py": "2", root / "b": "2", root / "c": "2"})
    (root / "b").write_text("by the user")
    left = (Skipped("a.py", "changed between the turns"), Skipped("b", "changed since"))
    assert go(journal, MINE) == Undone("", removed=("c",), skipped=left)
    assert ((root / "a.py").read_text(), (root / "b").read_text()) == ("2", "by the user")
    assert journal.undo(force=True) is not None
    assert (root / "a.py").read_text() == "by the user", "turn by turn it can still be undone"


def test_what_isnt_agreed_to_any_more_isnt_done(data: Path, root: Path, journal: Journal) -> None:
    writes(journal, "m1", {root / "a.py": "1", root / "b": "1"})
    agreed = journal.rewind(MINE)
    (root / "b").write_text("by the user")
    assert journal.rewind(MINE, agreed=agreed) is None and (root / "a.py").read_text() == "1"
    agreed = journal.rewind(MINE)
    writes(Journal(data, root), "theirs", {root / "a.py": "other"})
    assert journal.rewind(MINE, agreed=agreed) is None and (root / "a.py").read_text() == "other"
    Journal(data, root).undo()
    Journal(data, root).undo()
    assert journal.rewind(MINE, agreed=agreed) is None and (root / "a.py").read_text() == "0"


def test_a_link_that_was_put_there_is_never_followed(journal: Journal, root: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "b.md").write_text("not yours")
    writes(journal, "m1", {root / "docs" / "b.md": "1", root / "a.py": "1"})
    writes(journal, "m2", {root / "a.py": "2", root / "docs" / "c.md": "2"})
    (root / "docs").rename(root / "moved")
    (root / "docs").symlink_to(away)
    (root / "a.py").unlink()
    (root / "a.py").symlink_to(away / "b.md")
    undone = go(journal, MINE)
    assert (undone.restored, undone.removed) == ((), ())
    assert undone.skipped == (Skipped("a.py", "changed since"), Skipped("docs/b.md", "changed since"))
    assert [one.name for one in away.iterdir()] == ["b.md"] and (away / "b.md").read_text() == "not yours"


def test_what_fails_is_named_and_can_still_be_undone(journal: Journal, root: Path) -> None:
    runs(journal, "m1", root, "mkdir made; echo x >made/x; echo 1 >a.py")
    runs(journal, "m2", root, "echo 2 >a.py; echo y >made/y")
    (root / "made" / "mine").write_text("by the user")
    undone = go(journal, MINE)
    assert undone == Undone(
        "", ("a.py",), ("made/x", "made/y"), (Skipped("made", "the folder now holds other files"),)
    )
    assert (root / "a.py").read_text() == "0" and [one.name for one in (root / "made").iterdir()] == ["mine"]
    (root / "made" / "mine").unlink()
    assert journal.undo() == Undone("t", removed=("made",))


def test_a_crash_in_the_middle_leaves_the_other_turns(data: Path, root: Path, journal: Journal) -> None:
    """The process dies while it restores what the second turn changed: a file too long for its limit."""
    for number, text in ((1, "long" * 10_000), (2, "2"), (3, "3")):
        writes(journal, f"m{number}", {root / "a.py": text, root / f"{number}": "x"})
    dies = f"""
import resource, signal
from pathlib import Path
from ossia.tools.undo.journal import Journal
journal = Journal(Path({str(data)!r}), Path({str(root)!r}))
agreed = journal.rewind({MINE!r})
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
journal.rewind({MINE!r}, agreed=agreed)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    died = subprocess.run([sys.executable, "-c", dies], env=environment, timeout=60, check=False).returncode
    assert died == -signal.SIGXFSZ
    assert [turn.mark for turn in journal.turns()] == ["m2", "m1"] and (root / "a.py").read_text() == "2"
    assert go(journal, MINE) == Undone("", restored=("a.py",), removed=("1",))
    assert (root / "a.py").read_text() == "0" and not {"1", "2", "3"} & {one.name for one in root.iterdir()}


def test_gits_way_back_leads_before_the_first_turn(journal: Journal, root: Path) -> None:
    def git(*words: str) -> str:
        names = ("-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "core.hooksPath=/dev/null")
        done = subprocess.run(["git", *names, *words], cwd=root, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-qb", "main")
    heads = []
    for number in range(4):
        git("commit", "-qm", f"{number}", "--allow-empty")
        heads.append(git("rev-parse", "HEAD"))
    for number in (1, 2):
        journal.begin_turn("t", f"m{number}")
        journal.note_git([Moved("refs/heads/main", heads[number - 1], heads[number])])
        journal.end_turn()
    moved = journal.rewind(MINE)
    assert moved and moved.git[0] == "# refs/heads/main was moved since"
    git("reset", "-q", heads[2])
    agreed = journal.rewind(MINE)
    assert agreed == Undone("", git=(f"git update-ref refs/heads/main {heads[0]}",))
    journal.begin_turn("t", "m3")
    journal.note_git([Moved("refs/heads/main", heads[0], heads[3])])  # somebody had moved it to the first one
    journal.end_turn()
    git("reset", "-q", heads[3])
    between = journal.rewind(MINE)
    assert between and between.git[0] == "# refs/heads/main was moved since"
