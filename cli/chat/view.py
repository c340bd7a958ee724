"""The look of a turn: events in, finished rows out; the open rest is drawn live."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Literal

from ossia.agent.citations import Citations, Cited
from ossia.agent.events import (
    ConstraintDropped,
    ContextTrimmed,
    Delta,
    Event,
    MessageAdded,
    Progress,
    SampledAgain,
    Stats,
    ThinkingCut,
    ToolFinished,
    ToolStarted,
    TurnEnd,
    TurnEnded,
)
from ossia.agent.kinds import is_answer
from ossia.cli.chat.pager.items import Item, diff_of, diffstat
from ossia.cli.chat.summary_rows import beginning, call_row, edit_row, recalled, running_row, thought_row
from ossia.cli.clean import clean, clean_parts, fitted, one_line
from ossia.cli.footnotes import lines
from ossia.cli.runtime.activity import Reading, Running
from ossia.cli.runtime.failures import failure_rows
from ossia.cli.runtime.writing import Writing
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter
from ossia.cli.words import ENDS, count, thinking_cut
from ossia.harmony.messages import ANALYSIS, is_call

Think = Literal["off", "on", "peek"]
"""The display of thinking: "off", one line about it; "on", all of it; "peek", its last rows."""
Block = Literal["user", "note", "text", ""]
"""The kind of the last rows: a blank row stands between two kinds, and between two texts."""

_PEEK_ROWS = _OUTPUT_ROWS = 3
_FEW_TOKENS = 12  # shorter thinking is one line


class ChatView:
    """Draws turn after turn. `page` gives the page behind a cursor of the browser, for footnotes.

        view.see(event); view.take()      # the rows that are finished now, each once
        view.live(max_rows)               # the open rest
    """

    def __init__(
        self,
        painter: Painter,
        *,
        think: Think,
        page: Callable[[int], Cited | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.think = think
        self._painter, self._page, self._clock = painter, page, clock
        self._rows: list[Row] = []
        self._last: Block = ""
        self._index: int | None = None  # of the message that the last delta belongs to
        self._segments: Segmenter | None = None  # of the answer or preamble that is open
        self._begun = False  # the open text has finished rows
        self._citations: Citations | None = None
        self._thought: list[str] = []
        self._thought_since = 0.0
        self._thought_tokens = 0
        self._tail = ""  # of the thinking: a screenful
        self._calls: list[ToolFinished] = []  # of one tool in a row, on an open line
        self._running = Running(clock)
        self._stat = ""  # the call's changes of files
        self._writing = Writing(clock)
        self._progress: Progress | None = None
        self._reading = Reading(clock)
        self._turn_since = 0.0
        self.keys = True
        """Rows mention keys: False on a terminal without any."""
        self.fix: Callable[[ToolFinished], str] = lambda done: ""
        """The user's next step after a failed call."""
        self.fold: Callable[[str], str] = lambda text: text
        """Replaces pasted texts by their placeholders."""
        self.recognise: Callable[[str], None] = lambda text: None
        """Learns the pasted texts in a message of an earlier chat."""
        self.busy, self.tokens = False, 0
        self.tokens_per_s: float | None = None
        self.context_tokens: int | None = None  # after the last step of the turn under way

    # -- rows besides the events ---------------------------------------------------------------------------------------

    def user(self, shown: str) -> None:
        """Show a line of the user's, or its beginning."""
        self._add("user", self._painter.echo(beginning(self.fold(shown))))

    def note(self, text: str, style: str = "dim") -> None:
        """Show a line about the chat."""
        self._add("note", self._painter.text(text, style))

    def block(self, rows: list[Row]) -> None:
        """Show rows that belong together, e.g. a command's."""
        self._close_calls()
        self._last = "user" if self._last else ""
        self._add("text", rows)

    def recall(self, items: Iterable[Item]) -> None:
        """Show items of the past as they were shown then."""
        for item in items:
            match item.kind:
                case "user":
                    self.recognise(item.text)
                    self._add("user", self._painter.echo(recalled(self.fold(item.text), keys=self.keys)))
                case "thinking":
                    self._thought_row("thought", item.tokens)
                case "preamble" | "answer":
                    self._write(item.text, cited=item.kind == "answer")
                    self._close_message()
                case "call":
                    self._called(item.finished())
                case "note" | "summary":
                    self.note(one_line(item.text, 300))
        self._close_calls()

    def begin(self) -> None:
        """Begin a turn."""
        self.busy, self.tokens, self._turn_since = True, 0, self._clock()
        self._index, self._progress = None, None

    def end(self) -> None:
        """End a turn before its first event."""
        self.busy = False

    @property
    def turn_s(self) -> float:
        """Seconds since the turn began."""
        return self._clock() - self._turn_since

    # -- events --------------------------------------------------------------------------------------------------------

    def see(self, event: Event) -> None:
        """Take in one event."""
        self._running.see(event)
        self._writing.see(event)
        match event:
            case Delta():
                self._delta(event)
            case MessageAdded():
                self._close_message()
            case SampledAgain(reason):
                self._close_message()
                self.note(f"sampled again: {reason}")
            case ThinkingCut(tokens):
                self.note(thinking_cut(tokens))
            case ConstraintDropped(what, reason):
                self.note(f"the guide stopped constraining the {what}: {reason}")
            case Progress():
                self._progress = event
                if event.phase == "prefill":
                    self._reading.see(event)
            case ToolStarted(preview=preview):
                self._stat = diffstat(diff_of(preview))
            case ToolFinished():
                self._finished(event)
            case ContextTrimmed(before, after, reason):
                self.note(f"{reason} · {before:,} → {after:,} tokens · /context shows what was replaced")
            case Stats(step):
                self.context_tokens = step.prompt_tokens + step.completion_tokens
                self.tokens_per_s = step.tokens_per_s or self.tokens_per_s
            case TurnEnded(end, error):
                self._ended(end, error)

    def _delta(self, delta: Delta) -> None:
        if delta.index != self._index:
            self._close_message()
            self._index = delta.index
        self._progress = None
        self.tokens += bool(delta.text)
        if is_call(delta):
            self._fold_thinking()
        elif delta.channel == ANALYSIS:
            self._think_on(delta.text)
        elif delta.role == "assistant":
            self._fold_thinking()
            self._write(delta.text, cited=is_answer(delta))

    def _think_on(self, text: str) -> None:
        if not self._thought:
            self._thought_since, self._thought_tokens = self._clock(), 0
        self._thought.append(text)
        self._thought_tokens += bool(text)
        self._tail = (self._tail + clean(text))[-20_000:]

    def _write(self, text: str, *, cited: bool) -> None:
        if self._segments is None:
            self._close_calls()
            self._segments, self._begun = Segmenter(), False
        if cited and text and (self._citations or "【" in text):
            self._citations = self._citations or Citations(self._page)
            text = self._citations.feed(text)
        for chunk in self._segments.feed(clean_parts(text)):
            self._text_rows(self._painter.chunk(chunk))

    def _text_rows(self, rows: list[Row]) -> None:
        if self._begun:
            self._rows += rows
        else:
            self._begun = True
            self._add("text", rows)

    def _close_message(self) -> None:
        """End the message under way: its open part is final."""
        self._fold_thinking()
        self._index = None
        if self._segments is None:
            return
        segments, self._segments = self._segments, None
        rest = self._citations.finish() if self._citations else ""
        for chunk in [*segments.feed(clean_parts(rest)), *segments.finish()]:
            self._text_rows(self._painter.chunk(chunk))
        if self._citations and self._citations.notes:
            self._rows.append([])
            for line in lines(self._citations.notes, links=False):
                self._rows += self._painter.text(line, "dim")
        self._citations = None

    def _fold_thinking(self) -> None:
        """End the thinking: a line about it remains, and its text if that is shown; a few words are that line."""
        if not self._thought:
            return None
        seconds = self._clock() - self._thought_since
        text, self._thought, self._tail = "".join(self._thought).strip(), [], ""
        if self.think == "on" and text and self._thought_tokens < _FEW_TOKENS:
            return self.note(f"thought: {one_line(text)}", "dim italic")
        took = f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
        self._thought_row("thought" if took == "0.0 s" else f"thought for {took}", self._thought_tokens)
        return self._add("note", self._painter.text(text, "dim")) if self.think == "on" else None

    def _thought_row(self, thought: str, tokens: int | None) -> None:
        """Show the line, but not for a few tokens: each call would have one."""
        if tokens is None or tokens >= _FEW_TOKENS:
            self.note(thought_row(thought, tokens, keys=self.keys, width=self._painter.width), "dim italic")

    def _finished(self, done: ToolFinished) -> None:
        call, result = done.call, done.result
        if self._stat and not result.error:
            row = edit_row(call.name, self._stat, keys=self.keys, width=self._painter.width)
            self._add("note", self._painter.text(row, "cyan"))
        else:
            self._called(done, self.fix(done))
        for attachment in result.attachments:
            self.note(f"  {attachment.path}")

    def _called(self, done: ToolFinished, fix: str = "") -> None:
        """Show a finished call. Calls of one tool in a row share a line, which is open until something else comes."""
        if done.result.error:
            for rows, style in zip(failure_rows(done, self._painter.width, fix=fix), ("red", "yellow"), strict=True):
                if rows:
                    self.note("\n".join(rows), style)
            return
        if self._calls and self._calls[-1].call.name != done.call.name:
            self._close_calls()
        self._calls.append(done)
        if not self.keys:  # a printed line can't change
            self._close_calls()

    def _close_calls(self) -> None:
        rows, self._calls = self._call_rows(), []
        if rows:
            self._add("note", rows)

    def _call_rows(self) -> list[Row]:
        """The open line of the last calls."""
        if not self._calls:
            return []
        return self._painter.text(call_row(self._calls, keys=self.keys, width=self._painter.width), "cyan")

    def _ended(self, end: TurnEnd, error: Exception | None) -> None:
        self._close_message()
        self._close_calls()
        self.context_tokens = None
        self._progress, self.busy = None, False
        if error is not None:
            self.note(" ".join(str(error).split()), "red")
        elif end != "answered":
            self.note(f"{ENDS[end]}; /retry asks again" if end in ("silent", "loop") else ENDS[end], "yellow")

    def _add(self, block: Block, rows: list[Row]) -> None:
        """Add rows, behind a blank one if another kind of block ends."""
        self._close_calls()
        if self._last and (block != self._last or block == "text"):
            self._rows.append([])
        self._rows += rows
        self._last = block

    # -- drawing -------------------------------------------------------------------------------------------------------

    def take(self) -> list[Row]:
        """The rows finished since the last call."""
        draw, segments = self._painter.chunk, self._segments
        chunk = segments.settle(lambda text: draw(Chunk("paragraph_open", text, gap=False))) if segments else None
        if chunk is not None:
            self._text_rows(draw(chunk))
        rows, self._rows = self._rows, []
        return rows

    def live(self, max_rows: int) -> list[Row]:
        """The open rows: the line of the last calls and shown thinking, or the open block of the text."""
        chunk = self._segments.live(max_rows) if self._segments else None
        if chunk is not None:
            gap: list[Row] = [[]] if not self._begun and self._last else []
            return [*gap, *self._painter.chunk(chunk)][-max_rows:]
        rows = self._call_rows() + self._running_rows()
        room = {"off": 0, "peek": min(max_rows, _PEEK_ROWS), "on": max_rows}[self.think]
        if self._thought and room:
            rows += self._painter.text(self._tail[-room * self._painter.width :].strip(), "dim")[-room:]
        rows += self._dim(self._writing.lines(room) if room else [])
        gap = [[]] if rows and self._last not in ("", "note") else []  # as in its final form
        return [*gap, *rows][-max_rows:]

    def _running_rows(self) -> list[Row]:
        """The call under way and its last lines: `▸ running pytest -q · 12 s`; none before it printed something."""
        call, output = self._running.call, self._running.lines(_OUTPUT_ROWS)
        if call is None or not output:
            return []
        head = running_row(call, self._running.seconds, width=self._painter.width)
        return [*self._painter.text(head, "cyan"), *self._dim(output)]

    def _dim(self, lines: list[str]) -> list[Row]:
        """Lines from outside, two columns in, each on one row."""
        shown = (fitted(clean(f"  {line}"), self._painter.width) for line in lines)
        return [row for line in shown for row in self._painter.text(line, "dim")]

    def activity(self) -> str:
        """The activity: `"thinking · 4 s · 61 tokens"`; "" between turns."""
        if not self.busy:
            return ""
        if self._running.call:
            return f"{self._running.call.name} · {self._running.seconds:.0f} s"
        if self._thought:
            return f"thinking · {self._clock() - self._thought_since:.0f} s · {count(self._thought_tokens, 'token')}"
        if self._progress:
            summing_up = f"summing up older turns · {self.turn_s:.0f} s"
            return summing_up if self._progress.phase == "summary" else self._reading.text()
        if call := self._writing.text():
            return f"{call} · {self._writing.seconds:.0f} s"
        activity = "writing" if self._segments else "waiting"
        return f"{activity} · {self.turn_s:.0f} s · {count(self.tokens, 'token')}"
