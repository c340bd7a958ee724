"""What reaches a terminal can't move it, retitle it, reorder it or hide in it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.clean import clean

# Every character, with the awkward ones drawn as often as the rest.
_AWKWARD = st.sampled_from("\x07\x1b\r\n\t\x7f\x85\x9b\x9d\u00ad\u200b\u200d\u202e\u2066\ufe0f\ufeff\udc9b\U000e0041")
_TEXT = st.text(_AWKWARD | st.characters(codec=None))


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain text, 工具, é, 👍", "plain text, 工具, é, 👍"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b[H", "␛[2J␛[H"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("\x9b2J\x9d0;title\x9c", "\ufffd2J\ufffd0;title\ufffd"),
        ("safe\rrm -rf", "saferm -rf"),
        ("dos\r\nline", "dos\nline"),
        ("\x00\x08\x7f", "␀␈␡"),
        ("invoice\u202egpj.exe", "invoicegpj.exe"),
        ("pay\u200bpal\u2060\ufeff", "paypal"),
        ("hi\U000e0048\U000e0049", "hi"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("a\u2028b\u2029c", "abc"),
    ],
)
def test_what_is_shown(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@given(_TEXT, _TEXT)
def test_pieces_come_out_as_the_whole_would(a: str, b: str) -> None:
    assert clean(a + b) == clean(a) + clean(b)


@given(_TEXT)
def test_twice_is_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


def _draws_ink(char: str) -> bool:
    """Signs that Unicode counts as "format" because of what they stand beside, e.g. the Arabic number sign."""
    name = unicodedata.name(char, "")
    return "SIGN" in name or name.startswith(("ARABIC", "SYRIAC", "EGYPTIAN HIEROGLYPH"))


def test_no_control_or_format_character_of_unicode_comes_through() -> None:
    passed = {chr(code) for code in range(0x110000) if clean(chr(code)) == chr(code)}
    acting = {char for char in passed if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert {char for char in acting if not _draws_ink(char)} == {"\n", "\t"}
    reordering = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    assert {char for char in passed if unicodedata.bidirectional(char) in reordering} == set()


@given(_TEXT)
def test_the_result_can_always_be_written(text: str) -> None:
    clean(text).encode("utf-8")
