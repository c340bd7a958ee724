"""`ossia help`: the pages of docs/ and the help of commands."""

from __future__ import annotations

import pytest

from ossia.cli.commands.help import pages
from tests.support.command import ROOT, ossia_here
from tests.support.pty import PtyChat


def test_it_lists_each_page_with_a_line() -> None:
    lines = ossia_here("help").stdout.decode().splitlines()
    assert len(lines) == len(pages()) + 2
    assert set(pages()) == {page.stem for page in (ROOT / "docs").glob("*.md")} - {"README"}
    assert [line.split("  ", 1)[1].strip() for line in lines if line.startswith("scripts ")] == [
        "Scripts: one-liners with ossia run"
    ]


def test_a_page_goes_into_a_pipe_as_it_was_written() -> None:
    assert ossia_here("help", "safety").stdout.decode() == pages()["safety"].read_text(encoding="utf-8")


def test_a_name_of_both_prints_the_commands_help_then_the_page() -> None:
    both, command = ossia_here("help", "mcp").stdout.decode(), ossia_here("mcp", "--help").stdout.decode()
    assert both == command + pages()["mcp"].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("skils", "no help on 'skils': did you mean skills? `ossia help` lists the topics"),
        ("zzz", "no help on 'zzz': `ossia help` lists the topics"),
    ],
)
def test_an_unknown_name_is_one_line(typed: str, line: str) -> None:
    done = ossia_here("help", typed)
    assert (done.returncode, done.stdout, done.stderr.decode()) == (2, b"", f"ossia: error: {line}\n")


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_a_terminal_gets_it_drawn(columns: int) -> None:
    with PtyChat("help", "skills", columns=columns) as terminal:
        assert terminal.wait() == 0
    rows = terminal.rows
    assert rows[rows.index("Skills: instructions for kinds of tasks") + 1] == "" and "What it may do" in rows
    first = next(row for row in rows if row.startswith("A skill is a folder with a SKILL.md"))
    word = rows[rows.index(first) + 1].split()[0]
    assert len(f"{first} {word}") > columns, "a paragraph fills the rows, however the file breaks its lines"
    assert not [row for row in rows if row.startswith(("```", "#", "<!--")) or "**" in row]
