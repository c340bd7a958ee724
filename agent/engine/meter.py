"""Measures how far a step of the network has come, and aborts it, without the interpreter's lock.

llama.cpp asks an "abort callback" after each of the network's operations, 34 in each of gpt-oss's layers. A callback in
Python would need the interpreter's lock each time, which another thread may hold for milliseconds. So it gets a
function of the C library: `sem_trywait`, which decrements a semaphore and returns 0, "go on". The semaphore's value
then tells how many operations there were. On a semaphore at 0 it returns -1, "abort". Where unnamed semaphores don't
exist (macOS, Windows) the function is `strlen`, of a buffer that is empty or not: that aborts too, but counts nothing.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final

_FULL: Final = 2**31 - 1  # SEM_VALUE_MAX: a step takes 808 with gpt-oss-20b, so this lasts for 2.6 million of them
_SEMAPHORE_BYTES: Final = 64  # sem_t: 32 with glibc


class Meter:
    """Counts the operations of the steps that call it, until `abort`: then the step under way is aborted.

    llama.cpp holds only its address: keep the object for as long as it may be called. Any thread may use its methods.
    """

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(_SEMAPHORE_BYTES)
        self._at_abort: int | None = None
        self.counts = _set is not None and _set(self._memory, 0, _FULL) == 0

    @property
    def callback(self) -> Any:
        """The address of the C function for llama.cpp to call."""
        return ctypes.cast(_take if self.counts else _STRLEN, ctypes.c_void_p)

    @property
    def argument(self) -> Any:
        """The address of that function's argument."""
        return ctypes.cast(self._memory, ctypes.c_void_p)

    @property
    def operations(self) -> int:
        """How many operations there were so far, or up to `abort`; 0 where they can't be counted."""
        if not self.counts or self._at_abort is not None:
            return self._at_abort or 0
        left = ctypes.c_int()
        _read(self._memory, ctypes.byref(left))
        return _FULL - left.value

    def abort(self) -> None:
        """End the step under way, and every later one, at its next operation."""
        if self.counts:
            self._at_abort = self.operations
            _set(self._memory, 0, 0)
        else:
            self._memory[0] = b"\x01"


_C: Final = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
_STRLEN: Any = _C.strlen
_set: Any
_take: Any
_read: Any
_set, _take, _read = (getattr(_C, name, None) for name in ("sem_init", "sem_trywait", "sem_getvalue"))
