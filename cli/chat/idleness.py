"""Is the machine idle enough to read ahead? That must not slow other programs down, nor drain a battery."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_SPARE = 0.5
"""Of a processor: others and our threads may need this much more than there is. What always runs takes less."""


class Idleness:
    """Tells whether `threads` of ours would find idle processors, on a machine that doesn't run on a battery.

    `busy` gives the seconds that all processors together have worked, None where the system doesn't say (then others
    count as idle); `own` those of this process alone; `clock` monotonic seconds.
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
        """Was the machine idle enough since the last call?"""
        at = self._clock()
        if at - self._battery_at >= _BATTERY_EVERY_S:
            self._battery, self._battery_at = self._on_battery(), at
        self._look(at)
        return not self._battery and self._others + self._threads <= (os.cpu_count() or 1) + _SPARE

    def _look(self, at: float) -> None:
        """Find out how many processors others have kept busy since the last look."""
        past_s = at - self._looked
        if past_s < _LEAST_S:  # the system counts in hundredths of a second
            return
        (busy, own), (busy_now, own_now) = self._last, (self._busy(), self._own())
        self._looked, self._last = at, (busy_now, own_now)
        if busy is not None and busy_now is not None:
            self._others = max(0.0, busy_now - busy - (own_now - own)) / past_s


_LEAST_S = 0.2
_BATTERY_EVERY_S = 10.0
_BUSY = ("user", "nice", "system", "irq", "softirq")


def _busy_s() -> float | None:
    import psutil

    try:
        times = psutil.cpu_times()
    except OSError:  # Android
        return None
    return sum(getattr(times, name, 0.0) for name in _BUSY)


def on_battery(supplies: Path = Path("/sys/class/power_supply")) -> bool:
    """Does the machine run on a battery? False where that can't be told. `supplies`: Linux's folder of batteries."""
    if sys.platform == "linux":  # psutil takes a mouse's battery for the machine's
        return _discharges(supplies)
    import psutil

    battery = psutil.sensors_battery()
    return battery is not None and battery.power_plugged is False


def _discharges(supplies: Path) -> bool:
    """Does a battery of the machine discharge? A mouse's (`scope` Device) doesn't count."""
    with suppress(OSError):
        for supply in supplies.iterdir():
            with suppress(OSError):
                mine = not (supply / "scope").exists() or (supply / "scope").read_text().strip() != "Device"
                battery = (supply / "type").read_text().strip() == "Battery"
                if mine and battery and (supply / "status").read_text().strip() == "Discharging":
                    return True
    return False
