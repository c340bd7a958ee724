"""A diff in rows: nothing of it is lost, each row has its mark, no line passes for another."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ossia.cli.terminal.diff_rows import diff_rows
from ossia.tools.work import _diff

WIDTHS = [20, 50, 80, 120]


def shown(diff: str, width: int = 80) -> list[str]:
    return ["".join(segment.text for segment in row).rstrip() for row in diff_rows(diff, width)]


def test_files_by_their_names_lines_by_their_numbers() -> None:
    before, after = (b"".join(b"line %d\n" % at for at in range(at, 40)) for at in (0, 1))
    after = after.replace(b"line 30\n", b"line thirty\n")
    diff = _diff.unified(before, after, name="a.py").text
    diff += _diff.unified(None, b"one\n\n-- two", name="docs/new.md").text
    diff += _diff.unified(b"gone\n", None, name="old.md").text
    diff += _diff.unified(b"x\n", b"y\n", name="b.py", new_name="c.py").text
    diff += _diff.unified(b"\x00\x01", b"\x00\x02", name="p.bin").text
    assert shown(diff) == [
        "a.py",
        "  1 - line 0",
        "  1   line 1",
        "  2   line 2",
        "  3   line 3",
        "      ⋮",
        " 27   line 27",
        " 28   line 28",
        " 29   line 29",
        " 31 - line 30",
        " 30 + line thirty",
        " 31   line 31",
        " 32   line 32",
        " 33   line 33",
        "docs/new.md · new",
        "  1 + one",
        "  2 +",
        "  3 + -- two",
        "      \\ No newline at end of file",
        "old.md · deleted",
        "  1 - gone",
        "b.py → c.py",
        "  1 - x",
        "  1 + y",
        "p.bin",
        "      a binary file, 0.0 kB: is gone",
        "      a binary file, 0.0 kB: comes",
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_each_row_of_a_long_line_has_its_mark(width: int) -> None:
    diff = _diff.unified(b"a " * 60 + b"\n", b"b " * 60 + b"\n", name="a.py").text
    rows = shown(diff, width)
    assert {re.sub(r"[\d ]", "", row)[:1] for row in rows[1:]} == {"-", "+"}
    assert len(rows) > 2 + 120 // width


def test_text_that_looks_like_a_header_is_text() -> None:
    before, after = b"keep\n-- a/evil.py\n", b"keep\n++ b/evil.py\n@@ -1,1 +1,1 @@\nevil.py\n"
    rows = shown(_diff.unified(before, after, name="a.py").text)
    assert [row for row in rows if not row.startswith(" ")] == ["a.py"]
    assert rows[2:] == [
        " 2 - -- a/evil.py",
        " 2 + ++ b/evil.py",
        " 3 + @@ -1,1 +1,1 @@",
        " 4 + evil.py",
    ]


def test_what_is_no_diff_is_shown_as_it_came() -> None:
    assert shown("-one\n+two\n three\nfour") == [" - one", " + two", "    three", "   four"]
    assert shown("--- x\n+++ y\n@@ -1,9 +1,9 @@\n-a\n[... 7 characters of the diff are not shown]\n-b") == [
        *("x → y", " 1 - a", "     [... 7 characters of the diff are not shown]", "   - b"),
    ]


def test_invisible_characters_have_signs() -> None:
    assert shown(_diff.unified(b"a\n", "a\u202eb\x1b[2J\n".encode(), name="x").text)[-1] == " 1 + a⟨U+202E⟩b␛[2J"


LINES = st.lists(st.text("ab+-@ \\木👍🏽\u0301é…", max_size=30), max_size=8)


@given(LINES, LINES, st.integers(6, 60))
def test_nothing_is_lost_and_all_fits(before: list[str], after: list[str], width: int) -> None:
    texts = ["".join(f"{line}\n" for line in lines).encode() for lines in (before, after)]
    diff = _diff.unified(*texts, name="x").text
    rows = diff_rows(diff, width)
    assert all(cell_len("".join(segment.text for segment in row)) <= width for row in rows)
    for mark in "-+ ":
        lines = [line[1:] for line in diff.splitlines()[2:] if line.startswith(mark)]
        found = ["".join(part.text for part in row[2:]) for row in rows[1:] if row[1].text == f"{mark} "]
        assert "".join(found).replace("⋮", "") == "".join(lines)
