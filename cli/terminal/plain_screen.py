"""A screen of plain lines: for a terminal that can't move its cursor (`TERM=dumb`), an editor's shell, a screen reader.

Lines are read as the terminal gives them; finished rows are printed as they come, without a single escape sequence.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TextIO

from ossia.cli import streams
from ossia.cli.terminal.input.typed import Typed, block_is_open, without_quotes
from ossia.cli.terminal.keyboard import without_sequences
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.question import EXPLAIN, Question
from ossia.cli.terminal.screen_base import Panes, ScreenBase
from ossia.cli.terminal.vt import terminal_size
from ossia.cli.visible import seen, seen_line
from ossia.cli.words import reason_in

PROMPT = "> "
_FRAME_S = 0.1


class PlainQuestion:
    """A printed question, answered by a line."""

    def __init__(self, say: Callable[[str], None], ask: Callable[[], None]) -> None:
        self._say, self._ask = say, ask
        self._question: Question | None = None
        self._answered: Callable[[str, str], object] = lambda key, reason: None

    @property
    def open(self) -> bool:
        """Is a question waiting for its answer?"""
        return self._question is not None

    def ask(self, question: Question, answered: Callable[[str, str], object]) -> None:
        """Print the question; the next line answers it, but none typed before it was shown."""
        self._question, self._answered = question, answered
        parts = (question.title, question.reason, question.fault)
        self._say("\n".join(seen_line(part) for part in parts if part))
        if question.detail:
            self._say(seen(question.detail, question.language).removesuffix("\n"))
        self._ask()

    def withdraw(self) -> None:
        """Drop the question, unanswered."""
        self._question = None

    @property
    def prompt(self) -> str:
        """`[y] yes  [n] no, or n REASON: `"""
        assert self._question is not None
        question = self._question
        named = {key: seen_line(word) for key, word in question.keys}
        named |= {"n": f"{named['n']}, or n REASON"} if question.refusable else {}
        named |= {EXPLAIN: "explain"} if question.explanation else {}
        return "  ".join(f"[{key}] {word}" for key, word in named.items()) + ": "

    def take(self, line: str) -> None:
        """Take a line as the answer. If it is none, say what would be: the question stays."""
        assert self._question is not None
        question, answer = self._question, line.strip().lower()
        key = next((key for key, word in question.keys if answer in (key, word.lower())), None)
        reason = reason_in(line) if question.refusable else ""
        if key is not None or reason:
            self._question = None
            self._answered(key or "n", reason)
        elif answer == EXPLAIN and question.explanation:
            self._say(seen(question.explanation))
        else:
            self._say(f"answer {', '.join(key for key, _ in question.keys)}")


class PlainScreen(ScreenBase):
    """`Screen` in plain lines. `submit` gets each line, `interrupt` is Ctrl-C.

    screen = PlainScreen(panes, painter, submit=chat.submit, interrupt=chat.interrupt)
    await screen.run()                 # until screen.leave(), the end of the input, SIGTERM or SIGHUP
    """

    def __init__(
        self,
        panes: Panes,
        painter: Painter,
        *,
        submit: Callable[[Typed], None],
        interrupt: Callable[[], object],
        stdin: int = 0,
        stdout: TextIO | None = None,
    ) -> None:
        super().__init__(panes, painter)
        self._submit, self._interrupt = submit, interrupt
        self._stdin, self._stdout = stdin, stdout or streams.stdout()
        self.question = PlainQuestion(self._print, self._forget_input)
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._prompted = False
        self._here = threading.Event()  # cleared while another program has the terminal
        self._here.set()
        self._typed = b""
        self._lines: list[str] = []  # of a block that is still open
        self._echoed = ""  # a line that the terminal shows already

    # -- for the chat --------------------------------------------------------------------------------------------------

    @property
    def away(self) -> bool:
        """Does another program have the terminal now?"""
        return not self._here.is_set()

    async def run(self) -> None:
        """Read and print until `leave`. Raises what a callback on the loop raised."""
        async with self._on_loop({"SIGINT": self._interrupt}):
            threading.Thread(target=self._read, daemon=True).start()
            self.wake()
            await self._ended.wait()

    def leave(self) -> None:
        """End `run`."""
        self._ended.set()

    def commit(self, rows: Sequence[Row]) -> None:
        """Print rows."""
        texts = ["".join(segment.text for segment in row).rstrip() for row in rows]
        for text in self._without_echo(texts):
            self._print(text)

    def bell(self) -> None:
        """Ring, even here: a bell is no escape sequence."""
        self._write("\a")

    @asynccontextmanager
    async def aside(self) -> AsyncIterator[None]:
        """Leave the terminal to another program inside the block; rows committed meanwhile come after it."""
        self._here.clear()
        try:
            yield
        finally:
            self._here.set()
            self.wake()

    def create_background_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it on the loop; a fault in it ends the chat."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_over)
        return task

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read whole lines of the terminal, on a thread of its own. Not through sys.stdin: that has a lock."""
        data = b"-"
        while data and self._loop is not None:
            try:
                while not self._is_ours():
                    pass
                data = os.read(self._stdin, 65536)
            except OSError:
                data = b""
            loop = self._loop
            if loop is not None:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._take, data)

    def _is_ours(self) -> bool:
        """Wait for something to read. False: it was for an editor, and may be read by now."""
        if os.name == "posix":
            select.select([self._stdin], [], [])
        ours = self._here.is_set()
        self._here.wait()
        return ours

    def _take(self, data: bytes) -> None:
        if self._loop is None:
            return
        if not data:
            self._end_line()
            self.leave()
            return
        *lines, self._typed = (self._typed + data).split(b"\n")
        for line in lines:
            self._prompted = False
            self._take_line(without_sequences(line.decode("utf-8", "replace").removesuffix("\r")))
        self.wake()

    def _take_line(self, line: str) -> None:
        if self.question.open:
            self.question.take(line)
            return
        self._lines.append(line)
        text = "\n".join(self._lines)
        if block_is_open(text):
            return
        if line.endswith("\\") and not line.endswith("\\\\"):
            self._lines[-1] = line[:-1]
            return
        self._lines = []
        said = without_quotes(text)
        if said.strip():
            self._echoed = "" if self._panes.animated else said
            self._submit(Typed(said, said, literal=said != text.rstrip()))

    def _forget_input(self) -> None:
        """Drop the lines typed before a question was shown: they don't answer it."""
        self._typed = b""
        with suppress(ImportError, OSError, ValueError):
            import termios

            with suppress(termios.error):
                termios.tcflush(self._stdin, termios.TCIFLUSH)

    # -- printing ------------------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if self._loop is not None:
            self._loop.call_later(_FRAME_S, self._frame)

    def _frame(self) -> None:
        self._scheduled = False
        if self._loop is None or self.away:
            return
        self.painter.width = terminal_size().columns
        self.commit(self._panes.frame())
        if self.question.open:
            self._prompt(self.question.prompt)
        elif not self._panes.animated:
            self._prompt("" if self._lines else PROMPT)

    def _prompt(self, text: str) -> None:
        if not self._prompted:
            self._prompted = True
            self._write(text)

    def _print(self, text: str) -> None:
        self._end_line()
        self._write(f"{text}\n")

    def _end_line(self) -> None:
        if self._prompted:
            self._prompted = False
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._stdout.write(text)
            self._stdout.flush()
        except OSError:  # whoever read it is gone
            self.interrupted = True
            self.leave()

    def _without_echo(self, texts: list[str]) -> list[str]:
        """The texts without the sent line: the terminal has shown it already."""
        if not self._echoed:
            return texts
        shown = ["".join(part.text for part in row).rstrip() for row in self.painter.echo(self._echoed)]
        for at in range(len(texts) - len(shown) + 1):
            if texts[at : at + len(shown)] == shown:
                self._echoed = ""
                return [*texts[:at], *texts[at + len(shown) :]]
        return texts

    # -- the end of it -------------------------------------------------------------------------------------------------

    def _last_words(self) -> None:
        for task in self._tasks:
            task.cancel()
        with suppress(Exception):
            self.commit([*self._panes.frame(), *self._panes.farewell()])
        self._end_line()

    def _task_over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._on_fault(task.exception())
