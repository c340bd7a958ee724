"""The text of a question, with nothing in it hidden: what a person agrees to is what is shown."""

from __future__ import annotations

import re
import unicodedata

from cli.clean import MAX_MARKS, clean, one_line
from cli.emoji import CLUSTER, EMOJI

_PICTURE = re.compile(f"({CLUSTER}|{EMOJI}\ufe0f)")  # what joins its parts is seen in them
_NOT_DRAWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
# What is blank or ignored though its category is one of letters, marks or symbols: fillers, selectors, a braille cell.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_RUN = re.compile(r"[ \t]{80,}(?=[^ \t\n])")
_ENDING = re.compile(r"\r\n")


def visible(text: str) -> tuple[str, int]:
    r"""The text with a sign for each character that isn't drawn as itself, and the number of the signs.

    Kept as they are: `\n`, `\t`, `\r\n` (as a newline), emoji of several characters. A long run of blanks becomes its
    number: it would push what follows out of sight.

        visible("# tidy\rrm x")     → ("# tidy␍rm x", 1)
        visible("a\u202egpj.exe")   → ("a⟨U+202E⟩gpj.exe", 1)
    """
    text = _ENDING.sub("\n", text)
    text, signs = _RUN.subn(lambda run: f"⟨{len(run[0])} blanks⟩", text)
    if text.isascii() and text.isprintable():
        return text, signs
    done: list[str] = []
    marks = 0
    for number, part in enumerate(_PICTURE.split(text)):
        if number % 2:
            done.append(part)
            continue
        for char in part:
            marks = marks + 1 if unicodedata.combining(char) else 0
            sign = f"⟨U+{ord(char):04X}⟩" if marks > MAX_MARKS else _sign(char)
            signs += sign != char
            done.append(sign)
    return "".join(done), signs


def _sign(char: str) -> str:
    code = ord(char)
    if char in " \n\t":
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    hidden = unicodedata.category(char) in _NOT_DRAWN or _BLANK.match(char)
    return f"⟨U+{code:04X}⟩" if hidden else char


def seen(text: str) -> str:
    """`visible`, for a terminal. The text of every question goes through it or `seen_line`."""
    return clean(visible(text)[0])


def seen_line(text: str, max_chars: int | None = None) -> str:
    """As `seen`, on one line."""
    return clean(one_line(visible(text)[0], max_chars))
