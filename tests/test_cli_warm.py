"""A stored session's KV cache: going on with it reads nothing again, and it goes where the session goes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cli import paths, warm
from tests.support.command import line_of, ossia


def _kept(pattern: str = "*") -> list[Path]:
    """Of sessions, and of what prompts begin with: `prompt-*`."""
    return sorted((paths.cache_dir() / "kv").glob(pattern))


def _sessions() -> list[Path]:
    return [folder for folder in _kept() if not folder.name.startswith("prompt-")]


def test_a_run_that_goes_on_reads_only_what_is_new() -> None:
    ossia("run", "--save", "--seed", "1", "--no-tools", "Hello")
    (folder,) = _sessions()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    usage = line_of(ossia("run", "--continue", "--seed", "1", "--no-tools", "--json", "Who are you?"))["usage"]
    assert usage["reused_tokens"] > 0.7 * usage["prompt_tokens"]
    folder.with_name(f"{folder.name}.x7y.new").mkdir()  # as a crash would leave it
    assert ossia("sessions", "rm", folder.name).returncode == 0
    assert _sessions() == []


def test_a_run_that_is_not_stored_keeps_nothing_of_what_was_said() -> None:
    ossia("run", "--seed", "1", "--no-tools", "Hello")
    assert _sessions() == []


def test_the_oldest_go_when_there_are_too_many(home: Path) -> None:
    class Engine:
        capabilities = frozenset({"keep"})

        def keep(self, folder: Path, *, max_bytes: int) -> int:
            folder.mkdir(parents=True)
            with (folder / "state").open("wb") as file:
                file.truncate(1 << 30)  # sparse: it takes no room
            return 1 << 30

        def recall(self, folder: Path) -> int:
            return 0

    kv = paths.cache_dir() / "kv"
    kv.mkdir(parents=True)
    (kv / ".DS_Store").touch()
    for number in range(6):
        warm.keep_warm(Engine(), f"session{number}")  # type: ignore[arg-type]
        folder = paths.cache_dir() / "kv" / f"session{number}"
        os.utime(folder, (number, number))
    (kv / ".DS_Store").unlink()
    assert [folder.name for folder in _kept()] == ["session2", "session3", "session4", "session5"]
