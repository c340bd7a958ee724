"""What a question shows: each character as itself or as a sign."""

from __future__ import annotations

import sys

import pytest
from rich.cells import cell_len

from cli.clean import clean
from cli.visible import seen, seen_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("# tidy\rrm x", "# tidy␍rm x"),
        ("a\r\nb\tc", "a\nb\tc"),
        ("\x1b[2J\x7f\x00\x0b", "␛[2J␡␀␋"),
        ("a\x9bb\x85c\u2028d", "a⟨U+009B⟩b⟨U+0085⟩c⟨U+2028⟩d"),
        ("\u202ex\u200b\u00ad", "⟨U+202E⟩x⟨U+200B⟩⟨U+00AD⟩"),
        ("git\u00a0x\u3000y\u3164\u115f\u2800", "git⟨U+00A0⟩x⟨U+3000⟩y⟨U+3164⟩⟨U+115F⟩⟨U+2800⟩"),
        ("a\U000e0072\ue000\ufe0f\U000e0101", "a⟨U+E0072⟩⟨U+E000⟩⟨U+FE0F⟩⟨U+E0101⟩"),
        ("a" + "\ud800", "a⟨U+D800⟩"),
        ("👨‍👩‍👧 ❤️ é שלום 漢", "👨‍👩‍👧 ❤️ é שלום 漢"),
        ("echo " + " " * 9000 + "; rm x", "echo⟨9001 blanks⟩; rm x"),
        ("e" + "\u0301" * 9, "e" + "\u0301" * 8 + "⟨U+0301⟩"),
    ],
)
def test_what_is_not_drawn_has_a_sign(text: str, shown: str) -> None:
    assert visible(text)[0] == shown
    assert bool(visible(text)[1]) is (text.replace("\r\n", "\n") != shown)


def test_no_character_at_all_is_dropped() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if char not in "\n\t":
            shown = visible(char)[0]
            assert clean(shown) == shown or 0x1F1E6 <= code <= 0x1F1FF, hex(code)
            assert shown != char or cell_len(char) or char == char.strip() != "", hex(code)


def test_a_line_keeps_the_signs() -> None:
    assert seen_line("a\u2028b \n c\xa0d") == "a⟨U+2028⟩b c⟨U+00A0⟩d"
    assert seen("a\rb") == "a␍b"
