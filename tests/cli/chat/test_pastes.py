"""What was pasted stays a placeholder wherever the chat shows it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.runtime.session import Resume
from tests.support.command import write_script
from tests.support.screen import ChatScreen, chatting

LINES = "\n".join(f"row {number} of the log, with a few words" for number in range(213))
SIZES = [(50, 15), (80, 24), (120, 40)]


def answer(text: str) -> str:
    return f"<|channel|>final<|message|>{text}<|return|>"


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
            assert stage.face.editor.expanded(stage.face.editor.text) == f"What is this? {LINES}"

    chatting(case)


def test_in_a_later_chat_its_beginning_is_shown_and_how_long_it_is(tmp_path: Path) -> None:
    async def first() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("A log."))) as stage:
            await send(stage, f"What is this? \x1b[200~{LINES}\x1b[201~")

    async def later() -> None:
        async with ChatScreen(resume=Resume(latest=True), engine=write_script(tmp_path, answer("A log."))) as stage:
            shown = "\n".join(stage.rows)
            assert "› What is this? row 0 of the log" in shown and "… (213 lines in all)\n" in shown

    async def listed() -> None:
        async with ChatScreen(engine=write_script(tmp_path, answer("A log."))) as stage:
            await send(stage, "/sessions")
            assert [row for row in stage.rows if row.endswith("1 turn  What is this?")]

    chatting(first)
    chatting(listed)
    chatting(later)
