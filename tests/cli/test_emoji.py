"""Emoji of several characters: what is kept of them, and where a row may be broken."""

from __future__ import annotations

import pytest

from ossia.cli.clean import clean_flat, clean_parts, clean_row, pieces, widest
from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.markdown.paint import Painter

FAMILY, THUMB, FLAG, FIRE = "👨\u200d👩\u200d👧", "👍🏽", "🇩🇪", "❤\ufe0f\u200d🔥"
CODER, RAINBOW = "👩🏽\u200d💻", "🏳\ufe0f\u200d🌈"
ALL = (FAMILY, THUMB, FLAG, FIRE, CODER, RAINBOW)


def test_whole_clusters_stay_and_each_is_one_piece() -> None:
    assert clean_row("".join(ALL)) == "".join(ALL)
    assert pieces("a".join(ALL)) == [piece for one in ALL for piece in ("a", one)][1:]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        *(("a\u200db", "ab"), ("👨\u200d", "👨"), ("\u200d👨", "👨"), ("👨\u200dx", "👨x"), ("❤\ufe0f", "❤")),
        *(("🇩", "D"), ("🇩🇪🇫", "🇩🇪F"), ("x\ufe0f\u200dy", "xy")),
        *(("👨\u200d\u202e👩", "👨\u200d👩"), ("\x1b[2J👍🏽", "␛[2J👍🏽")),
    ],
)
def test_what_joins_no_emoji_is_dropped(text: str, row: str) -> None:
    assert clean_row(clean_parts(text)) == row


def test_text_may_come_in_pieces() -> None:
    text = "x".join(ALL) + "\x1b\u202e"
    assert "".join(map(clean_parts, text)) == clean_parts(text) == "x".join(ALL) + "␛"


def test_what_is_drawn_again_takes_the_same_columns_everywhere() -> None:
    assert clean_flat(" ".join(ALL)) == "👨👩👧 👍 DE ❤🔥 👩💻 🏳🌈"
    assert [widest(one) for one in (*ALL, "漢", "a\u0301")] == [6, 4, 4, 3, 6, 3, 2, 1]


@pytest.mark.parametrize("width", range(6, 40))
@pytest.mark.parametrize("fold", [True, False])
def test_no_row_ends_inside_a_cluster(width: int, fold: bool) -> None:
    text = " ".join(("ab".join(ALL), "".join(ALL), FAMILY * 4, FLAG * 5))
    painter = Painter(width)
    rows = painter.text(text, fold=fold)
    whole = folded([[segment for row in painter.text(text.replace(" ", "_")) for segment in row]], width)
    for cut in (rows, whole):
        assert [piece for row in cut for piece in pieces("".join(part.text for part in row)) if piece not in " _"] == [
            piece for piece in pieces(text) if piece != " "
        ]
        assert fold is False or all(sum(widest(part.text) for part in row) <= width for row in cut)
    drawn = "".join(text for _, text in painter.fragments(rows))
    assert drawn.replace("\n", "").replace(" ", "") == clean_flat(text).replace(" ", "")
