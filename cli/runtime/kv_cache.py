"""KV caches in the cache folder: of stored sessions, and of what prompts begin with. What was read isn't read again.

The folder is closed to other users. They may be lost, and cost a prefill then.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent.engine.base import Engine
from cli import paths

if TYPE_CHECKING:
    from agent.engine.prompts import KeptPrompts

SESSION_BYTES = 1 << 30
TOTAL_BYTES = 4 << 30
"""More than this in all, and those go that weren't used for longest. gpt-oss-20b takes about 25 kB a token."""
PROMPT_BYTES = 512 << 20
"""The same for the static parts of prompts, beside the sessions'."""


@runtime_checkable
class _Keeps(Protocol):
    """An engine whose cache can outlive it."""

    def keep(self, folder: Path, *, max_bytes: int) -> int: ...

    def recall(self, folder: Path) -> int: ...


@runtime_checkable
class _KeepsPrompts(Protocol):
    """An engine that keeps what prompts begin with."""

    prompts: KeptPrompts | None

    def keep_prompts(self) -> int: ...


def prompts_kept(*, private: bool) -> KeptPrompts:
    """Where an engine finds what prompts begin with, and keeps it unless `private`. Imports numpy."""
    from agent.engine.prompts import KeptPrompts

    return KeptPrompts(folder(), max_bytes=PROMPT_BYTES, writes=not private)


def keep_static(engine: Engine) -> int:
    """Keep what the last prompt began with, for later processes; on the worker's thread. Returns the bytes.

    At the end of a process: the engine's cache is cut back for it.
    """
    return engine.keep_prompts() if isinstance(engine, _KeepsPrompts) else 0


def set_private(engine: Engine, private: bool) -> None:
    """From now on nothing of prompts is kept on disk, or is again."""
    if isinstance(engine, _KeepsPrompts) and engine.prompts is not None:
        engine.prompts.writes = not private


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
    from agent.engine.kept import forget as gone  # with numpy, which takes its time

    gone(_folder(session_id))


def folder() -> Path:
    """Where all of them lie, e.g. `~/.cache/ossia/kv`."""
    return paths.cache_dir() / "kv"


def _folder(session_id: str) -> Path:
    return folder() / session_id


def _make_room() -> None:
    from agent.engine.prompts import kept_in, make_room

    make_room(kept_in(folder(), prompts=False), TOTAL_BYTES)
