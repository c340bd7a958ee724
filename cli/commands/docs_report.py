"""What `ossia docs add` shows: a bar while it works, what couldn't be read, the sums at the end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import closing

from cli.clean import clean
from cli.exits import ExitCode
from cli.runtime.progress import LiveLine
from tools.library.indexing import SECRET, Event, Failed, Found, Indexed, Skipped, Vanished
from tools.library.library import Root

_BAR_CELLS = 24
_LINES = 20  # of files that are named, of each kind; --verbose names all
_LOG_S = 30.0  # between lines of progress where no terminal shows a bar


class Report:
    """The account of a run over any number of roots.

    `code` is the exit code: not 0 when a whole root, not just a file in it, couldn't be read. `unreadable` are those.
    """

    def __init__(self, *, verbose: bool) -> None:
        self.code = ExitCode.ANSWERED
        self.unreadable: set[str] = set()
        self._verbose = verbose
        self._terminal = sys.stderr.isatty()
        self._line = LiveLine(sys.stderr, shown=self._terminal)
        self._started = self._logged = time.monotonic()
        self._changes: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._named: Counter[str] = Counter()

    def follow(self, events: Generator[Event, None, None], root: Root) -> None:
        """Take in the events of a root, to the end. What ends it early closes `events`, which stores what is ready."""
        done = total = 0
        self._line.set(f"looking through {root.place}")
        self._line.tick()
        with closing(events):
            for event in events:
                total = event.files if isinstance(event, Found) else total
                done += bool(total) and not isinstance(event, Found)
                self._see(event, root)
                self._show(min(done, total), total, root)
        self._line.erase()

    def end(self) -> None:
        """Print the sums."""
        self._line.erase()
        seconds = max(time.monotonic() - self._started, 1e-3)
        made = self._changes["added"] + self._changes["updated"]
        kinds = ("added", "updated", "unchanged", "taken out", "failed")
        sums = [f"{self._changes[kind]} {kind}" for kind in kinds if self._changes[kind] or kind == "added"]
        speed = f" ({made / seconds:.0f} documents/s)" if made else ""
        print(", ".join(sums) + speed)
        if self._reasons:
            print("passed by: " + ", ".join(f"{count} {reason}" for reason, count in self._reasons.most_common()))

    def _see(self, event: Event, root: Root) -> None:
        match event:
            case Indexed(change=change):
                self._changes[change] += 1
            case Vanished(documents=documents):
                self._changes["taken out"] += documents
            case Skipped(origin, reason) if origin != root.place:
                self._reasons[reason] += 1
                if self._verbose or reason == SECRET:
                    self._name(origin, reason, "passed by")
            case Skipped(origin, reason) | Failed(origin, reason):
                self._changes["failed"] += 1
                self._name(origin, reason, "error")
                if origin == root.place:
                    self.unreadable.add(origin)
                    self.code = ExitCode.ENGINE if root.kind == "url" else ExitCode.FAILED

    def _name(self, origin: str, reason: str, what: str) -> None:
        self._named[what] += 1
        if self._named[what] > _LINES and not self._verbose:
            text = f"more {what}, not shown: --verbose names them all" if self._named[what] == _LINES + 1 else ""
        else:
            text = f"{what}: {origin}: {reason}"
        if text:
            self._say(text)

    def _say(self, text: str) -> None:
        """A line on stderr. It names files, and a file's name may hold anything."""
        self._line.erase()
        text = " ".join(text.split())
        print(f"ossia: {clean(text) if self._terminal else text}", file=sys.stderr, flush=True)

    def _show(self, done: int, total: int, root: Root) -> None:
        if not total:
            self._line.tick()
            return
        now = time.monotonic()
        speed = (self._changes["added"] + self._changes["updated"]) / max(now - self._started, 1e-3)
        so_far = f"{done:,} of {total:,}" + (f" · {speed:.0f}/s" if speed >= 1 else "")
        full = _BAR_CELLS * done // total
        self._line.set(f"{'━' * full}{'╌' * (_BAR_CELLS - full)} {so_far} · {root.place}")
        self._line.tick()
        if not self._terminal and now - self._logged > _LOG_S:
            self._logged = now
            self._say(f"{so_far} of {root.place}")
