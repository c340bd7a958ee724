"""/rewind: back to before a turn, with its files, its pages and its KV."""

from __future__ import annotations

import datetime
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.engine.llama import LlamaEngine
from ossia.cli import paths
from ossia.cli.chat.commands.table import arguments
from ossia.cli.runtime.session import Resume
from ossia.tools.undo.journal import Journal
from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.pty import PtyChat
from tests.support.screen import ChatScreen, Clock, chatting
from tests.support.site import Site
from tests.support.work_calls import wants, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="undo works by descriptors of folders")

UNSTORED = "this chat isn't stored: 2 turns can't be brought back"
KEYS = "[y] with the files  [c] only the conversation  [n] cancel"


class Stage(ChatScreen):
    """A chat in a workspace, whose questions are answered by `press`."""

    def __init__(self, work: Path, engine: str | None, **flags: Any) -> None:
        self.clock = Clock()
        chosen: Mapping[str, object] = {
            "workspace": str(work), "trust": True, "no_tools": None, "clock": self.clock,
            "allow": ["repo_browser.apply_patch", "python"], "columns": 100, "rows": 40, **flags,
        }  # fmt: skip
        super().__init__(engine=engine, **chosen)

    async def say(self, *lines: str) -> None:
        for line in lines:
            await self.type(f"{line}\r")
            await self.settle()

    async def shows(self, line: str, *shown: str) -> None:
        """Send a line, and wait for what is shown."""
        before = len(self.rows)
        await self.type(f"{line}\r")
        for text in shown:
            await self.until(lambda text=text: any(text in row for row in self.rows[before - 6 :]))  # type: ignore[misc]
        await self.settle()

    async def press(self, key: str) -> None:
        await self.until(lambda: self.face.asks and self.face.screen.settled)
        self.clock.now += 1
        await self.type(key)
        await self.until(lambda: not self.face.asks)
        await self.settle()

    @property
    def said(self) -> list[str]:
        return [message.text for message in self.talk.session.messages if message.role == "user"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = (tmp_path / "work").resolve()
    folder.mkdir()
    (folder / "a.md").write_text("0\n")
    return folder


def script(tmp_path: Path, *steps: str) -> str:
    return write_script(tmp_path, *steps)


def three_turns(tmp_path: Path) -> str:
    """Of which the first and the third change files."""
    return script(
        tmp_path,
        *(writes("a.md", "1\n", before="0\n"), answer("One.")),
        answer("Two."),
        *(writes("a.md", "3\n", before="1\n"), writes("b/c.md", "3\n"), answer("Three.")),
        *(answer("Four."), answer("Five.")),
    )


def test_the_turns_are_listed_with_what_they_changed(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        async with Stage(work, three_turns(tmp_path), today=lambda: datetime.date(2024, 3, 1)) as stage:
            await stage.shows("/rewind", "/rewind: nothing has been said yet")
            await stage.say("First", "Second [31m", "Third")
            assert arguments(stage.talk, "/rewind", "") == [("3", "Third"), ("2", "Second [31m"), ("1", "First")]
            await stage.shows("/rewind", "/rewind TURN goes back to before it")
            at = stage.rows.index("Turns, latest first")
            assert stage.rows[at + 1 : at + 4] == [
                "  3  2024-03-01  3 files  Third",
                "  2  2024-03-01           Second [31m",
                "  1  2024-03-01   1 file  First",
            ]
            await stage.shows("/undo", "restored  a.md")
            await stage.shows("/rewind", "no undo  Third")
            await stage.shows("/rewind 4", "/rewind: must be a turn from 1 to 3, not '4'")

    chatting(case)


def test_the_conversation_and_its_files_go_back(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            store, before = stage.talk.store, stage.talk.opened.session_id
            assert store is not None
            await stage.say("First", "Second", "Third")
            await stage.shows("/rewind 3", "Go back to before turn 3?")
            assert {"restore  a.md", "remove   b", "remove   b/c.md", KEYS} <= set(stage.rows)
            assert (work / "a.md").read_text() == "3\n"
            await stage.press("n")
            assert "nothing was changed" in stage.rows and (work / "b").exists() and len(stage.said) == 3
            await stage.shows("/rewind 1", "Go back to before turn 1?")
            await stage.press("y")
            await stage.until(lambda: stage.said == [])
            assert (work / "a.md").read_text() == "0\n" and not (work / "b").exists()
            assert {"Back before turn 1", "  restored  a.md", "  removed   b/c.md"} <= set(stage.rows)
            kept = store.list()[0]
            assert (kept.parent, kept.turns) == (before, 3) and stage.talk.opened.session_id == before
            assert f"the conversation of 3 turns is kept: /resume {kept.id} goes back to it" in stage.rows
            assert stage.face.editor.text == "First" and stage.face.replaces is None
            assert [item.text for item in stage.talk.transcript.items if item.kind == "user"] == []
            await stage.say("")
            assert stage.said == ["First"]

    chatting(case)


def test_turns_that_undo_doesnt_have_are_named(tmp_path: Path, work: Path) -> None:
    lost = "no undo  files of 1 turn  (undone, too old, or not of this folder)"

    async def case() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            await stage.say("First", "Second", "Third")
            Journal(paths.data_dir(), work).undo()
            await stage.shows("/rewind 1", "Go back to before turn 1?")
            assert {"restore  a.md", lost} <= set(stage.rows)
            await stage.press("y")
            await stage.until(lambda: stage.said == [])
            assert f"  {lost}" in stage.rows

    chatting(case)


def test_what_cant_be_kept_isnt_removed(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            await stage.say("First", "Second", "Third")
            await stage.shows("/rewind 1", "Go back to before turn 1?")
            with closing(sqlite3.connect(paths.sessions_file(), isolation_level=None)) as db:
                db.execute("DROP TABLE turns")
            await stage.press("y")
            await stage.until(lambda: "the conversation stays, the files went back" in stage.rows)
            assert stage.said == ["First", "Second", "Third"] and (work / "a.md").read_text() == "0\n"
            assert any("the turns that are removed can't be kept" in row for row in stage.rows)

    chatting(case)


def test_only_the_conversation_goes_back(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            await stage.say("First", "Second", "Third")
            await stage.shows("/rewind 2", "Go back to before turn 2?")
            await stage.press("c")
            assert "Back before turn 2, with the files as they are" in stage.rows
            assert stage.said == ["First"] and (work / "a.md").read_text() == "3\n"
            await stage.say("\x15Other")
            await stage.shows("/rewind 2", "Back before turn 2")  # without files it goes at once
            assert stage.said == ["First"] and (work / "a.md").read_text() == "3\n"
            await stage.shows("\x15/rewind 1", "left as it is  a.md  (also changed by another turn: Third)")
            assert stage.said == [] and (work / "a.md").read_text() == "3\n"

    chatting(case)


def test_a_chat_that_isnt_stored_asks_in_any_case(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        async with Stage(work, three_turns(tmp_path), private=True) as stage:
            await stage.say("First", "Second")
            await stage.shows("/rewind 2", "Go back to before turn 2?", "1 turn can't be brought back")
            await stage.press("n")
            assert stage.said == ["First", "Second"]
            await stage.shows("/rewind 1", "restore  a.md")
            assert UNSTORED in stage.rows
            await stage.press("y")
            await stage.until(lambda: stage.said == [])
            assert (work / "a.md").read_text() == "0\n" and not any("is kept" in row for row in stage.rows)

    chatting(case)


@pytest.mark.parametrize("what", ["file", "journal", "conversation"])
def test_what_changed_before_the_answer_stops_it(tmp_path: Path, work: Path, what: str) -> None:
    async def case() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            await stage.say("First", "Second")
            await stage.shows("/rewind 1", "Go back to before turn 1?")
            if what == "file":
                (work / "a.md").write_text("by the user\n")
            elif what == "journal":
                Journal(paths.data_dir(), work).undo()
            else:
                stage.talk.go_back(1)
            before = (work / "a.md").read_text()
            await stage.press("y")
            where = "the conversation has changed" if what == "conversation" else "nothing was done"
            await stage.until(lambda: any(where in row and "/rewind 1 asks again" in row for row in stage.rows))
            assert stage.said[0] == "First" and (work / "a.md").read_text() == before

    chatting(case)


def test_a_message_sent_instead_of_an_answer_withdraws_the_question(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            await stage.say("First", "Second")
            await stage.shows("/rewind 1", "Go back to before turn 1?")
            await stage.say("Third, instead")
            assert not stage.face.asks and stage.said == ["First", "Second", "Third, instead"]
            assert (work / "a.md").read_text() == "3\n"

    chatting(case)


def test_it_waits_for_the_turn(tmp_path: Path, work: Path) -> None:
    async def case() -> None:
        async with Stage(work, write_script(tmp_path, answer("x " * 300), tokens_per_s=200)) as stage:
            await stage.type("go\r")
            await stage.until(lambda: stage.talk.control is not None)
            await stage.type("/rewind 1\r")
            await stage.until(lambda: any("/rewind can't run during a turn" in row for row in stage.rows))
            await stage.type("\x03")
            await stage.settle()

    chatting(case)


def test_another_chat_in_the_same_folder_is_left_alone(tmp_path: Path, work: Path) -> None:
    (tmp_path / "other").mkdir()
    theirs = script(tmp_path / "other", writes("a.md", "theirs\n", before="1\n"), writes("d.md"), answer("Mine."))

    async def case() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            await stage.say("First")
            async with Stage(work, theirs) as other:
                await other.say("Change it")
            await stage.say("Second")
            await stage.shows("/rewind 1", "left as it is  a.md  (also changed by another turn: Change it)")
            assert (work / "a.md").read_text() == "theirs\n" and (work / "d.md").exists()
            assert stage.said == []

    chatting(case)


def test_a_session_resumed_elsewhere_still_knows_its_files(tmp_path: Path, work: Path) -> None:
    async def first() -> None:
        async with Stage(work, three_turns(tmp_path)) as stage:
            await stage.say("First", "Second", "Third")

    async def second() -> None:
        async with Stage(work, script(tmp_path, answer("Again.")), resume=Resume(latest=True)) as stage:
            await stage.shows("/rewind", "3 files  Third")
            await stage.say("/fork")  # a copy has the same turns
            await stage.shows("/rewind 1", "restore  a.md")
            await stage.press("y")
            await stage.until(lambda: stage.said == [])
            assert (work / "a.md").read_text() == "0\n" and sorted(one.name for one in work.iterdir()) == ["a.md"]

    chatting(first)
    chatting(second)


def test_python_begins_anew_only_if_the_turns_used_it(tmp_path: Path, work: Path) -> None:
    code = "<|channel|>analysis to=python code<|message|>x = 1<|call|>"
    steps = (code, answer("One."), answer("Two."), code, answer("Three."))

    async def case() -> None:
        async with Stage(work, script(tmp_path, *steps)) as stage:
            await stage.say("First", "Second")
            await stage.shows("/rewind 2", "Back before turn 2")
            assert not any("python begins anew" in row for row in stage.rows)
            await stage.say("\x15Third")
            await stage.shows("/rewind 2", "python begins anew, without its variables")
            await stage.settle()

    chatting(case)


def test_in_plain_lines(tmp_path: Path, work: Path) -> None:
    def ready() -> bool:
        rows = [row for row in chat.display if row]
        return bool(rows) and rows[-1] == ">"

    flags = ("--workspace", str(work), "--trust", "--allow", "repo_browser.apply_patch")
    with PtyChat("--engine", three_turns(tmp_path), *flags, environ={"TERM": "dumb"}) as chat:
        for line, shown in (("First", "One."), ("Second", "Two."), ("/rewind", "/rewind TURN goes back to before it")):
            chat.until(ready)
            chat.press(f"{line}\r")
            chat.until(shown)
        chat.until(ready)
        chat.press("/rewind 1\r")
        chat.until(KEYS)
        assert "Go back to before turn 1?" in chat.rows and "restore  a.md" in chat.rows
        chat.press("y\r")
        chat.until("turn 1 was: First")
        assert (work / "a.md").read_text() == "0\n"


def test_the_browser_is_at_the_pages_of_that_moment(tmp_path: Path, work: Path) -> None:
    async def case(site: Site) -> None:
        opens = [wants("browser.open", id=site.url(f"/{name}")) for name in ("one", "two", "three")]
        engine = script(tmp_path, *(step for one in opens for step in (one, answer("Read."))))
        async with Stage(work, engine, allow=["browser"], allow_host=[f"127.0.0.1:{site.port}"]) as stage:
            await stage.say(f"Read {site.url('/one')}", "And two?")
            assert [stage.talk.page(cursor) is not None for cursor in (0, 1)] == [True, True]
            await stage.shows("/rewind 2", "Back before turn 2")
            assert [stage.talk.page(cursor) is not None for cursor in (0, 1)] == [True, False]
            await stage.say("\x15And three?")
            page = stage.talk.page(1)
            assert page and page.url == site.url("/three"), "its cursor is the next one of that moment"

    with Site() as site:
        for name in ("one", "two", "three"):
            site.page(f"/{name}", f"<title>{name}</title><p>{name} is a number.")
        chatting(lambda: case(site))


@pytest.mark.parametrize("back", [5, 3, 2])
def test_the_next_turn_reads_only_what_is_new(back: int) -> None:
    """Also where the sliding window has long left the place, so that a checkpoint leads back."""
    said = ("Who are you? " + "Tell me of llamas. " * 60).strip()

    async def case() -> None:
        async with ChatScreen(threads=1, temperature=0.0, prefill_ahead="off", max_tokens=20) as stage:
            assert stage.talk.loaded is not None
            model = stage.talk.loaded.model
            assert isinstance(model.engine, LlamaEngine)
            for _ in range(5):
                await stage.type(f"{said}\r")
                await stage.settle()
            assert stage.talk.tally.turn.prompt > 5 * 128
            await stage.type(f"/rewind {back}\r")
            await stage.until(lambda: f"Back before turn {back}" in stage.rows)
            await stage.type("\x15What is 12*12?\r")
            await stage.settle()
            sums, own = stage.talk.tally.turn, len(model.tokenizer.encode("What is 12*12?"))
            assert sums.prompt == sums.reused + sums.evaluated
            assert sums.evaluated == own + 3 + sums.lost  # <|end|><|start|>assistant
            assert sums.lost == 0 if back == 5 else 0 < sums.lost < 20, "the answer behind the checkpoint"

    chatting(case)
