"""Work of a chat at rest: the next prompt is read ahead, then a title is written. It must cost nobody anything."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.errors import AgentError
from ossia.agent.respond import LocalResponder
from ossia.agent.titles import written_title

if TYPE_CHECKING:
    from ossia.agent.control import Control
    from ossia.agent.request import Request, Responder
    from ossia.agent.sessions.store import SessionStore
    from ossia.cli.chat.owner import Owner

_DATE_EVERY_S = 30.0
_REST_S = 4.0
"""The chat is at rest after so long without a key."""
_SPARE = 0.5
"""Of a processor: others and our threads may need this much more than there is. What always runs takes less."""
_LEAST_S = 0.2
_BATTERY_EVERY_S = 10.0
_BUSY = ("user", "nice", "system", "irq", "softirq")


class ReadingAhead:
    """Has the next prompt read during idle times, then a title written."""

    def __init__(self, chat: Owner, titles: Titles) -> None:
        self._chat, self._titles = chat, titles
        self._idleness: Idleness | None = None
        ahead = chat.conversation.ahead
        ahead.on_change, ahead.on_fault = lambda: chat.face.wake(), self._fail

    def begin(self) -> None:
        """Read ahead for the session whenever the worker is idle. Between turns."""
        chat, conversation = self._chat, self._chat.conversation
        loaded, mode = chat.loaded, chat.settings.prefill_ahead
        conversation.ahead.end()
        if chat.control is not None or chat.outbox.queue or loaded is None or mode == "off":
            return
        responder = loaded.model.responder
        if "prefill" not in loaded.model.engine.capabilities or not isinstance(responder, LocalResponder):
            return
        if mode == "auto" and self._idleness is None:
            from ossia.agent.engine.threads import default_threads

            self._idleness = Idleness(chat.settings.threads or default_threads())
        idle = self._idleness.now if mode == "auto" and self._idleness else None
        request = conversation.session.request_ahead(loaded.tools.toolbox.specs)
        conversation.ahead.begin(request, responder, idle=idle, then=self._titles.writer(request, responder))

    def watch_the_date(self) -> None:
        """Check the date now and then. On the loop's thread."""

        async def watch() -> None:
            while True:
                await asyncio.sleep(_DATE_EVERY_S)
                self.new_day()

        self._chat.background.task(watch())

    def new_day(self) -> None:
        """Read the prompt ahead with a new date, if it has changed."""
        if self._chat.control is None and self._chat.conversation.take_date():
            self._chat.measure()

    def _fail(self, error: Exception) -> None:
        """Raise a bug on the loop's thread: a traceback."""

        def fail() -> None:
            raise error

        self._chat.background.on_loop(fail)


class Titles:
    """Asks the model for a title, once for each conversation; without a usable one the question remains the title."""

    def __init__(self, chat: Owner, *, clock: Callable[[], float]) -> None:
        self._chat, self._clock = chat, clock
        self._touched_at = clock()
        self._writing: Control | None = None
        self._asked: set[str] = set()  # ids of sessions

    def touched(self) -> None:
        """A key was pressed: a title under way stops until the next rest."""
        self._touched_at = self._clock()
        if (control := self._writing) is not None:
            control.stop()

    def writer(self, request: Request, responder: Responder) -> Callable[[Control], float | None] | None:
        """The title's job for `Worker.when_idle`; None: no title is needed. Between turns."""
        conversation = self._chat.conversation
        store, session_id = conversation.store, conversation.opened.session_id
        if self._chat.settings.titles != "model" or store is None or session_id is None or session_id in self._asked:
            return None
        if request.response_format or conversation.session.ends[-1:] != ("answered",):
            return None
        try:
            if not store.wants_title(session_id):
                return None
        except AgentError:  # the chat reports elsewhere that nothing can be stored
            return None
        self._touched_at = self._clock()
        return lambda control: self._write(request, responder, store, session_id, control)

    # -- on the worker's thread ----------------------------------------------------------------------------------------

    def _write(
        self, request: Request, responder: Responder, store: SessionStore, session_id: str, control: Control
    ) -> float | None:
        self._writing = control
        try:
            if (rest_s := self._rest_in_s()) > 0:
                return rest_s
            if not store.wants_title(session_id):  # the user has set one meanwhile
                return None
            title = written_title(request, responder, control=control)
        except AgentError:
            title = ""
        finally:
            self._writing = None
        if control.stopped:
            return _REST_S
        self._asked.add(session_id)
        if title:
            self._chat.background.on_loop(lambda: self._store(title, store, session_id))
        return None

    def _rest_in_s(self) -> float:
        """Seconds until the chat may be at rest; 0: it is."""
        chat, face = self._chat, self._chat.face
        if face.input_text or face.asks or face.screen.away or chat.control or chat.background.job:
            return _REST_S
        return max(0.0, self._touched_at + _REST_S - self._clock())

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    def _store(self, title: str, store: SessionStore, session_id: str) -> None:
        if self._chat.conversation.store is store:  # it may have become private meanwhile
            with suppress(AgentError):
                store.entitle(session_id, title)


class Idleness:
    """The idleness of the machine: room for `threads` more without slowing other programs, and no battery to drain.

    `busy`: seconds of work of all processors together, None if unknown (then others count as idle); `own`: those of
    this process; `clock`: monotonic seconds.
    """

    def __init__(
        self,
        threads: int,
        *,
        busy: Callable[[], float | None] = lambda: _busy_s(),
        own: Callable[[], float] = lambda: sum(os.times()[:4]),
        battery: Callable[[], bool] = lambda: on_battery(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threads, self._busy, self._own, self._clock = threads, busy, own, clock
        self._others, self._looked = 0.0, clock()
        self._last = (busy(), own())
        self._on_battery, self._battery, self._battery_at = battery, False, float("-inf")

    def now(self) -> bool:
        """True if the machine was idle enough since the last call."""
        at = self._clock()
        if at - self._battery_at >= _BATTERY_EVERY_S:
            self._battery, self._battery_at = self._on_battery(), at
        self._look(at)
        return not self._battery and self._others + self._threads <= (os.cpu_count() or 1) + _SPARE

    def _look(self, at: float) -> None:
        """Count the processors kept busy by others since the last look."""
        past_s = at - self._looked
        if past_s < _LEAST_S:  # the system counts in hundredths of a second
            return
        (busy, own), (busy_now, own_now) = self._last, (self._busy(), self._own())
        self._looked, self._last = at, (busy_now, own_now)
        if busy is not None and busy_now is not None:
            self._others = max(0.0, busy_now - busy - (own_now - own)) / past_s


def _busy_s() -> float | None:
    import psutil

    try:
        times = psutil.cpu_times()
    except OSError:  # Android
        return None
    return sum(getattr(times, name, 0.0) for name in _BUSY)


def on_battery(supplies: Path = Path("/sys/class/power_supply")) -> bool:
    """True if the machine runs on a battery; False if unknown. `supplies`: Linux's folder of batteries."""
    if sys.platform == "linux":  # psutil takes a mouse's battery for the machine's
        return _discharges(supplies)
    import psutil

    battery = psutil.sensors_battery()
    return battery is not None and battery.power_plugged is False


def _discharges(supplies: Path) -> bool:
    """True if a battery of the machine discharges. A mouse's (`scope` Device) doesn't count."""
    with suppress(OSError):
        for supply in supplies.iterdir():
            with suppress(OSError):
                mine = not (supply / "scope").exists() or (supply / "scope").read_text().strip() != "Device"
                battery = (supply / "type").read_text().strip() == "Battery"
                if mine and battery and (supply / "status").read_text().strip() == "Discharging":
                    return True
    return False
