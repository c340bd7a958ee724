"""What was pasted stays a placeholder wherever the chat shows it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.cli.paths import history_file
from ossia.cli.runtime.session import Resume
from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.screen import ChatScreen, chatting

LINES = "\n".join(f"row {number} of the log, with a few words" for number in range(213))
PASTE = f"\x1b[200~{LINES}\x1b[201~"
SIZES = [(50, 15), (120, 40)]


async def send(stage: ChatScreen, *lines: str) -> None:
    for line in lines:
        await stage.type(f"{line}\r")
        await stage.settle()


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_it_stays_one_when_it_is_asked_again_forked_and_edited(tmp_path: Path, columns: int, rows: int) -> None:
    async def case() -> None:
        script = write_script(tmp_path, *(answer(f"Answer {number}.") for number in range(3)))
        async with ChatScreen(engine=script, columns=columns, rows=rows) as stage:
            await send(stage, f"What is this? \x1b[200~{LINES}\x1b[201~", "/retry", "And?", "/fork 1")
            said = [row for row in stage.rows if row.startswith("› ") and not row.startswith("› /")]
            placeholder = "› What is this? [paste 1: 213 lines]"
            assert said == [placeholder, placeholder, "› And?", placeholder]
            assert "row 5 of the log" not in "\n".join(stage.rows)
            await send(stage, "/edit")
            assert stage.terminal.display[stage.terminal.cursor[0]] == placeholder
            assert stage.face.editor.pastes.expanded(stage.face.editor.text) == f"What is this? {LINES}"

    chatting(case)


def said(stage: ChatScreen) -> list[str]:
    begin = next(number for number, row in enumerate(stage.rows) if row.startswith("› "))
    return stage.rows[begin : stage.rows.index("", begin)]


@pytest.mark.parametrize(("columns", "rows"), SIZES)
@pytest.mark.parametrize(
    ("line", "placeholder"),
    [
        (f"What is this? {PASTE}", "› What is this? [paste 1: 213 lines]"),
        (f'"""\r{PASTE}\rWhat is this?"""', "› [paste 1: 213 lines]\n  What is this?"),
        (PASTE, "› [paste 1: 213 lines]"),
    ],
)
def test_in_a_later_chat_it_is_one_again_and_whole_in_the_pager(
    tmp_path: Path, line: str, placeholder: str, columns: int, rows: int
) -> None:
    async def first() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("A log."))) as stage:
            await send(stage, line)

    async def later() -> None:
        script = write_script(tmp_path, answer("A log."))
        async with ChatScreen(resume=Resume(latest=True), engine=script, columns=columns, rows=rows) as stage:
            assert "\n".join(said(stage)) == placeholder
            await stage.type("\x0f")
            await stage.until(lambda: "row 212 of the log" in "\n".join(stage.terminal.display))
            await stage.type("q")
            await stage.until(lambda: not stage.face.screen.away)
            await send(stage, "/edit")
            assert stage.face.editor.text == placeholder.removeprefix("› ").replace("\n  ", "\n")
            assert LINES in stage.face.editor.pastes.expanded(stage.face.editor.text)

    chatting(first)
    chatting(later)


def test_of_two_lines_of_the_history_that_fit_the_one_with_more_words_is_taken(tmp_path: Path) -> None:
    async def case() -> None:
        async with ChatScreen(engine=write_script(tmp_path, *[answer("A log.")] * 2)) as stage:
            await send(stage, f"What is this? {PASTE}", "/new", PASTE.replace("log", "list"))

    async def later() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("A log."))) as stage:
            await send(stage, "/resume What is this")
            assert "› What is this? [paste 1: 213 lines]" in stage.rows

    chatting(case)
    chatting(later)


def test_where_no_history_knows_what_was_pasted_the_beginning_is_shown(tmp_path: Path) -> None:
    async def first() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("A log."))) as stage:
            await send(stage, f"What is this? {PASTE}")

    async def listed() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("A log."))) as stage:
            await send(stage, "/sessions")
            assert [row for row in stage.rows if row.endswith("1 turn  What is this?")]

    async def later() -> None:
        async with ChatScreen(resume=Resume(latest=True), engine=write_script(tmp_path, answer("A log."))) as stage:
            assert said(stage) == [
                "› What is this? row 0 of the log, with a few words",
                "  row 1 of the log, with a few words",
                "  row 2 of the log, with a few words… (213 lines in all, Ctrl-O shows them)",
            ]

    chatting(first)
    chatting(listed)
    history_file().unlink()
    chatting(later)
