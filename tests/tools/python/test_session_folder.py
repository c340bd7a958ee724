"""The folders of python's sessions: which of them stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ossia.tools import sandbox
from ossia.tools.python.session_folder import SessionFolder
from ossia.tools.python.tool import PythonTool
from tests.support.kernels import run


def ended(data_dir: Path, count: int) -> list[Path]:
    """Folders with a file, of sessions that ended; the oldest first."""
    paths = []
    for number in range(count):
        folder = SessionFolder(data_dir)
        (folder.path / "deep").mkdir()
        (folder.path / "deep" / "result.csv").write_text(str(number))
        folder.close()
        paths.append(folder.path)
        time.sleep(0.02)  # the clock of files ticks each 4 ms
    return paths


def left(paths: list[Path]) -> list[int]:
    return [number for number, path in enumerate(paths) if path.exists()]


def test_the_newest_stay_however_old(tmp_path: Path) -> None:
    paths = ended(tmp_path, 6)
    SessionFolder(tmp_path, kept_s=0, kept_newest=4).close()  # the new one is one of the four
    assert left(paths) == [3, 4, 5]
    assert sorted(tmp_path.iterdir()) == sorted(paths[3:])


def test_what_changed_lately_stays(tmp_path: Path) -> None:
    paths = ended(tmp_path, 3)
    time.sleep(1.8)
    (paths[0] / "deep" / "result.csv").write_text("the user's")
    SessionFolder(tmp_path, kept_s=1.5, kept_newest=1).close()  # made within that, on a busy machine, too
    assert left(paths) == [0]
    kept = ended(tmp_path, 2)
    SessionFolder(tmp_path, kept_newest=1).close()
    assert left(kept) == [0, 1]


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    busy = SessionFolder(tmp_path)
    (busy.path / "result.csv").touch()
    paths = ended(tmp_path, 2)
    SessionFolder(tmp_path, kept_s=0, kept_newest=1).close()
    assert busy.path.exists() and left(paths) == []
    busy.close()
    time.sleep(0.02)
    SessionFolder(tmp_path, kept_s=0, kept_newest=1).close()
    assert list(tmp_path.iterdir()) == []


def test_a_session_that_was_killed_goes_too(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path)
    (folder.path / "result.csv").touch()
    os.close(folder._lock)  # as the system does for it; the mark stays
    time.sleep(0.02)
    SessionFolder(tmp_path, kept_s=0, kept_newest=1).close()
    assert list(tmp_path.iterdir()) == []


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    names = ("python-environment", "python-1234567", "session-0a1b2c3d")
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "python-0a1b2c3d").symlink_to(tmp_path / "mine")
    time.sleep(0.02)
    SessionFolder(tmp_path, kept_s=0, kept_newest=0).close()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((*names, "mine", "python-0a1b2c3d"))


def test_a_tools_own_folder_is_in_use_until_it_is_closed(tmp_path: Path) -> None:
    found = sandbox.choose(sandbox.inspect())
    if found.name == "off":
        pytest.skip(found.reason)
    tool = PythonTool(data_dir=tmp_path, confinement=found)
    run(tool, "open('kept.txt', 'w').close()")
    time.sleep(0.02)
    SessionFolder(tmp_path, kept_s=0, kept_newest=0).close()
    kept = tool.kept_folder
    assert kept is not None and (kept / "kept.txt").exists()
    tool.close()
    assert list(tmp_path.iterdir()) == [kept]
