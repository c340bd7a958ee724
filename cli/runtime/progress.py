"""The display on stderr while a turn runs: a live line, the calls, the thinking when it is asked for."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from typing import IO, TYPE_CHECKING, TextIO, TypeVar

from ossia.agent.events import (
    ConstraintDropped,
    ContextTrimmed,
    Delta,
    Event,
    MessageAdded,
    Repaired,
    SampledAgain,
    Stats,
    ThinkingCut,
    ToolFinished,
    ToolShown,
    ToolStarted,
)
from ossia.agent.models.memory import size_text
from ossia.agent.stream import events as published
from ossia.cli.clean import clean, fitted, one_line
from ossia.cli.runtime.activity import Activity, loading_words
from ossia.cli.runtime.call_line import call_line, running, said_line
from ossia.cli.settings.table import Settings
from ossia.cli.streams import stdout
from ossia.cli.visible import seen, seen_line
from ossia.cli.words import thinking_cut
from ossia.harmony.messages import ANALYSIS
from ossia.tools.host import Loading, Notice
from ossia.tools.outcome import outcome_of
from ossia.tools.saying import saying
from ossia.tools.spec import NoStop, Stop

if TYPE_CHECKING:
    from ossia.agent.models.transfer import PullProgress

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_S = 0.1
_WAIT_S = 0.01
_DIM, _RED, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"
_ERASE = "\r\x1b[K"
_R = TypeVar("_R")


class LiveLine:
    """One line that is rewritten in place, on a terminal only: `⠋ reading the prompt · 212 of 633 · 24 s`.

    It is cut to the terminal's width.
    """

    def __init__(self, stream: TextIO, *, shown: bool) -> None:
        self._stream = stream
        self._shown = shown
        self.says: str | Callable[[], str] = ""
        self._drawn = False
        self._next = 0.0

    def set(self, text: str | Callable[[], str]) -> None:
        """Change the text; it is drawn at the next `tick`. A function is asked for it at each `tick`."""
        self.says = text

    @property
    def text(self) -> str:
        """The text at this moment; it may be raw text from outside."""
        return self.says if isinstance(self.says, str) else self.says()

    def tick(self) -> None:
        """Draw the next frame if it is time for one. Call it often."""
        now = time.monotonic()
        if not self._shown or now < self._next or not (text := self.text):
            return
        self._next = now + _FRAME_S
        frame = _FRAMES[int(now / _FRAME_S) % len(_FRAMES)]
        self._stream.write(_ERASE + fitted(f"{frame} {clean(text)}", columns(self._stream) - 1))
        self._stream.flush()
        self._drawn = True

    def erase(self) -> None:
        """Take the line off the screen: something else is about to be written."""
        if self._drawn:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._drawn = False


class Display:
    """Shows the events of a turn on stderr.

    `terminal`: stderr is one, so what comes from outside is cleaned. `asides`: the calls and the last line are shown;
    `lively`: a live line as well. `thinking`: the chain of thought is written too, wherever stderr goes. `quiet`:
    nothing else but errors and the notices of calls.
    """

    def __init__(
        self,
        *,
        terminal: bool = False,
        asides: bool = False,
        lively: bool = False,
        thinking: bool = False,
        colour: bool = False,
        verbose: bool = False,
        quiet: bool = False,
    ) -> None:
        self.line = LiveLine(sys.stderr, shown=lively)
        self.before: Callable[[], None] = lambda: None  # called before a line is written: stdout may be in mid-line
        self.publish: Callable[[published.Notice | published.Loading], object] = lambda event: None
        self.once = False  # True: no note is written twice
        self._noted: set[str] = set()
        self._loading = Loading("")
        self.fix: Callable[[ToolFinished], str] = lambda done: ""  # the user's next step after a failed call
        self.terminal, self.colour, self.shows_activity = terminal, colour, lively
        self._asides, self._quiet, self._thinking, self._verbose = asides, quiet, thinking, verbose and not quiet
        self._activity = Activity()
        self._index = -1  # of the message that the last delta belongs to
        self._open = False  # a line of thinking is under way, without its newline

    def see(self, event: Event) -> None:
        """Show one event."""
        if self._activity.see(event):
            self.line.set(self._activity.text)
        match event:
            case Delta(index=index, channel=channel, text=text, recipient=recipient):
                if index != self._index:
                    self._index = index
                    self._end_thought()
                if self._thinking and channel == ANALYSIS and recipient is None:
                    self._think(text)
            case MessageAdded():
                self._end_thought()
            case ToolShown(preview=preview):
                how = f" ({preview.conditions})" if preview.conditions else ""
                would = seen_line(f"dry run: {preview.summary}{how}")
                self.note(f"{would}\n{seen(preview.detail, preview.language)}".rstrip("\n"))
            case ToolStarted(call, preview) if not self.shows_activity:  # else the live line says it
                self.aside(running(preview.summary if preview else saying(call.name, call.arguments)))
            case ToolFinished():
                self._finished(event)
            case ContextTrimmed(before, after, reason):
                self.note(f"ossia: {reason} ({before:,} → {after:,} tokens)")
            case SampledAgain(reason):
                self.detail(f"sampled again: {reason}")
            case ThinkingCut(tokens):
                self.note(f"ossia: {thinking_cut(tokens)}")
            case Repaired(code, message, token):
                self.detail(f"repaired at token {token}: {message} ({code})")
            case ConstraintDropped(what, reason):
                self.detail(f"the guide stopped constraining the {what}: {reason}")
            case Stats(step):
                lost = f" ({step.lost_tokens:,} for the second time)" if step.lost_tokens else ""
                used = f"{step.reused_tokens:,} reused, {step.evaluated_tokens:,} read{lost}"
                used = used if step.cache_reported else "an unknown number reused, the rest read"
                self.detail(
                    f"step: {step.prompt_tokens:,} prompt tokens: {used} in {step.prefill_s:.2f} s; "
                    f"{step.completion_tokens:,} tokens, {step.forced_tokens:,} forced, "
                    f"in {step.decode_s:.2f} s; {step.end}"
                )

    def note(self, text: str, code: str = "") -> None:
        """A line on stderr, wherever that goes: a warning, or requested information.

        `code`: it is no event of the turn, and other programs get it under this code (`publish`).
        """
        if code:
            self.publish(published.Notice(code, text.removeprefix("ossia: ").removeprefix("warning: ")))
        if not self._quiet and not (self.once and text in self._noted):
            self._noted.add(text)
            self._write(text)

    def warn(self, text: str) -> None:
        """A warning, wherever stderr goes."""
        self.note(f"ossia: warning: {text}", "warning")

    def report(self, what: Notice | Loading) -> None:
        """The `Report` for builders of models and tools."""
        match what:
            case Loading():
                if what.what and what != self._loading:
                    self.publish(published.Loading(what.what, what.share, what.left_s))
                self._loading = what
                self.line.set(loading_words(what))
                self.line.tick() if what.what else self.line.erase()
            case Notice("warning", text):
                self.warn(text)
            case Notice("waiting", _) if self.shows_activity:
                pass
            case Notice("note" | "waiting", text):
                self.note(f"ossia: {text}", what.level)
            case Notice(_, text):
                self.detail(text)

    def notice(self, notice: str) -> None:
        """A notice of a call (`ToolResult.notices`), whatever else is shown: `--quiet` doesn't hide it."""
        self._write(f"ossia: warning: {notice}")

    def fault(self, text: str) -> None:
        """A line about what failed; `--quiet` doesn't hide it."""
        self._write(text)

    def wait(self, future: Future[_R]) -> _R:
        """The future's result; the live line goes on. It waits in steps, since Windows can't interrupt a wait."""
        while not future.done():
            self.line.tick()
            time.sleep(_WAIT_S)
        return future.result()

    def skippable(self) -> AbstractContextManager[tuple[Stop, str]]:
        """A `tools.build.Skippable`: here nobody has a key for that."""
        return nullcontext((NoStop(), ""))

    def detail(self, text: str) -> None:
        """A line for `--verbose`."""
        if self._verbose:
            self.note(text)

    def _write(self, text: str, look: str = "") -> None:
        self.before()
        self.line.erase()
        self._end_thought()
        print(self._painted(text, look), file=sys.stderr, flush=True)

    def _painted(self, text: str, look: str) -> str:
        text = clean(text) if self.terminal else text
        return f"{look}{text}{_PLAIN}" if look and self.colour else text

    def pause(self) -> None:
        """Something is about to be written to stdout: leave the terminal's line to it."""
        self.line.set("")
        self.line.erase()
        self._end_thought()

    def aside(self, text: str, *, whole: bool = False, look: str = _DIM) -> None:
        """A line for terminals only. Cut to the width, unless `whole` (a path, fitting lines)."""
        if self._asides:
            text = text if whole else fitted(clean(text), columns(sys.stderr) - 1)
            self._write(text, look)

    def _finished(self, done: ToolFinished) -> None:
        from ossia.cli.runtime.failures import failure_rows, fix_rows

        fault, width = done.result.fault, columns(sys.stderr) - 1
        outcome = outcome_of(done, self._activity.said_of(done.call))
        if not self._asides:
            if fault and fault.kind in ("search", "key"):  # the answer is from less than was asked for
                self.warn(f"{said_line(outcome.said)}: {one_line(outcome.reason)}")
            return
        reason = "\n".join(failure_rows(outcome, done.ms, width)) if outcome.reason else ""
        head, below = (reason, []) if reason else call_line([outcome], done.ms, width)
        self.aside(head, whole=True, look=_RED if outcome.failed else _DIM)
        if below := [*below, *(fix_rows(self.fix(done), width) if done.result.error else [])]:
            self.aside("\n".join(below), whole=True)

    def _think(self, text: str) -> None:
        if not text:
            return
        self.line.erase()
        sys.stderr.write(self._painted(text, _DIM))
        sys.stderr.flush()
        self._open = not text.endswith("\n")
        self.line.set("")

    def _end_thought(self) -> None:
        if self._open:
            self._open = False
            print(file=sys.stderr, flush=True)


def make_display(settings: Settings) -> Display:
    """The display of the settings, for a terminal, a pipe or a file."""
    terminal = sys.stderr.isatty()
    live = terminal and os.environ.get("TERM") != "dumb"
    streaming = settings.raw and stdout().isatty()  # a note would stand in the middle of the stream
    asides = terminal and not settings.quiet and not streaming
    return Display(
        terminal=terminal,
        asides=asides,
        lively=asides and live,
        thinking=settings.show_thinking,
        colour=live and not os.environ.get("NO_COLOR"),
        verbose=settings.verbose,
        quiet=settings.quiet,
    )


def download_line(line: LiveLine, name: str) -> Callable[[PullProgress], None]:
    """Shows each report on `line`, as `gpt-oss-20b: 42 %, 5.1 of 12.1 GB, 35 MB/s`."""
    started: dict[str, tuple[float, int]] = {}

    def show(progress: PullProgress) -> None:
        now = time.monotonic()
        since, from_byte = started.setdefault(progress.phase, (now, progress.done))
        speed = f", {size_text(int((progress.done - from_byte) / (now - since)))}/s" if now > since else ""
        what = "checking " if progress.phase == "check" else ""
        share = 100 * progress.done // max(progress.total, 1)
        line.set(f"{what}{name}: {share} %, {size_text(progress.done)} of {size_text(progress.total)}{speed}")
        line.tick()

    return show


def columns(stream: IO[str] | IO[bytes]) -> int:
    """The width of the terminal behind `stream`; 80 when it has none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
