"""The screen alone: what it draws and prints for panes that are given, in a terminal emulator."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from rich.segment import Segment

from ossia.cli.terminal.input.editor import Editor
from ossia.cli.terminal.input.typed import Typed
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.question import Question, QuestionPane
from ossia.cli.terminal.screen import Screen
from ossia.cli.terminal.vt import Output, rewraps
from tests.support.screen import Terminal

BEGIN, END = "\x1b[?2026h", "\x1b[?2026l"


def row(text: str) -> Row:
    return [Segment(text)]


class Shown:
    """Panes that show what a test puts there. What is called `broken` raises."""

    def __init__(self) -> None:
        self.finished: list[Row] = []
        self.open: list[Row] = []
        self.doing: list[Row] = []
        self.animated = False
        self.frames = 0
        self.broken = ""

    def frame(self) -> list[Row]:
        self.frames += 1
        self._maybe("frame")
        rows, self.finished = self.finished, []
        return rows

    def live(self, max_rows: int) -> list[Row]:
        self._maybe("live")
        return self.open

    def activity(self) -> list[Row]:
        self._maybe("activity")
        return self.doing

    def farewell(self) -> list[Row]:
        return []

    def bottom(self) -> Row:
        self._maybe("bottom")
        return row("bottom")

    def _maybe(self, name: str) -> None:
        if self.broken == name:
            raise ValueError(f"{name} is broken\x1b[2J\nindeed")


class FaultyPainter(Painter):
    """A painter that can't make `broken`: ansi or fragments."""

    broken = ""

    def ansi(self, row: Row) -> str:
        if self.broken == "ansi":
            raise ValueError("no ansi")
        return super().ansi(row)

    def fragments(self, rows: list[Row]) -> list[tuple[str, str]]:
        if self.broken == "fragments":
            raise ValueError("no fragments")
        return super().fragments(rows)


class Stage:
    """A screen that runs, its panes, its terminal."""

    def __init__(self, columns: int, rows: int, *, rewraps: bool, keys: KeyBindings, input: Any) -> None:
        self.terminal = Terminal(columns, rows, rewraps=rewraps)
        self.panes, self.painter = Shown(), FaultyPainter(columns)
        self.sent: list[Typed] = []
        self.now = 0.0
        self.editor = Editor(self.sent.append)
        self.question = QuestionPane(self.painter, self.editor, clock=lambda: self.now)
        self.screen = Screen(
            self.panes, self.editor, self.question, self.painter,
            keys=keys, input=input, output=self.terminal.output, frame_s=0,
        )  # fmt: skip

    async def show(self, *finished: str, live: list[str] | None = None) -> None:
        self.panes.finished += [row(text) for text in finished]
        if live is not None:
            self.panes.open = [row(text) for text in live]
        self.screen.wake()
        await self.drawn()

    async def drawn(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        async with asyncio.timeout(20):
            while not self.screen.settled:
                await asyncio.sleep(0.001)  # 0 would keep the loop busy, and drawing waits until it isn't

    async def resize(self, columns: int, rows: int) -> None:
        self.terminal.resize(columns, rows)
        self.screen.app._on_resize()
        await self.drawn()


@asynccontextmanager
async def showing(
    columns: int = 40, rows: int = 10, *, rewraps: bool = False, keys: KeyBindings | None = None
) -> AsyncIterator[Stage]:
    """A running screen; leaves at the end and raises what `run` raises."""
    with create_pipe_input() as pipe:
        stage = Stage(columns, rows, rewraps=rewraps, keys=keys or KeyBindings(), input=pipe)
        stage.pipe = pipe  # type: ignore[attr-defined]
        task = stage.task = asyncio.create_task(stage.screen.run())  # type: ignore[attr-defined]
        await stage.drawn()
        try:
            yield stage
        finally:
            stage.screen.leave()
            async with asyncio.timeout(20):
                await task


def test_finished_rows_are_printed_once_and_the_open_ones_replaced() -> None:
    async def case() -> None:
        async with showing() as stage:
            await stage.show("one", live=["two (half)"])
            assert stage.terminal.rows == ["one", "two (half)", "›", "bottom"]
            await stage.show("two", live=["thr"])
            await stage.show(live=["three"])
            assert stage.terminal.rows == ["one", "two", "three", "›", "bottom"]
            for number in range(30):
                await stage.show(f"row {number}", live=[f"row {number + 1}, half"])
            assert stage.terminal.rows[2:] == [*(f"row {n}" for n in range(30)), "row 30, half", "›", "bottom"]

    asyncio.run(case())


def test_each_change_is_one_write_and_one_frame() -> None:
    async def case() -> None:
        async with showing() as stage:
            stage.terminal.sent.clear()
            await stage.show("one", "two", live=["three"])
            (sent,) = stage.terminal.sent
            assert sent.startswith(BEGIN) and sent.endswith(END)
            assert sent.index("one") < sent.index("two") < sent.index("three") < sent.index("bottom")

    asyncio.run(case())


def test_the_terminal_is_never_asked_and_never_cleared_at_once() -> None:
    """`CSI 6n` is answered into the input; `CSI J` in the first row makes tmux keep the live rows as history."""

    async def case() -> None:
        async with showing() as stage:
            await stage.show("one", live=["two"])
            await stage.resize(60, 12)
            await stage.show(live=[])
        everything = "".join(stage.terminal.sent)
        assert "\x1b[6n" not in everything and "\x1b[J" not in everything and "\x1b[0J" not in everything
        assert "\x1b[2J" not in everything and "\x1b[?1049h" not in everything

    asyncio.run(case())


def test_what_became_smaller_leaves_no_hole() -> None:
    async def case() -> None:
        async with showing() as stage:
            await stage.show("one", live=["a", "b", "c"])
            await stage.show(live=["a"])
            assert stage.terminal.rows == ["one", "a", "›", "bottom"]
            stage.pipe.send_text("x\x1b\ry\x1b\rz")  # type: ignore[attr-defined]
            await stage.drawn()
            assert stage.terminal.rows == ["one", "a", "› x", "  y", "  z", "bottom"]
            stage.editor.clear()
            await stage.show()
            assert stage.terminal.rows == ["one", "a", "›", "bottom"]

    asyncio.run(case())


@pytest.mark.parametrize(
    ("columns", "rows", "shown"),
    [
        (40, 10, ["live 95", "live 96", "live 97", "live 98", "live 99", "", "busy", "›", "bottom"]),
        (40, 5, ["live 98", "live 99", "", "busy", "›", "bottom"][1:]),
        (40, 4, ["", "busy", "›", "bottom"]),
        (40, 3, ["busy", "›", "bottom"]),
        (40, 2, ["›", "bottom"]),
        (10, 1, ["›"]),
    ],
)
def test_more_than_the_screen_holds(columns: int, rows: int, shown: list[str]) -> None:
    """The end of it is shown, the input line in any case; nothing of it ever gets into the history."""

    async def case() -> None:
        async with showing(columns, rows) as stage:
            stage.panes.doing = [[], row("busy")]
            for last in (50, 70, 100):
                await stage.show(live=[f"live {number}" for number in range(last)])
            assert stage.terminal.rows == shown
            assert stage.terminal.history == []
            await stage.show("done", live=[])
            assert (stage.terminal.history + stage.terminal.display).count("done") == 1

    asyncio.run(case())


@pytest.mark.parametrize("part", ["live", "activity", "bottom", "ansi", "fragments"])
def test_a_fault_in_a_drawing_is_told_once_and_the_chat_goes_on(part: str) -> None:
    async def case() -> None:
        async with showing(rows=12) as stage:
            await stage.show("one", live=["two"])
            stage.panes.broken = stage.painter.broken = part
            await stage.show("three", live=["four"])
            await stage.show(live=["five"])
            assert any("a part can't be shown" in line for line in stage.terminal.rows)
            stage.panes.broken = stage.painter.broken = ""
            await stage.show("six", live=["seven"])
            text = "\n".join(stage.terminal.rows)
            assert text.count("a part can't be shown (ValueError: ") == 1
            assert part in ("ansi", "fragments") or "is broken␛[2J indeed)" in "".join(stage.terminal.sent)
            assert [line for line in stage.terminal.rows if line in ("one", "three", "six", "seven", "bottom")] == [
                "one", "three", "six", "seven", "bottom",
            ]  # fmt: skip
            assert str(stage.screen.drawing_fault).startswith((part, "no "))
        assert "\x1b[2J" not in "".join(stage.terminal.sent)

    asyncio.run(case())


def _in_a_frame(stage: Stage) -> None:
    stage.panes.broken = "frame"
    stage.screen.wake()


def _in_a_task(stage: Stage) -> None:
    async def broken() -> None:
        raise ValueError("the task is broken")

    stage.screen.app.create_background_task(broken())


def _in_a_callback(stage: Stage) -> None:
    def broken() -> None:
        raise ValueError("the callback is broken")

    asyncio.get_running_loop().call_soon(broken)


def _in_a_key(stage: Stage) -> None:
    stage.pipe.send_text("\x14")  # type: ignore[attr-defined]


@pytest.mark.parametrize("fault", [_in_a_frame, _in_a_task, _in_a_callback, _in_a_key])
def test_any_other_fault_ends_it_with_the_terminal_as_it_was(fault: Callable[[Stage], None]) -> None:
    async def case() -> None:
        keys = KeyBindings()

        @keys.add("c-t")
        def _(event: object) -> None:
            raise ValueError("the key is broken")

        stages = []
        with pytest.raises(ValueError, match="is broken"):
            async with showing(keys=keys) as stage:
                stages.append(stage)
                await stage.show("one", live=["two"])
                assert stage.terminal.modes == {"cursor", "focus", "paste", "wrap"}
                fault(stage)
                await asyncio.wait([stage.task], timeout=20)  # type: ignore[attr-defined]
        terminal = stages[0].terminal
        assert terminal.modes == {"cursor", "wrap"}
        assert terminal.rows == (["one"] if fault is _in_a_frame else ["one", "two"])
        assert "ENTER" not in "".join(terminal.sent)

    asyncio.run(case())


def test_what_is_open_at_the_end_is_printed_as_it_stands() -> None:
    async def case() -> None:
        async with showing(rows=6) as stage:
            await stage.show("one", live=[f"live {n}" for n in range(8)])
        assert stage.terminal.rows == ["one", *(f"live {n}" for n in range(8))]
        assert not stage.screen.interrupted

    asyncio.run(case())


def test_while_another_has_the_terminal_rows_wait() -> None:
    async def case() -> None:
        async with showing() as stage:
            async with stage.screen.aside():
                before = len(stage.terminal.sent)
                await stage.show("meanwhile", live=["open"])
                assert len(stage.terminal.sent) == before and stage.panes.frames > 1
            await stage.drawn()
            assert stage.terminal.rows == ["meanwhile", "open", "›", "bottom"]

    asyncio.run(case())


def test_leaving_ends_whoever_has_the_terminal() -> None:
    async def case() -> None:
        ended = asyncio.Event()
        async with showing() as stage:

            async def guest() -> None:
                try:
                    async with stage.screen.aside():
                        await asyncio.sleep(60)
                finally:
                    ended.set()

            stage.screen.app.create_background_task(guest())
            await stage.show("meanwhile")
            assert stage.screen.away
        assert ended.is_set() and stage.terminal.rows == ["meanwhile"]

    asyncio.run(case())


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_leaves_and_is_its_owners_again(name: str) -> None:
    number = getattr(signal, name)
    seen: list[int] = []

    async def case() -> None:
        async with showing() as stage:
            await stage.show("one")
            os.kill(os.getpid(), number)
            await asyncio.wait([stage.task], timeout=20)  # type: ignore[attr-defined]
            assert stage.screen.interrupted and stage.terminal.modes == {"cursor", "wrap"}
        os.kill(os.getpid(), number)
        await asyncio.sleep(0)

    before = signal.signal(number, lambda number, frame: seen.append(number))
    try:
        asyncio.run(case())
    finally:
        signal.signal(number, before)
    assert seen == [number]


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_an_interrupt_from_outside_is_a_key() -> None:
    async def case() -> None:
        keys, seen = KeyBindings(), asyncio.Event()
        keys.add("<sigint>")(lambda event: seen.set())
        async with showing(keys=keys) as stage:
            await stage.show("one")
            os.kill(os.getpid(), signal.SIGINT)
            async with asyncio.timeout(20):
                await seen.wait()
            assert not stage.screen.interrupted

    asyncio.run(case())


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_signal_that_was_ignored_stays_so() -> None:
    async def case() -> None:
        async with showing() as stage:
            os.kill(os.getpid(), signal.SIGHUP)
            await stage.show("one")
            assert stage.terminal.rows[0] == "one" and not stage.screen.interrupted

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        asyncio.run(case())
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_input_that_is_closed_ends_it() -> None:
    async def case() -> None:
        async with showing() as stage:
            stage.pipe.close()  # type: ignore[attr-defined]
            await asyncio.wait([stage.task], timeout=20)  # type: ignore[attr-defined]
            assert stage.screen.interrupted

    asyncio.run(case())


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_terminal_that_is_gone_takes_nothing_and_ends_it() -> None:
    async def case() -> None:
        async with showing() as stage:

            def gone(text: str) -> None:
                raise OSError(errno.EIO, "Input/output error")

            stage.terminal.output.stdout._take = gone  # type: ignore[attr-defined]
            await stage.show("one")
            assert stage.terminal.output.gone
            await asyncio.wait([stage.task], timeout=20)  # type: ignore[attr-defined]
            assert stage.screen.interrupted

    asyncio.run(case())


def test_a_full_disk_behind_stdout_is_not_a_closed_terminal() -> None:
    def full(text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    output = Terminal(40, 10).output
    output.stdout._take = full  # type: ignore[attr-defined]
    output.write("x")
    with pytest.raises(OSError, match="No space left"):
        output.flush()


def test_an_open_block_leaves_room_for_the_rows_that_narrowing_makes_of_it() -> None:
    async def case() -> None:
        async with showing(60, 20, rewraps=True) as stage:
            await stage.show(live=[f"open {number:02} {'x' * 48}" for number in range(30)])
            for columns in (40, 60, 33):
                await stage.resize(columns, 20)
            await stage.show(*(f"row {number:02}" for number in range(30)), live=[])
            kept = "\n".join(stage.terminal.rows)
            assert "open" not in kept
            assert [kept.count(f"row {number:02}") for number in range(30)] == [1] * 30

    asyncio.run(case())


@pytest.mark.parametrize("rewrapping", [True, False])
def test_a_narrower_terminal_keeps_no_stale_rows(rewrapping: bool) -> None:
    async def case() -> None:
        async with showing(60, 20, rewraps=rewrapping) as stage:
            stage.panes.doing = [[], row("busy " * 10)]
            await stage.show("one", live=["open " * 10 + "漢字", "again " * 9])
            for columns, rows in ((53, 20), (25, 20), (50, 18), (20, 16), (60, 20)):
                await stage.resize(columns, rows)
            stage.terminal.resize(30, 20)  # and nobody has told us yet
            await stage.show("one and a half")
            stage.terminal.resize(20, 20)
            await stage.show(live=["open " * 10 + "漢字"])
            stage.terminal.resize(60, 20)
            await stage.show(live=["open", "again"])
            stage.panes.doing = []
            await stage.show("two")
            assert stage.terminal.rows == ["one", "one and a half", "two", "open", "again", "›", "bottom"]

    asyncio.run(case())


def test_while_rows_change_the_cursor_waits_above_them_and_is_back_for_who_types_or_is_asked() -> None:
    async def case() -> None:
        async with showing() as stage:
            stage.panes.animated = True
            await stage.show("one", live=["two", "three"])
            assert stage.terminal.cursor == (1, 0) and "cursor" not in stage.terminal.modes
            stage.pipe.send_text("x")  # type: ignore[attr-defined]
            await stage.drawn()
            assert stage.terminal.cursor == (3, 3) and "cursor" in stage.terminal.modes
            stage.editor.clear()
            await stage.show()
            assert "cursor" not in stage.terminal.modes
            async with stage.screen.aside():
                assert "cursor" in stage.terminal.modes
            stage.question.ask(Question("container.exec: run ls"), print)
            await stage.show()
            assert "cursor" in stage.terminal.modes
        assert "cursor" in stage.terminal.modes

    asyncio.run(case())


def test_a_terminal_that_tells_late_of_its_size_keeps_no_row_that_still_changes() -> None:
    async def case() -> None:
        async with showing(60, 12, rewraps=True) as stage:
            stage.panes.animated = True
            await stage.show(*(f"row {number}" for number in range(9)), live=[f"open {number}" for number in range(5)])
            for columns, rows in ((60, 6), (30, 12), (60, 4)):
                stage.terminal.resize(columns, rows)
                stage.panes.open[0] = row(f"open {rows}")
                await stage.show()
            stage.terminal.resize(60, 24)
            await stage.show(live=["open"])
            assert stage.terminal.rows == [*(f"row {number}" for number in range(9)), "open", "›", "bottom"]

    asyncio.run(case())


def test_what_is_typed_and_what_is_asked_stay_on_a_small_screen() -> None:
    async def case() -> None:
        async with showing(40, 10) as stage:
            stage.question.ask(Question("container.exec: run ls", "it can run code", "ls -l"), print)
            await stage.show(live=[f"live {n}" for n in range(30)])
            stage.pipe.send_text("typed")  # type: ignore[attr-defined]
            await stage.drawn()
            text = "\n".join(stage.terminal.display)
            assert "container.exec: run ls" in text and "[y] yes" in text and "› typed" in text and "live 29" in text
            assert stage.terminal.history == []

    asyncio.run(case())


def test_a_key_that_follows_another_is_no_answer() -> None:
    async def case() -> None:
        async with showing() as stage:
            answers: list[str] = []
            stage.question.ask(Question("container.exec: run ls"), lambda key, reason: answers.append(key))
            await stage.show()
            stage.now += 10  # it was long on screen
            stage.pipe.send_text("xy")  # type: ignore[attr-defined]
            await stage.drawn()
            assert answers == [] and stage.editor.text == "xy"
            stage.now += 10
            stage.pipe.send_text("y")  # type: ignore[attr-defined]
            await stage.drawn()
            assert answers == [] and stage.editor.text == "xyy"  # while there is text, letters belong to it
            stage.pipe.send_text("\x15")  # type: ignore[attr-defined]
            await stage.drawn()
            stage.now += 10
            stage.pipe.send_text("y")  # type: ignore[attr-defined]
            await stage.drawn()
            assert answers == ["y"] and stage.editor.text == ""

    asyncio.run(case())


def test_many_wakings_are_one_frame() -> None:
    async def case() -> None:
        async with showing() as stage:
            frames = stage.panes.frames
            for _ in range(1000):
                stage.screen.wake()
            await stage.drawn()
            assert stage.panes.frames == frames + 1

    asyncio.run(case())


def test_the_title_is_given_back() -> None:
    async def case() -> None:
        async with showing() as stage:
            stage.screen.title("ossia: idle")
            assert stage.terminal.title == "ossia: idle"
            stage.screen.title(f"x\x9c\x1b]52;c;y\x07\u202e{'z' * 200}")
            assert stage.terminal.title == f"x\ufffd␛]52;c;y␇{'z' * 87}…"
        everything = "".join(stage.terminal.sent)
        assert everything.count("\x1b[22;2t") == everything.count("\x1b[23;2t") == 1
        assert everything.index("\x1b[22;2t") < everything.index("ossia: idle") < everything.index("\x1b[23;2t")

    asyncio.run(case())


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "xterm"}, False),
        ({"TERM": "xterm", "VTE_VERSION": "7600"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "alacritty"}, True),
        ({"TERM": "screen.xterm-256color", "STY": "1.pts"}, False),
        ({"TERM": "screen-256color", "TMUX": "/tmp/tmux", "STY": "1.pts"}, True),
        ({"TERM": "tmux-256color"}, True),
        ({"TERM": "linux"}, False),
        ({"TERM": "eterm-color"}, False),
        ({"TERM": "xterm-256color", "INSIDE_EMACS": "29.1,vterm"}, False),
        ({}, False),
    ],
)
def test_which_terminals_wrap_anew(environ: dict[str, str], expected: bool) -> None:
    assert rewraps(environ) is expected


def test_an_output_without_a_descriptor_is_not_gone() -> None:
    assert isinstance(Terminal(40, 10).output, Output) and not Terminal(40, 10).output.gone


_Case = Coroutine[Any, Any, None]
