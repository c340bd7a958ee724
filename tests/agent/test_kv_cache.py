"""The KV caches of sessions on disk, and the room that they take."""

from __future__ import annotations

import os
from pathlib import Path

from ossia.agent.kv_cache import save_session_cache


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    class Engine:
        capabilities = frozenset({"save"})

        def save_cache(self, folder: Path, *, max_bytes: int) -> int:
            folder.mkdir(parents=True)
            with (folder / "state").open("wb") as file:
                file.truncate(1 << 30)  # sparse: it takes no room
            return 1 << 30

        def load_cache(self, folder: Path) -> int:
            return 0

    kv = tmp_path / "kv"
    kv.mkdir(mode=0o700)
    (kv / ".DS_Store").touch()
    for number in range(6):
        save_session_cache(Engine(), kv, f"session{number}")  # type: ignore[arg-type]
        os.utime(kv / f"session{number}", (number, number))
    (kv / ".DS_Store").unlink()
    assert sorted(one.name for one in kv.iterdir()) == ["session2", "session3", "session4", "session5"]
