"""The idle times of the machine, in which the next prompt is read ahead, and a title written: at nobody's cost."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.respond import LocalResponder

if TYPE_CHECKING:
    from ossia.agent.conversation import Conversation
    from ossia.agent.request import Request
    from ossia.agent.worker import Idle
    from ossia.cli.settings.table import Settings

_SPARE = 0.5
"""Of a processor: others and our threads may need this much more than there is. What always runs takes less."""
_LEAST_S = 0.2
_BATTERY_EVERY_S = 10.0
_BUSY = ("user", "nice", "system", "irq", "softirq")


def read_ahead(talk: Conversation, settings: Settings, title: Callable[[Request, LocalResponder], Idle | None]) -> None:
    """Read the next prompt whenever the worker is idle, then do the job of `title`. Between turns, with a model in use.

    The machine must be idle, too, unless the settings say that this doesn't matter.
    """
    assert talk.model is not None and talk.tools is not None
    responder, mode = talk.model.responder, settings.prefill_ahead
    if mode == "off" or not isinstance(responder, LocalResponder) or "prefill" not in talk.model.engine.capabilities:
        return
    idle = _idleness(settings.threads).now if mode == "auto" else None
    request = talk.session.request_ahead(talk.tools.toolbox.specs)
    talk.ahead.begin(request, responder, idle=idle, then=title(request, responder))


@lru_cache(maxsize=1)
def _idleness(threads: int | None) -> Idleness:
    from ossia.agent.engine.threads import default_threads

    return Idleness(threads or default_threads())


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
