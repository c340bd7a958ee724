"""Turns that are taken back stay in a fork, forks name their origin, and a plan names its next step."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.looks import Looks
from tests.support.pty import PtyChat
from tests.support.screen import ChatScreen, chatting

CLEAR = "\x0c"
NEXT = "/go carries the plan out · /go TEXT adds a remark · /plan off ends planning"
UNSTORED = "this chat isn't stored: the turn after it can't be brought back"


async def say(stage: ChatScreen, *lines: str) -> None:
    for line in lines:
        await stage.type(f"{line}\r")
        await stage.settle()


def said(stage: ChatScreen) -> list[str]:
    return [message.text for message in stage.talk.session.messages if message.role == "user"]


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
@pytest.mark.parametrize(("columns", "rows"), [(50, 15), (120, 40)])
def test_a_plan_an_edit_and_forks(tmp_path: Path, columns: int, rows: int, request: pytest.FixtureRequest) -> None:
    looks = Looks(f"branches-{columns}x{rows}", write=request.config.getoption("--write-screens"))
    steps = [answer("1. Read it.\n2. Change it."), *(answer(f"Answer {number}.") for number in range(3))]
    with PtyChat("--engine", write_script(tmp_path, *steps), "--no-tools", columns=columns, rows=rows) as chat:
        chat.idle()
        chat.press(f"{CLEAR}/plan Make the parser faster.\r")
        chat.until("/plan off ends")
        looks.at("a plan and its next step", chat)
        chat.press(f"{CLEAR}/go\r")
        chat.until("Answer 0.")
        chat.press(f"{CLEAR}How fast is it?\r")
        chat.until("Answer 1.")
        chat.idle()
        chat.press(f"{CLEAR}/edit 2\r")
        looks.at("an edit of an earlier turn", chat)
        chat.press("\x15Go on slowly.\r")
        chat.until("Answer 2.")
        chat.idle()
        looks.at("the turns that it removed", chat)
        chat.press(f"{CLEAR}/fork 1\r")
        chat.until("a copy of")
        chat.press(f"{CLEAR}/sessions\r")
        looks.at("the forks in the list", chat)
        chat.press(f"{CLEAR}/resume parser\r")
        looks.at("several may be meant", chat)
    looks.done()


def test_the_turns_that_an_edit_removes_can_be_resumed(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, *(answer(f"{n}.") for n in range(5)))) as stage:
            store, before = stage.talk.store, stage.talk.opened.session_id
            assert store is not None
            await say(stage, "One", "Two", "Three", "/edit 3")
            assert "Enter replaces turn 3 · Esc cancels" in stage.rows
            await say(stage, "\x15Drei")
            assert len(store.list()) == 1  # `sessions show --all` has what alone was replaced
            await say(stage, "/edit 2")
            assert "Enter replaces turn 2 and removes the turn after it · Esc cancels" in stage.rows
            assert len(store.list()) == 1  # nothing is sent yet
            await say(stage, "\x15Zwei")
            assert said(stage) == ["One", "Zwei"] and stage.talk.opened.session_id == before
            kept = store.list()[1]
            assert (kept.parent, kept.forked, kept.turns) == (before, 3, 3)
            assert f"the conversation of 3 turns is kept: /resume {kept.id} goes back to it" in stage.rows
            await say(stage, f"/resume {kept.id}")
            assert said(stage) == ["One", "Two", "Drei"]

    chatting(case)


def test_in_private_an_edit_keeps_nothing_and_says_so(tmp_path: Path) -> None:
    async def case() -> None:
        engine = write_script(tmp_path, *(answer(f"{n}.") for n in range(3)))
        async with ChatScreen(engine=engine, private=True) as stage:
            await say(stage, "One", "Two", "/edit 2")
            assert UNSTORED not in stage.rows
            await say(stage, "\x15/edit 1")
            assert UNSTORED in stage.rows
            await say(stage, "\x15Eins")
            assert said(stage) == ["Eins"] and not any("is kept" in row for row in stage.rows)

    chatting(case)


def test_a_text_that_several_titles_have_lists_them(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, *(answer(f"{n}.") for n in range(3)))) as stage:
            store = stage.talk.store
            assert store is not None
            await say(stage, "Are llamas kind?", "/new", "Are llamas tall?", "/resume llamas")
            at = stage.rows.index("2 sessions may be meant by 'llamas': name one by its id")
            rows = stage.rows[at + 1 : at + 4]
            assert [row.split("1 turn  ")[1] for row in rows[:2]] == ["Are llamas tall?", "Are llamas kind?"]
            assert rows[2] == "  /resume ID continues one, /search TEXT finds one"
            assert said(stage) == ["Are llamas tall?"]
            await say(stage, "/resume are llamas kind?", "/fork", "/sessions")
            assert any(row.endswith('1 turn  ↳ fork at turn 1 of "Are llamas kind?"') for row in stage.rows)
            store.rename(store.list()[0].id, "Mine")
            await say(stage, "/sessions")
            assert any(row.endswith('Mine  ↳ fork at turn 1 of "Are llamas kind?"') for row in stage.rows)

    chatting(case)


def test_the_next_step_stands_below_a_plan_alone(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, *(answer(f"{n}.") for n in range(4)))) as stage:
            await say(stage, "Hello", "/plan Make it.")
            assert stage.rows.count(NEXT) == 1
            await say(stage, "And then?")
            assert stage.rows.count(NEXT) == 2
            await say(stage, "/go")
            assert stage.rows.count(NEXT) == 2

    chatting(case)
