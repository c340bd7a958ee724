"""The progress of something slow, in words: `reading the prompt · 212 of 633 · 24 s`."""

from __future__ import annotations

import time
from collections.abc import Callable

from ossia.agent.events import ApprovalAsked, Delta, Event, Progress, ToolFinished, ToolOutput, ToolStarted, TurnEnded
from ossia.agent.models.pace import Pace
from ossia.cli.runtime.call_line import running
from ossia.cli.runtime.writing import Writing
from ossia.cli.words import count
from ossia.harmony.messages import ANALYSIS
from ossia.tools.host import Loading
from ossia.tools.saying import saying
from ossia.tools.spec import ToolCall
from ossia.tools.text import clean

_TAIL_CHARS = 4_000


class Reading:
    """Words for a prefill: feed it each `Progress`, and ask for `text` as often as it is drawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pace = Pace(clock)
        self._progress: Progress | None = None

    def see(self, progress: Progress) -> None:
        """Take note of one; if nothing has been read yet, a new prompt begins."""
        if self._progress is None or progress.done == progress.reused:
            self._pace = Pace(self._clock)
            self._pace.seconds_left(0, progress.total)  # it begins now, and not when it is first drawn
        self._progress = progress

    def text(self) -> str:
        """`reading the prompt · 212 of 633 · 24 s`: cached tokens aren't counted."""
        progress = self._progress
        if progress is None:
            return ""
        done, total = progress.done - progress.reused, progress.total - progress.reused
        return worded("reading the prompt", f"{done:,} of {total:,}", self._pace.seconds_left(done, total))


def loading_words(loading: Loading) -> str:
    """`reading the model · 43 % · 7 s`."""
    if loading.share is None:
        return loading.what
    return worded(loading.what, f"{100 * loading.share:.0f} %", loading.left_s)


def worded(what: str, so_far: str, left_s: int | None) -> str:
    """`reading the prompt · 212 of 633 · 24 s`, without unknown seconds."""
    left = "" if left_s is None else f" · {f'{left_s // 60} min {left_s % 60} s' if left_s >= 100 else f'{left_s} s'}"
    return f"{what} · {so_far}{left}"


class Running:
    """The call under way, and the end of its output: feed it each event, and ask as often as it is drawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since, self._tail = clock, 0.0, ""
        self.call: ToolCall | None = None
        self._said = ("", "")  # the id of a call, and its words

    def see(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case ApprovalAsked(call, preview, form=None):
                self._said = (call.id, preview.summary)
            case ToolStarted(call, preview):
                self.call, self._since, self._tail = call, self._clock(), ""
                self._said = (call.id, preview.summary if preview else saying(call.name, call.arguments))
            case ToolOutput(text=text):
                self._tail = (self._tail + text[-_TAIL_CHARS:])[-_TAIL_CHARS:]
            case ToolFinished() | TurnEnded():
                self.call, self._tail = None, ""

    def said_of(self, call: ToolCall) -> str:
        """The words for the last call, as its preview had them: `"Run pytest -q"`; "" for another."""
        return self._said[1] if call.id == self._said[0] else ""

    @property
    def seconds(self) -> float:
        """Since the call began."""
        return self._clock() - self._since

    def lines(self, most: int) -> list[str]:
        """Its last lines as a terminal would show them now: of a progress bar the last state. Still text from outside.

        lines(1)    # ["test_a.py ....  [ 40%]"]
        """
        shown = clean(self._tail).rstrip()
        return shown.split("\n")[-most:] if shown else []


class Activity:
    """The activity of a turn, in words: feed it each event, and ask for `text` as often as it is drawn.

    `reading the prompt · 212 of 633 · 24 s`, `thinking · 31 tokens`, `writing big.py · line 130 · 78 s`,
    `running pytest -q · 12 s · the last line of output`; "waiting" before the first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._reading, self._running, self._writing = Reading(clock), Running(clock), Writing(clock)
        self._tokens = 0
        self._words = "waiting"

    def said_of(self, call: ToolCall) -> str:
        """The words for the last call (`Running.said_of`)."""
        return self._running.said_of(call)

    def see(self, event: Event) -> bool:
        """Take note of an event. False: the activity stays."""
        self._running.see(event)
        self._writing.see(event)
        match event:
            case Progress(done, phase="summary"):
                self._words = f"summing up older turns · {count(done, 'token')}"
            case Progress():
                self._reading.see(event)
                self._words = ""
            case Delta(channel=channel):
                self._tokens += 1
                self._words = f"{'thinking' if channel == ANALYSIS else 'writing'} · {count(self._tokens, 'token')}"
            case ToolStarted(call):
                self._words = running(self._running.said_of(call))
            case _:
                return False
        return True

    def text(self) -> str:
        if writing := self._writing.text():
            return f"{writing} · {self._writing.seconds:.0f} s"
        if self._running.call is None:
            return self._words or self._reading.text()
        return " · ".join([self._words, f"{self._running.seconds:.0f} s", *self._running.lines(1)])
