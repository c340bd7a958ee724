"""An input line in this process: keys through a pipe, the screen in an emulator. Nothing sleeps: `until` waits.

    async with EditorStage() as stage:
        await stage.type("hello\\r")
        await stage.until(lambda: stage.sent)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import HSplit, Layout

from ossia.cli.terminal.input.editor import Editor
from ossia.cli.terminal.input.keys import key_parser
from ossia.cli.terminal.input.typed import Typed
from tests.support.screen import Terminal

TIMEOUT_S = 20.0
PASTE = "\x1b[200~{}\x1b[201~"


class EditorStage:
    """An editor in an application of its own. `options` are the Editor's; `sent` is what was sent, in order."""

    def __init__(self, *, columns: int = 80, rows: int = 24, vi: bool = False, **options: Any) -> None:
        self.terminal = Terminal(columns, rows)
        self.sent: list[Typed] = []
        self.notes: list[str] = []
        self.interrupts = 0
        self._options, self._vi = options, vi
        self._pipe = create_pipe_input()

    async def __aenter__(self) -> EditorStage:
        self.keys = self._pipe.__enter__()
        self.editor = Editor(self.sent.append, note=self.notes.append, **self._options)
        self.app: Application[None] = Application(
            layout=Layout(HSplit([self.editor.container]), focused_element=self.editor.window),
            key_bindings=self._bindings(),
            editing_mode=EditingMode.VI if self._vi else EditingMode.EMACS,
            output=self.terminal.output,
            input=self.keys,
        )
        key_parser(self.keys)
        self.app.ttimeoutlen, self.app.timeoutlen = 0.01, 0.05
        self._task = asyncio.create_task(self.app.run_async(handle_sigint=False))
        await self.until(lambda: self.app.is_running)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.app.is_running:
            self.app.exit()
        try:
            await asyncio.wait_for(self._task, TIMEOUT_S)
        finally:
            self._pipe.__exit__(kind, error, trace)

    def _bindings(self) -> KeyBindings:
        from prompt_toolkit.key_binding import merge_key_bindings

        chat = KeyBindings()

        @chat.add("c-c")
        def _(event: object) -> None:
            self.interrupts += 1

        return merge_key_bindings([self.editor.keys, chat])  # type: ignore[return-value]

    async def type(self, *texts: str) -> None:
        """Press keys, and wait until each text has been taken in."""
        for text in texts:
            writing = threading.Thread(target=self.keys.send_text, args=(text,))  # more than a pipe holds would block
            writing.start()
            while writing.is_alive():
                await asyncio.sleep(0.001)
            for _ in range(20):
                await asyncio.sleep(0)

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait until something holds; fails after half a minute, with what is on screen."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while not holds():
                    if self._task.done():
                        self._task.result()
                    await asyncio.sleep(0.001)
        except TimeoutError:
            raise AssertionError("waited in vain; the screen:\n" + "\n".join(self.terminal.display)) from None

    async def shows(self, *rows: str) -> None:
        """Wait until the screen holds exactly these rows, without blanks at their ends."""
        await self.until(lambda: self.rows == list(rows))

    @property
    def rows(self) -> list[str]:
        return self.terminal.rows

    @property
    def text(self) -> str:
        return self.editor.text
