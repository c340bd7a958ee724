"""A pager in this process: keys through a pipe, the screen in a terminal emulator. Nothing sleeps.

    async with PagerScreen(transcript, columns=80, rows=24) as stage:
        await stage.press("pageup", "/", "x", "enter")
        stage.display, stage.foot
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from prompt_toolkit.input import create_pipe_input

from ossia.cli.chat.pager.pager import Pager
from ossia.cli.chat.pager.transcript import Transcript
from ossia.cli.terminal.markdown.paint import Painter
from tests.support.screen import Terminal

KEYS = {
    "up": "\x1b[A", "down": "\x1b[B", "pageup": "\x1b[5~", "pagedown": "\x1b[6~", "home": "\x1b[H", "end": "\x1b[F",
    "enter": "\r", "tab": "\t", "s-tab": "\x1b[Z", "space": " ", "escape": "\x1b", "c-c": "\x03", "c-o": "\x0f",
}  # fmt: skip
TIMEOUT_S = 30.0


class PagerScreen:
    """A running pager. `press` returns once the keys are taken and what came of them is drawn."""

    def __init__(
        self, transcript: Transcript, *, columns: int = 80, rows: int = 24, colour: bool = True, poll_s: float = 0.001
    ) -> None:
        self.terminal = Terminal(columns, rows)
        self.pager = Pager(transcript, Painter(columns, colour=colour, links=False))
        self._poll_s = poll_s
        self._pipe = create_pipe_input()
        self._pressed = 0

    async def __aenter__(self) -> PagerScreen:
        self.keys = self._pipe.__enter__()
        run = self.pager.run(output=self.terminal.output, input=self.keys, poll_s=self._poll_s)
        self.task = asyncio.create_task(run)
        await self.until(lambda: self.pager._app is not None and self.terminal.display[-1])
        self.app = self.pager._app
        assert self.app is not None
        self.app.key_processor.after_key_press += self._count
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if not self.task.done():
                self.keys.send_text("q" if kind is None else "\x03\x03")
            await asyncio.wait_for(self.task, TIMEOUT_S)
        finally:
            self._pipe.__exit__(kind, error, trace)

    async def press(self, *keys: str) -> None:
        """Press keys by name (`"pageup"`) or as they are typed (`"/"`)."""
        before = self._pressed
        for key in keys:
            self.keys.send_text(KEYS.get(key, key))
        await self.until(lambda: self._pressed - before >= len(keys) or self.task.done())
        await self.drawn()

    async def drawn(self) -> None:
        """Wait until the screen shows the transcript as it is now."""
        app, transcript = self.app, self.pager.view.transcript
        assert app is not None
        await self.until(
            lambda: self.task.done() or (self.pager._drawn == transcript.version and not app.invalidated)
        )

    async def resize(self, columns: int, rows: int) -> None:
        """Make the terminal another size."""
        assert self.app is not None
        self.terminal.resize(columns, rows)
        self.app._on_resize()
        await self.until(lambda: self.pager.view.painter.width == columns or self.task.done())
        await self.drawn()

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds; fails after half a minute, with what is on screen."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not holds():
                    if self.task.done():
                        self.task.result()
                    await asyncio.sleep(0.001)  # 0 would keep the loop busy, and drawing waits until it isn't
        except TimeoutError:
            raise AssertionError("waited in vain; the screen:\n" + "\n".join(self.terminal.display)) from None

    @property
    def display(self) -> list[str]:
        """The rows above the foot line, without the empty ones at the end."""
        rows = self.terminal.display[:-1]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def foot(self) -> str:
        return self.terminal.display[-1].strip()

    def _count(self, sender: object) -> None:
        self._pressed += 1
