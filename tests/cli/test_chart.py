"""Charts: rows of any width, an SVG that any reader of XML takes and that loads nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.cli.chart import Bar, Chart, bar, draws_blocks, rows, stacked, svg

SOLVED = Chart(
    "solved", "%", (Bar("chain", 70.0, 39.7, 89.2, "7 of 10"), Bar("repo", 0.0, 0.0, 10.7)), "95 % interval", most=100
)
RATIOS = Chart("decode", "", (Bar("beside a peer", 1.02, 0.97, 1.05), Bar("busy", 0.5)), mark=1)
HOSTILE = "</text><script>\x1b]0;x\x07&\ud800\ufffe" + "w" * 90
TEXTS = st.text(max_size=60) | st.just(HOSTILE)
VALUES = st.floats(0, 1e9)


def test_rows_of_bars() -> None:
    assert rows(SOLVED, 44) == [
        "solved",
        "chain  ████████████▓▓▓▓▓▓▓▓░░░░░░     70.0 %",
        "repo   ░░░                             0.0 %",
        "       ▓░ 95 % interval",
    ]
    assert rows(SOLVED, 70)[1].endswith("  70.0 %  7 of 10")
    assert rows(SOLVED, 30, ascii=True) == [
        "solved",
        "chain  ######====---    70.0 %",
        "repo   --                0.0 %",
        "       =- 95 % interval",
    ]
    assert rows(RATIOS, 40) == [
        "decode",
        "beside a peer  ██████████████████│  1.02",
        "busy           █████████         │  0.50",
    ]


def test_a_bar_and_the_parts_of_a_whole() -> None:
    assert [bar(share, 4) for share in (0, 0.5, 0.53, 1, 7, -1)] == ["", "██", "██▏", "████", "████", ""]
    assert stacked([("r", 1), ("w", 2)], 4, 8) == "rrwwww"
    assert stacked([("a", 0.2), ("b", 0), ("c", 0.2), ("d", 9.6)], 10, 10) == "dddddddddd"
    assert stacked([("a", -1), ("b", 3)], 0, 4) == "bbbb"


@pytest.mark.parametrize(("encoding", "does"), [("utf-8", True), ("ascii", False), ("latin-1", False), (None, False)])
def test_ascii_where_the_output_has_no_blocks(encoding: str | None, does: bool) -> None:
    assert draws_blocks(encoding) == does
    for chart in (SOLVED, RATIOS):
        for row in rows(chart, 60, ascii=not does)[1:]:
            assert row.encode(encoding or "ascii")


@given(st.lists(st.tuples(TEXTS, VALUES, VALUES, VALUES, TEXTS), max_size=5), TEXTS, st.integers(30, 200))
def test_any_chart_fits_and_is_whole(bars: list[tuple[str, float, float, float, str]], title: str, width: int) -> None:
    made = tuple(Bar(label, value, min(value, low), max(value, high), note) for label, value, low, high, note in bars)
    chart = Chart(title, "tok/s", made, "least to greatest", mark=1)
    drawn = rows(chart, width)
    assert len(drawn) == 2 + len(bars) and all(len(row) <= width and "\x1b" not in row for row in drawn)
    picture = ElementTree.fromstring(svg([chart, chart]).encode())
    assert len(picture.findall(".//{*}rect")) == 1 + 2 * len(bars)
    edges = [float(rect.get("x", 0)) + float(rect.get("width", 0)) for rect in picture.iter("{*}rect")]
    assert all(0 <= edge <= 720 for edge in edges)


def test_a_picture_loads_nothing_and_has_two_grounds() -> None:
    text = svg([Chart(HOSTILE, "%", (Bar(HOSTILE, 1.0, 0.5, 2.0, HOSTILE),)), SOLVED])
    picture = ElementTree.fromstring(text)
    assert {element.tag.rpartition("}")[2] for element in picture.iter()} == {
        *("svg", "title", "style", "rect", "path", "text")
    }
    assert not re.search(r"url\(|href|@import|https?:(?!//www\.w3\.org/2000/svg\")", text)
    assert text.count("prefers-color-scheme: dark") == 1 and "\x1b" not in text
    assert [element.text for element in picture.iterfind("{*}text")][-5:] == [
        *("solved (lines: 95 % interval)", "chain", "70.0 % · 7 of 10", "repo", "0.0 %")
    ]


def test_wide_characters_leave_the_bars_below_each_other() -> None:
    wide, narrow = rows(Chart("t", "s", (Bar("字字", 4.0), Bar("abcd", 4.0))), 40)[1:]
    assert wide.replace("字字", "abcd") == narrow
