"""A chat in this process: keys through a pipe, our output into a terminal emulator. Nothing sleeps: `settle` waits.

    async with ChatScreen(engine=script, columns=80, rows=24) as stage:
        await stage.type("hello\r")
        await stage.settle()
        stage.rows                      # what the terminal holds, history first, without trailing blanks
"""

from __future__ import annotations

import asyncio
import datetime
import io
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, cast

import pyte
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input

from ossia.cli import paths
from ossia.cli.chat.app import finish, run
from ossia.cli.chat.chat import Chat
from ossia.cli.chat.screen_face import ScreenFace
from ossia.cli.runtime.session import Resume, open_session
from ossia.cli.settings.workspace import resolve_with_folder
from ossia.cli.terminal.vt import Output
from tests.support.emulator import Rows

TIMEOUT_S = 30.0


class Terminal:
    """A terminal emulator that our output is written into; `sent` is every write to it, as text.

    `rewraps`: rows that are too long after a `resize` become several, as in most terminals but xterm.
    """

    def __init__(self, columns: int, rows: int, *, rewraps: bool = False) -> None:
        self.size = Size(rows=rows, columns=columns)
        self._screen = Rows(columns, rows)
        self._held: tuple[list[str], list[str]] | None = None  # as text, since the last write
        self._stream = pyte.Stream(self._screen)
        self._rewraps = rewraps
        self.sent: list[str] = []
        self.output = Output(cast(Any, _Sink(self._write)), lambda: self.size, term="xterm-256color", rewraps=rewraps)

    def _write(self, text: str) -> None:
        self.sent.append(text)
        self._held = None
        self._stream.feed(text)

    def resize(self, columns: int, rows: int) -> None:
        """Make the terminal another size. What doesn't fit any more goes into the history; nothing comes back."""
        screen, old = self._screen, self._screen.lines
        self._held = None
        cells = [screen.buffer[y] for y in range(old)]
        y, x, kept = screen.cursor.y, screen.cursor.x, []
        at = (y, x)
        for number, line in enumerate(cells):
            used = max((n + 1 for n, char in line.items() if char.data != " "), default=0)
            pieces = max(1, -(-used // columns)) if self._rewraps else 1
            if number == y:
                inside = min(x // columns, pieces - 1) if self._rewraps else 0
                at = (len(kept) + inside, min(x - inside * columns, columns - 1))
            kept += [{n - start: line[n] for n in sorted(line) if start <= n < start + columns}
                     for start in range(0, pieces * columns, columns)]  # fmt: skip
        while len(kept) > rows and len(kept) - 1 > at[0]:
            kept.pop()
        gone = max(0, len(kept) - rows)
        screen.resize(rows, columns)
        blank = type(cells[0])
        default = cells[0].default
        for number, line in enumerate(kept):
            row = blank(default)
            row.update(line)
            if number < gone:
                screen.history.append(row)
            else:
                screen.buffer[number - gone] = row
        for number in range(len(kept) - gone, rows):
            screen.buffer.pop(number, None)
        screen.cursor.y, screen.cursor.x = at[0] - gone, at[1]
        self.size = Size(rows=rows, columns=columns)

    def forget(self) -> None:
        """Drop the history, and what was sent: a test of memory must not measure the emulator's."""
        self._screen.history.clear()
        self.sent.clear()
        self._held = None

    @property
    def cursor(self) -> tuple[int, int]:
        """Row and column, from 0."""
        return self._screen.cursor.y, self._screen.cursor.x

    @property
    def modes(self) -> frozenset[str]:
        """What is on of `cursor` (shown), `focus` (reported), `paste` (bracketed), `wrap` (at the right edge)."""
        on = self._screen.mode
        names = {"cursor": 25 << 5, "focus": 1004 << 5, "paste": 2004 << 5, "wrap": 7 << 5}
        return frozenset(name for name, mode in names.items() if mode in on)

    @property
    def title(self) -> str:
        return str(self._screen.title)

    @property
    def history(self) -> list[str]:
        """The rows that have scrolled away."""
        return [*self._texts()[0]]

    @property
    def display(self) -> list[str]:
        """The rows on screen."""
        return [*self._texts()[1]]

    @property
    def rows(self) -> list[str]:
        """All rows, without the empty ones at the end."""
        rows = [*self.history, *self.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _texts(self) -> tuple[list[str], list[str]]:
        self._held = self._held or (self._screen.gone, self._screen.shown)
        return self._held


class _Sink(io.StringIO):
    """A stdout that is a terminal."""

    encoding = "utf-8"

    def __init__(self, write: Callable[[str], None]) -> None:
        super().__init__()
        self._take = write

    @property
    def buffer(self) -> _Sink:  # type: ignore[override]
        return self

    def write(self, data: str | bytes) -> int:
        self._take(data.decode("utf-8", "replace") if isinstance(data, bytes) else data)
        return len(data)

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise io.UnsupportedOperation


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class ChatScreen:
    """A running chat and its terminal. The flags are those of `ossia`; `engine` defaults to none given.

    `loaded=False`: it isn't waited for the model. `frame_s`: seconds between two frames, 0: one for each event.
    `clock`: the chat's, e.g. a `Clock`: a question listens half a second after it was shown. `today`: its date.
    """

    def __init__(
        self,
        *,
        columns: int = 80,
        rows: int = 24,
        resume: Resume | None = None,
        loaded: bool = True,
        frame_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime.date] = datetime.date.today,
        **flags: object,
    ) -> None:
        self.terminal = Terminal(columns, rows)
        self._loaded, self._frame_s, self._clock, self._today = loaded, frame_s, clock, today
        self._resume = resume or Resume()
        self._flags: Mapping[str, object] = {"no_tools": True, "model": "etude", **flags}
        self._pipe = create_pipe_input()

    async def __aenter__(self) -> ChatScreen:
        self.keys = self._pipe.__enter__()
        flags = {name: value for name, value in self._flags.items() if value is not None}
        resolved, folder = resolve_with_folder(flags)
        kept = open_session(resolved, folder, resume=self._resume)
        host = replace(paths.host(), now=lambda: datetime.datetime.combine(self._today(), datetime.time()))
        self.talk = Chat(resolved, folder, kept, host, face=self._face, clock=self._clock)
        self._task = asyncio.create_task(run(self.talk))
        await self.until(lambda: any(row.startswith("ossia ") for row in self.rows) or self._task.done())
        if self._loaded:
            await self.until(lambda: self.talk.loaded is not None or self._task.done())
            await self.settle()
        return self

    def _face(self, talk: Chat) -> ScreenFace:
        self.face = ScreenFace(
            talk, input=self.keys, output=self.terminal.output, frame_s=self._frame_s, clock=self._clock
        )
        return self.face

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.talk.leave()
        try:
            await asyncio.wait_for(self._task, TIMEOUT_S)
        finally:
            self._pipe.__exit__(kind, error, trace)
            finish(self.talk)

    async def type(self, text: str) -> None:
        """Press keys: `"hello\\r"`, `"\\x03"` for Ctrl-C."""
        self.keys.send_text(text)
        for _ in range(20):
            await asyncio.sleep(0)

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds; fails after half a minute, with what is on screen."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not holds():
                    if self._task.done() and not self._task.cancelled() and self._task.exception():
                        raise cast(BaseException, self._task.exception())
                    await asyncio.sleep(0.002)
        except TimeoutError:
            raise AssertionError("waited in vain; the screen:\n" + "\n".join(self.terminal.display)) from None

    async def resize(self, columns: int, rows: int) -> None:
        """Make the terminal another size, as its window does."""
        self.terminal.resize(columns, rows)
        self.face.screen.app._on_resize()
        await asyncio.sleep(0)

    async def settle(self) -> None:
        """Wait until no turn runs, nothing waits, and everything is drawn."""
        await self.until(
            lambda: self.talk.control is None
            and not self.talk.outbox.queue
            and not self.talk.conversation.worker.busy
            and (self.talk.conversation.turn is None or self.talk.conversation.turn.over)
            and self.face.screen.settled
        )

    @property
    def rows(self) -> list[str]:
        return self.terminal.rows


def chatting(case: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Play a case to its end, on a loop of its own."""
    asyncio.run(case())
