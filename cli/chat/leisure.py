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


class Leisure:
    """Tells whether `threads` of ours would find idle processors, on a machine that doesn't run on a battery.

    `root` is where `proc` and `sys` are; `clock` gives monotonic seconds, `own` the processor seconds that this process
    has used. On a system that doesn't say what other processes do, they count as idle.
    """

    def __init__(
        self,
        threads: int,
        *,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        own: Callable[[], float] = lambda: sum(os.times()[:4]),
    ) -> None:
        self._threads, self._root, self._clock, self._own = threads, root, clock, own
        self._others, self._looked = 0.0, clock()
        self._last = (_busy_s(root), own())
        self._battery, self._battery_at = False, float("-inf")

    def now(self) -> bool:
        """Was the machine idle enough since the last call?"""
        at = self._clock()
        if at - self._battery_at >= _BATTERY_EVERY_S:
            self._battery, self._battery_at = on_battery(self._root), at
        self._look(at)
        return not self._battery and self._others + self._threads <= (os.cpu_count() or 1) + _SPARE

    def _look(self, at: float) -> None:
        """Find out how many processors others have kept busy since the last look."""
        past_s = at - self._looked
        if past_s < _LEAST_S:  # the system counts in hundredths of a second
            return
        (busy, own), (busy_now, own_now) = self._last, (_busy_s(self._root), self._own())
        self._looked, self._last = at, (busy_now, own_now)
        if busy is not None and busy_now is not None:
            self._others = max(0.0, busy_now - busy - (own_now - own)) / past_s


_LEAST_S = 0.2
_BATTERY_EVERY_S = 10.0


def _busy_s(root: Path) -> float | None:
    """Seconds that all processors together have worked since the machine started: `cpu user nice system idle …`."""
    try:
        fields = (root / "proc/stat").read_bytes().split(b"\n", 1)[0].split()
        user, nice, system, _, _, *rest = map(int, fields[1:])
        return (user + nice + system + sum(rest[:2])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        return None


def on_battery(root: Path = Path("/")) -> bool:
    """Does the machine run on a battery? False where that can't be told."""
    if sys.platform == "win32":
        import ctypes

        status = (ctypes.c_uint8 * 12)()
        return bool(ctypes.windll.kernel32.GetSystemPowerStatus(ctypes.byref(status))) and status[0] == 0
    if sys.platform == "darwin":
        import subprocess

        with suppress(OSError, subprocess.SubprocessError):
            asked = subprocess.run(["/usr/bin/pmset", "-g", "batt"], capture_output=True, timeout=2, check=False)
            return b"Battery Power" in asked.stdout
        return False
    return _discharges(root / "sys/class/power_supply")


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
