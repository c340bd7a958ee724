"""The waits before an answer, as calls: a client's panel has no other place for them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from ossia.cli.acp.updates import Send
from ossia.cli.visible import seen_line

_FIRST_S, _AGAIN_S = 5.0, 1.0


class Waiting:
    """Shows a wait once it takes 5 s, every second until it ends.

    waiting.show("reading the prompt · 212 of 633 · 24 s")
    waiting.close()
    """

    def __init__(self, send: Send, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._send, self._clock = send, clock
        self._id = self._said = ""
        self._due = 0.0

    def show(self, said: str) -> None:
        """Call it often; "" shows nothing."""
        now = self._clock()
        self._due = self._due or now + _FIRST_S
        if not said or now < self._due or said == self._said:
            return
        self._due, self._said = now + _AGAIN_S, said
        update = "tool_call_update" if self._id else "tool_call"
        self._id = self._id or f"wait-{secrets.token_hex(4)}"
        title = seen_line(said[:1].upper() + said[1:])
        self._send(
            {"sessionUpdate": update, "toolCallId": self._id, "title": title, "kind": "other", "status": "in_progress"}
        )

    def close(self) -> None:
        """The wait is over, if there was one."""
        if self._id:
            self._send({"sessionUpdate": "tool_call_update", "toolCallId": self._id, "status": "completed"})
        self._id = self._said = ""
        self._due = 0.0
