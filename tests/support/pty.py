"""A command in a pseudo-terminal of its own, and what its screen shows. Nothing sleeps: `until` waits.

with PtyChat("--engine", script) as chat:
    chat.until("›")
    chat.press("hello\r")
    chat.idle()
    chat.rows
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pexpect
from pexpect.fdpexpect import fdspawn

from tests.support.command import OSSIA
from tests.support.emulator import Emulator, Stream
from tests.support.fork_server import ForkedInTerminal, can_fork, request_of, send
from tests.support.started import FORKED

TIMEOUT_S = 60.0
IDLE = "ossia: idle"
"""The terminal's title when nothing runs and the model is there."""
ASKED = b"\x1b[>q\x1b[c"
"""Who are you? XTVERSION and DA1."""


class PtyChat:
    """A running `ossia`, or `command`. `environ` is added to ours; TERM is xterm-256color unless it says otherwise.

    `name`: what the terminal says that it is, when it is asked; without one it gives no answer. `started`: started, not
    forked, as `tests.support.command.ossia` has it.
    """

    def __init__(
        self,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
        name: str | None = None,
        started: bool = False,
    ) -> None:
        self.sent = b""
        self._name = name
        self._screen = Emulator(columns, rows)
        self._shown: list[str] | None = None  # as text, since the last bytes
        self._stream = Stream(self._screen)
        self._env = {**os.environ, "TERM": "xterm-256color", **(environ or {})}
        self._begin([*(command or [str(OSSIA)]), *arguments], columns, rows, started=started or command is not None)

    def _begin(self, command: Sequence[str], columns: int, rows: int, *, started: bool) -> None:
        (program, *given), env = command, self._env
        request = request_of(command, env, terminal=True)
        self.child: Any
        if not started and can_fork(request, env):
            self.child = ForkedInTerminal(request, rows, columns)
        else:
            self.child = pexpect.spawn(
                program,
                given,
                env=env,  # type: ignore[arg-type]
                dimensions=(rows, columns),
                timeout=TIMEOUT_S,  # type: ignore[arg-type]
                echo=True,
            )

    def then(self, *arguments: str) -> None:
        """When a command has ended, run another one on the same screen."""
        self.child.close()
        self._begin([str(OSSIA), *arguments], self._screen.columns, self._screen.lines, started=False)

    def show(self, text: str) -> None:
        """Write a line to the screen, as the shell that runs the commands."""
        self._stream.feed(f"{text}\r\n".encode())
        self._shown = None

    def __enter__(self) -> PtyChat:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self.child, ForkedInTerminal):
            self.child.close()
        elif not self.child.closed:
            self.child.close(force=True)

    @property
    def pid(self) -> int:
        return int(self.child.pid)

    @property
    def title(self) -> str:
        return str(self._screen.title)

    @property
    def display(self) -> list[str]:
        """The rows on screen."""
        if self._shown is None:
            self._shown = self._screen.shown
        return [*self._shown]

    @property
    def rows(self) -> list[str]:
        """All rows, history first, without the empty ones at the end."""
        rows = [*self._screen.gone, *self.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def cooked(self) -> bool:
        """Is the terminal as a shell wants it: echo, line by line, signals by keys, pasting plainly, a cursor?"""
        import termios

        flags = termios.tcgetattr(self.child.child_fd)[3]
        wanted = termios.ECHO | termios.ICANON | termios.ISIG
        modes = self._screen.mode
        return flags & wanted == wanted and 2004 << 5 not in modes and 25 << 5 in modes and 7 << 5 in modes

    @property
    def _whole_frame(self) -> bool:
        """Has all of the last frame come? A pseudo-terminal hands out 4 kB at a time: till then it may stand erased."""
        return self.sent.rfind(b"\x1b[?2026h") <= self.sent.rfind(b"\x1b[?2026l")

    def press(self, keys: str) -> None:
        """Type: `"hello\\r"`, `"\\x03"` for Ctrl-C."""
        self.child.send(keys)

    def read(self, wait_s: float = 0.05) -> bool:
        """Take in what has come; False at the end of it."""
        if not select.select([self.child.child_fd], [], [], wait_s)[0]:
            return True
        try:
            data = os.read(self.child.child_fd, 65536)
        except OSError:
            return False
        self.sent += data
        self._shown = None
        self._stream.feed(data)
        if self._name and ASKED in data:
            self.press(f"\x1bP>|{self._name}\x1b\\\x1b[?62;22c")
        return bool(data)

    def until(self, what: str | Callable[[], object], timeout_s: float = TIMEOUT_S) -> float:
        """Wait until the screen holds a text, or something holds; the seconds that took. Only whole frames count."""
        shows = what if callable(what) else lambda: what in "\n".join(self.display)
        begin = time.perf_counter()

        def holds() -> bool:
            return self._whole_frame and bool(shows())

        while not holds():
            more = self.read()
            if not holds() and (not more or time.perf_counter() - begin > timeout_s):
                raise AssertionError(f"waited in vain for {what!r}; the screen:\n" + self.text)
        return time.perf_counter() - begin

    def idle(self) -> float:
        """Wait until nothing runs; the seconds that took."""
        return self.until(lambda: self.title == IDLE)

    def over(self, quiet_s: float = 5.0) -> None:
        """Wait until a turn is over, by the bytes alone: the emulator would need most of a core.

        Its title says so, or nothing has come for a while (what runs is animated): a turn can be over before the
        screen is drawn once, and then its title never changed.
        """
        while IDLE.encode() not in self.sent and select.select([self.child.child_fd], [], [], quiet_s)[0]:
            data = os.read(self.child.child_fd, 65536)
            self.sent = self.sent[-4096:] + data
            if not data:
                return

    def resize(self, columns: int, rows: int) -> None:
        """Make the window another size. What stands on screen here is no longer what a terminal would show."""
        self.child.setwinsize(rows, columns)
        self._screen.resize(rows, columns)
        self._shown = None

    def signal(self, number: int) -> None:
        send(self.pid, number)

    def wait(self) -> int:
        """The exit code, when it has ended and everything is read; minus the number of a signal that killed it."""
        while self.read():
            if not self.child.isalive() and not select.select([self.child.child_fd], [], [], 0)[0]:
                break
        self.child.wait()
        code, killed = self.child.exitstatus, self.child.signalstatus
        return int(code) if code is not None else -int(killed or 0)

    def plain(self) -> str:
        """Everything that was written, without its escape sequences."""
        return re.sub(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[78])", "", self.sent.decode("utf-8", "replace"))

    def hang_up(self) -> None:
        """Close the terminal, as a window that is closed."""
        if isinstance(self.child, ForkedInTerminal):
            self.child.hang_up()
            return
        self.child.ptyproc.fileobj.close()
        self.child.closed = self.child.ptyproc.closed = True


class Spawned(fdspawn):
    """A forked command on a pseudo-terminal, with those of `pexpect.spawn`'s methods that tests use."""

    def __init__(self, terminal: ForkedInTerminal, encoding: str | None) -> None:
        self._terminal = terminal
        super().__init__(terminal.child_fd, timeout=TIMEOUT_S, encoding=encoding)  # type: ignore[arg-type]

    def sendcontrol(self, char: str) -> None:
        self._terminal.send(chr(ord(char) & 31))

    def sendintr(self) -> None:
        self.sendcontrol("c")

    def close(self) -> None:
        """Hang up; what has closed its end already is waited for. Then `exitstatus` is there."""
        if self.flag_eof:
            self._terminal.wait()
        self._terminal.close()
        self.closed, self.child_fd = True, -1
        self.exitstatus, self.signalstatus = self._terminal.exitstatus, self._terminal.signalstatus


def spawn(
    *arguments: str,
    columns: int = 80,
    environ: Mapping[str, str] | None = None,
    encoding: str | None = "utf-8",
    cwd: Path | None = None,
) -> Any:
    """`ossia` on a pseudo-terminal of 24 rows, as `pexpect.spawn` gives it; forked where that can be."""
    env = {**os.environ, **(environ or {})}
    request = request_of([str(OSSIA), *arguments], env, cwd, terminal=True)
    if can_fork(request, env):
        FORKED.append(terminal := ForkedInTerminal(request, 24, columns))
        return Spawned(terminal, encoding)
    size, given = (24, columns), list(arguments)
    return pexpect.spawn(str(OSSIA), given, TIMEOUT_S, env=env, encoding=encoding, cwd=cwd, dimensions=size)  # type: ignore[arg-type]
