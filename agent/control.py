"""Stopping a running turn, or hurrying it to its answer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ossia.tools.spec import StopReason


class Control:
    """Stops a turn, or asks for its answer now. Thread-safe; one per turn.

    `stop()` ends the turn as soon as its current token, prefill batch or tool allows. `answer_now()` ends the current
    generation the same way, and the loop then opens a step in the `final` channel. Neither can be taken back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.stop_reason: StopReason | None = None
        """The reason of the stop: "user", or "time" when its seconds ran out. None while it goes on."""
        self.answer_now_asked = False
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._steering: list[str] = []

    @property
    def stopped(self) -> bool:
        return self.stop_reason is not None

    def stop(self, reason: StopReason = "user") -> None:
        """Stop the turn; every callback registered with `on_stop` runs once, in this thread. The first reason stays."""
        with self._lock:
            if self.stop_reason is not None:
                return
            self.stop_reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            callback()

    def answer_now(self) -> None:
        """End the thinking: the next tokens are the answer. Has no effect once the answer has begun."""
        self.answer_now_asked = True

    def steer(self, text: str) -> None:
        """Have the turn take a message of the user's behind its next tool result, unless it has answered by then."""
        with self._lock:
            self._steering.append(text)

    def unsaid(self) -> tuple[str, ...]:
        """Take back all waiting messages, in order; the turn calls it, too."""
        with self._lock:
            texts = tuple(self._steering)
            self._steering.clear()
        return texts

    def on_stop(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register `callback` for `stop()` (called at once if stopped already); returns a function to unregister it."""
        with self._lock:
            if self.stop_reason is None:
                key = object()
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: object) -> None:
        with self._lock:
            self._callbacks.pop(key, None)
