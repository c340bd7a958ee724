"""The transcript on the alternate screen: what it shows, and how one moves in it."""

from __future__ import annotations

import asyncio
import random
import re
import signal
from collections.abc import Callable, Coroutine, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from ossia.agent.citations import Cited
from ossia.agent.events import (
    ApprovalAsked,
    Delta,
    Event,
    MessageAdded,
    Stats,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
)
from ossia.cli.chat.pager.items import calls_rows
from ossia.cli.chat.pager.pager import show
from ossia.cli.chat.pager.scroll import View
from ossia.cli.chat.pager.sections import call_rows
from ossia.cli.chat.pager.transcript import Transcript
from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.harmony.messages import Message
from ossia.tools.spec import Attachment, Preview, ToolCall, ToolResult
from ossia.tools.work.result import formed
from tests.support.command import write_script
from tests.support.paging import PagerScreen
from tests.support.rendering import render_markdown
from tests.support.screen import ChatScreen

PRINT = ToolCall("call_1", "python", "for i in range(30):\n    print(i)")
NUMBERS = "\n".join(map(str, range(30)))
CHANGED = "you changed it before it ran:"
ANSWER = "# Title\n\nIt **is** what `it` is.\n\n- one\n- two\n\n```python\nx = 1\n```\n"


def said(text: str, channel: str = "final") -> MessageAdded:
    return MessageAdded(Message("assistant", (text,), channel=channel))


def asked(text: str) -> MessageAdded:
    return MessageAdded(Message("user", (text,)))


def called(call: ToolCall, result: str, *, error: bool = False, ms: int = 1200) -> list[Event]:
    wish = Message("assistant", (call.arguments,), recipient=call.name, channel="analysis")
    answer = Message("tool", (result,), name=call.name, channel="analysis")
    finished = ToolFinished(call, ToolResult(result, error=error), ms)
    return [MessageAdded(wish), ToolStarted(call), finished, MessageAdded(answer)]


def of(*events: Event | Sequence[Event]) -> Transcript:
    transcript = Transcript(clock=lambda: 0.0)
    for event in events:
        for one in event if isinstance(event, Sequence) else [event]:
            transcript.see(one)
    return transcript


def a_turn(question: str = "What is it?") -> list[Event]:
    return [asked(question), said("Hm.\nLet me see.", "analysis"), *called(PRINT, NUMBERS), said(ANSWER)]


def many(turns: int = 40) -> Transcript:
    one = ([asked(f"Question {n}"), said(f"Thought {n}.", "analysis"), said(f"Answer {n}.")] for n in range(turns))
    return of(*one)


def paging(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


SCREEN = """
── 1 ───────────────────────────────────
› What is it?

thought
Hm.
Let me see.

▸ ran Python: for i in range(30): … (2
lines) · 30 lines · 1.2 s · python
for i in range(30):
    print(i)

0
1
2
3
4
5
6
7
8
9
10
11
… 18 more lines · Enter opens

Title

It is what it is.

• one
• two

── python ──
x = 1
────────────

stopped"""


def test_a_turn_on_forty_columns() -> None:
    async def test() -> None:
        transcript = of(a_turn(), TurnEnded("stopped"))
        async with PagerScreen(transcript, columns=40, rows=40) as stage:
            assert "\n".join(stage.display) == SCREEN
            assert stage.foot == "1/1 · end · PgUp/PgDn pages · q leaves"

    paging(test)


def test_what_was_sent_stands_as_it_was_typed() -> None:
    async def test() -> None:
        async with PagerScreen(of(asked("    if x:\n        y\n\n\tz"))) as stage:
            assert stage.display[2:] == ["›     if x:", "          y", "", "      z"]

    paging(test)


@pytest.mark.parametrize("columns", [20, 40, 200])
@pytest.mark.parametrize("colour", [True, False])
def test_any_width(columns: int, colour: bool) -> None:
    """Nothing is longer than the screen, nothing of it is lost: long words and code go on in the next row."""

    async def test() -> None:
        address = "https://a.test/" + "0123456789" * 30
        code = ToolCall("call_1", "python", "x = '" + "漢字" * 120 + "'")
        wide = "```\n" + "abcdefghij" * 40 + "\n```\n"
        transcript = of(asked(address), called(code, "result " * 60), said(wide))
        async with PagerScreen(transcript, columns=columns, rows=96, colour=colour) as stage:
            text = "".join(stage.display).replace(" ", "")
            assert address in text and "abcdefghij" * 40 in text and "漢字" * 120 in text
            assert "result" * 60 in text
            assert len(stage.foot) <= columns
            assert colour or not re.search(r"\x1b\[[0-9;]*3[1-7]", "".join(stage.terminal.sent))

    paging(test)


def test_it_follows_the_stream_until_the_reader_goes_up() -> None:
    async def test() -> None:
        transcript = many()
        async with PagerScreen(transcript, rows=12) as stage:
            transcript.see(asked("More?"))
            for number in range(12):
                transcript.see(Delta(0, f"line {number}\n\n", channel="final"))
                await stage.drawn()
                assert stage.display[-1] == f"line {number}"
            await stage.press("up")
            before = stage.display
            assert stage.foot.startswith("turn 41 of 41 · ↓ more below")
            for number in range(12, 20):
                transcript.see(Delta(0, f"line {number}\n\n", channel="final"))
                await stage.drawn()
                assert stage.display == before
            await stage.press("end")
            assert stage.display[-1] == "line 19" and " · end · " in stage.foot
            await stage.press("up", "down")  # back at the end: it follows again
            transcript.see(Delta(0, "the last", channel="final"))
            await stage.drawn()
            assert stage.display[-1] == "the last"

    paging(test)


def test_a_call_as_it_runs() -> None:
    async def test() -> None:
        transcript = of(asked("Run it."))
        async with PagerScreen(transcript, rows=30) as stage:
            shown = []
            for event in (
                Delta(0, "print(", recipient="python", channel="analysis"),
                Delta(0, "1)", recipient="python", channel="analysis"),
                Stats.__new__(Stats),
                MessageAdded(Message("assistant", ("print(1)",), recipient="python", channel="analysis")),
                ApprovalAsked(ToolCall("call_1", "python", "print(1)"), Preview("Run Python: print(1)"), "it runs"),
                ToolStarted(ToolCall("call_1", "python", "print(2)"), Preview("Run Python: print(2)")),
                ToolOutput("call_1", "".join(f"{n}\n" for n in range(50))),
                ToolFinished(ToolCall("call_1", "python", "print(2)"), ToolResult("no", error=True), 300),
            ):
                transcript.see(event)
                await stage.drawn()
                shown.append([row for row in stage.display[4:] if row])
        assert shown == [
            ["▸ Run Python: print( · being written · python", "print("],
            ["▸ Run Python: print(1) · being written · python", "print(1)"],
            ["▸ Run Python: print(1) · being written · python", "print(1)"],
            ["▸ Run Python: print(1) · being written · python", "print(1)"],
            ["▸ Run Python: print(1) · waiting for you · python", "print(1)"],
            ["▸ Run Python: print(2) · running · python", "print(1)", CHANGED, "print(2)"],
            ["▸ Run Python: print(2) · running · python", "print(1)", CHANGED, "print(2)", *map(str, range(38, 50))],
            ["✗ Run Python: print(2) · no · python", "print(1)", CHANGED, "print(2)", "no"],
        ]

    paging(test)


def test_the_whole_output_of_a_call_as_it_runs() -> None:
    async def test() -> None:
        transcript = of(asked("Run it."))
        transcript.see(ToolStarted(ToolCall("call_1", "python", "1")))
        transcript.see(ToolOutput("call_1", "".join(f"line {n}\n" for n in range(20)) + "10%\r40%"))
        async with PagerScreen(transcript, rows=40) as stage:
            assert [row for row in stage.display if row.startswith("line")][:1] == ["line 9"]
            await stage.press("enter")
            assert [row for row in stage.display if row.startswith(("line", "40%"))][::20] == ["line 0", "40%"]

    paging(test)


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        (["home"], "── 1 "),
        (["g"], "── 1 "),
        (["home", "]"], "── 2 "),
        (["home", "]", "]", "down", "down", "["], "── 3 "),
        (["home", "]", "]", "["], "── 2 "),
        (["home", "["], "── 1 "),
        (["g", "down", "j"], "› Question 0"),
        (["g", "down", "down", "up", "k"], "── 1 "),
        (["g", "pagedown"], "── 2 "),
        (["g", "space", "space", "b"], "── 2 "),
        (["g", "space", "pageup"], "── 1 "),
        (["g", "d"], "Thought 0."),
        (["g", "d", "u"], "── 1 "),
        (["g", "G"], "Answer 38."),
        (["g", "end"], "Answer 38."),
        (["g", "pagedown", "]", "]"], "── 4 "),
        (["]"], "Answer 38."),
    ],
)
def test_moving(keys: list[str], first: str) -> None:
    async def test() -> None:
        async with PagerScreen(many(), rows=11) as stage:
            await stage.press(*keys)
            rows = [row for row in stage.display if row]
            assert rows[0].startswith(first), stage.display

    paging(test)


@pytest.mark.parametrize("key", ["q", "escape", "c-c", "c-o"])
def test_leaving(key: str) -> None:
    """The alternate screen is left, and no mode stays on that would keep the mouse from selecting."""

    async def test() -> None:
        async with PagerScreen(many()) as stage:
            await stage.press("/", "escape", key)
            await asyncio.wait_for(stage.task, 10)
        sent = "".join(stage.terminal.sent)
        assert sent.index("\x1b[?1049h") < sent.index("\x1b[?1049l")
        assert not re.search(r"\x1b\[\?(9|1000|1002|1003|1006|1015)h", sent)

    paging(test)


def test_the_switches() -> None:
    async def test() -> None:
        async with PagerScreen(of(a_turn(), asked("And?"), said("So.")), columns=120, rows=40) as stage:
            await stage.press("t")
            assert "Let me see." not in stage.display and "thought" in stage.display and "0" in stage.display
            assert "t shows thinking · o hides output" in stage.foot
            await stage.press("o")
            assert "0" not in stage.display
            assert "▸ ran Python: for i in range(30): … (2 lines) · 30 lines · 1.2 s · python" in stage.display
            await stage.press("t")
            assert "Let me see." in stage.display and "0" not in stage.display
            assert "t hides thinking · o shows output" in stage.foot
            await stage.press("o")
            assert "0" in stage.display

    paging(test)


def test_opening_and_closing() -> None:
    async def test() -> None:
        attached = of()
        attached.add_user("Read this.")
        for event in [asked("Read this.\n\nfile\ntext"), *a_turn()[1:], *a_turn("Again?")]:
            attached.see(event)
        async with PagerScreen(attached, rows=140) as stage:
            await stage.press("home")
            assert "+ 9 characters attached · Enter opens" in stage.display and "29" not in stage.display
            await stage.press("enter")
            assert stage.display[4:7] == ["file", "text", "Enter closes"]
            await stage.press("tab", "enter")
            assert stage.display.count("29") == 1 and stage.display.count("… 18 more lines · Enter opens") == 1
            await stage.press("tab", "enter")
            assert stage.display.count("29") == 2 and stage.display.count("Enter closes") == 3
            await stage.press("s-tab", "enter", "s-tab", "enter")
            assert "text" not in stage.display and stage.display.count("29") == 1
            await stage.press("t")  # a thought that is hidden opens, too
            assert "Let me see." not in stage.display
            await stage.press("home", "tab", "enter")
            assert stage.display.count("Let me see.") == 1
        async with PagerScreen(of(a_turn()), rows=12) as stage:
            await stage.press("home", "enter", "G", "pageup", "up", "up")
            assert "20" in stage.display
            await stage.press("enter")  # the top of the view was in what is folded away now
            assert stage.display[1] == "▸ ran Python: for i in range(30): … (2 lines) · 30 lines · 1.2 s · python"
            assert "20" not in stage.display

    paging(test)


def marked(stage: PagerScreen, look: str) -> list[str]:
    """The texts on screen that are drawn so (`reverse`, `underscore`), without the foot line."""
    screen = stage.terminal._screen
    rows = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines - 1)]
    drawn = "\n".join("".join(cell.data if getattr(cell, look) else "\n" for cell in row) for row in rows)
    return [text for text in drawn.split("\n") if text]


def test_search() -> None:
    async def test() -> None:
        async with PagerScreen(many(), rows=11) as stage:
            await stage.press("home", "/", *"question 3", "enter")  # where nothing was painted yet; any case
            assert "/question 3: 1 of 11" in stage.foot
            assert "› Question 3" in stage.display and marked(stage, "reverse") == ["Question 3"]
            await stage.press("n")
            assert "› Question 30" in stage.display and "2 of 11" in stage.foot
            assert marked(stage, "reverse") == ["Question 3"]
            await stage.press("n")
            assert "3 of 11" in stage.foot and "› Question 31" in stage.display
            assert marked(stage, "reverse") == ["Question 3"] and set(marked(stage, "underscore")) <= {"Question 3"}
            await stage.press("N", "N")
            assert "1 of 11" in stage.foot and "› Question 3" in stage.display
            await stage.press("N")
            assert "11 of 11 · around" in stage.foot and "› Question 39" in stage.display
            await stage.press("n")
            assert "1 of 11 · around" in stage.foot
            await stage.press("/", *"nowhere", "enter")
            assert "/nowhere: none" in stage.foot
            await stage.press("/", *".*", "enter")
            assert "/.*: none" in stage.foot
            await stage.press("/", "escape")
            assert "none" not in stage.foot and not marked(stage, "reverse")

    paging(test)


def test_search_reads_what_is_on_the_screen() -> None:
    """Across the ends of rows, through Markdown's marks, in what is folded; not in what is switched off."""

    async def test() -> None:
        prose = "Words that are wrapped **at the** end of a row, un**believ**able, `a fold` in it. " + "漢字" * 40
        transcript = of(a_turn(), asked("Then?"), said("a **secret** thought", "analysis"), said(prose))
        async with PagerScreen(transcript, columns=40, rows=24) as stage:
            await stage.press("home", "/", *"wrapped at the end", "enter")
            assert "1 of 1" in stage.foot and marked(stage, "reverse")[-1] == "wrapped at the end"
            await stage.press("/", *"unbelievable, a fold in", "enter")
            assert "1 of 1" in stage.foot
            await stage.press("/", *("漢字" * 15), "enter")
            assert "1 of 2" in stage.foot
            await stage.press("home", "/", *"29", "enter")
            assert "1 of 1" in stage.foot and "29" in stage.display and "Enter closes" in stage.display
            await stage.press("/", *"secret", "enter")
            assert "1 of 1" in stage.foot
            await stage.press("t", "/", *"secret", "enter")
            assert "none" in stage.foot

    paging(test)


def test_search_tells_of_hits_in_what_is_switched_off() -> None:
    async def test() -> None:
        async with PagerScreen(of(a_turn(), asked("see?"), said("So.")), columns=120) as stage:
            await stage.press("t", "/", *"see", "enter")
            assert "/see: 1 of 1 · 1 more in hidden thinking: t shows it" in stage.foot
            await stage.press("t", "n")
            assert re.search(r"/see: [12] of 2 · (around · )?n N", stage.foot)
            await stage.press("t", "o", "/", *"hm", "enter")
            assert "/hm: none · 1 in hidden thinking: t shows it" in stage.foot
            await stage.press("/", *"range", "enter")  # it stands in the call's line, too
            assert "/range: 1 of 1 · 1 more in hidden output: o shows it" in stage.foot
            await stage.press("/", *"29", "enter")
            assert "/29: none · 1 in hidden output: o shows it" in stage.foot

    paging(test)


FEET = {
    20: ("1/1 · q leaves", "/see: none · 1 in…"),
    50: ("1/1 · end · PgUp/PgDn pages · q leaves", "/see: none · 1 in hidden thinking: t shows it"),
    80: (
        "turn 1 of 1 · end · PgUp/PgDn pages · / searches · Enter opens · q leaves",
        "turn 1 of 1 · end · /see: none · 1 in hidden thinking: t shows it · q leaves",
    ),
    120: (
        "turn 1 of 1 · end · PgUp/PgDn pages · / searches · Enter opens · t shows thinking · o hides output · q leaves",
        "turn 1 of 1 · end · /see: none · 1 in hidden thinking: t shows it · n N next · PgUp/PgDn pages · "
        "/ searches · q leaves",
    ),
}


@pytest.mark.parametrize("columns", FEET)
def test_the_foot_line_says_in_words_what_fits(columns: int) -> None:
    async def test() -> None:
        async with PagerScreen(of(a_turn()), columns=columns, rows=40) as stage:
            await stage.press("t")
            before = stage.foot
            await stage.press("/", *"see", "enter")
            assert (before, stage.foot) == FEET[columns]

    paging(test)


def test_many_hits_are_counted_without_painting_all() -> None:
    async def test() -> None:
        transcript = many(90)
        async with PagerScreen(transcript, rows=11) as stage:
            await stage.press("home", "/", *"answer", "enter")
            assert "1 of ~90" in stage.foot
            view = stage.pager.view
            drawn = sum(piece.drawn_rows > 0 for block in view.blocks for piece in view.pieces(block))
            assert drawn < 90
            await stage.press(*"n" * 89)
            assert "90 of 90" in stage.foot and "Answer 89." in stage.display

    paging(test)


def test_search_in_what_grows() -> None:
    async def test() -> None:
        transcript = of(asked("Go."))
        async with PagerScreen(transcript, rows=20) as stage:
            transcript.see(Delta(0, "one needle\n\n", channel="final"))
            await stage.press("/", *"needle", "enter")
            assert "1 of 1" in stage.foot
            transcript.see(Delta(0, "another needle\n\n", channel="final"))
            await stage.drawn()
            assert "of 2" in stage.foot
            await stage.press("n")
            assert re.search(r"[12] of 2", stage.foot)

    paging(test)


def test_another_size_keeps_the_place() -> None:
    async def test() -> None:
        text = "\n\n".join(f"Paragraph {n}: " + "word " * 60 for n in range(40))
        async with PagerScreen(of(asked("Go."), said(text)), columns=60, rows=20) as stage:
            await stage.press("home", "/", *"paragraph 20", "enter", *["down"] * 6)
            assert stage.display[0].startswith("Paragraph 20")
            for columns, rows in ((120, 30), (40, 12), (33, 20), (60, 20)):
                await stage.resize(columns, rows)
                assert any("Paragraph 20" in row for row in stage.display[:5]), stage.display
                assert all(cell_len(row) <= columns for row in stage.display)
            await stage.press("end")
            await stage.resize(100, 25)
            assert " · end · " in stage.foot

    paging(test)


HOSTILE = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\u202ed\x9be\x1b[31mf\rg\u200bh\x00i" + "e" + "\u0301" * 60


def test_hostile_text() -> None:
    """Nothing of what others wrote acts on the terminal, wherever it stands."""

    async def test() -> None:
        call = ToolCall("call_1", "py\x1b[2Jthon", f'{{"command": "{HOSTILE}", "x": 1}}')
        note = of()
        note.add_user(f"look {HOSTILE}")
        note.add_note(HOSTILE)
        events = [asked(f"look {HOSTILE}\n{HOSTILE}"), said(HOSTILE, "analysis"), *called(call, HOSTILE)]
        answer = f"{HOSTILE}\n\n&#x202e;x [a](javascript:{HOSTILE})\n\n```{HOSTILE}\n{HOSTILE}\n```"
        for event in [*events, said(answer)]:
            note.see(event)
        note.items[3].attachments = (Attachment(Path(HOSTILE.replace("\x00", "")), "image/png"),)
        async with PagerScreen(note, rows=60) as stage:
            await stage.press("home", "enter", "/", "\x1b[200~\x1b]52;c;x\x07\u202e\x1b[201~")
            await stage.press("enter", "n")
            text = "".join(stage.terminal.sent)
        assert "␛[2J" in text
        for row in [*calls_rows(note.calls(), Painter(60)), *call_rows(note.calls()[0], Painter(60))]:
            assert not BAD.search("".join(segment.text for segment in row))
        ours = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[78]|\x1b\][02];[^\x07\x1b]*\x07|[\r\n\x08]", "", text)
        assert not BAD.search(ours)
        assert not re.search(r"\x1b\[(?!0?J)[0-9;]*J|\x1b\]52", text)

    paging(test)


BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]|\u0301{12}")


# -- the view, without a screen ----------------------------------------------------------------------------------------


def everything(view: View) -> list[Row]:
    """All rows at the view's width."""
    return [row for block in view.blocks for piece in view.pieces(block) for row in piece.rows(view.painter)]


def random_transcript(source: random.Random) -> Transcript:
    transcript = of()
    for number in range(source.randrange(1, 8)):
        prose = "\n\n".join("word " * source.randrange(1, 90) for _ in range(source.randrange(1, 30)))
        result = "\n".join(str(line) for line in range(source.choice((1, 12, 14, 300))))
        events = [asked(f"question {number}"), said(prose, "analysis"), *called(PRINT, result), said(prose)]
        for event in events[: source.randrange(1, len(events) + 1)]:
            transcript.see(event)
    return transcript


@pytest.mark.parametrize("seed", range(5))
def test_the_view_is_always_a_window_of_all_rows(seed: int) -> None:
    """However one moves, folds, switches, resizes, and whatever comes meanwhile: the screen holds consecutive rows."""
    source = random.Random(seed)
    transcript = random_transcript(source)
    view = View(transcript, Painter(80))
    width, height = 80, 24
    moves: list[Callable[[], object]] = [
        lambda: view.scroll(source.randrange(-60, 60), height),
        lambda: view.scroll(source.choice((-1, 1)), height),
        lambda: view.to_turn(source.choice((-1, 1))),
        view.to_start,
        view.to_end,
        lambda: setattr(source.choice(view.blocks), "opened", source.random() < 0.5),
        lambda: transcript.see(said("word " * 200)),
        lambda: transcript.see(asked("another")),
    ]
    for _ in range(40):
        if source.random() < 0.1:
            width, height = source.choice((20, 40, 80, 200)), source.choice((1, 5, 24, 60))
        lines = view.draw(width, height)
        assert all(sum(segment.cell_length for segment in line.row) <= width for line in lines)
        rows = [id(line.row) for line in lines]
        whole = [id(row) for row in everything(view)]
        assert len(rows) == min(height, len(whole))
        at = whole.index(rows[0])
        assert whole[at : at + len(rows)] == rows
        assert view.more_below == (at + len(rows) < len(whole))
        assert not view.follow or not view.more_below
        source.choice(moves)()


def test_the_row_at_the_top_stays_at_another_width() -> None:
    lines = [f"{number} " + "word " * 30 for number in range(50)]
    view = View(of(asked("Go."), said("\n".join(lines), "analysis")), Painter(80))
    view.draw(80, 10)
    view.to(view.blocks[1], 1, 45)
    first = texts([line.row for line in view.draw(80, 10)])
    here = next(row for row in first if row[0].isdigit()).split()[0]
    for width in (160, 40, 80):
        assert any(row.startswith(f"{here} ") for row in texts([line.row for line in view.draw(width, 12)]))


def test_citations_are_footnotes() -> None:
    pages = {3: Cited("Capy — facts\x1b[2J", "http://a.test/capy", 26)}
    answer = "They swim【3†L9-L11】, and sleep【4†L1】."
    transcript = of(asked("Go."), Delta(0, answer[:20], channel="final"))
    view = View(transcript, Painter(80), page=pages.get)
    view.draw(80, 20)
    transcript.see(said(answer))
    assert texts([line.row for line in view.draw(80, 20)])[4:] == [
        "They swim[1], and sleep[2].",
        "",
        "[1] Capy — facts␛[2J — http://a.test/capy (lines 9–11)",
        "[2] unverified: no such page (cursor 4)",
    ]
    del pages[3]
    pages[4] = Cited("Later", "", 5)  # a page is looked up until it is there, and then no more
    transcript.see(Delta(0, answer, channel="final"))
    assert texts([line.row for line in view.draw(80, 20)])[-2:] == [
        "[1] Capy — facts␛[2J — http://a.test/capy (lines 9–11)",
        "[2] search: Later (line 1)",
    ]


def test_a_text_that_repeats_itself() -> None:
    """Equal pieces of one text are different places."""
    transcript = of(asked("Go."), Delta(0, "same\n" * 400, channel="analysis"))
    view = View(transcript, Painter(80))
    view.draw(80, 10)
    transcript.see(Delta(0, "more", channel="analysis"))
    view.to_start()
    seen = 0
    while view.draw(80, 10)[-1].row[0].text != "more" and seen < 1_000:
        seen += 1
        view.scroll(1, 10)
    assert seen == len(everything(view)) - 10


def test_row_by_row_to_the_end_and_back() -> None:
    view = View(random_transcript(random.Random(5)), Painter(50))
    view.draw(50, 10)
    whole = [id(row) for row in everything(view)]
    view.to_start()
    for step in (1, -1):
        seen = []
        for _ in range(len(whole)):
            seen.append(whole.index(id(view.draw(50, 10)[0].row)))
            view.scroll(step, 10)
        last, all_rows = len(whole) - 10, range(len(whole))
        assert seen == [min(n, last) if step > 0 else max(0, last - n) for n in all_rows]


PARTS = (
    *("# Head", "word " * 70, "- item\n- item two\n\n  more of it\n\n- item", "1. a\n2. b", "> quote\n> on", "---"),
    *("| a | b |\n|---|---|\n| 1 | 2 |", "```python\n" + "x = 1  # a line\n\n" * 120 + "```", "~~~\n```\nno end\n"),
    *("- item\n\n  more of it\n\n" * 70, "1. word\n\n   more\n\n" * 80),
    *("    indented\n\n    code", "\\[\nx\n\\]", "word\n" * 300),
)


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_an_answer_looks_as_it_does_in_the_chat(seed: int, colour: bool) -> None:
    """Cut into pieces, painted one by one: the rows of the whole. While it grows, only its last piece changes."""
    source = random.Random(seed)
    text = "\n\n".join(source.choices(PARTS, k=12)).strip("\n")
    transcript = of(asked("Go."))
    view = View(transcript, Painter(60, colour=colour))
    pieces: list[object] = []
    for start, stop in pairwise(range(0, len(text) + 400, 397)):
        transcript.see(Delta(0, text[start:stop], channel="final"))
        view.sync()
        before, pieces = pieces, list(view.pieces(view.blocks[1]))
        assert pieces[: len(before) - 2] == before[:-2] if len(before) > 2 else True
    transcript.see(said(text))
    view.sync()
    painted = [row for piece in view.pieces(view.blocks[1]) for row in piece.rows(view.painter)]
    whole = folded(render_markdown(text, width=60, colour=colour), 60)
    assert texts(painted)[1:] == texts(whole)


# -- /calls ------------------------------------------------------------------------------------------------------------


def texts(rows: list[Row]) -> list[str]:
    return ["".join(segment.text for segment in row) for row in rows]


def test_the_list_of_calls() -> None:
    search = ToolCall("call_2", "browser.search", '{"query": "capybaras  in\\nwinter"}')
    patch = ToolCall("call_3", "functions.write", '{"path": "a.txt", "text": "x"}')
    failed, empty = called(search, "No results.", error=True), called(patch, "", ms=0)
    transcript = of(asked("Go."), called(PRINT, NUMBERS), failed, empty)
    transcript.see(MessageAdded(Message("assistant", ("1+",), recipient="python", channel="analysis"), cut=True))
    transcript.see(TurnEnded("stopped"))
    assert texts(calls_rows(transcript.calls(), Painter(80))) == [
        "1 ▸ ran Python: for i in range(30): … (2 lines) · 30 lines · 1.2 s · python",
        '2 ✗ Search "capybaras  in␊winter" · No results. · 1.2 s · browser.search',
        '3 ▸ write(path="a.txt", text="x") · functions.write',
        "4 ✗ Run Python · not called (stopped) · python · cut",
    ]
    for width in (20, 46, 200):
        assert all(cell_len(row) <= width for row in texts(calls_rows(transcript.calls(), Painter(width))))
    assert texts(calls_rows(transcript.calls(), Painter(46)))[0] == "1 ▸ ran Python: f… · 30 lines · 1.2 s · python"
    assert texts(calls_rows(of().calls(), Painter(80))) == ["No calls yet."]
    hidden = ToolCall("call_4", "container.exec", r'{"command": ["bash", "-lc", "ls\r\u202e x\r\ny\r\n"]}')
    assert "ls␍⟨U+202E⟩ x␍; y␍" in texts(calls_rows(of(called(hidden, "")).calls(), Painter(80)))[0]


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (PRINT, ["for i in range(30):", "    print(i)"]),
        (ToolCall("call_1", "container.exec", '{"command": ["bash", "-lc", "ls -la"]}'), ["ls -la"]),
        (ToolCall("call_1", "functions.shell", '{"command": "ls -la"}'), ["ls -la"]),
        (ToolCall("call_1", "container.exec", '{"command": ["ls", "a b"], "workdir": "src"}'),
         ["command: ls 'a b'", "workdir: src"]),
        (ToolCall("call_1", "functions.f", '{"n": 2, "deep": {"a": [1]}}'),
         ["{", '  "n": 2,', '  "deep": {', '    "a": [', "      1", "    ]", "  }", "}"]),
        (ToolCall("call_1", "functions.write", '{"path": "a.txt", "text": "one\\ntwo\\n", "n": [1]}'),
         ["path: a.txt", "text:", "one", "two", "n: [1]"]),
        (ToolCall("call_1", "functions.f", '{"broken": '), ['{"broken":']),
        (ToolCall("call_1", "functions.f", "{}"), ["{}"]),
        (ToolCall("call_1", "python", "# tidy\rrm()\u2028x"), ["# tidy␍rm()⟨U+2028⟩x"]),
    ],
)  # fmt: skip
def test_one_call(call: ToolCall, shown: list[str]) -> None:
    transcript = of(asked("Go."), called(call, "r1\nr2"))
    (item,) = transcript.calls()
    item.attachments = (Attachment(Path("/data/plot.png"), "image/png"),)
    head, *rest = texts(call_rows(item, Painter(120)))
    assert head.startswith("▸ ") and head.endswith(f" · 2 lines · 1.2 s · {call.name}")
    assert rest == [*shown, "", "r1", "r2", "/data/plot.png"]


def test_a_result_is_shown_without_the_form_that_the_model_reads() -> None:
    call = ToolCall("call_1", "container.exec", '{"command": ["ls"]}')
    transcript = of(asked("Go."), called(call, formed("a\nb\n", Path("/w"), status=2), error=True))
    (item,) = transcript.calls()
    head, *rest = texts(call_rows(item, Painter(80)))
    assert head == "▸ ran ls · exit 2 · 2 lines · 1.2 s · container.exec"
    assert rest == ["ls", "", "a", "b", "[exit status 2]"]


def test_a_long_result_is_bounded_and_says_so() -> None:
    (item,) = of(asked("Go."), called(PRINT, "line\n" * 5_000)).calls()
    item.ran = "print(1)"
    rows = texts(call_rows(item, Painter(80)))
    assert len(rows) < 220 and rows[-1] == "… 4,800 more rows of the result: Ctrl-O shows them"
    assert rows[3:5] == ["you changed it before it ran:", "print(1)"]
    deep = ToolCall("call_1", "functions.f", '{"a": ' + "[" * 900 + "]" * 900 + "}")
    assert call_rows(of(called(deep, "x")).calls()[0], Painter(80))


def test_over_a_chat_that_goes_on(tmp_path: Path) -> None:
    """The turn runs on under the pager, which shows what comes; what was finished meanwhile is printed afterwards."""

    async def test() -> None:
        answer = "\n\n".join(f"Line {number} of it." for number in range(30))
        script = write_script(tmp_path, f"<|channel|>final<|message|>{answer}<|return|>", tokens_per_s=1_000)
        async with ChatScreen(engine=script, rows=20) as stage:

            async def look() -> None:
                face, output = stage.face, stage.terminal.output
                async with face.screen.aside():
                    await show(stage.talk.transcript, face.painter, output=output, input=stage.keys, poll_s=0)

            await stage.type("Go.\r")
            await stage.until(lambda: "Line 3 of it." in stage.rows)
            looking = asyncio.create_task(look())
            await stage.until(lambda: "turn 1 of 1" in stage.terminal.display[-1])
            await stage.until(lambda: "Line 29 of it." in stage.terminal.display)
            await stage.until(lambda: stage.talk.control is None)
            stage.keys.send_text("q")
            await stage.until(looking.done)
            await stage.settle()
            looking = asyncio.create_task(look())
            await stage.until(lambda: "turn 1 of 1" in stage.terminal.display[-1])
            looking.cancel()  # as `Screen.leave` does
            await stage.until(looking.done)
            sent = "".join(stage.terminal.sent)
            assert sent.count("\x1b[?1049h") == sent.count("\x1b[?1049l") == 2
            signal.raise_signal(signal.SIGINT)  # the chat still hears it
            await stage.until(lambda: "press Ctrl-C again to leave" in stage.terminal.display)
            outside = "".join(part.partition("\x1b[?1049l")[2] for part in ("\x1b[?1049l" + sent).split("\x1b[?1049h"))
            assert all(f"Line {number} of it." in outside for number in range(30))

    paging(test)
