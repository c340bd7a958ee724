"""Random mixes of attacks through Segmenter and Painter: `python -m tests.oracle.hostile_output --count 1500 --seed 1`.

What leaves `Painter.ansi` must be text, SGR of the 16 colours and links to clean addresses; what leaves
`Painter.fragments` text and words for styles. The check knows nothing of cli/clean.py: it goes by Unicode's own
categories and by whitelists. Prints each leak and ends with 1 when there is one.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

from ossia.cli.clean import CLUSTER, clean
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk, Segmenter

ATTACKS = (
    *("\x1b[2J\x1b[H", "\x1b]0;pwn\x07", "\x1b]8;;file:///etc\x1b\\x\x1b]8;;\x1b\\", "\x1b]52;c;AAAA\x07"),
    *("\x1bP1$r\x1b\\", "\x9b31m", "\x9d0;x\x9c", "\x90q\x9c", "\x1bc", "\x1b[?1049h", "\x1b[41;5m", "\x0e\x0f"),
    *("\x08\x08\x7f", "\x00", "\r\noverwrite\r", "a\rb", "\x85\x0b\x0c", "\u2028\u2029"),
    *("\u202eabc\u2066", "\u061c\u200e\u200f\u2069"),
    *("a\u200bb\u200d\ufeff\u2060", "\ud800", "\udc9b31m", "\U000e0041\U000e007f", "\u3164\uffa0\ufe0f"),
    *("e\u0301" * 50, "Z" + "\u0301" * 2000, "\u20dd" * 30, "**Z\u0301\u0301\u0301\u0301**" + "\u0301" * 30),
    *("`" + "\u0301" * 9 + "`" + "\u0301" * 9, "\u0e01" + "\u0e49" * 40, "\u1100" + "\u1161" * 40),
    *("\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f", "\U0001f1e9\U0001f1ea\U0001f1eb"),
    *("[bold red]x[/]", ":smile:", "[l](javascript:alert(1))", "[l](http://a.b/\u202ec;d)", "[l](http://a.b/\x1b]0;x\x07)"),
    *("[l](<http://a.b/ x>)", "[a\u202eb](https://user@evil.example/ 'ti\x1btle')", "[l](http://a.b/%1b%0a)"),
    *("[r]: http://a/\x1b]b\n[r]", "[https://bank.example](https://evil.example)", "[l](http://" + "a" * 3000 + ".b)"),
    *("![a\x1b[1m](http://x/\x07)", "![](data:image/png;base64," + "A" * 3000 + ")", "[![i](http://x/y)](http://[::1]/;)"),
    *("[l](HTTPS://\u0430.b)", "[l](http://a.b:99999/)", "[l](file:///etc/passwd)", "[\n\n](http://a.b)"),
    *("<http://a.b/\u202e>", "[l](http://a\\@b)", "&#x1b;[31m &#x202e; &#155; &#0; &#10;", "&#x9b;2J", "&#13;x"),
    *("&#x301;" * 40, "&nbsp;&zwj;&shy;&rlm;", "&#xd800;", "<b>\x1b[1m</b>", "<br>", "`\x1b[5m`", "`` a\nb ``"),
    *("$\x1b[1m_a_$", "\\[ \x9b1m \\]", "$$\n\x1b[2J\n$$\n", "\\(&#x202e;\\)", "```\n\x1b]52;c;AAA\x07\n```\n"),
    *("\\(\\text{\x1b[2J} x^{\x9b1m}\\)", "$x^2_{\u202e}\\hat{\u0301}$", "\\(\\overline{" + "a\u0301" * 18 + "}\\)"),
    *("\\[\\begin{cases}\x1b]52;c;A\x07\\\\\r\u2028\\end{cases}\\]", "$\\vec{\u20dd}^{" + "\u0301" * 7 + "}$"),
    *("```\x1b[31m py\nx\n```\n", "```&#x1b;\nx\n", "~~~py\n'''\x1b[0m\n", "```../../x\ny\n```\n", "    \x1b[1m\tc\n"),
    *("```" + "a" * 500 + "\nx\n```\n", "```diff\n-\x1b[m\n+\t\n```\n", "```markdown\n[x](http://\x07)\n```\n"),
    *("# h\x1bc\u115f\u180e", "|a\x1b[K|\n|-|\n|\u200e|\n", "|a|b|\n|-|:-:|\n|\x1b[1m<br>&#x1b;|`\x07`|\n|only one\n"),
    *("> \x1b[1m\n>> x\n", "- \x1b[A\n  - &#x202e;\n", "1000000000. x\n", "- " * 60, "> " * 60, "*" * 300, "_a" * 200),
    *("[" * 300, "$" * 300, "`a " * 90, "---\n", "===\n", "\n", "\n\n", "\t", "  \n", "\\\n"),
    *("👨\u200d👩\u200d👧", "👩🏽\u200d", "\u200d💻", "❤\ufe0f\u200d🔥", "a\u200d👧", "👍🏽"),
    *("\U0001f1e9\U0001f1ea", "\U0001f1eb"),
    *("text ", "漢字かな ", "\u0645\u0631 \u202b x"),
)
_MEGABYTES = ("word ", "x", "\u0301", "[a](", "\x1b[31m", "漢", "**a*", "`a ")
HUGE = tuple(piece * (1_000_000 // len(piece.encode())) for piece in _MEGABYTES)

_SGR = r"\x1b\[(?:0|(?:[1-4]|7|9|3[0-7]|9[0-7])(?:;(?:[1-4]|7|9|3[0-7]|9[0-7]))*)m"
_LINK = r"\x1b\]8;;https?://[!-:<-~]{1,2100}\x1b\\"
_END_OF_LINK = r"\x1b\]8;;\x1b\\"
_TEXT = r"[^\x00-\x1f\x7f-\x9f]"
_STYLED = rf"(?:{_SGR}{_TEXT}++\x1b\[0m|{_TEXT}++)"  # possessive: a row that fails must fail in linear time
_ROW = re.compile(rf"(?:{_LINK}{_STYLED}{_END_OF_LINK}|{_STYLED})*")
_CLUSTER = re.compile(CLUSTER)
_ESCAPES = re.compile(rf"{_SGR}|{_LINK}|{_END_OF_LINK}")
_WORDS = re.compile(r"(?:(?:bold|dim|italic|underline|reverse|strike|fg:ansi[a-z]+)(?: |$))*")
_INK = ("SIGN", "ARABIC", "SYRIAC", "EGYPTIAN", "KAITHI")  # format characters that are drawn
_IGNORED = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | frozenset(map(chr, range(0xFE00, 0xFE10)))
MAX_MARKS = 8


@cache
def _acts(char: str) -> bool:
    """A control, a format character without ink, a lone surrogate, a separator, a tag, half a flag, or not seen."""
    code, category = ord(char), unicodedata.category(char)
    if category == "Cf":
        return not any(word in unicodedata.name(char, "") for word in _INK)
    tags, flags = 0xE0000 <= code <= 0xE0FFF, 0x1F1E6 <= code <= 0x1F1FF
    return category in ("Cc", "Cs", "Zl", "Zp") or char in _IGNORED or tags or flags


def complaints(text: str) -> Iterator[str]:
    """What is wrong with text as it would be seen."""
    if acting := sorted({f"U+{ord(char):04X}" for char in text if _acts(char)}):
        yield f"acting characters {acting}"
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") or "\u1160" <= char <= "\u11ff" else 0
        if marks > MAX_MARKS:
            yield "a pile of marks"
            return
    if text != text.rstrip(" "):
        yield "blanks at the end"


def row_complaints(ansi: str, *, colour: bool = True) -> Iterator[str]:
    """What is wrong with a row as it goes to the terminal."""
    if not _ROW.fullmatch(ansi) or (not colour and "\x1b" in ansi):
        yield f"not only text, SGR and links: {ansi!r}"
    yield from complaints(_CLUSTER.sub("x", _ESCAPES.sub("", ansi)))


def fragment_complaints(fragments: list[tuple[str, str]]) -> Iterator[str]:
    """What is wrong with prompt_toolkit's fragments."""
    for words, text in fragments:
        if not _WORDS.fullmatch(words):
            yield f"a style {words!r}"
        if "\n" in text and text != "\n":
            yield f"a line end in {text!r}"
    for line in "".join(text for _, text in fragments).split("\n"):
        yield from complaints(line)


def random_text(rng: random.Random) -> str:
    blocks = ("".join(rng.choice(ATTACKS) for _ in range(rng.randrange(1, 4))) for _ in range(rng.randrange(1, 5)))
    return rng.choice(("\n\n", "\n")).join(blocks)


def leaks(text: str, rng: random.Random, *, clean: Callable[[str], str] = clean) -> list[str]:
    """Feeds the text in pieces, paints what is final and what is live, and says what leaked."""
    painter = Painter(rng.choice((1, 12, 40, 80, 200)), colour=rng.random() < 0.8, links=rng.random() < 0.8)
    segmenter, found, at = Segmenter(), list[str](), 0
    while at < len(text):
        size = max(len(text) // 20, rng.randrange(1, 200))
        chunks = segmenter.feed(clean(text[at : at + size]))
        live = segmenter.live(rng.randrange(1, 30))
        found += _painted(painter, [*chunks, *([live] if live else [])])
        at += size
    found += _painted(painter, segmenter.finish())
    rows = painter.text(text[:5000], "bold")
    return found + _of_rows(painter, rows)


def _painted(painter: Painter, chunks: list[Chunk]) -> list[str]:
    return _of_rows(painter, [row for chunk in chunks for row in painter.chunk(chunk)])


def _of_rows(painter: Painter, rows: list[Row]) -> list[str]:
    found = [one for row in rows for one in row_complaints(painter.ansi(row), colour=painter.colour)]
    return found + list(fragment_complaints(painter.fragments(rows)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    texts = [*ATTACKS, *HUGE, *(random_text(rng) for _ in range(options.count))]
    total = 0
    for text in texts:
        found = leaks(text, rng)
        total += len(found)
        if found and total - len(found) < 5:
            print(f"{text[:200]!r}\n  {found[0][:500]}")
    print(f"{len(texts)} texts, seed {options.seed}: {total} leaks")
    sys.exit(1 if total else 0)


if __name__ == "__main__":
    main()
