"""What is drawn of a turn, from its events."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from ossia.agent.events import ToolOutput, ToolStarted, TurnEnded
from ossia.cli.chat.pager.items import Item
from ossia.cli.chat.view import ChatView, Think
from ossia.cli.clean import clean
from ossia.cli.runtime.failures import MAX_ROWS
from ossia.cli.terminal.markdown.paint import Painter
from ossia.harmony.messages import Delta
from ossia.tools.calls.results import REFUSED, REFUSED_AGAIN
from ossia.tools.python.tool import NO_OUTPUT
from ossia.tools.spec import Attachment, Preview, ToolCall, ToolFinished, ToolResult
from ossia.tools.work.result import formed
from tests.support.screen import Clock

HERE = Path("/home/user/project")
TESTS = '{"command": ["bash", "-lc", "pytest -q"], "timeout": 60000}'
TRACEBACK = "Traceback (most recent call last):\n  1/0\nZeroDivisionError: division by zero\n"


def view(
    width: int = 80, *, think: Think = "off", keys: bool = True, clock: Callable[[], float] = lambda: 0.0
) -> ChatView:
    made = ChatView(Painter(width), think=think, page=lambda cursor: None, clock=clock)
    made.keys = keys
    return made


def rows(view: ChatView) -> list[str]:
    """What is finished, and what is open."""
    return ["".join(segment.text for segment in row) for row in (*view.take(), *view.live(100))]


def called(name: str, arguments: str, result: str, *, error: bool = False, ms: int = 2000) -> ToolFinished:
    return ToolFinished(ToolCall("call_1", name, arguments), ToolResult(result, error=error), ms)


@pytest.mark.parametrize(
    ("call", "row"),
    [
        (called("python", "print(6*7)", "42\n"), "▸ python  print(6*7) · 2.0 s · 42"),
        (
            called("container.exec", '{"command": ["ls"]}', formed("a\nb\n", HERE)),
            "▸ container.exec  ls · 2.0 s · 2 lines, 3 bytes",
        ),
        (called("container.exec", TESTS, formed("3 passed\n", HERE)), "▸ container.exec  pytest -q · 2.0 s · 3 passed"),
        (
            called("container.exec", TESTS, formed("E  no\n1 failed\n", HERE, status=1), error=True),
            "✗ container.exec: exit status 1: 1 failed · pytest -q · 2.0 s",
        ),
        (
            called("repo_browser.print_tree", '{"path": "", "depth": 3}', formed("src/\n  a.py\n", HERE), ms=0),
            "▸ repo_browser.print_tree · 2 lines, 11 bytes",
        ),
        (called("container.exec", TESTS, formed("", HERE)), "▸ container.exec  pytest -q · 2.0 s · nothing"),
        (called("functions.shell", '{"command": "ls"}', "a\nb\n"), "▸ functions.shell  ls · 2.0 s · 2 lines, 4 bytes"),
        (called("python", "1/0", TRACEBACK, error=True), "✗ python: ZeroDivisionError: division by zero · 1/0 · 2.0 s"),
        (called("container.exec", "{}", REFUSED, error=True, ms=0), "✗ container.exec: refused · {}"),
        (called("container.exec", "{}", REFUSED_AGAIN, error=True, ms=0), "✗ container.exec: refused · {}"),
        (called("python", "1", "1", ms=49), "▸ python  1 · 1"),
        (called("python", "1", "1", ms=50), "▸ python  1 · 0.1 s · 1"),
        (called("python", "1/0", TRACEBACK, error=True, ms=49), "✗ python: ZeroDivisionError: division by zero · 1/0"),
        (called("python", "pass", ""), "▸ python  pass · 2.0 s · nothing"),
        (called("python", "pass", NO_OUTPUT), "▸ python  pass · 2.0 s · nothing"),
        (called("python", "log()", "[WARN] disk full\n"), "▸ python  log() · 2.0 s · [WARN] disk full"),
        (called("functions.sky", "{}", formed("fine", HERE)), "▸ functions.sky  {} · 2.0 s · 5 lines, 74 bytes"),
        (
            called("repo_browser.open_file", '{"path": "a.txt", "line_start": 3}', formed("x\n" * 400, HERE)),
            "▸ repo_browser.open_file  a.txt · 2.0 s · 400 lines, 799 bytes",
        ),
    ],
)
def test_a_call_is_one_row(call: ToolFinished, row: str) -> None:
    shown = view()
    shown.see(call)
    assert rows(shown) == [row]


def test_what_a_command_printed_in_our_form_is_shown_when_its_call_is_recalled() -> None:
    item = Item("call", name="container.exec", result=formed(formed("one", HERE), HERE), answered=True)
    item.said = ['{"command": ["cat", "log"]}']
    shown = view()
    shown.recall([item])
    assert rows(shown) == ["▸ container.exec  cat log · 5 lines, 73 bytes"]


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (80, "▸ repo_browser.open_file  src/names.py · 2.0 s · 60 lines, 119 bytes"),
        (50, "▸ repo_browser.open_file  src/names.py · 2.0 s"),
        (40, "▸ repo_browser.open_file  src/names.py"),
        (36, "▸ repo_browser.open_file · 2.0 s ·…"),
    ],
)
def test_on_a_narrow_screen_the_size_is_left_out_first_then_the_time(width: int, row: str) -> None:
    shown = view(width)
    shown.see(called("repo_browser.open_file", '{"path": "src/names.py"}', formed("a\n" * 60, HERE)))
    assert rows(shown) == [row]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_call_is_one_row_at_any_width(width: int) -> None:
    shown = view(width)
    shown.see(called("functions.a_long_name", "日本" * 300, "result " * 8))
    assert [cell_len(row) <= width for row in rows(shown)] == [True]


@pytest.mark.parametrize("width", [20, 50, 80, 120])
@pytest.mark.parametrize("reason", ["", "no", "word " * 60 + "end", "日本" * 900, "b" * 5000, "a\u202e\x1b[2J" * 50])
def test_a_failure_is_told_at_any_width(width: int, reason: str) -> None:
    """The reason first and wrapped; what is too long is counted."""
    shown = view(width)
    shown.see(called("x\ny", "日本" * 300, f"Error: {reason}", error=True))
    drawn = rows(shown)
    assert len(drawn) <= MAX_ROWS + 1 and all(cell_len(row) <= width for row in drawn)
    assert not any("\x1b" in row or "\u202e" in row for row in drawn)
    said = "".join(row.strip() for row in drawn).replace(" ", "")
    assert said.startswith("✗x␊y:")
    whole = clean(reason).replace(" ", "")
    assert whole in said or any(row.startswith("  … ") and " mor" in row for row in drawn)


SLOW = "https://a.test/" + "long/" * 30
PRIVATE = "10.0.0.1 isn't on the public internet; ossia started with --allow-host 10.0.0.1:80 opens it"


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (50, ["✗ browser.open: 10.0.0.1 isn't on the public", "  internet; ossia started with --allow-host",
              "  10.0.0.1:80 opens it", "  https://a.test/long/long/long/long/long/long/lo…"]),
        (120, [f"✗ browser.open: {PRIVATE}", f"  {SLOW[:117]}…"]),
    ],
)  # fmt: skip
def test_the_reason_stands_before_what_led_to_it(width: int, told: list[str]) -> None:
    shown = view(width)
    told_so = f"Error fetching URL `{SLOW}`: {PRIVATE}"
    shown.see(called("browser.open", f'{{"id": "{SLOW}"}}', told_so, error=True, ms=0))
    assert rows(shown) == told


def test_what_the_user_can_do_stands_below() -> None:
    shown = view(38)
    shown.fix = lambda done: f"ossia python setup {done.call.arguments.split()[-1]} installs it"
    shown.see(called("python", "import numpy", "ModuleNotFoundError: No module named 'numpy'", error=True, ms=0))
    assert rows(shown) == [
        "✗ python: ModuleNotFoundError: No",
        "  module named 'numpy' · import numpy",
        "  → ossia python setup numpy",
        "    installs it",
    ]


def think(shown: ChatView, index: int, tokens: int) -> None:
    for number in range(tokens):
        shown.see(Delta(index, f"w{number}\n" if number == 2 else f"w{number} ", channel="analysis"))


SHORT = "thought: " + " ".join(f"w{number}" for number in range(11))
LONG = ["w0 w1 w2", " ".join(f"w{number}" for number in range(3, 12))]
HEAD = "thought for 2.0 s · 12 tokens · Ctrl-O shows it"


@pytest.mark.parametrize(
    ("width", "how", "told"),
    [
        (50, "off", [HEAD]),
        (40, "off", ["thought for 2.0 s · Ctrl-O shows it"]),
        (20, "off", ["thought for 2.0 s"]),
        (80, "on", [SHORT, HEAD, *LONG]),
        (120, "peek", [HEAD]),
    ],
)
def test_a_thought_of_a_few_tokens_takes_a_line_only_where_thinking_is_shown(
    width: int, how: Think, told: list[str]
) -> None:
    clock = Clock()
    shown = view(width, think=how, clock=clock)
    think(shown, 0, 11)
    think(shown, 1, 12)
    clock.now += 2
    shown.see(Delta(2, "So.\n\n", channel="final"))
    assert rows(shown) == [*told, "", "So."]


@pytest.mark.parametrize(
    ("keys", "told"), [(True, "thought · 12 tokens · Ctrl-O shows it"), (False, "thought · 12 tokens")]
)
def test_of_a_thought_that_took_no_time_no_time_is_told_and_a_key_only_where_there_are_keys(
    keys: bool, told: str
) -> None:
    shown = view(keys=keys)
    think(shown, 0, 12)
    assert shown.activity() == ""  # no turn has begun
    shown.see(Delta(1, "Yes.", channel="final"))
    assert rows(shown) == [told, "", "Yes."]


def test_a_call_that_runs_shows_its_seconds_and_its_last_lines() -> None:
    clock = Clock()
    shown = view(30, clock=clock)
    shown.begin()
    shown.see(ToolStarted(ToolCall("call_1", "container.exec", TESTS), Preview("run")))
    clock.now += 12
    assert (rows(shown), shown.activity()) == ([], "container.exec · 12 s")
    shown.see(ToolOutput("call_1", "one\ntwo\n\x1b[31mthree\x1b[0m\n"))
    shown.see(ToolOutput("call_1", f"{'x' * 50}\n 10%\r 40%"))
    assert rows(shown) == ["▸ running pytest -q · 12 s", "  three", f"  {'x' * 27}…", "   40%"]
    shown.see(ToolOutput("call_1", "y" * 100_000_000))
    assert rows(shown) == ["▸ running pytest -q · 12 s", f"  {'y' * 27}…"]
    shown.see(called("container.exec", TESTS, formed("3 passed\n", HERE)))
    assert [row[:23] for row in rows(shown)] == ["▸ container.exec  pytes"]


@pytest.mark.parametrize(("think", "most"), [("off", 0), ("peek", 3), ("on", 9)])
def test_a_call_that_is_written_is_named_and_its_text_is_peeked_at(think: Think, most: int) -> None:
    clock = Clock()
    shown = view(30, think=think, clock=clock)
    shown.user("Go.")
    shown.begin()
    written = ["*** Begin Patch", "*** Add File: big.py", "+\x1b[2J", f"+{'x' * 40}", "+ä = 1"]
    text = json.dumps({"patch": "\n".join(written)}).removesuffix('"}')
    for at in range(0, len(text), 3):
        shown.see(Delta(0, text[at : at + 3], recipient="repo_browser.apply_patch", channel="analysis"))
    clock.now += 78
    assert shown.activity() == "writing big.py · line 3 · 78 s"
    lines = ["  *** Begin Patch", "  *** Add File: big.py", "  +␛[2J", f"  +{'x' * 26}…", "  +ä = 1"]
    assert rows(shown) == ["› Go.", *(["", *lines[-most:]] if most else [])]
    shown.see(called("repo_browser.apply_patch", text, "Success."))
    assert [row for row in rows(shown) if row.startswith("  ")] == []


@pytest.mark.parametrize("width", [50, 80, 120])
def test_calls_in_a_row_are_a_list_without_gaps(width: int) -> None:
    """Whatever was thought between them, and if one failed: only text stands apart."""
    shown = view(width, think="on")
    shown.user("Go.")
    for index in range(3):
        think(shown, 2 * index, 3)
        shown.see(Delta(2 * index + 1, f"print({index})", channel="analysis", recipient="python"))
        shown.see(called("python", f"print({index})", str(index)))
    shown.see(called("python", "1/0", TRACEBACK, error=True, ms=0))
    shown.see(called("python", "print(9)", "9"))
    shown.see(Delta(9, "So.\n\n", channel="final"))
    listed = [row for index in range(3) for row in ("thought: w0 w1 w2", f"▸ python  print({index}) · 2.0 s · {index}")]
    failed = "✗ python: ZeroDivisionError: division by zero"
    lines = [failed, "  1/0"] if width == 50 else [f"{failed} · 1/0"]
    assert rows(shown) == ["› Go.", "", *listed, *lines, "▸ python  print(9) · 2.0 s · 9", "", "So."]


READ = "repo_browser.open_file"


def read(*names: str, ms: int = 1000) -> list[ToolFinished]:
    return [called(READ, f'{{"path": "{name}"}}', f"{name}\nis read\n", ms=ms) for name in names]


@pytest.mark.parametrize(
    ("width", "calls", "row"),
    [
        (80, read("a.py", "b.py"), f"▸ {READ} ×2  a.py, b.py · 2.0 s · 4 lines, 26 bytes"),
        (80, read("a.py", "b.py", ms=0), f"▸ {READ} ×2  a.py, b.py · 4 lines, 26 bytes · Ctrl-O shows each"),
        (
            80,
            read("a.py", "b.py", "c.py", "long/name.py", "e.py"),
            f"▸ {READ} ×5  a.py, b.py, c.py, … · 5.0 s · 10 lines, 73 bytes",
        ),
        (50, read("a.py", "b.py", "c.py"), f"▸ {READ} ×3  a.py, b.py, … · 3.0 s"),
        (
            80,
            [called("python", f"print({one})", f"{one}\n") for one in (1, 2, 3)],
            "▸ python ×3  print(1), print(2), print(3) · 6.0 s · 1, 2, 3 · Ctrl-O shows each",
        ),
    ],
)
def test_calls_of_one_tool_in_a_row_become_one_line(width: int, calls: list[ToolFinished], row: str) -> None:
    """Thoughts of a few tokens don't part them; while the last one may get company, its line can still change."""
    shown = view(width)
    shown.user("Go.")
    for index, call in enumerate(calls):
        think(shown, index, 3)
        shown.see(call)
    assert [len(shown.take()), *rows(shown)] == [1, "", row]
    shown.note("Done.")
    assert rows(shown) == ["", row, "Done."]


def test_what_comes_between_calls_parts_them() -> None:
    """Another tool, a failure, an edit, a file that was made, a longer thought, what a command says."""
    shown = view(120)
    shown.user("Go.")
    for call in (*read("a", "b"), called("python", "1", "1"), *read("c"), called(READ, "{}", "Error: no", error=True)):
        shown.see(call)
    made = ToolResult("drawn", attachments=(Attachment(Path("/tmp/plot.png"), "image/png"),))
    for index in range(2):
        shown.see(ToolFinished(ToolCall(f"{index}", "python", "plot()"), made, 0))
    think(shown, 0, 12)
    shown.see(Delta(1, "{}", channel="commentary", recipient=READ))
    for call in read("d"):
        shown.see(call)
    shown.block(Painter(120).text("of /help"))
    for call in read("e", "f"):
        shown.see(call)
    shown.see(TurnEnded("answered"))
    one = f"▸ {READ}  {{}} · 1.0 s · 2 lines, 10 bytes"
    two = f"▸ {READ} ×2  {{}} · 2.0 s · 4 lines, 20 bytes · Ctrl-O shows each"
    assert rows(shown) == [
        *("› Go.", "", two.format("a, b"), "▸ python  1 · 2.0 s · 1", one.format("c")),
        f"✗ {READ}: no · {{}} · 2.0 s",
        *("▸ python  plot() · drawn", "  /tmp/plot.png") * 2,
        *("thought · 12 tokens · Ctrl-O shows it", one.format("d"), "", "of /help", "", two.format("e, f")),
    ]


def test_of_a_long_message_the_beginning_is_shown() -> None:
    shown = view(200)
    shown.user("Why? " * 200_000)
    drawn = rows(shown)
    assert len(drawn) < 25 and drawn[0].startswith("› Why? Why?")
    assert drawn[-1].endswith("… (1,000,000 characters in all)")


def test_thinking_that_is_shown_stands_where_its_line_will_stand() -> None:
    shown = view(think="on")
    shown.user("Why?")
    shown.see(Delta(0, "Hm, why.", channel="analysis"))
    live = ["".join(segment.text for segment in row) for row in shown.live(10)]
    assert live == ["", "Hm, why."]
    assert [len(shown.live(rows)) for rows in (1, 2, 10)] == [1, 2, 2]
    shown.see(Delta(1, "So.", channel="final"))
    assert rows(shown) == ["› Why?", "", "thought: Hm, why.", "", "So."]
