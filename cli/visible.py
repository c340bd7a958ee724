"""The text of a question, with nothing in it hidden: a person agrees to exactly what they see."""

from __future__ import annotations

import re
import unicodedata

from ossia.cli.clean import CLUSTER, EMOJI, MAX_MARKS, clean

# Scripts whose letters U+200C and U+200D join or part, and those that U+200B breaks between words, as sets.
_JOINED = (
    "\u0620-\u06dc\u06de-\u06ff\u0710-\u085f\u08a0-\u08e1\u08e3-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18aa"
    "\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9df\uaa60-\uaa7f\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00011000-\U00011fff"
    "\U0001e900-\U0001e95f"
)
_UNSPACED = "\u0e01-\u109f\u1780-\u17b3\u17b6-\u17ff\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9df"
_DRAWN = re.compile(
    "("
    f"{CLUSTER}|{EMOJI}[\ufe0e\ufe0f]|[0-9#*]\ufe0f\u20e3"
    "|\U0001f3f4[\U000e0061-\U000e007a]{2}[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,4}\U000e007f"  # as Scotland's
    f"|(?<=[{_JOINED}])[\u200c\u200d](?=[{_JOINED}])|(?<=[\u09cd\u0d4d])\u200d"  # a word of Bengali may end in one
    f"|(?<=[{_UNSPACED}])\u200b(?=[{_UNSPACED}])|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
    "|[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]"  # signs around numbers, though "format"
    "|[\U0001f300-\U0001faff]"  # emoji that are newer than Python's tables, too
    ")"
)
"""Sequences drawn as they are, though their characters alone may not be."""
_NOT_DRAWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
# What is blank or ignored though its category is one of letters, marks or symbols: fillers, selectors, a braille cell.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_PLAIN = re.compile(r"[\n\t -~]*")
_RUN = re.compile(r"(?<![ \t])[ \t]{80,}+(?=[^ \t\n])")
_PLAIN_END = re.compile(r"(?m)^(?!--- |\+\+\+ |@@ |\\ No newline)[^\n]*(?<!\r)\n(?!\\ No newline)")
r"""A line that ends in `\n` alone, but for those that a diff adds."""
_SHELLS = frozenset({"bash", "sh"})


def visible(text: str, language: str = "") -> tuple[str, int]:
    r"""The text with a sign for each character that isn't drawn as itself, and the number of hidden characters.

    Unchanged: `\n`, `\t`, emoji of several characters, joiners within words of scripts that need them, and `\r\n` (as a
    newline) where all lines end in it; else its `\r` has a sign, and always if `language` is a shell's: to a shell it
    is a part of the last word. Blanks of other kinds (U+00A0) have a sign, but aren't counted as hidden: French and
    Japanese are written with them. A long run of blanks becomes its number: it could push text out of sight.

        visible("# tidy\rrm x")     → ("# tidy␍rm x", 1)
        visible("a\u202egpj.exe")   → ("a⟨U+202E⟩gpj.exe", 1)
    """
    text, signs = _RUN.subn(lambda run: f"⟨{len(run[0])} blanks⟩", text)
    if ends := text.count("\r\n"):
        shown = language in _SHELLS or _PLAIN_END.search(text) is not None
        text, signs = text.replace("\r\n", "␍\n" if shown else "\n"), signs + shown * ends
    if _PLAIN.fullmatch(text):
        return text, signs
    done: list[str] = []
    marks = 0
    for number, part in enumerate(_DRAWN.split(text)):
        if number % 2:
            done.append(part)
            continue
        for char in part:
            marks = marks + 1 if unicodedata.combining(char) else 0
            sign = f"⟨U+{ord(char):04X}⟩" if marks > MAX_MARKS else _sign(char)
            signs += sign != char and unicodedata.category(char) != "Zs"
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


def seen(text: str, language: str = "") -> str:
    """`visible`, for a terminal. The text of every question goes through it or `seen_line`."""
    return clean(visible(text, language)[0])


def seen_line(text: str, max_chars: int | None = None) -> str:
    r"""As `seen`, on one line: each `\r`, `\n` and `\t` has a sign, no blank is dropped. Cut beyond `max_chars`.

    seen_line("a\nb")    → "a␊b"
    """
    line = visible(text, "sh")[0].replace("\n", "␊").replace("\t", "␉")
    return clean(line if max_chars is None or len(line) <= max_chars else f"{line[: max_chars - 1]}…")
