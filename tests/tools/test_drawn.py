"""Output as a terminal would show it at the end: examples, and pyte as the second implementation."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ossia.tools.text import clean

UP, ERASE = "\x1b[A", "\x1b[2K\r"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        # one line drawn again
        ("".join(f"\r{n}% [{'=' * (n // 10)}]" for n in range(101)) + "\ndone\n", f"100% [{'=' * 10}]\ndone\n"),
        (f"Resolving\r{' ' * 9}\rok\n", "ok\n"),
        ("fetch\x1b[2K\x1b[1Gbuild\x1b[2K\x1b[1Gdone\n", "done\n"),
        ("\\\b|\b/\b-\b \bend", "end"),
        ("50 %\x1b[4D99", "99 %"),
        # two bars, by cursor moves or with the cursor saved
        ("a 1%\nb 1%\n\x1b[2A\x1b[2Ka 9%\r\x1b[1B\x1b[2Kb 9%\r\x1b[1Bend\n", "a 9%\nb 9%\nend\n"),
        (f"a 1%\nb 1%{UP}{ERASE}a 9%\n{ERASE}b 9%\n", "a 9%\nb 9%\n"),
        ("\x1b7one\ntwo\x1b8\x1b[JONE", "ONE\n"),
        ("3 left\n2 left\n\x1b[2F\x1b[0Jnone left\n", "none left\n\n"),
        # a screen of its own
        ("before\n\x1b[?1049h\x1b[2J\x1b[Hmenu\n\x1b[?1049lafter", "before\nafter"),
        ("before\n\x1b[?1049hmenu", "before\n\nmenu"),
        ("tick 1\n\x1b[H\x1b[2Jtick 2\n", "tick 2\n"),
        # nothing is drawn over
        ("a\tb  \r\nc\r\r\n", "a\tb  \nc\n"),
        ("N\bNA\bAM\bM _\bx_\by", "NAM xy"),
        (
            "\x1b]0;title\x07\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\ \x1b[1;38:2::1:2:3mred\x1b[m ",
            "link red ",
        ),
        ("\x1b]0;no end\nstays\x1bPneither", "\nstaysneither"),
        ("x\x1b[99999999999999999999A\x1b[" + "9" * 5000 + "Cy", "x" + " " * 250 + "y"),
        ("é█\r日本", "日本"),
    ],
)
def test_what_is_shown_at_the_end(output: str, shown: str) -> None:
    assert clean(output) == shown


def test_lines_that_left_the_screen_stay() -> None:
    lines = [f"line {number}" for number in range(200)]
    assert clean("\n".join(lines) + "\x1b[500A\r\x1b[J").rstrip("\n") == "\n".join(lines[:150])
    assert clean("\n".join(lines) + "\n\x1b[H\x1b[2J").splitlines()[:151] == lines[:151]


@pytest.mark.parametrize(
    "piece",
    [
        "\x1b[9999A\x1b[2Jx\n",
        "\x1b[2K\x1b[9999Cx",
        "\x1b[9999B\x1b[9999Cx\n",
        "\x1b[?1049h",
        "\x1b]",
        "\x1bP",
        "x\b",
        "\x1b[",
    ],
)
def test_an_output_made_to_be_slow(piece: str) -> None:
    """Each of them took minutes if its cost were quadratic."""
    text = "y" * 50_000 + piece * (150_000 // len(piece))
    assert len(clean(text)) < 10_000_000


_MOVES = [
    *("\r", "\n", "\b", "\x1b[A", "\x1b[2A", "\x1b[B", "\x1b[3C", "\x1b[2D", "\x1b[G", "\x1b[5G", "\x1b[E", "\x1b[2F"),
    *("\x1b[H", "\x1b[2;3H", "\x1b[K", "\x1b[2K", "\x1b[J", "\x1b[2J", "\x1b[31m", "\x1b7", "\x1b8"),
]


@given(st.lists(st.one_of(st.sampled_from(_MOVES), st.text("ab █", min_size=1, max_size=3)), max_size=20))
def test_it_is_what_an_emulator_shows(pieces: list[str]) -> None:
    """All rows were written before: an emulator's cursor also goes down to rows that weren't.

    pyte keeps a stack of saved places, terminals keep one: each save is followed by at most one return to it.
    """
    saves = [piece for piece in pieces if piece in ("\x1b7", "\x1b8")]
    assume(saves == ["\x1b7", "\x1b8"] * (len(saves) // 2) + ["\x1b7"] * (len(saves) % 2))
    opening = "\n" * 22 + "\x1b[22A"
    screen = pyte.Screen(80, 23)
    pyte.Stream(screen).feed((opening + "".join(pieces)).replace("\n", "\r\n"))
    expected = [row.rstrip(" ") for row in screen.display]
    got = [row.rstrip(" ") for row in clean(opening + "".join(pieces)).split("\n")]
    assert got[: len(expected)] == expected
