"""KV caches on disk: of stored sessions, and of the text that prompts begin with, so that none is prefilled again.

The folder is closed to other users. A cache may be lost: that costs a prefill.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ossia.agent.engine.base import Engine
from ossia.cli import paths

if TYPE_CHECKING:
    from ossia.agent.engine.prompts import KeptPrompts

SESSION_BYTES = 1 << 30
TOTAL_BYTES = 4 << 30
"""Of all sessions; beyond it the least recently used caches are removed. gpt-oss-20b takes about 25 kB a token."""
PROMPT_BYTES = 512 << 20
"""The same for the static parts of prompts, in addition to the sessions' caches."""


@runtime_checkable
class _SavesCache(Protocol):
    """An engine whose cache can outlive it."""

    def keep(self, folder: Path, *, max_bytes: int) -> int: ...

    def recall(self, folder: Path) -> int: ...


@runtime_checkable
class _SavesPrompts(Protocol):
    """An engine that keeps what prompts begin with."""

    prompts: KeptPrompts | None

    def keep_prompts(self) -> int: ...


def prompts_kept(*, private: bool) -> KeptPrompts:
    """Where an engine finds what prompts begin with, and keeps it unless `private`. Imports numpy."""
    from ossia.agent.engine.prompts import KeptPrompts

    return KeptPrompts(folder(), max_bytes=PROMPT_BYTES, writes=not private)


def save_prompt_cache(engine: Engine) -> int:
    """Keep what the last prompt began with, for later processes; on the worker's thread. Returns the bytes.

    Only at the end of a process: the engine's cache is cut back for it.
    """
    return engine.keep_prompts() if isinstance(engine, _SavesPrompts) else 0


def set_private(engine: Engine, private: bool) -> None:
    """Stop keeping prompts on disk, or start again."""
    if isinstance(engine, _SavesPrompts) and engine.prompts is not None:
        engine.prompts.writes = not private


def save_session_cache(engine: Engine, session_id: str) -> int:
    """Keep the engine's cache for this session; on the worker's thread. Returns the bytes, 0: nothing was kept."""
    if not isinstance(engine, _SavesCache) or "keep" not in engine.capabilities:
        return 0
    written = engine.keep(_folder(session_id), max_bytes=SESSION_BYTES)
    _make_room()
    return written


def load_session_cache(engine: Engine, session_id: str) -> int:
    """Bring the session's cache back; on the worker's thread. Returns the tokens that needn't be read again."""
    if not isinstance(engine, _SavesCache) or "keep" not in engine.capabilities:
        return 0
    return engine.recall(_folder(session_id))


def forget(session_id: str) -> None:
    """The session is gone: so is its cache, and what a crash left of one that was being written."""
    from ossia.agent.engine.kept import forget as gone  # imports numpy, which takes its time

    gone(_folder(session_id))


def folder() -> Path:
    """Where all caches lie, e.g. `~/.cache/ossia/kv`."""
    return paths.cache_dir() / "kv"


def _folder(session_id: str) -> Path:
    return folder() / session_id


def _make_room() -> None:
    from ossia.agent.engine.prompts import kept_in, make_room

    make_room(kept_in(folder(), prompts=False), TOTAL_BYTES)
