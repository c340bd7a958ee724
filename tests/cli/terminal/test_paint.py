"""Rows of Markdown: what a reader sees at any width, and that nothing else leaves for the terminal."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from itertools import pairwise

import pytest
from rich.segment import Segment
from rich.style import Style

from ossia.cli.clean import clean, clean_parts
from ossia.cli.terminal.markdown.paint import Painter
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter
from tests.oracle import hostile_output
from tests.oracle.segments import random_text, splits
from tests.support.command import ROOT
from tests.support.rendering import render_markdown


def plain(text: str, width: int = 80) -> list[str]:
    """The rows as text, with the marks that need no colour."""
    return ["".join(part.text for part in row) for row in render_markdown(text, width=width, colour=True)]


def ansi(text: str, width: int = 80, *, colour: bool = True, links: bool = True) -> list[str]:
    painter, segmenter = Painter(width, colour=colour, links=links), Segmenter()
    chunks = [*segmenter.feed(clean(text)), *segmenter.finish()]
    return [painter.ansi(row) for chunk in chunks for row in painter.chunk(chunk)]


OURS = re.compile(r"\x1b\[[\d;]*m")

DOCUMENT = """\
# Title
One **bold** line
and `code`.
- a
- b
  1. c

     d
> quote
```py
def f():
\treturn 1
```
| a | 漢字 |
|---|--:|
| b<br>c | 1 |

***
"""


def test_a_document() -> None:
    assert plain(DOCUMENT) == [
        *("Title", "", "One bold line", "and code.", "", "• a", "• b", "  1. c", "", "     d", "", "│ quote", ""),
        *("── py ──", "def f():", "    return 1", "────────", "", "a │ 漢字", "──┼─────", "b │    1", "c │", ""),
        "─" * 40,
    ]


def test_without_colour_the_marks_stay() -> None:
    assert ansi("## T *e*\n**b** `c` [l](http://a.b/c) ~~s~~ <http://d.e>", colour=False) == [
        *("## T *e*", "", "**b** `c` l (http://a.b/c) ~~s~~ http://d.e"),
    ]


def test_code_stands_between_rules_with_its_language() -> None:
    long = [f"x{number}" for number in range(100)]  # painted in several pieces
    code = "\n".join(long)
    for colour in (False, True):
        rows = [OURS.sub("", row) for row in ansi(f"a\n```python title\n{code}\n```\nb", colour=colour)]
        assert rows == ["a", "", "── python title ──", *long, "──────────────────", "", "b"]
    assert ansi("```py\nx\n```")[::2] == ["\x1b[2m── py ──\x1b[0m", "\x1b[2m────────\x1b[0m"]
    assert plain("~~~\nx\n") == ["────────", "x", "────────"]
    assert plain("- a\n  ```\n  x\n  ```\n\n> ```sh\n> y\n") == [
        *("• a", "────────", "x", "────────", "", "── sh ──", "y", "────────"),
    ]
    assert plain("    x\n") == ["────────", "x", "────────"]
    assert plain("```漢字 and a long title\nx\n```", width=14) == ["── 漢字 an… ──", "x", "──────────────"]
    painter, segmenter = Painter(80, colour=False), Segmenter()
    segmenter.feed("```py\nx\ny")
    live = segmenter.live(9)
    assert live and [painter.ansi(row) for row in painter.chunk(live)] == ["── py ──", "x", "y"]


def test_the_sixteen_colours_and_attributes() -> None:
    assert ansi("# T\n**b** *i* ~~s~~ `c`") == [
        *("\x1b[1;4mT\x1b[0m", "", "\x1b[1mb\x1b[0m \x1b[3mi\x1b[0m \x1b[9ms\x1b[0m \x1b[36mc\x1b[0m"),
    ]
    assert ansi("```py\nif x: return 'a'  # b\n```")[1:-1] == [
        "\x1b[35mif\x1b[0m x: \x1b[35mreturn\x1b[0m \x1b[32m'a'\x1b[0m  \x1b[2;3m# b\x1b[0m"
    ]
    rows = ansi("```\nno language\n```\n```nosuch\nx\n```")
    assert [rows[1], rows[5]] == ["\x1b[36mno language\x1b[0m", "\x1b[36mx\x1b[0m"]


@pytest.mark.parametrize(
    "text",
    [
        *("$a_1 * b_2 * \\q$", "$$x_1 * y_2 * \\q$$", "\\( x_1 * y_2 * \\q \\)", "\\[ \\q \\]", "$xyz$, $5 and $6_7_"),
        *("\\[\na_1 = \\q \\\\\n- c * d * e\n===\n\\]", "$$\n# x\n> y\n$$", "<div>html <b>x</b></div>", "[r]: http://a.b"),
        *("[not][a] [link]", "![x", "[a](", "a | b\n", "1986\\. x".replace("\\", ""), "snake_case_name", "2 * 3 * 4"),
    ],
)
def test_what_comes_out_as_written(text: str) -> None:
    assert plain(text) == text.rstrip("\n").split("\n")


def test_formulas_are_text_but_not_in_code() -> None:
    text = "So $x^2$, \\(\\sqrt{x}\\), **$a_1$** and `$x^2$`:\n\n"
    text += "\\[\n\\frac{a}{b} \\le c\n\\]\n\n```\n$x^2$ \\(y\\)\n```\n| $a^2$ |\n|-|\n"
    assert plain(text) == [
        *("So x², √x, a₁ and $x^2$:", "", "a/b ≤ c", "", "────────", "$x^2$ \\(y\\)", "────────", "", "a²", "──"),
    ]
    assert plain("array\\[0\\] and \\[a link\\], as \\(0\\)") == ["array[0] and \\[a link\\], as 0"]
    assert plain("> \\[\n> x^2 + y^2\n> \\]\n\n$$\nopen x^2") == ["│ x² + y²", "", "$$", "open x^2"]
    assert plain("\\[\n" + "a + " * 10 + "b\n\\]", width=20) == ["a + a + a + a + a +", "a + a + a + a + a +", "b"]


def test_dollars_are_money_when_they_look_like_it() -> None:
    assert plain("costs $5 and *then* $6, \\$7, *a* $5*b* or$6") == ["costs $5 and then $6, $7, a $5b or$6"]


def test_links() -> None:
    clickable = "\x1b]8;;https://example.org/x\x1b\\\x1b[4mdocs\x1b[0m\x1b]8;;\x1b\\"
    assert ansi("[docs](https://example.org/x)") == [clickable]
    assert ansi("[docs](https://example.org/x)", links=False) == [
        "\x1b[4mdocs\x1b[0m\x1b[2m (https://example.org/x)\x1b[0m"
    ]
    assert plain("[run](javascript:alert(1)) [file](src/a.py)") == ["[run](javascript:alert(1)) file (src/a.py)"]
    assert plain("[https://bank.example](https://evil.example/)") == ["https://bank.example (https://evil.example/)"]
    assert plain("![a plot](https://example.org/p.png)") == ["a plot (https://example.org/p.png)"]
    assert len(plain("![](data:image/png;base64," + "A" * 1500 + ")", width=10_000)[0]) < 220


def test_items_keep_their_numbers_and_markers() -> None:
    assert plain("0. a\n1. b\n1. c\n\ntext\n\n7) d\n7) e\n") == ["0. a", "1. b", "2. c", "", "text", "", "7) d", "8) e"]
    assert plain("- a\n\n  3. b\n  3. c\n- [x] d\n\n- e") == ["• a", "", "  3. b", "  4. c", "• [x] d", "", "• e"]
    long = plain("9. a\n" + "   b\n" * 250 + "9. c")
    assert long == ["9. a", *["   b"] * 250, "10. c"]
    assert plain("- a\n" + "\n\n  b\n" * 100 + "- c") == ["• a", *["", "  b"] * 100, "• c"]
    indented = plain("    c\n\n" * 150 + "    d")  # in two pieces
    assert [row for row in indented if "─" not in row] == [*["c", ""] * 150, "d"]


def test_code_is_neither_wrapped_nor_indented_wherever_it_stands() -> None:
    line = "x = [" + "1, " * 60 + "]"
    rows = plain(f"1. a\n   ```py\n   {line}\n       y\n   ```\n\n   b\n> ```\n> {line}\n> ```\n", width=40)
    assert rows == [
        *("1. a", "", "── py ──", line, "    y", "────────", "", "   b", "", "────────", line, "────────"),
    ]


def test_a_tab_is_four_columns() -> None:
    assert plain("```make\nall:\n\tcc\n  \tx\ty\n```")[1:-1] == ["all:", "    cc", "    x   y"]


def test_words_wrap_and_addresses_stay_whole() -> None:
    url = "https://example.org/" + "a" * 60
    assert plain(f"see the page {url} for more", width=20) == ["see the page", url, "for more"]
    assert plain("- one two three four five six", width=16) == ["• one two three", "  four five six"]
    assert plain("漢字かな、漢字かな。漢字（かな）漢", width=10) == ["漢字かな、", "漢字かな。", "漢字（か", "な）漢"]
    assert plain("漢字か、漢字", width=10) == ["漢字か、漢", "字"]


@pytest.mark.parametrize("width", [10, 13, 40])
def test_no_row_of_short_words_is_too_wide_and_none_too_short(width: int) -> None:
    text = " ".join("ab" * (number % 4 + 1) for number in range(60))
    rows = plain(text, width)
    assert " ".join(rows) == text
    assert max(map(len, rows)) <= width
    assert all(len(row) + 1 + len(after.split()[0]) > width for row, after in pairwise(rows))


def test_the_width_is_that_of_the_clean_text() -> None:
    assert plain("| &#x1F1E9;&#x1F1EA;&shy; | x |\n|---|---|\n| ab | y |") == ["🇩🇪 │ x", "───┼──", "ab │ y"]


@pytest.mark.parametrize("width", [40, 60, 200])
def test_tables_fit(width: int) -> None:
    row = "| **Straße** 🙂 | 漢字かな and some more words in `here` |\n"
    table = "| name | what it is about |\n|:-:|---|\n" + row * 3
    painter = Painter(width)
    rows = render_markdown(table, width=width, colour=True)
    assert max(sum(part.cell_length for part in row) for row in rows) <= width
    assert "Straße" in "".join(painter.ansi(row) for row in rows)


def test_a_table_loses_no_cell_and_no_bar_of_a_code() -> None:
    rows = ["`a | b` | or", "x | y | third | 4th", r"`c \| d` | `` ` | ` ``", "`e | f | g", "one"]
    table = "| o | m |\n|---|---|\n" + "".join(f"| {row} |\n" for row in rows)
    for source in (table, f"> {table.strip()}".replace("\n", "\n> ")):
        shown = "\n".join(" ".join(row.split()) for row in plain(source, width=60))
        for text in ("a | b │ or", "x │ y | third | 4th", "c | d │ ` | `", "`e │ f | g", "one │"):
            assert text in shown


def test_a_table_without_room_is_shown_as_records() -> None:
    table = "|a|b|c|d|e|\n|-|-|-|-|-|\n" + "|one long text|two long text|3|4|five long text|\n" * 2
    one = ["a: one long text", "b: two long text", "c: 3", "d: 4", "e: five long text"]
    assert plain(table, width=24) == [*one, "", *one]


def test_what_the_parser_would_leave_out_comes_as_written() -> None:
    deep = "> " * 100 + "treasure"
    assert "treasure" in "".join(plain(deep))
    assert "treasure" in "".join(plain("- " * 100 + "treasure"))


def test_no_row_has_blanks_at_its_end_or_a_background() -> None:
    rows = ansi("- \n\n> \n\n```\nx   \n\n```\n\n| a  |\n|---|\n|  |\n")
    assert [row for row in rows if row.endswith(" ") or re.search(r"\x1b\[[0-9;]*(4[0-9]|10[0-7])m", row)] == []


def test_sessions_have_colours_and_unknown_languages_one() -> None:
    assert ansi("```console\n$ ls -l\n$ x\n```")[2] == "\x1b[2m$ \x1b[0mx"
    assert plain("```console\n$ ls -l\nout\n```")[1:-1] == ["$ ls -l", "out"]
    assert ansi("```autoit\nx\n```")[1:-1] == ["\x1b[36mx\x1b[0m"]


def test_code_that_would_take_a_lexer_long_has_no_colours() -> None:
    words, line = "a " * 60, "if " * 200
    assert ansi(f"```java\nint {words}\n```")[1:-1] == [f"int {words}".rstrip()]
    assert ansi(f"```python\n{line}\n```")[1:-1] == [line.rstrip()]
    assert ansi("```java\nint a = 1;\n```")[1:-1] != ["int a = 1;"]


def test_a_piece_of_a_fence_knows_what_stood_before_it() -> None:
    painter = Painter(80)
    rows = painter.chunk(Chunk("code", "still text\n", gap=False, info="python", context='x = """\n'))
    assert [painter.ansi(row) for row in rows] == ["\x1b[32mstill text\x1b[0m"]


def test_text_is_plain() -> None:
    painter = Painter(10)
    assert [painter.ansi(row) for row in painter.text("*a* [bold]\x1b[2J\n\n  x\ty", "dim")] == [
        *("\x1b[2m*a*\x1b[0m", "\x1b[2m[bold]␛[2J\x1b[0m", "", "\x1b[2m  x y\x1b[0m"),
    ]


def test_a_row_made_by_hand_passes_the_last_door() -> None:
    painter = Painter(20)
    link = Style(bold=True, bgcolor="red", link="https://a.b/;x")
    coloured = painter.ansi([Segment("a\u202e\x1b[2Jb", link), Segment("c", Style(color="#ff0000"))])
    assert list(hostile_output.row_complaints(coloured)) == []
    assert "https://a.b/%3Bx" in coloured
    row = [Segment("a\x1b[2J\n\tb", Style(link="javascript:x", blink=True)), Segment("\u202e")]
    assert painter.ansi(row) == "a␛[2J  b"
    assert painter.fragments([row, row]) == [*(two := [("", "a␛[2J  b"), ("", "")]), ("", "\n"), *two]


def test_fragments_say_what_ansi_says() -> None:
    painter = Painter(40)
    rows = render_markdown("**b** `c`\n\n[l](http://a.b)\n", width=40, colour=True)
    assert painter.fragments(rows) == [
        *(("bold", "b"), ("", " "), ("fg:ansicyan", "c"), ("", "\n"), ("", "\n"), ("underline", "l")),
    ]


def test_any_split_gives_the_same_rows() -> None:
    rng = random.Random(2)
    for _ in range(60):
        text = clean(random_text(rng))
        whole = [painted(text, cuts) for cuts in ([], *splits(text, rng, 3))]
        assert whole == whole[:1] * len(whole)


def painted(text: str, cuts: list[int]) -> list[str]:
    segmenter, painter, chunks, at = Segmenter(), Painter(40), list[Chunk](), 0
    for cut in [*cuts, len(text)]:
        chunks += segmenter.feed(text[at:cut])
        at = cut
    return [painter.ansi(row) for chunk in [*chunks, *segmenter.finish()] for row in painter.chunk(chunk)]


def test_a_part_of_the_hostile_mixes() -> None:
    rng = random.Random(1)
    huge = (text[:3000] for text in hostile_output.HUGE)
    texts = [*hostile_output.ATTACKS, *huge, *(hostile_output.random_text(rng) for _ in range(60))]
    assert [leak for text in texts for leak in hostile_output.leaks(text, rng)] == []
    assert [leak for text in texts for leak in hostile_output.leaks(text, rng, clean=clean_parts)] == []


@pytest.mark.parametrize(
    "row",
    [
        *("a\x1b[2Jb", "\x1b]0;x\x07", "\x1b[41mx\x1b[0m", "\x1b[38;5;1mx\x1b[0m", "\x1b[1mx", "\x1b[5mx\x1b[0m"),
        *("\x1b]8;;file:///x\x1b\\x\x1b]8;;\x1b\\", "\x1b]8;;http://a;b\x1b\\x\x1b]8;;\x1b\\", "\x1b]8;;http://a\x1b\\x"),
        *("\u202ex", "x\u200by", "\x9b1m", "\ud800", "a ", "e" + "\u0301" * 9, "\U0001f1e9", "a\nb", "\ufe0f"),
    ],
)
def test_the_check_of_the_hostile_mixes_is_strict(row: str) -> None:
    assert list(hostile_output.row_complaints(row))
    assert list(hostile_output.fragment_complaints([("", row)]))


def test_the_check_of_styles_is_strict() -> None:
    assert list(hostile_output.fragment_complaints([("bg:ansired", "x")]))
    assert list(hostile_output.fragment_complaints([("class:x", "x")]))
    assert list(hostile_output.fragment_complaints([("bold fg:ansired", "x"), ("", "\n")])) == []
    assert list(hostile_output.row_complaints("\x1b[1mx\x1b[0m", colour=False))


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("fold", {"rich", "pygments", "markdown_it", "prompt_toolkit"}),
        ("markdown.paint, ossia.cli.terminal.markdown.segment", {"pygments", "markdown_it", "prompt_toolkit"}),
    ],
)
def test_nothing_heavy_is_loaded_before_the_first_row(modules: str, heavy: set[str]) -> None:
    code = f"import sys, ossia.cli.terminal.{modules}; print(*sorted(sys.modules.keys() & {heavy}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
