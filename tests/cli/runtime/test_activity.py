"""How far something slow is, in words."""

from __future__ import annotations

import io

import pytest

from ossia.agent.events import Delta, MessageAdded, Progress, ToolFinished, ToolOutput, ToolStarted
from ossia.cli.chat.view import ChatView
from ossia.cli.runtime.activity import Activity, Reading, loading_words, worded
from ossia.cli.runtime.progress import Display, LiveLine
from ossia.cli.terminal.markdown.paint import Painter
from ossia.harmony.messages import Message
from ossia.tools.host import Loading, Notice
from ossia.tools.spec import Preview, ToolCall, ToolResult


class Clock:
    """Seconds that pass when they are told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("left_s", "said"), [(None, "x · 1 of 2"), (24, "x · 1 of 2 · 24 s"), (99, "x · 1 of 2 · 99 s"),
                         (100, "x · 1 of 2 · 1 min 40 s")],
)  # fmt: skip
def test_words(left_s: int | None, said: str) -> None:
    assert worded("x", "1 of 2", left_s) == said


def test_words_of_a_load() -> None:
    assert loading_words(Loading("reading the model", 0.43, 7)) == "reading the model · 43 % · 7 s"
    assert loading_words(Loading("asking the server")) == "asking the server"


def test_what_builds_is_shown() -> None:
    display = Display()
    display.report(Loading("reading the model", 0.43, 7))
    assert display.line.text == "reading the model · 43 % · 7 s"
    display.report(Loading(""))
    assert display.line.text == ""


def test_what_builds_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    notices = Notice("note", "using étude"), Notice("warning", "it is large"), Notice("detail", "context 4,096")
    for verbose, details in ((True, "context 4,096\n"), (False, "")):
        display = Display(verbose=verbose)
        for notice in notices:
            display.report(notice)
        assert capsys.readouterr().err == f"ossia: using étude\nossia: warning: it is large\n{details}"


def test_reading_a_prompt() -> None:
    """What the cache holds isn't read; a second prompt begins anew."""
    clock = Clock()
    reading = Reading(clock)
    assert reading.text() == ""
    reading.see(Progress(100, 1733, 100))
    assert reading.text() == "reading the prompt · 0 of 1,633"
    clock.now += 4
    reading.see(Progress(140, 1733, 100))
    assert reading.text() == "reading the prompt · 40 of 1,633 · 2 min 40 s"
    reading.see(Progress(164, 1733, 100))
    assert reading.text() == "reading the prompt · 64 of 1,633 · 99 s"
    reading.see(Progress(0, 50))
    assert reading.text() == "reading the prompt · 0 of 50"


def test_a_live_line_asks_each_time() -> None:
    stream, texts = io.StringIO(), iter(["one", "", "three"])
    line = LiveLine(stream, shown=True)
    line.set(lambda: next(texts))
    line.tick()
    assert stream.getvalue().endswith(" one")
    assert line.text == "" and line.text == "three"


def test_the_chat_says_the_same() -> None:
    clock = Clock()
    view = ChatView(Painter(80), think="off", page=lambda cursor: None, clock=clock)
    view.begin()
    view.see(Progress(0, 633))
    clock.now += 5
    view.see(Progress(100, 633))
    assert view.activity() == "reading the prompt · 100 of 633 · 27 s"


def test_each_activity_is_said_until_the_next_one() -> None:
    clock = Clock()
    activity = Activity(clock)
    assert activity.text() == "waiting"
    assert activity.see(Progress(212, 633))
    assert activity.text() == "reading the prompt · 212 of 633"
    activity.see(Progress(1, 90, phase="summary"))
    assert activity.text() == "summing up older turns · 1 token"
    activity.see(Delta(0, "Hm", channel="analysis"))
    assert activity.text() == "thinking · 1 token"
    assert not activity.see(MessageAdded(Message("assistant", ("Hm",), channel="analysis")))
    activity.see(Delta(1, "Yes", channel="final"))
    assert activity.text() == "writing · 2 tokens"
    activity.see(Delta(2, "import sys\nprint(", channel="analysis", recipient="python"))
    clock.now += 3
    assert activity.text() == "writing python · line 2 · 3 s"
    call = ToolCall("1", "python", "1")
    activity.see(ToolStarted(call, Preview("Run Python: 1")))
    assert activity.text() == "running Python: 1 · 0 s"
    clock.now += 12
    activity.see(ToolOutput("1", "one\n 10%\r"))
    activity.see(ToolOutput("1", " 40%"))
    assert activity.text() == "running Python: 1 · 12 s ·  40%"
    activity.see(ToolFinished(call, ToolResult("40%"), 12_000))
    assert activity.text() == "running Python: 1"
    activity.see(Progress(40, 100, reused=40))
    assert activity.text() == "reading the prompt · 0 of 60"
