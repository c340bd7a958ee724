"""A question about an edit: read at full height, answered for all edits, and there to be looked at afterwards."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from ossia.cli.terminal.question import QUIET_S
from ossia.tools.calls.results import REFUSED
from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.pty import PtyChat
from tests.support.screen import ChatScreen, Clock, chatting
from tests.support.work_calls import reads, writes

CTRL_O, END, PGDN = "\x0f", "\x1b[F", "\x1b[6~"
SIZES = [(50, 15), (120, 40)]
BEFORE = [f"line {number}" for number in range(60)]
AFTER = [f"line {number}{' changed' if number % 2 else ''}" for number in range(60)]
READ = reads("notes.md")


def write(name: str, *lines: str) -> str:
    """The step that makes a file, or changes a.py."""
    return writes(name, "\n".join(lines), before="\n".join(BEFORE) if name == "a.py" else None)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("".join(f"{line}\n" for line in BEFORE))
    (folder / "notes.md").write_text("Notes.\n")
    return folder


async def asked(stage: ChatScreen, clock: Clock) -> None:
    """Wait for a question, and until it listens."""
    await stage.until(lambda: stage.face.question.open and "[y] yes" in "\n".join(stage.terminal.display))
    clock.now += 2 * QUIET_S


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_diff_is_read_at_full_height_below_what_is_asked(tmp_path: Path, work: Path, columns: int, rows: int) -> None:
    clock = Clock()
    title = "Edit a.py +30 −30"
    head = [title, "it can change files"]

    async def case() -> None:
        script = write_script(tmp_path, write("a.py", *AFTER), answer("Done."))
        flags = {"workspace": str(work), "trust": True, "no_tools": None, "clock": clock}
        async with ChatScreen(engine=script, columns=columns, rows=rows, **flags) as stage:
            screen = stage.terminal
            await stage.type("Change it.\r")
            await asked(stage, clock)
            for _ in range(3):
                at = screen.display.index(head[0])
                assert screen.display[at : at + len(head)] == head
                await stage.type(PGDN)
                await stage.until(lambda: stage.face.screen.settled)
            assert "; Ctrl-O: all" in "\n".join(screen.display)
            await stage.type(CTRL_O)
            await stage.until(lambda: "waiting for you ·" in "\n".join(screen.display))
            assert screen.display[: len(head)] == head
            at = screen.display.index("a.py")  # the row above may be the end of the one with the call's words
            assert any(row.startswith("▸ Edit a.py") for row in screen.display[at - 2 : at])
            shown = sum(re.match(r" +\d+ [ +-] line", row) is not None for row in screen.display)
            assert shown == rows - 4 - len(head) - (columns == 50)
            await stage.type(END)
            await stage.until(lambda: " 60 + line 59 changed" in screen.display)
            assert screen.display[: len(head)] == head and screen.display[rows - 2] == " 60 + line 59 changed"
            await stage.type("/line 31 ch\r")
            await stage.until(lambda: " 32 + line 31 changed" in screen.display)
            assert screen.display[: len(head)] == head
            await stage.type("q")
            await stage.until(lambda: not stage.face.screen.away and stage.face.screen.settled)
            await asked(stage, clock)
            await stage.type("y")
            await stage.settle()
            assert "▸ Edit a.py +30 −30" in stage.rows and "   … 78 more lines, Ctrl-O" in stage.rows
            assert "Done." in stage.rows and sum("changed" in row for row in stage.rows) == 4
            await stage.type(CTRL_O)
            await stage.until(lambda: any("more lines · Enter opens" in row for row in screen.display))
            await stage.type("q")
            await stage.until(lambda: not stage.face.screen.away)

    chatting(case)


def test_ctrl_c_empties_the_line_that_takes_the_answers(tmp_path: Path, work: Path) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, write("a.py", *AFTER), answer("Done."))
        flags = {"workspace": str(work), "trust": True, "no_tools": None, "clock": clock}
        async with ChatScreen(engine=script, **flags) as stage:
            await stage.type("Change it.\r")
            await asked(stage, clock)
            await stage.type("my")
            await stage.until(lambda: stage.face.editor.text == "my")
            await stage.type("\x03")
            await stage.until(lambda: stage.face.editor.text == "")
            await asked(stage, clock)
            await stage.type("y")
            await stage.settle()
            assert "Done." in stage.rows

    chatting(case)


ASKED = ["› Change it.", "", "Edit a.py +30 −30", "it can change files"]
NOTE = ['"a" always allows patches of `a.py` here', "", "waiting for your answer", "›"]
EDITS = "all edits, till I leave"


def diff(rows: int) -> list[str]:
    """The first rows of the diff."""
    lines = ["a.py", "  1   line 0"]
    for number in range(1, 60, 2):
        lines += [f" {number + 1:2} - line {number}", f" {number + 1:2} + line {number} changed"]
        lines.append(f" {number + 2:2}   line {number + 1}")
    return lines[:rows]


SCREENS = {
    (50, 15): [
        *ASKED[2:],
        *diff(5),
        "… 86 more lines, PgDn; Ctrl-O: all",
        "[y] yes  [n] no  [s] this session  [a] always",
        f"[e] edit  [w] {EDITS}  [?] explain",
        NOTE[0],
        *NOTE[2:],
        "  script · medium · ▕▏       ▏ 1.8k of 131k · work",
    ],
    (80, 24): [
        *ASKED[2:],
        *diff(14),
        "… 77 more lines, PgDn; Ctrl-O: all",
        "[y] yes  [n] no  [s] this session  [a] always  [e] edit",
        f"[w] {EDITS}  [?] explain",
        NOTE[0],
        *NOTE[2:],
        "  script · medium · ▕▏       ▏ 1.8k of 131k · work",
    ],
    (120, 40): [
        *ASKED[2:],
        *diff(31),
        "… 60 more lines, PgDn; Ctrl-O: all",
        f"[y] yes  [n] no  [s] this session  [a] always  [e] edit  [w] {EDITS}  [?] explain",
        NOTE[0],
        *NOTE[2:],
        "  script · medium · ▕▏       ▏ 1.8k of 131k · work",
    ],
}


@pytest.mark.parametrize(("columns", "rows"), SCREENS)
def test_the_whole_screen_with_a_question_on_it(tmp_path: Path, work: Path, columns: int, rows: int) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, write("a.py", *AFTER), answer("Done."))
        flags = {"workspace": str(work), "trust": True, "no_tools": None, "clock": clock}
        async with ChatScreen(engine=script, columns=columns, rows=rows, **flags) as stage:
            await stage.type("Change it.\r")
            await asked(stage, clock)
            shown = stage.terminal.display
            shown = [re.sub("^[⠀-⣿] ", "", row) for row in shown[shown.index(ASKED[2]) :]]
            while not shown[-1]:
                shown.pop()
            assert [re.sub(r" · [\d.,]+ tok/s$", "", row) for row in shown] == SCREENS[columns, rows]
            await stage.type("n\r")

    chatting(case)


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_edits_are_accepted_with_one_key_also_in_a_folder_that_is_not_trusted(
    tmp_path: Path, work: Path, columns: int, rows: int
) -> None:
    clock = Clock()

    async def case() -> None:
        steps = (READ, write("a.py", "one"), write("b.py", "two"), write("conftest.py", "three"), answer("Done."))
        flags = {"engine": write_script(tmp_path, *steps), "workspace": str(work), "no_tools": None, "clock": clock}
        async with ChatScreen(columns=columns, rows=rows, **flags) as stage:
            await stage.type("Change them.\r")
            await asked(stage, clock)
            assert "[w] all edits, till I leave" in "\n".join(stage.terminal.display)
            await stage.type("w")
            await stage.until(lambda: any("New conftest.py" in row for row in stage.terminal.display))
            assert (work / "a.py").read_text() == "one\n" and (work / "b.py").read_text() == "two\n"
            await asked(stage, clock)
            assert "[w] all edits, till I leave" not in "\n".join(stage.terminal.display)
            await stage.type("s")  # not offered here: it neither answers nor is it typed
            await stage.until(lambda: stage.face.screen.settled)
            assert stage.face.question.open and stage.face.editor.text == ""
            clock.now += 2 * QUIET_S
            await stage.type("n\r")
            await stage.settle()
            assert "Done." in stage.rows and not (work / "conftest.py").exists()

    chatting(case)


UNTRUSTED = "the folder work isn't trusted, so its text counts as somebody else's: /tools trust asks about it"


@pytest.mark.parametrize("entered", ["--workspace", "/tools workspace"])
def test_a_folder_that_is_entered_can_be_trusted_from_the_chat(tmp_path: Path, work: Path, entered: str) -> None:
    clock = Clock()

    def told(stage: ChatScreen, text: str) -> int:
        """How often it stands there, wherever the rows with the long paths are wrapped."""
        return "".join("".join(stage.rows).split()).count("".join(text.split()))

    async def case() -> None:
        script = write_script(tmp_path, READ, write("b.py", "two"), answer("Done."), answer("Done."))
        flags = {"engine": script, "no_tools": None, "clock": clock, "rows": 40}
        async with ChatScreen(**flags, workspace=str(work) if entered.startswith("--") else None) as stage:
            if not entered.startswith("--"):
                await stage.type(f"{entered} {work}\r")
            await stage.until(lambda: told(stage, "never ask here"))
            clock.now += 2 * QUIET_S
            await stage.type("l")
            await stage.until(lambda: told(stage, UNTRUSTED))
            await stage.settle()
            for key, said in (("n", "not trusted: nothing was changed"), ("y", "is trusted, until its .ossia")):
                await stage.type("/tools trust\r")
                await asked(stage, clock)
                assert told(stage, f"Trust {work}?") and told(stage, "files count as written by you")
                await stage.type(key)
                await stage.until(lambda said=said: told(stage, said))
                await stage.until(lambda: stage.talk.loaded is not None)
                await stage.settle()
            assert told(stage, UNTRUSTED) == 1
            await stage.type("Change it.\r")
            await asked(stage, clock)
            assert stage.talk.session.taint == {"private"} and told(stage, "[s] this session")
            await stage.type("y")
            await stage.settle()

    async def later() -> None:
        async with ChatScreen(workspace=str(work), no_tools=None) as stage:
            assert not told(stage, UNTRUSTED) and stage.talk.folder and stage.talk.folder.workspace.trusted

    chatting(case)
    chatting(later)


def test_a_folder_that_changes_while_it_is_asked_about_is_not_trusted(work: Path) -> None:
    clock = Clock()

    async def case() -> None:
        async with ChatScreen(workspace=str(work), no_tools=None, clock=clock, rows=40) as stage:
            await stage.until(lambda: "[l] later" in "\n".join(stage.rows))
            (work / "AGENTS.md").write_text("Obey.")
            clock.now += 2 * QUIET_S
            await stage.type("y")
            await stage.until(lambda: "/tools trust shows" in "\n".join(stage.rows))
            assert not any("is trusted" in row for row in stage.rows)
            assert stage.talk.folder and not stage.talk.folder.workspace.trusted

    chatting(case)


@pytest.mark.parametrize("typed", ["use two files", "no, yes!", ""])
def test_the_model_reads_why_a_call_was_refused(tmp_path: Path, work: Path, typed: str) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, write("a.py", *AFTER), answer("Done."))
        async with ChatScreen(engine=script, workspace=str(work), trust=True, no_tools=None, clock=clock) as stage:
            await stage.type("Change it.\r")
            await stage.until(lambda: stage.face.question.open and "[y] yes" in "\n".join(stage.terminal.display))
            await stage.type("y")
            await stage.until(lambda: "too early: press y again" in stage.terminal.display)
            assert stage.face.editor.text == ""
            clock.now += 2 * QUIET_S
            await stage.type("n")
            await stage.until(lambda: "[Enter] no  [Esc] back" in stage.terminal.display)
            await stage.type(f"{typed}\r")
            await stage.settle()
            read = stage.talk.session.entries[2].message.text
            assert read == (f"The user refused: {typed}" if typed else REFUSED)
            row = "✗ Edit a.py · refused" + (f": {typed}" if typed else "")
            assert [said for said in stage.rows if "refused" in said] == [row] and stage.face.editor.text == ""
            assert "Done." in stage.rows and (work / "a.py").read_text().startswith("line 0\nline 1\n")

    chatting(case)


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_reason_on_a_real_terminal(tmp_path: Path, work: Path) -> None:
    script = write_script(tmp_path, write("a.py", *AFTER), answer("Done."))
    with PtyChat("--engine", script, "--workspace", str(work), "--trust", columns=80, rows=24) as chat:
        chat.idle()
        chat.press("Change it.\r")
        chat.until("[y] yes")
        time.sleep(1.2 * QUIET_S)  # a question listens only then
        chat.press("n")
        chat.until("[Enter] no")
        chat.press("use two files\r")
        chat.until("Done.")
        assert "refused: use two files" in chat.text and "› use two files" not in chat.rows
    assert (work / "a.py").read_text().startswith("line 0\nline 1\n")


def test_ctrl_c_empties_the_reason_then_stops_the_turn(tmp_path: Path, work: Path) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, write("a.py", *AFTER), answer("Done."))
        async with ChatScreen(engine=script, workspace=str(work), trust=True, no_tools=None, clock=clock) as stage:
            await stage.type("Change it.\r")
            await asked(stage, clock)
            await stage.type("nwhy\x03")
            await stage.until(lambda: "Up brings back what you typed" in stage.rows)
            assert stage.face.question.open and stage.face.editor.text == ""
            await stage.type("\x03")
            await stage.settle()
            assert not stage.face.question.open and "Done." not in stage.rows
            assert len(stage.talk.session.entries) == 3 and "stopped" in "\n".join(stage.rows)

    chatting(case)


def test_an_answer_typed_in_the_pager_is_no_answer(tmp_path: Path, work: Path) -> None:
    clock = Clock()

    async def case() -> None:
        script = write_script(tmp_path, write("a.py", *AFTER), answer("Done."))
        async with ChatScreen(engine=script, workspace=str(work), trust=True, no_tools=None, clock=clock) as stage:
            await stage.type("Change it.\r")
            await asked(stage, clock)
            await stage.type(CTRL_O)
            await stage.until(lambda: "waiting for you ·" in "\n".join(stage.terminal.display))
            await stage.type("yqy")
            await stage.until(lambda: not stage.face.screen.away and stage.face.screen.settled)
            assert stage.face.question.open and stage.face.editor.text == ""
            await asked(stage, clock)
            await stage.type("y")
            await stage.settle()
            assert "Done." in stage.rows

    chatting(case)



def test_a_commands_question_is_lost_to_no_turn_and_to_a_calls_question_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stays while a line that was typed after it is answered, and while a call ends that was agreed to before."""
    clock, go, own = Clock(), tmp_path / "go", tmp_path / "own.py"
    own.write_text(
        "import pathlib, time\n\ndef wait() -> None:\n"
        f'    """Wait for a file."""\n    while not pathlib.Path({str(go)!r}).exists():\n        time.sleep(0.01)\n'
    )
    (tmp_path / "config.toml").write_text('[approvals]\n"functions.wait" = "ask"\n')
    monkeypatch.setenv("OSSIA_CONFIG", str(tmp_path / "config.toml"))
    call = "<|channel|>commentary to=functions.wait <|constrain|>json<|message|>{}<|call|>"
    asks, switch = "/model https://gpu.test\r", "Switch to gpu.test?"

    async def case() -> None:
        script = write_script(tmp_path, answer("Hi."), call, answer("Done."))
        async with ChatScreen(engine=script, tools=(str(own),), no_tools=None, clock=clock) as stage:
            await stage.type(f"{asks}hello there\r")
            await stage.until(lambda: "Hi." in stage.rows)
            await stage.settle()
            await asked(stage, clock)
            assert switch in stage.terminal.display
            await stage.type("Change it.\r")
            await stage.until(lambda: any("functions.wait" in row for row in stage.terminal.display))
            assert "a call needs an answer first: after it, give your last command again" in stage.rows
            assert switch not in stage.terminal.display
            await asked(stage, clock)
            await stage.type("y")
            await stage.until(lambda: not stage.face.asks)
            await stage.type(asks)
            await asked(stage, clock)
            go.touch()
            await stage.until(lambda: "Done." in stage.rows)
            await stage.settle()
            await asked(stage, clock)
            await stage.type("n")
            await stage.until(lambda: "nothing was sent to gpu.test" in "\n".join(stage.rows))

    chatting(case)
