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
from ossia.tools.spec import CHANGED, Attachment, Preview, ToolCall, ToolFinished, ToolResult
from ossia.tools.work._diff import unified
from ossia.tools.work.result import formed
from tests.support.screen import Clock

HERE = Path("/home/user/project")
TESTS = '{"command": ["bash", "-lc", "pytest -q"], "timeout": 60000}'
LISTS = '{"command": ["ls", "-l"]}'
READ = "repo_browser.open_file"
VIEW = "**viewing lines [0 - 2] of 40**\n\nL0: \nL1: URL: http://a.test/capy\n"
PAGE = f"[1] Capy — facts (http://a.test/capy)\n{VIEW}L2: Hi"
HITS = f"[0] capy\n{VIEW}L2: # Search Results\nL3: \nL4:   * 【0†A†a】 b\nL5:   * c"
FOUND = f"[2] Find results for text: `swim` in `Capy` (x)\n{VIEW}L2: # 【0†match at L3】\nL3: swims"
TRACEBACK = "Traceback (most recent call last):\n  1/0\nZeroDivisionError: division by zero\n"


def view(
    width: int = 80, *, think: Think = "off", keys: bool = True, clock: Callable[[], float] = lambda: 0.0
) -> ChatView:
    made = ChatView(Painter(width), think=think, page=lambda cursor: None, clock=clock)
    made.calls.keys = keys
    return made


def rows(view: ChatView) -> list[str]:
    """What is finished, and what is open."""
    return ["".join(segment.text for segment in row) for row in (*view.take(), *view.live(100))]


def called(name: str, arguments: str, result: str, *, error: bool = False, ms: int = 2000) -> ToolFinished:
    return ToolFinished(ToolCall("call_1", name, arguments), ToolResult(result, error=error), ms)


def command(output: str, *, status: int = 0, line: str = "pytest -q") -> ToolFinished:
    arguments = json.dumps({"command": ["bash", "-lc", line], "timeout": 60000})
    return called("container.exec", arguments, formed(output, HERE, status=status), error=status != 0)


@pytest.mark.parametrize(
    ("call", "drawn"),
    [
        (called("python", "print(6*7)", "42\n"), ["▸ ran Python: print(6*7) · 42 · 2.0 s"]),
        (called("python", "pass", NO_OUTPUT), ["▸ ran Python: pass · 2.0 s"]),
        (called("python", "log()", "[WARN] disk full\n"), ["▸ ran Python: log() · [WARN] disk full · 2.0 s"]),
        (called("python", "1", "1", ms=999), ["▸ ran Python: 1 · 1"]),
        (called("python", "1/0", TRACEBACK, error=True),
         ["✗ Run Python: 1/0 · ZeroDivisionError: division by zero · 2.0 s"]),
        (command("a\nb\n"), ["▸ ran pytest -q · exit 0 · 2.0 s", "    a", "    b"]),
        (command("3 passed\n"), ["▸ ran pytest -q · exit 0 · 3 passed · 2.0 s"]),
        (command(""), ["▸ ran pytest -q · exit 0 · 2.0 s"]),
        (command("\n".join(map(str, range(34)))),
         ["▸ ran pytest -q · exit 0 · 34 lines · 2.0 s", "    31", "    32", "    33"]),
        (command("\n".join(map(str, range(34))), status=1),
         ["▸ ran pytest -q · exit 1 · 34 lines · 2.0 s", *(f"    {number}" for number in range(29, 34))]),
        (command("...\n------\nRan 3 tests in 0.1s\n\nOK\n"),
         ["▸ ran pytest -q · exit 0 · 4 lines · 2.0 s", "    Ran 3 tests in 0.1s", "    OK"]),
        (command("x" * 50), ["▸ ran pytest -q · exit 0 · 2.0 s", f"    {'x' * 50}"]),
        (command("a\n[... 9,000 characters omitted]\nb\nc\nd\n"),
         ["▸ ran pytest -q · exit 0 · over 5 lines · 2.0 s", "    b", "    c", "    d"]),
        (command("one\n[ERROR] timed out after 2 s: the command and all it started were ended", status=124),
         ["▸ ran pytest -q · timed out after 2 s · one · 2.0 s"]),
        (command("[ERROR] interrupted by the user: the command and all it started were ended", status=-15),
         ["▸ ran pytest -q · you stopped it · 2.0 s"]),
        (called("container.exec", TESTS, "Error: `command` is empty", error=True, ms=0),
         ["✗ Run pytest -q · `command` is empty"]),
        (called("container.exec", TESTS, REFUSED, error=True, ms=0), ["✗ Run pytest -q · refused"]),
        (called("container.exec", TESTS, REFUSED_AGAIN, error=True, ms=0), ["✗ Run pytest -q · refused"]),
        (called("repo_browser.print_tree", '{"path": "", "depth": 3}', formed("src/\n  a.py\n", HERE), ms=0),
         ["▸ List . · 2 entries"]),
        (called("repo_browser.list_dir", '{"path": "src"}', formed("(empty folder)", HERE), ms=0),
         ["▸ List src · no entries"]),
        (called(READ, '{"path": "a.txt", "line_start": 3}', formed("x\n" * 400, HERE)),
         ["▸ Read a.txt, from line 3 · 400 lines · 2.0 s"]),
        (called(READ, '{"path": "a"}', formed("x\n[lines 2-9 of 10 are left out: open them]\ny", HERE)),
         ["▸ Read a · 2 lines · 2.0 s"]),
        (called(READ, '{"path": "a"}', "Error: there is no file 'a'.", error=True, ms=0),
         ["✗ Read a · there is no file 'a'."]),
        (called("repo_browser.search", '{"path": "", "query": "blob"}', formed("a:1:blob\nb:2:blob\n", HERE), ms=0),
         ['▸ Search "blob" · 2 hits']),
        (called("repo_browser.search", '{"path": "", "query": "blob"}', formed("No matches in 3 files.", HERE), ms=0),
         ['▸ Search "blob" · no hits']),
        (called("browser.open", '{"id": 3}', PAGE, ms=0), ["▸ Read Capy — facts · a.test · lines 0–2 of 40"]),
        (called("browser.search", '{"query": "capy"}', HITS, ms=0), ['▸ Search "capy" · 2 hits']),
        (called("browser.find", '{"pattern": "swim"}', FOUND, ms=0), ['▸ Find "swim" · 1 hit']),
        (called("functions.files__read_file", '{"path": "notes.md"}', "a\nb\n", ms=0),
         ["▸ files: read notes.md · 2 lines"]),
        (called("functions.sky", '{"city": "Oslo"}', "grey", ms=0), ['▸ sky(city="Oslo") · grey']),
        (called("functions.sky", "{}", formed("fine", HERE)), ["▸ sky() · 5 lines · 2.0 s"]),
        (called("bash", TESTS, f"{CHANGED} container.exec {LISTS}\n{formed('a', HERE)}", ms=0),
         ["▸ ran ls -l · exit 0 · a"]),
    ],
)  # fmt: skip
def test_a_call_says_what_it_did_and_what_it_brought(call: ToolFinished, drawn: list[str]) -> None:
    """The same as it ends and when it is recalled, but for the time of one that failed."""
    shown = view()
    shown.see(call)
    assert rows(shown) == drawn
    result = call.result
    item = Item("call", name=call.call.name, result=result.text, error=result.error, answered=True, ms=call.ms)
    item.said = [call.call.arguments]
    shown = view()
    shown.recall([item])
    assert rows(shown) == drawn


def test_what_a_command_printed_in_our_form_is_shown_when_its_call_is_recalled() -> None:
    item = Item("call", name="container.exec", result=formed(formed("one", HERE), HERE), answered=True)
    item.said = ['{"command": ["cat", "log"]}']
    shown = view()
    shown.recall([item])
    assert rows(shown) == ["▸ ran cat log · exit 0 · 5 lines", "    one", "    </output>", f"    cwd: {HERE}"]


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (120, "▸ ran python3 -m pytest -q tests/cli/chat/test_view.py | tail -30 · exit 0 · 34 lines · 2.0 s"),
        (80, "▸ ran python3 -m pytest -q tests/cli/chat/test_view… · exit 0 · 34 lines · 2.0 s"),
        (50, "▸ ran python3 -m pytest -q te… · exit 0 · 34 lines"),
        (36, "▸ ran python3 -m pytest -q… · exit 0"),
    ],
)
def test_on_a_narrow_screen_the_time_is_left_out_first_then_the_size(width: int, row: str) -> None:
    shown = view(width)
    shown.see(command("a\n" * 34, line="python3 -m pytest -q tests/cli/chat/test_view.py | tail -30"))
    assert rows(shown)[0] == row


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
    assert said.startswith("✗x␊y日本")
    whole = clean(reason).replace(" ", "")
    assert whole in said or any(row.startswith("  … ") and " mor" in row for row in drawn)


SLOW = "https://a.test/" + "long/" * 30
PRIVATE = "10.0.0.1 isn't on the public internet; ossia started with --allow-host 10.0.0.1:80 opens it"


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (50, ["✗ Open https://a.test/long/long… · 10.0.0.1",
              "  isn't on the public internet; ossia started with", "  --allow-host 10.0.0.1:80 opens it"]),
        (120, ["✗ Open https://a.test/long/long/long/long/long/long/long/long… · 10.0.0.1 isn't on the public "
               "internet; ossia started", "  with --allow-host 10.0.0.1:80 opens it"]),
    ],
)  # fmt: skip
def test_what_failed_then_why(width: int, told: list[str]) -> None:
    shown = view(width)
    told_so = f"Error fetching URL `{SLOW}`: {PRIVATE}"
    shown.see(called("browser.open", f'{{"id": "{SLOW}"}}', told_so, error=True, ms=0))
    assert rows(shown) == told


def test_what_the_user_can_do_stands_below() -> None:
    shown = view(38)
    shown.calls.fix = lambda done: f"ossia python setup {done.call.arguments.split()[-1]} installs it"
    shown.see(called("python", "import numpy", "ModuleNotFoundError: No module named 'numpy'", error=True, ms=0))
    assert rows(shown) == [
        "✗ Run Python: import numpy ·",
        "  ModuleNotFoundError: No module named",
        "  'numpy'",
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
    shown.see(ToolStarted(ToolCall("call_1", "container.exec", TESTS), Preview("Run pytest -q")))
    clock.now += 12
    assert (rows(shown), shown.activity()) == ([], "running pytest -q · 12 s")
    shown.see(ToolOutput("call_1", "one\ntwo\n\x1b[31mthree\x1b[0m\n"))
    shown.see(ToolOutput("call_1", f"{'x' * 50}\n 10%\r 40%"))
    assert rows(shown) == ["▸ running pytest -q · 12 s", "  three", f"  {'x' * 27}…", "   40%"]
    assert shown.activity() == "running · 12 s"
    shown.see(ToolOutput("call_1", "y" * 100_000_000))
    assert rows(shown) == ["▸ running pytest -q · 12 s", f"  {'y' * 27}…"]
    shown.see(called("container.exec", TESTS, formed("3 passed\n", HERE)))
    assert rows(shown) == ["▸ ran pytest -q · exit 0", "    3 passed"]


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
    listed = [row for n in range(3) for row in ("thought: w0 w1 w2", f"▸ ran Python: print({n}) · {n} · 2.0 s")]
    failed = "✗ Run Python: 1/0 · ZeroDivisionError: division"
    lines = [failed, "  by zero"] if width == 50 else [f"{failed} by zero"]
    assert rows(shown) == ["› Go.", "", *listed, *lines, "▸ ran Python: print(9) · 9 · 2.0 s", "", "So."]


def read(*names: str, ms: int = 1000) -> list[ToolFinished]:
    return [called(READ, f'{{"path": "{name}"}}', f"{name}\nis read\n", ms=ms) for name in names]


@pytest.mark.parametrize(
    ("width", "calls", "row"),
    [
        (80, read("a.py", "b.py"), "▸ Read a.py, b.py · 4 lines · 2.0 s"),
        (80, read("a.py", "b.py", ms=0), "▸ Read a.py, b.py · 4 lines"),
        (80, read(*(f"folder/name{n}.py" for n in range(5)), ms=0),
         "▸ Read folder/name0.py, folder/name1.py, folder/name2.py and 2 more · 10 lines"),
        (50, read(*(f"folder/name{n}.py" for n in range(3)), ms=0), "▸ Read folder/name0.py and 2 more · 6 lines"),
        (36, read("a/very/long/name/of/a/file.py", "b.py", ms=0), "▸ Read a/very/… and 1 more · 4 lines"),
        (80, [called("repo_browser.search", f'{{"path": "src", "query": "{one}"}}', "a:1:x\n", ms=0) for one in "xy"],
         '▸ Search "x" in src, "y" in src · 2 hits'),
    ],
)  # fmt: skip
def test_looks_of_one_kind_in_a_row_become_one_line(width: int, calls: list[ToolFinished], row: str) -> None:
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
    one, two = "▸ Read {} · 2 lines · 1.0 s", "▸ Read {} · 4 lines · 2.0 s"
    assert rows(shown) == [
        *("› Go.", "", two.format("a, b"), "▸ ran Python: 1 · 1 · 2.0 s", one.format("c")),
        f"✗ {READ} {{}} · no · 2.0 s",
        *("▸ ran Python: plot() · drawn", "  /tmp/plot.png") * 2,
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


@pytest.mark.parametrize(
    ("before", "after", "drawn"),
    [
        ("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nD\ne\nf\n", ["   3   c", "   4 - d", "   4 + D", "   5   e"]),
        ("--- a\n+++ b\nc\n", "+++ b\nc\nd\n", ["   1 - --- a", "   1   +++ b", "   2   c", "   3 + d"]),
        ("a\nb", "a\nB", ["   1   a", "   2 - b", "       \\ No newline at end of file", "   2 + B",
                             "       \\ No newline at end of file"]),
        (None, "new\n", ["   1 + new"]),
        ("x" * 2_000 + "\n", None, [f"   1 - {'x' * 73}", *[f"     - {'x' * 73}"] * 11, "   … 1 more line, Ctrl-O"]),
    ],
)  # fmt: skip
def test_an_applied_diff_stays(before: str | None, after: str | None, drawn: list[str]) -> None:
    """With a line around the changes, each with its number; twelve rows of it."""
    texts = (None if text is None else text.encode() for text in (before, after))
    state = {"said": "Edit f", "diff": unified(*texts, name="f").text}
    shown = view()
    shown.see(ToolFinished(ToolCall("call_1", "repo_browser.apply_patch", "{}"), ToolResult("", state=state), 0))
    assert rows(shown) == ["▸ Edit f", *drawn]


@pytest.mark.parametrize(
    ("call", "colour"),
    [
        (command("1 failed in 0.1s\n", status=1), "red"),
        (command("1 failed in 0.1s\n", line="pytest | tail -1"), "red"),
        (command("1 passed in 0.1s\n", line="pytest | tail -1"), "cyan"),
        (command("0\n", status=1, line="grep -c error log"), "cyan"),
        (command("1 failed in 0.1s\n", line="cat log | tail -1"), "cyan"),
        (called("python", "1/0", TRACEBACK, error=True), "red"),
    ],
)
def test_what_failed_is_red(call: ToolFinished, colour: str) -> None:
    shown = view()
    shown.see(call)
    (first, *_), *_ = shown.take()
    assert colour in str(first.style)
