"""Markdown in pieces: any split gives the same chunks, and the chunks are the blocks of the whole text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ossia.cli.terminal.markdown._chunk import (
    BLOCK_LINES,
    CODE_LINES,
    CONTEXT_LINES,
    LONG_LINE,
    PARAGRAPH_CHARS,
    PARAGRAPH_LINES,
)
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter
from tests.oracle.segments import CASES, FRAGMENTS, LONG, chunks, differences, random_text
from tests.support.rendering import render_markdown


@given(
    st.lists(st.sampled_from(FRAGMENTS) | st.text("ab `*_$\\[]|-=#>~1.\t\n", max_size=8), max_size=25),
    st.lists(st.integers(0, 200), max_size=12),
)
@settings(max_examples=150, deadline=None)
def test_any_split_gives_the_same_chunks(fragments: list[str], cuts: list[int]) -> None:
    text = "".join(fragments)
    assert chunks(text, sorted(min(cut, len(text)) for cut in cuts)) == chunks(text, ())


@pytest.mark.parametrize("text", [*CASES, *LONG], ids=lambda text: repr(text[:20]))
def test_known_texts_are_the_same_in_pieces(text: str) -> None:
    assert differences(text, random.Random(1), count=3) == []


def test_a_tenth_of_the_oracle() -> None:
    rng = random.Random(1)
    assert [one for _ in range(400) for one in differences(random_text(rng), rng, count=3)] == []


def fed(*pieces: str) -> list[list[Chunk]]:
    """What each piece finishes, and at last the end."""
    segmenter = Segmenter()
    return [*(segmenter.feed(piece) for piece in pieces), segmenter.finish()]


def test_a_block_is_final_when_a_blank_line_or_the_next_block_says_so() -> None:
    paragraph = Chunk("paragraph_open", "one\ntwo\n", gap=False)
    assert fed("one\n", "two\n", "\n", "three") == [
        *([], [], [paragraph]),
        *([], [Chunk("paragraph_open", "three\n", gap=True)]),
    ]
    assert fed("one\ntwo\n", "# three\n") == [[], [paragraph, Chunk("heading_open", "# three\n", gap=True)], []]


def test_a_partial_line_decides_nothing() -> None:
    assert fed("title\n", "=", "==", "\n")[-2:] == [[Chunk("heading_open", "title\n===\n", gap=False)], []]


def test_a_list_is_cut_by_items_and_keeps_count() -> None:
    assert fed("1. a\n", "1. b\n\n1. c\n", "text\n\n") == [
        [],
        [
            Chunk("ordered_list_open", "1. a\n", gap=False, context="1"),
            Chunk("ordered_list_open", "1. b\n\n", gap=False, context="2"),
        ],
        [],
        [Chunk("ordered_list_open", "1. c\ntext\n", gap=True, context="3")],
    ]


def test_another_marker_begins_another_list() -> None:
    got = [chunk for step in fed("- a\n- b\n* c\n2. d\n2) e\n") for chunk in step]
    assert [chunk.gap for chunk in got] == [False, False, True, True, True]
    assert [chunk.context for chunk in got] == ["", "", "", "2", "2"]


def test_a_fence_comes_in_pieces_with_what_stands_before_them() -> None:
    lines = [f"x{number}\n" for number in range(2 * CODE_LINES + 5)]
    got = [chunk for step in fed("  ```py x\n", *(f"  {line}" for line in lines), "  ```\n") for chunk in step]
    assert [chunk.source for chunk in got] == ["".join(lines[at : at + CODE_LINES]) for at in range(0, 85, CODE_LINES)]
    assert [chunk.context for chunk in got] == ["", "".join(lines[:CODE_LINES]), "".join(lines[: 2 * CODE_LINES])]
    assert {(chunk.kind, chunk.info) for chunk in got} == {("code", "py x")}
    assert 2 * CODE_LINES <= CONTEXT_LINES


def test_a_line_of_code_is_the_line_however_long() -> None:
    line = "x" * 5000 + " y"
    assert chunks(f"```\n{line}\n```\n", ()) == [Chunk("code", f"{line}\n", gap=False, begins=True, ends=True)]


def test_what_never_ends_is_cut_and_goes_on() -> None:
    table = "|a|\n|-|\n"
    got = chunks(table + "|1|\n" * 300, range(0, 1200, 7))
    assert [chunk.source.count("\n") for chunk in got] == [BLOCK_LINES, 300 + 4 - BLOCK_LINES]
    assert all(chunk.source.startswith(table) for chunk in got)
    assert [chunk.gap for chunk in got] == [False, False]

    got = chunks("a\n" * 250, ())
    assert [chunk.source.count("\n") for chunk in got] == [PARAGRAPH_LINES, PARAGRAPH_LINES, 50]
    got = chunks("word " * 20_000, ())
    assert max(len(chunk.source) for chunk in got) < PARAGRAPH_CHARS + LONG_LINE + 300
    assert "".join(chunk.source for chunk in got).split() == ["word"] * 20_000


def test_a_long_item_goes_on_without_its_marker_and_inside_its_fence() -> None:
    got = chunks("7. a\n   ```py\n" + "   x\n" * 300 + "   ```\n8. b\n", ())
    assert [chunk.context for chunk in got] == ["7", "+", "8"]
    assert got[1].source.startswith("7. ```py\n   x\n")
    assert [chunk.gap for chunk in got] == [False, False, False]


def test_a_line_is_broken_at_a_blank_or_at_last_anywhere() -> None:
    (chunk,) = chunks("x" * (LONG_LINE + 50) + " y\n", ())
    assert chunk.source == "x" * (LONG_LINE + 50) + "\ny\n"
    (chunk,) = chunks("x" * (LONG_LINE + 200) + "\n" + "y\n", ())
    assert chunk.source == "x" * (LONG_LINE + 200) + "\ny\n"
    (chunk,) = chunks("x" * (LONG_LINE + 202) + "\n", ())
    assert chunk.source == "x" * (LONG_LINE + 201) + "\nx\n"


def test_maths_is_one_block() -> None:
    got = chunks("so\n\\[\n- a\n===\n\\]\nend\n", ())
    assert [(chunk.kind, chunk.source) for chunk in got] == [
        ("paragraph_open", "so\n"),
        ("maths_block", "\\[\n- a\n===\n\\]\n"),
        ("paragraph_open", "end\n"),
    ]


def live(text: str, rows: int = 10) -> Chunk | None:
    segmenter = Segmenter()
    segmenter.feed(text)
    return segmenter.live(rows)


def test_the_live_part_is_what_is_open() -> None:
    segmenter = Segmenter()
    assert segmenter.live(10) is None
    segmenter.feed("one\n\ntwo **th")
    assert segmenter.live(10) == Chunk("paragraph_open", "two **th", gap=True)


@pytest.mark.parametrize("partial", ["---", "==", "|--", "| :-", "- ", "*", "12", "3.", "#", "> ", "``", "$$", "\\["])
def test_a_line_that_could_be_anything_waits(partial: str) -> None:
    assert live(f"text\n{partial}") == Chunk("paragraph_open", "text\n", gap=False)
    assert live(partial) is None


def test_a_long_live_part_is_its_end() -> None:
    table = "|a|\n|-|\n" + "".join(f"|{number}|\n" for number in range(100))
    assert live(table, 3) == Chunk("paragraph_open", "|a|\n|-|\n|97|\n|98|\n|99|\n", gap=False)
    assert live("one\ntwo\nthree\nfo", 2) == Chunk("paragraph_open", "three\nfo", gap=False)
    code = live("```py\n" + "".join(f"x{number}\n" for number in range(70)) + "part", 4)
    assert code == Chunk("code", "x67\nx68\nx69\npart", False, "py", "".join(f"x{n}\n" for n in range(27, 67)))


def test_a_mark_that_may_close_a_fence_is_not_live() -> None:
    for partial in ("", "`", " ``", "```"):
        assert live(f"```py\nx\n{partial}") == Chunk("code", "x\n", False, "py", begins=True)
    assert live("```py\nx\n`y") == Chunk("code", "x\n`y", False, "py", begins=True)


def test_a_live_item_has_its_number() -> None:
    assert live("1. a\n1. b\n1. c") == Chunk("ordered_list_open", "1. b\n1. c", gap=False, context="2")
    assert live("- a\n\n- b\n  - c") == Chunk("bullet_list_open", "- b\n  - c", gap=True)


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=15), st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_live_changes_nothing(fragments: list[str], rows: int) -> None:
    segmenter, got = Segmenter(), list[Chunk]()
    for fragment in fragments:
        got += segmenter.feed(fragment)
        segmenter.live(rows)
    assert got + segmenter.finish() == chunks("".join(fragments), ())


def test_after_the_end_it_is_as_new() -> None:
    segmenter = Segmenter()
    assert segmenter.feed("```\na") == []
    assert segmenter.finish() == [Chunk("code", "a\n", gap=False, begins=True, ends=True)]
    assert segmenter.feed("# b\n") == [Chunk("heading_open", "# b\n", gap=False)]


LONG = "the llama runs over weights and hums along "


@pytest.mark.parametrize(
    ("text", "settles"),
    [
        (LONG * 6, True),
        (f"**Note:** {LONG * 3}with `code` and **bold words** {LONG}", True),
        (f"{LONG}*and all of this leans {LONG}* so * {LONG}*", True),
        (f"{LONG}`code that {LONG}goes on` {LONG}", True),
        (f"{LONG}[a link {LONG}](https://example.org/a) {LONG}", True),
        (f"漢字かな漢字、{'漢字かな' * 20}。終わり", True),
        (f"{LONG * 2} costs $5 *so* {LONG * 3} and $6 *so*", True),
        (f"it costs $5 {LONG * 3} and $6 *so*", False),  # could be maths
        (f"$x {LONG * 2} *a* {LONG} y$ {LONG * 4}", True),
        (rf"so $x^2 + \sqrt{{y}}$ and \(\frac{{a}}{{b}}\) {LONG * 2} with $z_1$ {LONG * 2}", True),
        (rf"\[ x^2 + \sqrt{{y}} \] {LONG * 3} `$a^2$ {LONG}` $$z_1$$ {LONG * 2}", True),
        (rf"{LONG * 2} \(\frac{{a}}{{b + {'c + ' * 30} d}}\) {LONG * 2} `$x^2$` {LONG}", True),
        (rf"{'x ' * 10}\( a + {'b + ' * 30}", False),
        (rf"as $x {LONG * 2} \{{ y$", False),
        (rf"as \\(x {LONG * 2} \{{ y\\) and {LONG * 3}", True),
        (f"漢字かな漢字、漢字かな漢字か**{'漢字かな' * 20}**終わり", False),
        (f"<http://{'漢字' * 20}> {LONG * 2}", False),
        (f"{LONG * 3}\n- a\n  ---\nb\n===\n", True),
        (f"one of its lines\n{LONG * 2}\n{LONG}\n- an item\n\nAnd {LONG * 3}", True),
        (f"*{LONG * 4}*", False),
        (f"- {LONG * 4}", False),
        (f"a | {LONG * 3}\n-|-\na|b", False),
        (f"# {LONG * 3}", False),
        (f"    {LONG}\n    {LONG}\n", False),
    ],
)
@pytest.mark.parametrize("step", [1, 7])
def test_rows_that_settle_early_are_those_of_the_whole(text: str, settles: bool, step: int) -> None:
    rows, early = streamed(text, step)
    assert rows == render_markdown(text, width=30, colour=True)
    assert bool(early) is settles


def streamed(text: str, step: int) -> tuple[list[Row], int]:
    """The rows as they become final, and how often some did before their paragraph's end."""
    painter, segmenter, rows, early = Painter(30), Segmenter(), list[Row](), 0
    for start in range(0, len(text), step):
        chunks = segmenter.feed(text[start : start + step])
        settled = segmenter.settle(lambda source: painter.chunk(Chunk("paragraph_open", source, gap=False)))
        chunks += [settled] if settled else []
        early += settled is not None
        rows += [row for chunk in chunks for row in painter.chunk(chunk)]
    return [*rows, *(row for chunk in segmenter.finish() for row in painter.chunk(chunk))], early


def test_a_line_below_a_paragraph_that_is_drawn_makes_no_heading_of_its_end() -> None:
    painter, segmenter = Painter(30), Segmenter()
    assert segmenter.feed(LONG * 3) == []
    assert segmenter.settle(lambda source: painter.chunk(Chunk("paragraph_open", source, gap=False)))
    kinds = [chunk.kind for chunk in [*segmenter.feed("end\n---\n"), *segmenter.finish()]]
    assert kinds == ["paragraph_open"]


def test_a_formula_that_grows_changes_no_row_that_is_drawn() -> None:
    rng = random.Random(3)
    pieces = ["so the $", "$ ", "\\(", "\\) ", "\\[", "\\] ", "$$", "x^2 ", "\\frac{a}{b} ", "\\sqrt{", "} ", "*", "`"]
    for _ in range(60):
        text = "".join(rng.choices([*pieces, "word and more "], k=40))
        assert streamed(text, 3)[0] == render_markdown(text, width=30, colour=True), text
