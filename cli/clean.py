"""Text from outside → text that a terminal can't obey.

Nothing that a model, a tool, a file or a web page wrote reaches a terminal but through `clean`. Into a pipe goes the
exact text: there is nobody there to fool.
"""

from __future__ import annotations

import re

from tools.characters import BROKEN, CONTROLS, REORDERS, TAGS

# What a terminal shows in its own way, or not at all, beside what no model gets either:
_UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff"
)  # zero width (terminals disagree on joiners and variation selectors), fillers

_BAD = re.compile(f"[{CONTROLS}{REORDERS}{_UNSEEN}{TAGS}{BROKEN}]")
_NOT_A_CHARACTER = "\ufffd"


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x0D:
        return ""  # a lone \r would let text overwrite what stands before it; in \r\n it only ends the line
    if code < 0x20:
        return chr(0x2400 + code)  # ESC becomes ␛: seen, not obeyed, not silently lost
    if code == 0x7F:
        return "\u2421"
    if code < 0xA0 or 0xD800 <= code < 0xE000:
        return _NOT_A_CHARACTER
    return ""


def one_line(text: str, max_chars: int | None = None) -> str:
    """The same text on one line: blanks and line ends as single blanks, more than `max_chars` cut with an ellipsis.

    As unclean as it was: `clean(one_line(label, 60))`.
    """
    flat = " ".join(text.split())
    return flat if max_chars is None or len(flat) <= max_chars else f"{flat[: max_chars - 1]}…"


def clean(text: str) -> str:
    r"""The same text with every control made visible (C0, C1) or dropped (`\r`, bidi, zero width, tags).

    `\n` and `\t` stay. Each character is judged alone, so text that comes in pieces comes out the same however it was
    split: `clean(a + b) == clean(a) + clean(b)`.

        clean("\x1b[2Jhi\n")        → "␛[2Jhi\n"
        clean("a\u202egpj.exe")     → "agpj.exe"
    """
    if text.isascii() and text.isprintable():
        return text
    return _BAD.sub(_visible, text)
