"""What a question shows: each character as itself or as a sign."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from ossia.cli.clean import clean
from ossia.cli.visible import seen, seen_line, visible


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
        ("a\u200cb م\u200c می\u200cx a\u200bក", "a⟨U+200C⟩b م⟨U+200C⟩ می⟨U+200C⟩x a⟨U+200B⟩ក"),
        ("می\u200c\u200cخ 1\ufe0f x\u20e3", "می⟨U+200C⟩⟨U+200C⟩خ 1⟨U+FE0F⟩ x\u20e3"),
        ("🏴\U000e0067\U000e0062 🏴\U000e0021\U000e007f", "🏴⟨U+E0067⟩⟨U+E0062⟩ 🏴⟨U+E0021⟩⟨U+E007F⟩"),
        ("a\r\nb\n", "a␍\nb\n"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+a\r\n", "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+a␍\n"),
        ("--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\r\n+b\r\n", "--- a/x\n+++ b/x\n@@ -1,1 +1,1 @@\n-a\n+b\n"),
        ("+++ b/x\n+a\r\n+b\n\\ No newline at end of file\n", "+++ b/x\n+a\n+b\n\\ No newline at end of file\n"),
    ],
)
def test_what_is_not_drawn_has_a_sign(text: str, shown: str) -> None:
    assert visible(text)[0] == shown
    assert bool(visible(text)[1]) is (text.replace("\r\n", "\n") != shown)


def test_blanks_that_hide_nothing_cost_little() -> None:
    text = "ls" + " " * 1_000_000 + "\n"  # tried from each of them, they would take hours
    assert visible(text) == (text, 0)


def test_ordinary_text_has_no_sign() -> None:
    for text in (
        "Привіт, як справи? ґ є ї",
        "Καλημέρα· ἐν ἀρχῇ ἦν",
        "Նոր տարի՜ և",
        "გამარჯობა",
        "שָׁלוֹם עֲלֵיכֶם״",
        "السلام عليكم، ٣٫١٤ ۝",
        "می\u200cخواهم کتاب\u200cها را",
        "کیا حال ہے؟ الله\u200cآباد",
        "ܫܠܡܐ",
        "क्\u200dष नमस्ते र्\u200cय ऱ्\u200dया",
        "র\u200d্যাব উত্\u200d",
        "ਸਤਿ ਸ੍ਰੀ ਅਕਾਲ",
        "நமஸ்காரம்",
        "నమస్కారం రాజ్\u200cకుమార్",
        "ನಮಸ್ಕಾರ ರಾಜ್\u200cಕುಮಾರ್",
        "അവന്\u200d നമസ്കാരം",
        "ශ්\u200dරී ලංකා",
        "สวัสดี\u200bครับ น้ำ",
        "ສະບາຍ\u200bດີ",
        "ភាសា\u200bខ្មែរ",
        "မြန်မာ\u200bဘာသာ",
        "བོད་སྐད།",
        "ᠮᠣᠩᠭᠣᠯ\u180eᠠ ᠨ\u180bᠠ",
        "አማርኛ፡ ሰላም።",
        "日本語「テスト」、ｶﾞ か\u3099",
        "한국어 \u1112\u1161\u11ab",
        "Tiếng Việt ngữ e\u0302\u0301",
        "1️⃣ #️⃣ 🏴󠁧󠁢󠁳󠁣󠁴󠁿 🇩🇪 ☺︎ ☺️ 👩🏽‍🚀 🏳️‍🌈 ❤️‍🔥 \U0001fae9",
        "“quoted” — … ½ € ™ ‰ → ≤ ∑ ✓ ─┼ ▁▂",
    ):
        assert visible(text) == (text, 0), text
    french, japanese = visible("Quoi\u202f? «\u00a0Oui\u00a0»"), visible("\u3000日本")
    assert "⟨U+00A0⟩" in french[0] and "⟨U+3000⟩" in japanese[0]  # seen, since code may hold them too
    assert (french[1], japanese[1]) == (0, 0)  # but no warning


def test_no_character_at_all_is_dropped() -> None:
    for code in (*range(0x40000), *range(0xE0000, 0xE1000), *range(0x40000, 0x110000, 0x101)):  # of empty planes some
        char = chr(code)
        if char not in "\n\t":
            shown = visible(char)[0]
            assert clean(shown) == shown or 0x1F1E6 <= code <= 0x1F1FF, hex(code)
            assert shown != char or cell_len(char) or char == char.strip() != "", hex(code)


def test_to_a_shell_a_line_end_of_two_characters_is_none() -> None:
    command = "echo a\r\nrm b\r\n"
    for language, shown in (("bash", "echo a␍\nrm b␍\n"), ("diff", "echo a\nrm b\n"), ("python", "echo a\nrm b\n")):
        assert (seen(command, language), visible(command, language)[1]) == (shown, 2 * (language == "bash"))


def test_on_a_line_two_texts_never_look_the_same() -> None:
    assert seen_line("a\u2028b \n c\xa0d") == "a⟨U+2028⟩b ␊ c⟨U+00A0⟩d"
    texts = ("a b", "a  b", "a\nb", "a\tb", "a\r\nb", "a\rb", " a b", "a b ", "a b\n", "a\u00a0b", "a\u200bb")
    assert len(set(map(seen_line, texts))) == len(texts)
    assert seen_line("a\nbcdef", 4) == "a␊b…"
    assert seen("a\rb") == "a␍b"
