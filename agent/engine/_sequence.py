"""The memory of one sequence: `cache.Memory` and `stored.Storable` on llama.cpp's calls."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ossia.agent.errors import EngineFailed

_COPY_HEAD_BYTES = 8
"""A copy of a sequence's state in memory begins with this many bytes that a file doesn't have (llama-context.cpp)."""


class Gate:
    """A lock for a `with`. Who has just left can't come in again before one who waits.

    llama.cpp's context is for one thread at a time: a decode step and what is asked of the memory exclude each other.
    With a plain lock, one step after the other would keep the memory's readers out.
    """

    def __init__(self) -> None:
        self._queue, self._inside = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._queue:
            self._inside.acquire()

    def __exit__(self, *_: object) -> None:
        self._inside.release()


class SequenceMemory:
    """The memory of the sequence `number` in a context; `lib` is llama.cpp. Any thread may ask, between two steps."""

    def __init__(self, lib: Any, context: Any, number: int, gate: Gate) -> None:
        self.number = number
        self._lib, self._context, self._gate = lib, context, gate
        self._memory = lib.llama_get_memory(context)
        self._window_only = lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY

    @property
    def oldest(self) -> int:
        with self._gate:
            return int(self._lib.llama_memory_seq_pos_min(self._memory, self.number))

    @property
    def newest(self) -> int:
        with self._gate:
            return int(self._lib.llama_memory_seq_pos_max(self._memory, self.number))

    def truncate(self, length: int) -> None:
        with self._gate:
            if not self._lib.llama_memory_seq_rm(self._memory, self.number, length, -1):
                raise EngineFailed(f"llama.cpp can't roll its memory back to {length} tokens")

    def share(self, source: SequenceMemory, length: int, window: bytes) -> bool:
        """Replace what is held by the first `length` positions of `source`, whose cells belong to both from now on.

        Its window has moved on: `window` is what `save_window` returned when it had this length. (llama.cpp never uses
        a window's cell again while it belongs to two sequences; so those that come along are dropped at once.) False:
        it failed, and nothing is held.
        """
        with self._gate:
            self._lib.llama_memory_seq_rm(self._memory, self.number, 0, -1)
            self._lib.llama_memory_seq_cp(self._memory, source.number, self.number, 0, length)
            done = self._restore(window)
            if not done:
                self._lib.llama_memory_seq_rm(self._memory, self.number, 0, -1)
            return done

    def save_window(self) -> bytes | None:
        with self._gate:
            size = int(self._lib.llama_state_seq_get_size_ext(self._context, self.number, self._window_only))
            data = (ctypes.c_uint8 * size)()
            args = data, size, self.number, self._window_only
            written = int(self._lib.llama_state_seq_get_data_ext(self._context, *args))
            return bytes(data) if written == size else None

    def restore_window(self, saved: bytes) -> bool:
        with self._gate:
            return self._restore(saved)

    @property
    def state_bytes(self) -> int:
        with self._gate:
            return int(self._lib.llama_state_seq_get_size(self._context, self.number))

    def save_state(self, path: Path, ids: Sequence[int]) -> bool:
        tokens = (ctypes.c_int32 * len(ids))(*ids)
        with self._gate:
            args = os.fsencode(path), self.number, tokens, len(ids)
            return bool(self._lib.llama_state_seq_save_file(self._context, *args))

    def copy_state(self, ids: Sequence[int]) -> bytearray | None:
        head = (ctypes.c_uint32 * 3)(self._lib.LLAMA_STATE_SEQ_MAGIC, self._lib.LLAMA_STATE_SEQ_VERSION, len(ids))
        head_bytes = bytes(head) + bytes((ctypes.c_int32 * len(ids))(*ids))
        at, size = len(head_bytes) - _COPY_HEAD_BYTES, self.state_bytes
        buffer = bytearray(at + size)
        data = (ctypes.c_uint8 * size).from_buffer(buffer, at)
        with self._gate:
            complete = int(self._lib.llama_state_seq_get_data(self._context, data, size, self.number)) == size
        del data  # it holds on to the buffer
        buffer[: len(head_bytes)] = head_bytes
        return buffer if complete else None

    def pack(self, max_bytes: int) -> bytearray | None:
        """A copy of the whole state, to stay in memory. None: it can't be made, or would take more than `max_bytes`."""
        if (held := self.state_bytes) > max_bytes:
            return None
        data = bytearray(held)
        with self._gate:
            view = (ctypes.c_uint8 * len(data)).from_buffer(data)
            size = int(self._lib.llama_state_seq_get_data(self._context, view, len(data), self.number))
        return data if size == len(data) else None

    def unpack(self, state: bytearray) -> bool:
        """Replace what is held by such a copy. False: it failed, and what is held now is uncertain."""
        with self._gate:
            view = (ctypes.c_uint8 * len(state)).from_buffer(state)
            return int(self._lib.llama_state_seq_set_data(self._context, view, len(state), self.number)) == len(state)

    def load_state(self, path: Path, ids: Sequence[int]) -> bool:
        tokens, count = (ctypes.c_int32 * len(ids))(), ctypes.c_size_t()
        with self._gate:
            args = os.fsencode(path), self.number, tokens, len(ids), ctypes.byref(count)
            read = self._lib.llama_state_seq_load_file(self._context, *args)
        return bool(read) and list(tokens[: count.value]) == list(ids)

    def _restore(self, saved: bytes) -> bool:
        data = ctypes.cast(ctypes.c_char_p(saved), ctypes.POINTER(ctypes.c_uint8))
        args = data, len(saved), self.number, self._window_only
        return int(self._lib.llama_state_seq_set_data_ext(self._context, *args)) == len(saved)
