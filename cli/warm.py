"""The KV caches of stored sessions, so that one that is resumed goes on without reading its prompt again.

They lie in the cache folder, closed to other users: they may be lost, and cost a prefill then.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from agent.engine.base import Engine
from cli import paths

SESSION_BYTES = 1 << 30
TOTAL_BYTES = 4 << 30
"""More than this in all, and those go that weren't used for longest. gpt-oss-20b takes about 25 kB a token."""


@runtime_checkable
class _Keeps(Protocol):
    """An engine whose cache can outlive it."""

    def keep(self, folder: Path, *, max_bytes: int) -> int: ...

    def recall(self, folder: Path) -> int: ...


def keep_warm(engine: Engine, session_id: str) -> int:
    """Keep the engine's cache for this session; on the worker's thread. Returns the bytes, 0: nothing was kept."""
    if not isinstance(engine, _Keeps) or "keep" not in engine.capabilities:
        return 0
    written = engine.keep(_folder(session_id), max_bytes=SESSION_BYTES)
    _make_room()
    return written


def warm_up(engine: Engine, session_id: str) -> int:
    """Bring the session's cache back; on the worker's thread. Returns the tokens that needn't be read again."""
    if not isinstance(engine, _Keeps) or "keep" not in engine.capabilities:
        return 0
    return engine.recall(_folder(session_id))


def forget(session_id: str) -> None:
    """The session is gone: so is its cache, and what a crash left of one that was being written."""
    from agent.engine.kept import unfinished  # with numpy, which takes its time

    for folder in (_folder(session_id), unfinished(_folder(session_id))):
        shutil.rmtree(folder, ignore_errors=True)


def _folder(session_id: str) -> Path:
    return paths.cache_dir() / "kv" / session_id


def _make_room() -> None:
    found = []
    for folder in (paths.cache_dir() / "kv").glob("*/"):  # a file that isn't ours is passed by
        with suppress(OSError):
            size = sum(file.stat().st_size for file in folder.iterdir())
            found.append((folder.stat().st_mtime, size, folder))
    total = 0
    for _, size, folder in sorted(found, reverse=True):
        total += size
        if total > TOTAL_BYTES:
            shutil.rmtree(folder, ignore_errors=True)
