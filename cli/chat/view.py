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
    TurnEnd,
    TurnEnded,
)
from ossia.agent.kinds import is_answer
from ossia.cli.chat.call_rows import CallRows
from ossia.cli.chat.pager.items import Item
from ossia.cli.chat.summary_rows import beginning, recalled, thought_row
from ossia.cli.clean import clean, clean_parts, one_line
from ossia.cli.footnotes import lines
from ossia.cli.runtime.activity import Reading
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter
from ossia.cli.words import ENDS, count, thinking_cut
from ossia.harmony.messages import ANALYSIS, is_call

Think = Literal["off", "on", "peek"]
"""The display of thinking: "off", one line about it; "on", all of it; "peek", its last rows."""
Block = Literal["user", "note", "text", ""]
"""The kind of the last rows: a blank row stands between two kinds, and between two texts."""

_PEEK_ROWS = 3
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
        self.calls = CallRows(painter, clock)
        self._progress: Progress | None = None
        self._reading = Reading(clock)
        self._turn_since = 0.0
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
                    self._add("user", self._painter.echo(recalled(self.fold(item.text), keys=self.calls.keys)))
                case "thinking":
                    self._thought_row("thought", item.tokens)
                case "preamble" | "answer":
                    self._write(item.text, cited=item.kind == "answer")
                    self._close_message()
                case "call":
                    self._called(item.finished(), past=True)
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
        self.calls.see(event)
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
            case ToolFinished():
                self._called(event)
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
            self.note(thought_row(thought, tokens, keys=self.calls.keys, width=self._painter.width), "dim italic")

    def _called(self, done: ToolFinished, *, past: bool = False) -> None:
        if rows := self.calls.add(done, past=past):
            self._add("note", rows, closes=False)
        for attachment in done.result.attachments:
            self.note(f"  {attachment.path}")

    def _close_calls(self) -> None:
        if rows := self.calls.close():
            self._add("note", rows)

    def _ended(self, end: TurnEnd, error: Exception | None) -> None:
        self._close_message()
        self._close_calls()
        self.context_tokens = None
        self._progress, self.busy = None, False
        if error is not None:
            self.note(" ".join(str(error).split()), "red")
        elif end != "answered":
            self.note(f"{ENDS[end]}; /retry asks again" if end in ("silent", "loop") else ENDS[end], "yellow")

    def _add(self, block: Block, rows: list[Row], *, closes: bool = True) -> None:
        """Add rows, behind a blank one if another kind of block ends. `closes`: the open row of calls ends."""
        if closes:
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
        rows = self.calls.open() + self.calls.running()
        room = {"off": 0, "peek": min(max_rows, _PEEK_ROWS), "on": max_rows}[self.think]
        if self._thought and room:
            rows += self._painter.text(self._tail[-room * self._painter.width :].strip(), "dim")[-room:]
        rows += self.calls.written(room) if room else []
        gap = [[]] if rows and self._last not in ("", "note") else []  # as in its final form
        return [*gap, *rows][-max_rows:]

    def activity(self) -> str:
        """The activity: `"thinking · 4 s · 61 tokens"`; "" between turns."""
        if not self.busy:
            return ""
        if of_call := self.calls.activity():
            return of_call
        if self._thought:
            return f"thinking · {self._clock() - self._thought_since:.0f} s · {count(self._thought_tokens, 'token')}"
        if self._progress:
            summing_up = f"summing up older turns · {self.turn_s:.0f} s"
            return summing_up if self._progress.phase == "summary" else self._reading.text()
        activity = "writing" if self._segments else "waiting"
        return f"{activity} · {self.turn_s:.0f} s · {count(self.tokens, 'token')}"
