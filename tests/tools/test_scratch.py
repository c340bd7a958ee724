"""Temporary folders and files: what a kill left goes, and nothing else does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ossia.tools._scratch import Scratch
from ossia.tools.files import write_whole
from tests.support.command import ossia, start, write_script
from tests.support.folders import Folder

_HOLDER = """
import sys, time
from pathlib import Path
from ossia.tools._scratch import Scratch
scratch = Scratch(Path(sys.argv[1]))
(scratch.path / "deep").mkdir()
(scratch.path / "deep" / "link").symlink_to(sys.argv[2])
print(scratch.path, flush=True)
time.sleep(600)
"""


def _folders(place: Path) -> list[Path]:
    return sorted(place.glob("ossia-*"))


def test_what_a_killed_process_left_goes_and_a_living_ones_stays(tmp_path: Path) -> None:
    place, kept = tmp_path / "tmp", tmp_path / "kept"
    place.mkdir(), kept.mkdir()
    (kept / "file").write_text("mine")
    command = [sys.executable, "-c", _HOLDER, str(place), str(kept)]
    holders = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        paths = [Path(holder.stdout.readline().strip()) for holder in holders if holder.stdout]
        Scratch(place).close()
        assert _folders(place) == sorted(paths)
        holders[0].kill()
        holders[0].wait()
        Scratch(place).close()
        assert _folders(place) == [paths[1]]
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()
    assert (kept / "file").read_text() == "mine"


def test_where_nothing_can_be_locked_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, how: int) -> None:
        raise OSError("too many locks")

    monkeypatch.setattr("fcntl.flock", refused)
    with pytest.raises(OSError, match="No locks available"):
        Scratch(tmp_path)
    assert _folders(tmp_path) == []


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    place, kept = tmp_path / "tmp", tmp_path / "kept"
    place.mkdir(), kept.mkdir()
    (kept / "file").write_text("mine")
    (place / "ossia-run-abcdefgh").symlink_to(kept)
    (place / "ossia-run-bcdefghi").write_text("a file")
    for name in ("ossia-abcdefgh", "ossia-run-mine", "ossia-run-abcdefgh.bak"):
        (place / name).mkdir()
    if os.geteuid() == 0:
        (place / "ossia-run-cdefghij").mkdir()
        os.chown(place / "ossia-run-cdefghij", 12345, 12345)
    before = _folders(place)
    Scratch(place).close()
    assert _folders(place) == before and (kept / "file").read_text() == "mine"


@pytest.mark.parametrize("tool", ["shell", "python"])
def test_a_run_that_was_killed_is_tidied_by_the_next(tool: str, tmp_path: Path, home: Path) -> None:
    place, work = home / "tmp", tmp_path / "work"  # short: sockets lie in it
    place.mkdir(), work.mkdir()
    env = {"TMPDIR": str(place)}
    command = json.dumps({"command": ["bash", "-lc", "touch started; sleep 600"]})
    calls = {
        "shell": f"<|channel|>analysis to=container.exec code<|message|>{command}<|call|>",
        "python": "<|channel|>analysis to=python code<|message|>import time; time.sleep(600)<|call|>",
    }
    flags = ("--workspace", str(work), "--allow", "container.exec")
    run = start("run", "hi", "--engine", write_script(tmp_path, calls[tool]), *flags, env=env)
    try:
        while run.poll() is None and not ((work / "started").exists() or list(place.glob("*/s/k-5"))):
            time.sleep(0.02)
    finally:
        run.kill()
        _, said = run.communicate()
    assert _folders(place), said
    arguments = {"shell": '{"command": ["true"]}', "python": "1"}[tool]
    name = "container.exec" if tool == "shell" else tool
    done = ossia("tools", "call", name, arguments, *flags, env=env)
    assert (done.returncode, _folders(place)) == (0, []), done.stderr


def test_a_half_written_file_of_the_workspace_goes_with_the_next_one(tmp_path: Path) -> None:
    """Once it is old: one that has just been made may be a living one's."""
    folder = Folder(tmp_path / "work")
    left, fresh, other = (folder.root / f".ossia-{name}.tmp" for name in ("0123456789ab", "ba9876543210", "mine"))
    for path in (left, fresh, other):
        path.write_text("half")
    for path in (left, other):
        os.utime(path, (0, 0))
    folder.put("a.md", "x")
    assert [path.exists() for path in (left, fresh, other)] == [False, True, True]


def test_a_half_written_file_of_our_own_goes_with_the_next_one(tmp_path: Path) -> None:
    left, other = tmp_path / ".trust.json.ossia-abcdefgh", tmp_path / ".trust.json.original"
    for path in (left, other):
        path.write_text("half")
        os.utime(path, (0, 0))
    write_whole(tmp_path / "trust.json", "{}")
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / "trust.json"]
