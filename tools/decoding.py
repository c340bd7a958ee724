"""Bytes as text, and back to the same bytes: the one decoder of files, attachments, the library and pages.

It imports only the standard library, and webencodings to look a label up: a search runs it alone.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16's, with which it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_KINDS: Final = (
    (b"\x89PNG", "a PNG picture"), (b"\xff\xd8\xff", "a JPEG picture"), (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF"), (b"PK\x03\x04", "a ZIP archive"), (b"\x1f\x8b", "a gzip archive"),
    (b"\x7fELF", "a program"), (b"SQLite format 3\0", "an SQLite database"), (b"GGUF", "a GGUF model"),
)  # fmt: skip
_NAMES: Final = {"cp932": "Shift_JIS", "cp949": "EUC-KR", "big5": "Big5", "big5hkscs": "Big5", "cp866": "IBM866"}
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
_BROKEN: Final = re.compile("[\ud800-\udfff]")
_COMMENT: Final = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_IN_PAGE: Final = re.compile(
    rb"\A\s*<\?xml[^>]{0,256}?encoding\s*=\s*[\"']([\w.:-]{1,40})"
    rb"|<meta[\s/](?=[^>]{0,256}?charset\s*=)(?![^>]{0,256}?\bname\s*=)[^>]{0,256}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})",
    re.IGNORECASE,
)
_IN_COMMENT: Final = re.compile(rb"\A(?:[^\n]*\n)?[^\n]*?coding[:=][ \t]*([-\w.]{1,40})")
"""The encoding as Python, Emacs and vim name it, in the first two lines."""
_PRESCANNED: Final = 4096
_CHARACTER_SETS: Final = re.compile("utf-(8|16|32)|ascii|iso|cp|koi8|mac|gb|big5|euc|shift|johab|tis|ptcp|kz")
"""Python's codecs are more than character sets: zip, punycode (quadratic), unicode_escape."""
_CUT: Final = re.compile(rb"[\xe0-\xf4][\x80-\xbf]{1,2}\Z")
"""UTF-8, cut in the middle of a character."""
_SAMPLED: Final = 1 << 12
"""The sample for guessing an encoding, in bytes: 2 ms."""
_WEIGHED: Final = 1 << 19
"""The bytes to judge by, on each side of the first invalid one: 16 MB would take seconds."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text and its encoding by Python's name. `mark`: the byte order mark, which isn't in the text.

    Invalid bytes are lone surrogates in `text` (as `surrogateescape` has them), U+FFFD in `shown`. `guessed`: nothing
    names the encoding, and it isn't UTF-8.
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    guessed: bool = False

    @property
    def shown(self) -> str:
        return _BROKEN.sub("\ufffd", self.text)

    @property
    def name(self) -> str:
        """The encoding as people call it: `"windows-1252"`."""
        return _name(self.encoding)

    @property
    def guess(self) -> str:
        """Its name if it was guessed, one of `GUESSES`; else ""."""
        return self.name if self.guessed else ""

    @property
    def broken(self) -> int:
        """The number of invalid bytes."""
        return len(_BROKEN.findall(self.text))

    @property
    def remark(self) -> str:
        """A warning that the text may differ from the original: `"not UTF-8: read as GBK, by guess"`; or ""."""
        broken = self.broken
        parts = [f"not UTF-8: read as {self.guess}, by guess"] if self.guessed else []
        if broken:
            parts.append(f"{broken:,} byte{'' if broken == 1 else 's'} not valid in {self.name}, shown as \ufffd")
        return "; ".join(parts)

    def encode(self) -> bytes:
        """The bytes. Raises `UnicodeEncodeError` for a character outside the encoding."""
        return self.mark + self.text.encode(self.encoding, "surrogateescape")


def decode(data: bytes) -> Text | None:
    r"""The text of a file, or None for a binary one.

    Known by its byte order mark, else it is UTF-8 if that is valid, or what it names itself (`<meta charset=…>`,
    `# coding: …`), else a guess: `decode(b"caf\xe9 5 \x80")` is `Text("café 5 €", "cp1252", guessed=True)`.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            errors = "surrogateescape" if encoding == "utf-8" else "strict"
            try:
                return Text(data[len(mark) :].decode(encoding, errors), encoding, mark)
            except UnicodeDecodeError:
                return None
    if b"\0" in data or data.startswith(tuple(start for start, _ in _KINDS)):
        wide = _unmarked(data)
        return Text(data.decode(wide), wide, guessed=True) if wide else None
    if b"\x1b$" in data and (said := _strict(data, "iso2022_jp")) and said.encode("iso2022_jp") == data:
        return Text(said, "iso2022_jp")
    label = declared(data) or ""
    named = codec(label)
    narrow = "gbk" if named == "gb18030" and "18030" not in label else None  # what is written back must be GBK
    for encoding in filter(None, ("utf-8", narrow, named)):
        if (text := _strict(data, encoding)) is not None:
            return Text(text, encoding)
    return _guessed(data, named=named == "utf-8")


def decode_beginning(data: bytes) -> Text | None:
    """The text of a file's first bytes, up to the last whole character."""
    found = [decode(data[: len(data) - cut]) for cut in range(4)]
    return next((text for text in found if text and not text.remark), found[0])


def decode_page(data: bytes, charset: str | None) -> Text:
    """The text of a page: by its mark, the server's label `charset`, its own label, as UTF-8, else by guess.

    Never fails: invalid bytes are lone surrogates. A label that doesn't fit gives way to valid UTF-8, and UTF-8's to a
    guess that fits very well.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return Text(_lenient(data[len(mark) :], encoding), encoding, mark)
    named = codec(charset)
    if named is None:
        if (b"\0" in data or b"\x1b$" in data) and (read := decode(data)):
            return read
        said = codec(declared(data))
        # what could be read as ASCII isn't UTF-16
        named = {"utf-16-le": "utf-8", "utf-16-be": "utf-8", "x-user-defined": "cp1252"}.get(said or "", said)
    if named in (None, "utf-8"):
        return _guessed(data, named=named is not None)
    if named == "x-user-defined":
        return Text("".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in data), named)
    read = Text(_lenient(data, named), named)
    valid = _strict(data, "utf-8") if read.broken else None
    return read if valid is None else Text(valid)


def codec(label: str | None) -> str | None:
    """Python's codec for a label of a character set: `codec("latin1")` is `"cp1252"`, as browsers read it.

    None for an unknown one, and for codecs that are no character set.
    """
    import webencodings

    label = (label or "").split(",")[0].strip()
    try:
        found = webencodings.lookup(label)
        if found is not None and found.name == "x-user-defined":
            return "x-user-defined"
        name = codecs.lookup(label).name if found is None else found.codec_info.name
    except (LookupError, ValueError):
        return None
    # The browsers' GBK is GB18030; WHATWG's table sends what is unsafe to read to a codec of its own
    return {"gbk": "gb18030", "ascii": "cp1252"}.get(name, name) if _CHARACTER_SETS.match(name) else None


def declared(data: bytes) -> str | None:
    """The label of the encoding at the beginning of a page or a file."""
    head = data[:_PRESCANNED]
    found = _IN_PAGE.search(_COMMENT.sub(b"", head)) or _IN_COMMENT.match(head)
    return next(label for label in found.groups() if label).decode("ascii", "replace") if found else None


def wide(data: bytes) -> bool:
    """True if a file begins so in UTF-16 or UTF-32 (with NUL bytes in its text)."""
    marked = data.startswith(tuple(mark for mark, encoding in _MARKS if encoding != "utf-8"))
    return marked or _unmarked(data) is not None


def _unmarked(data: bytes) -> str | None:
    """The kind of UTF-16 of a mostly Latin text without its mark: every other byte is NUL."""
    for encoding, high in (("utf-16-le", data[1::2]), ("utf-16-be", data[::2])):
        if 2 * high.count(0) > len(high):
            text = _strict(data, encoding)
            return encoding if text and not _CONTROLS.search(text) else None
    return None


def universal(text: str) -> str:
    r"""With `\n` for each line end: `\r\n`, `\r` and `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def describe(data: bytes) -> str:
    """A binary file in a few words: `"a PNG picture, 12.3 kB"`."""
    kind = next((kind for start, kind in _KINDS if data.startswith(start)), "a binary file")
    return f"{kind}, {len(data) / 1e3:.1f} kB"


def _name(encoding: str) -> str:
    if encoding.startswith("cp125"):
        return f"windows-{encoding[2:]}"
    return _NAMES.get(encoding) or re.sub(r"^ISO(?=\d)", "ISO-", encoding.upper().replace("_", "-"))


def _lenient(data: bytes, encoding: str) -> str:
    """The text, with invalid bytes as lone surrogates. (An error handler in Python takes 6 µs for each.)"""
    if encoding == "utf-8":
        return data.decode(encoding, "surrogateescape")
    return data.decode(encoding, "replace").replace("\ufffd", "\udcff")


def _strict(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        return None


# -- guessing ----------------------------------------------------------------------------------------------------------
# By the share of characters beyond ASCII that are common in a language of the encoding. Of 46 short texts in 17
# encodings, 38 came out right, with charset-normalizer 23, with chardet 7 35, with chardetng (which has no wheels for
# Python 3.14) 41. Of pieces of 3 to 40 characters, 95 of 100 do; in windows-1251 90, in windows-1250 65.

_WEST: Final = "€‚„…†‰‹›‘’“”•–—™Œœ¡¢£¥§©ª«®°±²´µ¶·º»¼½¾¿×÷" + "ßàáâãäåæçèéêëìíîïñòóôõöøùúûü"
_EAST: Final = "€‚„…‘’“”–—™§©«®°»ßąáäâćčďđéęěëíîłĺľńňóôöőřŕśšťúůüűýźžż"
_TURKISH: Final = "€‚„…‘’“”–—™§©«®°»âçğîıöşüû"
_RUSSIAN: Final = "оеаинтсрвлкмдпуяызьбгчй№«»—–“”„"
_FINAL: Final = "ךםןףץ"
_ALPHABETS: Final = (  # the first one wins a tie
    ("cp1252", _WEST),
    ("cp1250", _EAST),
    ("cp1254", _TURKISH),
    ("cp1251", _RUSSIAN),
    ("koi8_r", _RUSSIAN),
    ("cp866", _RUSSIAN),
    ("cp1253", "αοιετσνηρπκμλυςάίόέήύ«»—–"),
    ("cp1255", "אבגדהוזחטיכלמנסעפצקרשת" + _FINAL),
    ("cp1256", "اليمنوترهبدعةفسكق"),
)
_LATIN: Final = frozenset({"cp1252", "cp1250", "cp1254"})
_SYLLABLES: Final = (  # first bytes of the common signs; from what on a second byte may be
    ("cp949", b"\xa1" + bytes(range(0xB0, 0xC9)), 0xA1),
    ("gbk", b"\xa1\xa3" + bytes(range(0xB0, 0xD8)), 0xA1),
    ("gb18030", b"\xa1\xa3" + bytes(range(0xB0, 0xD8)), 0xA1),  # its longer codes aren't GBK's
    ("euc_jp", b"\xa1\xa4\xa5" + bytes(range(0xB0, 0xD0)), 0xA1),
    ("cp932", b"\x81\x82\x83" + bytes(range(0x88, 0x98)), 0x40),
    ("big5", b"\xa1" + bytes(range(0xA4, 0xC7)), 0x40),
)
GUESSES: Final = frozenset(_name(str(each[0])) for each in (*_SYLLABLES, *_ALPHABETS, ("utf-16-le",), ("utf-16-be",)))
"""The names of all guesses."""
_ENOUGH: Final = 0.5
_SURE, _MANY = 0.9, 8
"""Bytes that are UTF-8 in part are another encoding if that fits so well: `价格：￥100元` in GBK has three characters
of UTF-8 and two invalid bytes. With more than so many characters for each invalid byte they are UTF-8."""
_BEYOND: Final = re.compile(rb"(?:[\x80-\xff]++[\t -\x7f]{0,16}+)++")
# Of a text in which `a` stands for a plain letter, beyond ASCII `C` for a common one, `U` for another, `c` for a sign:
_IN_WORDS: Final = re.compile("(?<=a)C|C(?=a)|(?<![CU])C(?![CU])|(?<![aCU])c|c(?![aCU])")
"""Accented letters stand among plain ones, or alone; signs not within words."""
_ELSEWHERE: Final = re.compile("(?<!a)C(?!a)|(?<![aCFKU])K|F(?![aCFKU])|c")
"""Letters of another alphabet don't stand beside plain ones. Capitals (`K`) begin a word, final ones (`F`) end it."""


def _guessed(data: bytes, *, named: bool) -> Text:
    """UTF-8 if most of it is valid, else the likeliest encoding that gives the same bytes back.

    `named`: its label is UTF-8.
    """
    try:
        return Text(data.decode())
    except UnicodeDecodeError as error:
        first = max(error.start - _WEIGHED, 0)
    window = data[first : first + 2 * _WEIGHED]
    text = window.decode("utf-8", "surrogateescape")
    broken = len(_BROKEN.findall(text))
    cut = _CUT.search(data[-4:])
    good = len(text) - len(text.encode("ascii", "ignore")) - broken
    unicode = Text(data.decode("utf-8", "surrogateescape"))
    if good > _MANY * broken or (cut and broken == len(cut[0])):
        return unicode
    likely, enough = (True, _SURE) if named or good >= broken else (False, _ENOUGH)
    shares = enumerate(_shares(b"\n".join(_pieces(window)), letters=good < broken))
    ranked = sorted((-share, at, name) for at, (name, share) in shares if share >= enough)
    for _, _, name in ranked:
        if (found := _strict(data, name)) is not None:
            return Text(found, name, guessed=True)
    if likely:
        return unicode
    return Text(data.decode("cp1252", "surrogateescape"), "cp1252", guessed=True)  # it takes every byte


def _pieces(data: bytes) -> Iterator[bytes]:
    """The parts beyond ASCII, with a little around them; each begins with a whole character."""
    room = _SAMPLED
    for found in _BEYOND.finditer(data):
        piece = data[max(found.start() - 1, 0) : found.end()][:room]
        yield piece
        room -= len(piece)
        if room <= 0:
            return


def _shares(sample: bytes, *, letters: bool) -> Iterator[tuple[str, float]]:
    """The share for each encoding; without `letters` only for those of syllables."""
    for name, alphabet in _ALPHABETS if letters else ():
        if (text := _sampled(sample, name)) is not None:
            yield name, _share(text, {*alphabet, *alphabet.upper()}, _IN_WORDS if name in _LATIN else _ELSEWHERE)
    for name, first, second in _SYLLABLES:
        if (text := _sampled(sample, name)) is not None:
            coded = {character: character.encode(name, "replace") for character in set(text) if character > "\x7f"}
            common = {sign for sign, code in coded.items() if len(code) == 2 and code[0] in first and code[1] >= second}
            yield name, _share(text, common, _ELSEWHERE)


def _sampled(sample: bytes, encoding: str) -> str | None:
    """The sample may end in the middle of a character."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(sample)
    except UnicodeDecodeError:
        return None


def _share(text: str, common: set[str], fits: re.Pattern[str]) -> float:
    """The share of common characters at the places of `fits` among those beyond ASCII."""
    kinds: dict[int, str] = {}
    for character in set(text):
        letter = character.isalpha()
        if character <= "\x7f" or character == "’":
            kinds[ord(character)] = "a" if letter or character == "’" else " "
        elif character in common:
            capital = character.isupper() and fits is _ELSEWHERE
            kinds[ord(character)] = "K" if capital else "F" if character in _FINAL else "C" if letter else "c"
        else:
            kinds[ord(character)] = "U" if letter else "u"
    shape = text.translate(kinds)
    beyond = len(shape) - shape.count("a") - shape.count(" ")
    return len(fits.findall(shape)) / beyond if beyond else 0.0
