"""How the chat draws what is said, as whole screens of several sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.screen import ChatScreen, Clock, chatting

SIZES = pytest.mark.parametrize(("columns", "rows"), [(50, 15), (120, 40)])


def drawn(stage: ChatScreen) -> list[str]:
    """The screen from the first line that was sent on, without the bottom line, which tells of the speed."""
    rows = stage.terminal.display
    *said, _ = rows[: max(number for number, row in enumerate(rows) if row) + 1]
    return said[next(number for number, row in enumerate(said) if row.startswith("› ")) :]


@SIZES
def test_pasted_code_keeps_its_shape(columns: int, rows: int, tmp_path: Path) -> None:
    async def case() -> None:
        script = write_script(tmp_path, answer("Yes."))
        async with ChatScreen(columns=columns, rows=rows, engine=script, clock=Clock()) as stage:
            await stage.type("\x1b[200~\n    if x:\n        return " + "a " * 24 + "\n\n\ty = 2\n\x1b[201~")
            await stage.type("\r")
            await stage.until(lambda: "Yes." in stage.rows)
            await stage.settle()
            long = "a " * 17 + "\n  " + "a " * 7 if columns == 50 else "a " * 24
            typed = f"›     if x:\n          return {long}\n\n      y = 2"
            assert drawn(stage) == [*(row.rstrip() for row in typed.split("\n")), "", "Yes.", "", "›"]
            asked = stage.talk.session.messages[0].text
            assert asked == "    if x:\n        return " + "a " * 24 + "\n\n\ty = 2"

    chatting(case)


@SIZES
@pytest.mark.parametrize("colour", [True, False])
def test_code_has_an_edge(
    columns: int, rows: int, colour: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without colours its marks stay; the lines between them can be copied as they are."""
    monkeypatch.setenv("NO_COLOR", "" if colour else "1")

    async def case() -> None:
        script = write_script(tmp_path, answer("So:\n```python\nx = 1\n\ny\n```\nDone."))
        async with ChatScreen(columns=columns, rows=rows, engine=script, clock=Clock()) as stage:
            await stage.type("go\r")
            await stage.until(lambda: "Done." in stage.rows)
            await stage.settle()
            first, last = ["── python ──"], ["────────────"]
            assert drawn(stage) == [
                *("› go", "", "So:", "", *first, "x = 1", "", "y", *last, "", "Done.", "", "›"),
            ]

    chatting(case)


@SIZES
def test_formulas_are_text_that_streams(columns: int, rows: int, tmp_path: Path) -> None:
    said = r"It is $x^2 + \frac{a}{b}$, so \(\sqrt{2}\) costs $5 and \(\what{x}\) stays."
    said += "\n\n\\[\n\\sum_{i=1}^n i\n\\]\n\nEnd."

    async def case() -> None:
        script = write_script(tmp_path, answer(said))
        async with ChatScreen(columns=columns, rows=rows, engine=script, clock=Clock()) as stage:
            await stage.type("go\r")
            await stage.until(lambda: "End." in stage.rows)
            await stage.settle()
            first = ["It is x² + a/b, so √2 costs $5 and \\(\\what{x}\\)", "stays."]
            first = first if columns == 50 else [" ".join(first)]
            assert drawn(stage) == ["› go", "", *first, "", "∑ᵢ₌₁ⁿ i", "", "End.", "", "›"]

    chatting(case)


FAMILY, THUMB, FLAG, FIRE = "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f\u200d🔥"


@SIZES
def test_emoji_stay_whole(columns: int, rows: int, tmp_path: Path) -> None:
    """What is printed is as it was typed. In the input line stands what takes the same columns in every terminal."""

    async def case() -> None:
        text = f"{FAMILY}{THUMB} {FLAG} x{FIRE}y a\u200db"
        script = write_script(tmp_path, *(answer(f"{text}\n\n{FAMILY * 9} {FLAG * 9}") for _ in range(2)))
        async with ChatScreen(columns=columns, rows=rows, engine=script, clock=Clock()) as stage:
            await stage.type(text)
            await stage.until(lambda: "› 👨👩👧👍 DE x❤🔥y ab" in stage.rows)
            await stage.type("!\x1b[D\x7fz")
            await stage.until(lambda: "› 👨👩👧👍 DE x❤🔥y az!" in stage.rows)
            assert stage.terminal.cursor[1] == stage.terminal.display[stage.terminal.cursor[0]].index("!") + 5
            await stage.type("\x7fb\x1b[C\x7f\r")
            await stage.settle()
            assert stage.talk.session.messages[0].text == text
            sent = "".join(stage.terminal.sent)
            shown = text.replace("a\u200db", "ab")
            assert f"› {shown}" in sent and f"{shown}\r\n" in sent
            assert FAMILY * (8 if columns == 50 else 9) in sent

    chatting(case)
