"""Citations become footnotes, however the answer is cut into pieces; footnotes as a terminal gets them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.agent.citations import Citations, Cited, Footnote, cite
from ossia.cli.footnotes import lines

PAGES = {
    0: Cited("capybara", "", 6),
    6: Cited("Capy — facts", "http://a.test/capy", 26),
    7: Cited("Notes", "doc:17", 3),
}


def test_a_citation_becomes_a_number_and_a_footnote() -> None:
    text, notes = cite("They swim【6†L9-L11】, and eat【6†L3】.", PAGES.get)
    assert text == "They swim[1], and eat[2]."
    assert notes == (
        Footnote(1, 6, "Capy — facts", "http://a.test/capy", 9, 11),
        Footnote(2, 6, "Capy — facts", "http://a.test/capy", 3, 3),
    )
    assert notes[0].to_json() == {
        "number": 1,
        "cursor": 6,
        "title": "Capy — facts",
        "url": "http://a.test/capy",
        "first_line": 9,
        "last_line": 11,
        "verified": True,
    }


@pytest.mark.parametrize(
    ("written", "first", "last"),
    [
        ("【6†L9-L11】", 9, 11),
        ("【6†L9-11】", 9, 11),
        ("【6†L9–L11】", 9, 11),
        ("【6†L11-L9】", 9, 11),
        ("【6†9】", 9, 9),
        ("【6†L9-L11†a.test】", 9, 11),
        ("【6†source】", None, None),
        ("【6†Capy】", None, None),
        ("【6】", None, None),
    ],
)
def test_the_forms_of_a_citation(written: str, first: int | None, last: int | None) -> None:
    assert cite(written, PAGES.get) == ("[1]", (Footnote(1, 6, "Capy — facts", "http://a.test/capy", first, last),))


@pytest.mark.parametrize(
    "text", ["【】", "【†L9】", "【6†】", "【6†L9", "【a†L9】", "【6†L\n9】", "【6†a†b†c】", "[6†L9]", "【1234567】"]
)
def test_what_is_no_citation_stays(text: str) -> None:
    assert cite(text, PAGES.get) == (text, ())


def test_the_same_lines_are_one_footnote() -> None:
    text, notes = cite("a【6†L9】b【7†L1】c【6†L9-L9】d【6†L9-L10】", PAGES.get)
    assert text == "a[1]b[2]c[1]d[3]"
    assert [(note.cursor, note.last_line) for note in notes] == [(6, 9), (7, 1), (6, 10)]
    assert [note.places for note in notes] == [((1, 4), (9, 12)), ((5, 8),), ((13, 16),)]


def test_what_does_not_exist_is_unverified() -> None:
    text, notes = cite("【9†L1】【6†L25】【6†L26】【6†L20-L99】【999999†x】", PAGES.get)
    assert text == "[1][2][3][4][5]"
    assert [note.verified for note in notes] == [False, True, False, False, False]
    assert notes[0] == Footnote(1, 9, "", "", 1, 1, "no such page")
    assert notes[2] == Footnote(3, 6, "Capy — facts", "http://a.test/capy", 26, 26, "no such lines")
    assert notes[2].to_json()["problem"] == "no such lines"


def test_half_a_citation_is_held_back() -> None:
    citations = Citations(PAGES.get)
    given = ["They swim", "【", "6†L9", "-L11", "】. ", "【6†", "nothing\n", "【6†L9-"]
    assert [citations.feed(piece) for piece in given] == ["They swim", "", "", "", "[1]. ", "", "【6†nothing\n", ""]
    assert citations.finish() == "【6†L9-"
    assert citations.finish() == ""


def test_a_bracket_that_nothing_closes_holds_back_little() -> None:
    citations = Citations(PAGES.get)
    assert citations.feed("【6†" + "x" * 200) == ""
    assert citations.feed("x") == "【6†" + "x" * 201


_PIECES = st.sampled_from(
    [*"【】†L-–0169 \nab", "【6†L9-L11】", "【6†L9】", "【0】", "【77†L1】", "†a.test】", "x" * 199]
)


@given(st.lists(_PIECES, max_size=40).map("".join), st.data())
def test_any_split_gives_the_same(text: str, data: st.DataObject) -> None:
    whole, notes = cite(text, PAGES.get)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    citations = Citations(PAGES.get)
    given = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join([*map(citations.feed, given), citations.finish()]) == whole
    assert citations.notes == notes
    assert [note.places for note in citations.notes] == [note.places for note in notes]
    assert all(whole[start:end] == f"[{note.number}]" for note in notes for start, end in note.places)


# -- as they are drawn -------------------------------------------------------------------------------------------------


def test_footnotes_are_lines() -> None:
    _, notes = cite("【6†L9-L11】【6†L3】【7†L2】【0†source】【6】【9†L1】【6†L99】", PAGES.get)
    assert lines(notes, links=False) == [
        "[1] Capy — facts — http://a.test/capy (lines 9–11)",
        "[2] Capy — facts — http://a.test/capy (line 3)",
        "[3] Notes (line 2)",
        "[4] search: capybara",
        "[5] Capy — facts — http://a.test/capy",
        "[6] unverified: no such page (cursor 9)",
        "[7] Capy — facts — http://a.test/capy (line 99) unverified: no such lines",
    ]


def test_a_footnote_is_a_link_where_the_terminal_takes_one() -> None:
    notes = [Footnote(1, 6, "Käse", "https://a.test/käse?a=b;c#d", None, None), Footnote(2, 7, "Notes", "doc:1", 0, 0)]
    assert lines(notes, links=True) == [
        "[1] Käse — \x1b]8;;https://a.test/k%C3%A4se?a=b%3Bc#d\x1b\\https://a.test/käse?a=b;c#d\x1b]8;;\x1b\\",
        "[2] Notes (line 0)",
    ]


HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b[2J\u202egpj\n\r\x9b31m\x1b\\\ud800"


@pytest.mark.parametrize("links", [True, False])
def test_nothing_in_a_footnote_reaches_the_terminal_as_a_control(links: bool) -> None:  # hostile row 10
    notes = [
        Footnote(1, 6, f"T{HOSTILE}", f"http://a.test/{HOSTILE}", 9, 11),
        Footnote(2, 0, HOSTILE, "", None, None),
        Footnote(3, 0, HOSTILE, f"javascript:{HOSTILE}", None, None),
        Footnote(4, 6, "T" * 9999, "http://a.test/" + "é" * 9999, None, None),
    ]
    drawn = lines(notes, links=links)
    assert len(drawn) == 4
    for line in drawn:
        assert not re.search("[\x00-\x1f\x7f-\x9f\u202e\ud800-\udfff]", line)  # nor a link to such an address
    assert "javascript" not in drawn[2]
    assert len(drawn[3]) < 11_000
