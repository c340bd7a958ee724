"""KV caches on disk: of stored sessions, and of the text that prompts begin with, so that none is prefilled again.

They lie in one folder, closed to other users (`Host.kv`). A cache may be lost: that costs a prefill.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ossia.agent.engine.base import Engine

if TYPE_CHECKING:
    from ossia.agent.engine.prompts import StoredPrompts

SESSION_BYTES = 1 << 30
TOTAL_BYTES = 4 << 30
"""Of all sessions; beyond it the least recently used caches are removed. gpt-oss-20b takes about 25 kB a token."""
PROMPT_BYTES = 512 << 20
"""The same for the static parts of prompts, in addition to the sessions' caches."""


@runtime_checkable
class _SavesCache(Protocol):
    """An engine whose cache can outlive it."""

    def save_cache(self, folder: Path, *, max_bytes: int) -> int: ...

    def load_cache(self, folder: Path) -> int: ...


@runtime_checkable
class _SavesPrompts(Protocol):
    """An engine with stored static parts of prompts."""

    prompts: StoredPrompts | None

    def save_prompts(self) -> int: ...


@runtime_checkable
class _Changes(Protocol):
    """An engine that reads prompts from a cache."""

    def change_conversation(self, before: str | None, after: str | None) -> int: ...


def change_conversation(engine: Engine, before: str | None, after: str | None) -> int:
    """Go on with the conversation `after`, whose cache may be parked in memory; that of `before` is parked.

    On the worker's thread. Returns the ids that the cache holds then; of another conversation, only static parts are.
    """
    return engine.change_conversation(before, after) if isinstance(engine, _Changes) else 0


def stored_prompts(folder: Path, *, private: bool) -> StoredPrompts:
    """The static parts of prompts in `folder`, for an engine; if `private`, it only reads them. Imports numpy."""
    from ossia.agent.engine.prompts import StoredPrompts

    return StoredPrompts(folder, max_bytes=PROMPT_BYTES, writes=not private)


def save_prompt_cache(engine: Engine) -> int:
    """Store the static parts of the last prompt for later processes; on the worker's thread. Returns the bytes.

    Only at the end of a process: the engine's cache is cut back for it.
    """
    return engine.save_prompts() if isinstance(engine, _SavesPrompts) else 0


def set_private(engine: Engine, private: bool) -> None:
    """Stop storing prompts on disk, or start again."""
    if isinstance(engine, _SavesPrompts) and engine.prompts is not None:
        engine.prompts.writes = not private


def store_personal(engine: Engine, personal: bool) -> None:
    """Store on disk also the static parts of prompts that hold somebody's own texts, or only the others."""
    if isinstance(engine, _SavesPrompts) and engine.prompts is not None:
        engine.prompts.personal = personal


def save_session_cache(engine: Engine, folder: Path, session_id: str) -> int:
    """Store the engine's cache for this session; on the worker's thread. Returns the bytes, 0: nothing was stored."""
    from ossia.agent.engine.prompts import make_room, stored_in

    if not isinstance(engine, _SavesCache) or "save" not in engine.capabilities:
        return 0
    written = engine.save_cache(folder / session_id, max_bytes=SESSION_BYTES)
    make_room(stored_in(folder, prompts=False), TOTAL_BYTES)
    return written


def load_session_cache(engine: Engine, folder: Path, session_id: str) -> int:
    """Load the session's cache; on the worker's thread. Returns the number of its tokens."""
    if not isinstance(engine, _SavesCache) or "save" not in engine.capabilities:
        return 0
    return engine.load_cache(folder / session_id)


def delete_session_cache(folder: Path, session_id: str) -> None:
    """Delete the session's cache, and the rest of a crashed write."""
    from ossia.agent.engine.stored import delete  # imports numpy, which takes its time

    delete(folder / session_id)
