"""The output on stdout: the answer, or one of the two documented exceptions to it (`--raw`, `--json`)."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TextIO

from ossia.agent.engine.base import Forced
from ossia.agent.events import Delta, Event, MessageAdded, Progress, Stats
from ossia.agent.kinds import is_answer
from ossia.agent.turn import Tapped
from ossia.cli.clean import clean
from ossia.cli.oneshot.lines import Lines
from ossia.cli.oneshot.report import Report
from ossia.cli.streams import stdout
from ossia.cli.terminal.links import knows_links
from ossia.cli.words import FORCED, json_line
from ossia.harmony.codec import Codec

if TYPE_CHECKING:
    from ossia.agent.citations import Citations
    from ossia.agent.conversation import OpenSession


class Sink(Protocol):
    """The terminal's side of an answer."""

    def write(self, text: str) -> None:
        """Take more of a message."""

    def tick(self) -> None:
        """Draw what is due, if anything is."""

    def pause(self) -> None:
        """Leave the terminal's line, since something else is about to be written there."""

    def end(self) -> None:
        """Write the rest of the message."""


class _AsWritten:
    """A message as it was written, cleaned."""

    def __init__(self) -> None:
        self._in_line = False  # the cursor is at the end of an unfinished line

    def write(self, text: str) -> None:
        stdout().write(clean(text))
        stdout().flush()
        self._in_line = not text.endswith("\n")

    def tick(self) -> None:
        """Does nothing: all is written."""

    def pause(self) -> None:
        if self._in_line:
            stdout().write("\n")
            stdout().flush()
            self._in_line = False

    end = pause


class Answer:
    """The answer: into a pipe exactly, at the end; on a terminal as it comes, its Markdown drawn, or `plain`.

    Like the other two, it sees the events of a turn; `finish` writes what is still owed, however the turn ended.
    Citations in it become numbers, with their footnotes below it. `before` is called before any of it is written, so
    that a live line can leave the terminal; `report` knows the pages that can be cited. `stream` False: all of it comes
    at the end. `file`: a stream to write to, other than stdout.
    """

    def __init__(
        self, report: Report, *, before: Callable[[], None], plain: bool, stream: bool, file: TextIO | None = None
    ) -> None:
        self._out = file or stdout()
        self._drawn = self._out.isatty() and report.schema is None and report.extract is None
        self._streams = self._drawn and stream  # half a structured answer, or half a program, is useless
        self._before, self._plain = before, plain
        self._report = report
        self._citations: Citations | None = None
        self._sink: Sink | None = None  # of the message that is open
        self._index = -1  # of the message that the last delta belongs to

    def see(self, event: Event | Tapped) -> None:
        if not self._streams:
            return
        if isinstance(event, Delta):
            if not is_answer(event) or event.index != self._index:
                self._end()
            self._index = event.index
            if is_answer(event):
                self._write(self._cited(event.text) if event.text else "")
        elif isinstance(event, MessageAdded | Stats):
            self._end()
        elif isinstance(event, Progress):
            self.pause()

    def tick(self) -> None:
        """Draw, if a frame is due: the end of the answer may wait for it."""
        if self._sink:
            self._sink.tick()

    def pause(self) -> None:
        """Leave the terminal's line, since something else is about to be written to the terminal."""
        if self._sink:
            self._sink.pause()

    def finish(self, report: Report) -> None:
        if self._streams:
            self._end()
            notes = self._citations.notes if self._citations else ()
        else:
            answer, notes = report.cited_answer if report.extract is None else (report.extracted, ())
            if answer is not None and self._drawn:
                self._write(answer)
                self._end()
            elif answer is not None:
                safe = str if not self._out.isatty() else clean if report.schema is None else _escaped
                self._out.write(safe(answer if report.extract else answer.rstrip("\n") + "\n"))
        if notes:
            from ossia.cli.footnotes import lines

            links = self._drawn and knows_links(os.environ)
            self._out.write("\n" + "".join(f"{line}\n" for line in lines(notes, links=links)))
        self._out.flush()

    def _cited(self, text: str) -> str:
        """The text with its citations numbered; an unfinished citation is held back."""
        if self._citations is None and "【" in text:
            from ossia.agent.citations import Citations

            self._citations = Citations(self._report.page)
        return self._citations.feed(text) if self._citations else text

    def _write(self, text: str) -> None:
        if text or self._sink:
            self._before()  # also while a citation is held back: a live line would be drawn over the answer
        if text:
            self._sink = self._sink or self._new_sink()
            self._sink.write(text)

    def _new_sink(self) -> Sink:
        if self._plain:
            return _AsWritten()
        from ossia.cli.oneshot.drawn import Drawn

        return Drawn(live=self._streams)

    def _end(self) -> None:
        """End the open message."""
        rest = self._citations.finish() if self._citations else ""
        if rest:
            self._write(rest)
        if self._sink:
            self._before()
            self._sink.end()
            self._sink = None


def _escaped(text: str) -> str:
    """The same JSON, safe for a terminal: control characters in its strings are escaped."""
    return "".join(char if clean(char) == char else json.dumps(char)[1:-1] for char in text)


class Raw:
    """The Harmony stream as the engine gives it, with the results of the tools where the model reads them.

    On a terminal, ⟨ and ⟩ enclose what the guide forced; into a pipe goes the exact stream.
    """

    def __init__(self) -> None:
        self._marks = stdout().isatty()
        self._forced = False
        self._clean = clean if stdout().isatty() else str
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.codec: Codec | None = None

    def see(self, event: Event | Tapped) -> None:
        if isinstance(event, Tapped):
            self._write(event.ids)
        elif isinstance(event, MessageAdded) and event.message.role == "tool" and self.codec:
            self._write(tuple(self.codec.render([event.message]).ids))

    def tick(self) -> None:
        """Does nothing."""

    def finish(self, report: Report) -> None:
        if self.codec is None:  # no model was loaded: there is no stream
            return
        mark = FORCED[1] if self._forced else ""
        stdout().write(self._decoder.decode(b"", final=True) + mark + "\n")
        stdout().flush()

    def _write(self, ids: tuple[int, ...]) -> None:
        assert self.codec is not None
        token_bytes = self.codec.tokenizer.token_bytes
        forced = self._marks and isinstance(ids[-1] if ids else 0, Forced)
        mark = "" if forced == self._forced else FORCED[0] if forced else FORCED[1]
        self._forced = forced
        text = self._decoder.decode(b"".join(token_bytes(i) or b"\xef\xbf\xbd" for i in ids))
        stdout().write(mark + self._clean(text))
        stdout().flush()


class Json:
    """One line about the whole turn; with `lines`, the result of `--jsonl`."""

    def __init__(
        self, lines: Lines | None = None, opened: OpenSession | None = None, file: TextIO | None = None
    ) -> None:
        self._lines, self._opened, self._file = lines, opened, file

    def see(self, event: Event | Tapped) -> None:
        """Does nothing: the report has everything."""

    def tick(self) -> None:
        """Does nothing."""

    def finish(self, report: Report) -> None:
        if self._lines:
            opened = self._opened
            session_id = opened.stored_id if opened and opened.session.entries else None
            self._lines.write(report.result(session_id=session_id, exit_code=int(report.code)))
        else:
            line = json_line(report.to_json(), in_file=self._file is not None)
            print(line, file=self._file or stdout(), flush=True)
