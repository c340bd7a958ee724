"""Bytes as text and back: encodings that are named, marked, guessed; broken bytes."""

from __future__ import annotations

import webencodings
from hypothesis import example, given
from hypothesis import strategies as st

from ossia.tools.decoding import Text, codec, decode, decode_page

GUESSED = {
    "cp1252": ("The price is 5 € and “quoted” — done", "naïve “é” €", "café", "# Größe der Fläche\n", "it’s déjà vu"),
    "cp1251": ("Привет, мир", "// комментарий\nint x = 5;\n", "Произошла ошибка"),
    "koi8_r": ("Привет, мир", "Закон о дорогах, статья 5."),
    "cp932": ("これは本文です。漢字とカナ。", "# 設定ファイル\nname = 1\n"),
    "euc_jp": ("これは本文です。漢字とカナ。",),
    "gbk": ("价格：￥100元", "中文网页内容，价格 100 元。", "# 配置文件\n"),
    "big5": ("繁體中文網頁內容，價格一百元。",),
    "cp949": ("안녕하세요 한국어 텍스트입니다", "한글"),
    "cp1250": ("Příliš žluťoučký kůň úpěl", "Zażółć gęślą jaźń", "Łódź, Wrocław, Kraków", "Plik został zapisany"),
    "cp1255": ("שלום עולם, זה מבחן",),
    "cp1253": ("Καλημέρα κόσμε",),
}


def test_an_encoding_is_guessed_of_a_short_text() -> None:
    for encoding, texts in GUESSED.items():
        for text in texts:
            assert decode(text.encode(encoding)) == Text(text, encoding, guessed=True)


def test_an_encoding_is_guessed_of_what_stands_far_into_a_long_line() -> None:
    for encoding, texts in GUESSED.items():
        text = "x = 1; " * 100_000 + texts[0].strip() + " ; y = 2" * 100_000
        found = decode(text.encode(encoding))
        assert found is not None and (found.encoding, found.text == text) == (encoding, True)


def test_broken_bytes_in_utf_8_stay_what_they_are() -> None:
    for broken in (b"\xff", b"\x80", b"\xe9 ", b"\xe2\x82"):
        data = "Grüße, 日本語 ".encode() + broken + b"x"
        text = decode(data)
        assert text is not None and text.encoding == "utf-8" and text.encode() == data
        assert "Grüße, 日本語 \ufffd" in text.shown and "not valid in UTF-8" in text.remark


def test_what_is_utf_16_without_its_mark() -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        text = "[Version]\r\nName = “Größe”, 日本\r\n"
        assert decode(text.encode(encoding)) == Text(text, encoding, guessed=True)
        assert decode_page(text.encode(encoding), None).text == text
    text = "<p>これは本文です"
    assert decode_page(text.encode("iso2022_jp"), None) == Text(text, "iso2022_jp"), "so are escapes seen in pages"
    for binary in (b"\1\0\2\0\3\0\4\0", b"a\0b\0c", b"a\0b", b"\x7fELF\0\0\0\0\0\0", b"\0\0\0\0"):
        assert decode(binary) is None


def test_a_label_that_is_wrong() -> None:
    legacy = "Größe und Fläche"
    assert decode_page(legacy.encode("cp1252"), "utf-8").remark == "not UTF-8: read as windows-1252, by guess"
    assert decode_page("日本語".encode(), "gbk") == Text("日本語"), "what is valid UTF-8 is that"
    wrong = {
        "shift_jis": (b"ab \x81 c \x81 d", "2 bytes not valid in Shift_JIS"),
        "euc-kr": ("価格は100円です".encode("cp932"), "not valid in EUC-KR"),
        "utf-16": (b"a\0b\0\xff", "1 byte not valid in UTF-16-LE"),
        "iso-2022-jp": (b"a \xff\xff", "not valid in ISO-2022-JP"),
        "utf-8": ("日本語 ".encode() + b"\xe9", "1 byte not valid in UTF-8"),
    }
    for label, (data, remark) in wrong.items():
        named = f"<meta charset={label}>".encode() + data
        for read in (decode_page(data, label), *([] if label == "utf-16" else [decode_page(named, None)])):
            assert remark in read.remark and "\ufffd" in read.shown, label


@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00\x00x\x00\x00\x00")
@example("é".encode("utf-32-be"))
@example(b"\x1b$B")
def test_what_is_decoded_without_a_declaration_comes_back_byte_for_byte(data: bytes) -> None:
    text = decode(data)
    assert text is None or text.encode() == data or not text.remark
    assert decode_page(data, None).shown is not None


def test_every_label_of_the_standard_is_known_to_pages() -> None:
    wanted = {"shift_jis": "日本語①髙", "euc-kr": "똠방각하", "big5": "繁體", "windows-1252": "“q” €", "gbk": "中文"}
    for label, name in webencodings.LABELS.items():
        if name in wanted:
            data = wanted[name].encode(str(codec(label)))
            assert decode_page(data, label.upper()).text == wanted[name]
        elif name != "replacement":
            assert decode_page(b"plain!", label).encoding == codec(label) is not None
    assert decode_page(b"a\xe9", "x-user-defined").text == "a\uf7e9"
    assert codec("zip") is codec("unicode_escape") is codec("utf-7") is codec("no such") is None


def test_a_declaration_counts_where_it_is_one() -> None:
    text = "да"
    for head in ("<meta charset=koi8-r>", "<?xml version='1.0' encoding='koi8-r'?>", "# vim: fileencoding=koi8-r :\n"):
        data = (head + text).encode("koi8-r")
        assert decode(data) == Text(head + text, "koi8-r") == decode_page(data, None)
    page = "<!-- <meta charset=koi8-r> --><meta name=description content='charset=koi8-r'><p>Grüße".encode("cp1252")
    assert decode_page(page, None).encoding == "cp1252"
