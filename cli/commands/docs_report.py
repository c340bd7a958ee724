"""The report of `ossia docs add`: a bar while it works, unreadable files, the sums at the end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Generator

from ossia.cli.clean import clean
from ossia.cli.exits import ExitCode
from ossia.cli.runtime.library import CHANGES, Account
from ossia.cli.runtime.progress import LiveLine
from ossia.cli.streams import shown
from ossia.tools.library.indexing import Event
from ossia.tools.library.library import Root

_BAR_CELLS = 24
_LINES = 20  # of files that are named, of each kind; --verbose names all
_EXPECTED = ("hidden", "in .gitignore", "generated")
_LOG_S = 30.0  # between lines of progress where no terminal shows a bar


class Report(Account):
    """The account of a run over any number of roots.

    `code` is the exit code: other than 0 if something that was named couldn't be read, and not just a file in a folder.
    """

    def __init__(self, *, verbose: bool) -> None:
        super().__init__()
        self.code = ExitCode.ANSWERED
        self._verbose = verbose
        self._terminal = sys.stderr.isatty()
        self._line = LiveLine(sys.stderr, shown=self._terminal)
        self._started = self._logged = time.monotonic()
        self._named: Counter[str] = Counter()

    def follow(self, events: Generator[Event, None, None], root: Root) -> None:
        """Follow the events of a root; the bar is gone afterwards."""
        super().follow(events, root)
        self._line.erase()

    def end(self) -> None:
        """Print the sums."""
        self._line.erase()
        seconds = max(time.monotonic() - self._started, 1e-3)
        made = self.changes["added"] + self.changes["updated"]
        sums = [f"{self.changes[kind]} {kind}" for kind in CHANGES if self.changes[kind] or kind == "added"]
        speed = f" ({made / seconds:.0f} documents/s)" if made else ""
        print(", ".join(sums) + speed)
        if self.reasons:
            print("skipped: " + ", ".join(f"{reason} ({count:,})" for reason, count in self.reasons.most_common()))
        if guessed := self.guessed():
            print(shown(guessed))

    def passed_by(self, origin: str, reason: str) -> None:
        """Name it, unless it is an expected one; with `--verbose` always."""
        if self._verbose or reason not in _EXPECTED:
            self._name(origin, reason, "skipped")

    def failed(self, origin: str, reason: str, root: Root) -> None:
        """Name it. Only what the user named decides the exit code, not a file in a folder."""
        self._name(origin, reason, "error")
        if origin in self.named or origin == root.place:
            self.code = ExitCode.ENGINE if root.kind == "url" else ExitCode.FAILED

    def show(self, done: int, total: int, root: Root) -> None:
        """Draw the bar; without a terminal, print a line now and then."""
        if not total:
            self._line.set(f"looking through {root.place}")
            self._line.tick()
            return
        now = time.monotonic()
        speed = (self.changes["added"] + self.changes["updated"]) / max(now - self._started, 1e-3)
        so_far = f"{done:,} of {total:,}" + (f" · {speed:.0f}/s" if speed >= 1 else "")
        full = _BAR_CELLS * done // total
        self._line.set(f"{'━' * full}{'╌' * (_BAR_CELLS - full)} {so_far} · {root.place}")
        self._line.tick()
        if not self._terminal and now - self._logged > _LOG_S:
            self._logged = now
            self._say(f"{so_far} of {root.place}")

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
