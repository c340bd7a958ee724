"""What reaches a terminal can't move it, retitle it, reorder it or hide in it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ossia.cli.clean import MAX_MARKS, clean, clean_url, unstacked

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
        ("\U0001f1e9\U0001f1ea \U0001f469\u200d\U0001f467 \u2764\ufe0f", "DE \U0001f469\U0001f467 \u2764"),
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


CODES = (*range(0x40000), *range(0xE0000, 0xE1000), *range(0x40000, 0x110000, 0x101))
"""All of Unicode but planes without characters or for private use: of these some."""


def test_no_control_or_format_character_of_unicode_comes_through() -> None:
    passed = {chr(code) for code in CODES if clean(chr(code)) == chr(code)}
    acting = {char for char in passed if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    assert {char for char in acting if not _draws_ink(char)} == {"\n", "\t"}
    reordering = ("LRE", "LRO", "RLE", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    assert {char for char in passed if unicodedata.bidirectional(char) in reordering} == set()


@given(_TEXT)
def test_the_result_can_always_be_written(text: str) -> None:
    clean(text).encode("utf-8")


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://example.org/a?b=c&d=%20#e", "https://example.org/a?b=c&d=%20#e"),
        ("HTTP://Example.org", "http://example.org"),
        ("https://example.org/ä;x", "https://example.org/%C3%A4%3Bx"),
        ('http://a.b/"<>\\^`{|}', "http://a.b/%22%3C%3E%5C%5E%60%7B%7C%7D"),
        ("http://bücher.example:8080/", "http://xn--bcher-kva.example:8080/"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        *(("https://bank.example@evil.example/", None), ("https://u:p@a.b/", None), ("http://a.b\\@c.d/", None)),
        *(("javascript:alert(1)", None), ("file:///etc/passwd", None), ("mailto:a@b.c", None), ("//a.b/c", None)),
        *(("", None), ("http://", None), ("http:///x", None), ("http://a.b:99999/", None), ("http://[::1/", None)),
        *(("http://a.b/\x1b]0;x", None), ("http://a.b/\u202ex", None), ("http://a.b/x y", None)),
        *(("http://a.b/\n", None), ("http://a.b/\x9c", None), ("http://a.b/\ud800", None)),
        ("http://a_b/" + "x" * 2000, None),
    ],
)
def test_which_addresses_can_be_links(url: str, safe: str | None) -> None:
    assert clean_url(url) == safe


@given(st.text("htps:/@[]\\.;%a\u00e9\u4e2d\u202e\x1b\x9c 1#?") | _TEXT.map("http://a.b/".__add__))
def test_an_address_is_printable_ascii_or_none(url: str) -> None:
    safe = clean_url(url)
    assert safe is None or (safe.startswith(("http://", "https://")) and not set(safe) - set(map(chr, range(33, 127))))
    assert safe is None or (";" not in safe and clean_url(safe) == safe)


@pytest.mark.parametrize("mark", ["\u0301", "\u0e49", "\u20dd", "\u064b", "\u1161", "\ufe20", "\U0001e000"])
def test_marks_do_not_pile_up(mark: str) -> None:
    assert unstacked("Z" + mark * 2000 + "a" + mark) == "Z" + mark * MAX_MARKS + "a" + mark


@pytest.mark.parametrize(
    "text", ["e\u0301" * 50, "漢字" * 50, "한국어", "สวัสดีครับ ที่นี่", "नमस्ते क्षत्रिय", "\u1112\u1161\u11ab" * 20]
)
def test_what_people_write_is_no_pile(text: str) -> None:
    assert unstacked(text) == text
