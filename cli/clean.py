"""Text from outside → text that a terminal can't obey.

Nothing that a model, a tool, a file or a web page wrote reaches a terminal but through `clean`. Pipes get the exact
text: nobody is fooled there.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, urlsplit, urlunsplit

from ossia.tools.text import BROKEN, CONTROLS, REORDERS, TAGS

# Characters that terminals show differently, or not at all, besides those that no model gets:
_UNSEEN = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff"
)  # zero width (terminals disagree on joiners and variation selectors), fillers

_FLAGS = "\U0001f1e6-\U0001f1ff"  # halves of flags: 1, 2 or 4 columns wide, by terminal

_BAD = re.compile(f"[{CONTROLS}{REORDERS}{_UNSEEN}{TAGS}{BROKEN}{_FLAGS}]")
_NOT_A_CHARACTER = "\ufffd"

MAX_MARKS = 8
"""The most marks over one character: more than any script needs, too few to climb over the rows above."""

MAX_URL_CHARS = 2000

# Only a run of characters beyond Latin, CJK and Hangul can hold a pile of marks: the rest is not looked at.
_NO_MARKS = "\u0000-\u02ff\u3000-\u3029\u3030-\u3098\u309b-\ua66e\uac00-\ud7a3"
_COULD_BE_STACKED = re.compile(f"[^{_NO_MARKS}]{{{MAX_MARKS + 1},}}")


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x0D:
        return ""  # a lone \r would let text overwrite its line; in \r\n it only ends it
    if code < 0x20:
        return chr(0x2400 + code)  # ESC becomes ␛: seen, not obeyed, not silently lost
    if code == 0x7F:
        return "\u2421"
    if 0x1F1E6 <= code <= 0x1F1FF:
        return chr(code - 0x1F1E6 + ord("A"))
    if code < 0xA0 or 0xD800 <= code < 0xE000:
        return _NOT_A_CHARACTER
    return ""


def one_line(text: str, max_chars: int | None = None) -> str:
    """The same text on one line: each run of whitespace is one blank; beyond `max_chars` it is cut with an ellipsis.

    This cleans nothing: write `clean(one_line(label, 60))`.
    """
    flat = " ".join(text.split())
    return flat if max_chars is None or len(flat) <= max_chars else f"{flat[: max_chars - 1]}…"


def clean(text: str) -> str:
    r"""The same text with every control made visible (C0, C1) or dropped (`\r`, bidi, zero width, tags).

    Flags become their two letters: terminals disagree on their width. `\n` and `\t` stay. Each character is judged
    alone, so text that comes in pieces comes out the same however it was split: `clean(a + b) == clean(a) + clean(b)`.

        clean("\x1b[2Jhi\n")        → "␛[2Jhi\n"
        clean("a\u202egpj.exe")     → "agpj.exe"
    """
    if text.isascii() and text.isprintable():
        return text
    return _BAD.sub(_visible, text)


def clean_url(url: str) -> str | None:
    """The http(s) address in printable ASCII without `;`, safe inside a terminal's link.

    None: another scheme, no host, a name or password before the host, blanks or controls, over 2000 characters.

        clean_url("https://example.org/ä b")          → None
        clean_url("https://example.org/ä;x")          → "https://example.org/%C3%A4%3Bx"
        clean_url("https://bank.example@evil.example")  → None
    """
    if len(url) > MAX_URL_CHARS or clean(url) != url or any(char.isspace() for char in url):
        return None
    try:
        parts = urlsplit(url)
        host = _ascii_host(parts.hostname or "")
        port = "" if parts.port is None else f":{parts.port}"
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        return None
    address = urlunsplit((parts.scheme, host + port, parts.path, parts.query, parts.fragment))
    return quote(address, safe="!#$%&'()*+,/:=?@[]~")


def _ascii_host(host: str) -> str:
    """Raises ValueError when it is no host."""
    if ":" in host:
        return f"[{host}]"
    if not host.isascii():
        host = host.encode("idna").decode("ascii")  # a UnicodeError is a ValueError
    if not re.fullmatch(r"[a-z0-9._-]*", host):
        raise ValueError(f"not a host: {host!r}")
    return host


def fitted(text: str, columns: int) -> str:
    """As much of `text` (clean, one line) as `columns` of a terminal hold: CJK and emoji take two. `…`: cut."""
    from rich.cells import cell_len, set_cell_size

    text = text.replace("\t", " ")
    if cell_len(text) <= columns:
        return text
    return f"{set_cell_size(text, columns - 1).rstrip()}…" if columns > 0 else ""


def unstacked(text: str) -> str:
    r"""The same text with at most 8 marks over each character; the others are dropped.

    Give it whole lines: split text may come out differently.

        unstacked("Z" + "\u0301" * 2000)   → "Z" + "\u0301" * 8
    """
    if text.isascii() or not _COULD_BE_STACKED.search(text):
        return text
    kept, marks = [], 0
    for char in text:
        marks = marks + 1 if _is_mark(char) else 0
        if marks <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)


def _is_mark(char: str) -> bool:
    """It adds nothing to the width: combining marks, and the vowels and finals of Hangul syllables in pieces."""
    return unicodedata.category(char) in ("Mn", "Me") or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff"


# -- emoji of several characters: families, which U+200D joins, skin tones, flags --------------------------------------
#
# Terminals differ. A family takes 2 columns in kitty, WezTerm, iTerm2 and tmux 3.3, and 6 in VTE (its members side by
# side); a thumb with a tone takes 2, but 4 in tmux; a flag 2 or 4. prompt_toolkit adds up the characters. So:
#
# - A finished row keeps the cluster as it was written: the row is printed once, and nothing is drawn over it. Rows are
#   broken as if each member was drawn, so that they fit everywhere, and never inside a cluster.
# - The input line, the open block and the pager, which are drawn again, show forms that take the same columns
#   everywhere, or the cursor would be misplaced: members without joiners and tones, a flag as its letters. The text
#   itself stays unchanged.

_JOINERS = "\u200d\ufe0f"
_TONES = "\U0001f3fb-\U0001f3ff"
EMOJI = (
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u27bf\u2934-\u2b55\u3030\u303d\u3297"
    "\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
CLUSTER = f"[{_FLAGS}]{{2}}|{EMOJI}[{_TONES}]?\ufe0f?(?:\u200d{EMOJI}[{_TONES}]?\ufe0f?){{1,8}}|{EMOJI}[{_TONES}]"
"""The pattern of several characters drawn as one sign."""

_PARTS = re.compile(f"[{_JOINERS}{_TONES}{_FLAGS}]")
_KEPT = re.compile(f"([{_JOINERS}{_FLAGS}]+)")
_CLUSTER = re.compile(f"({CLUSTER})")
_PIECE = re.compile(f"{CLUSTER}|.", re.DOTALL)
_TONE = re.compile(f"(?<={EMOJI})[{_TONES}]")


def clean_parts(text: str) -> str:
    """As `clean`, but joiners of emoji stay, since a piece may end inside a cluster; `clean_row` judges the whole."""
    return _clean_between(_KEPT, text)


def clean_row(text: str) -> str:
    """As `clean`, but whole clusters stay as they are."""
    return _clean_between(_CLUSTER, text)


def _clean_between(kept: re.Pattern[str], text: str) -> str:
    if text.isascii() or not _PARTS.search(text):
        return clean(text)
    return "".join(part if number % 2 else clean(part) for number, part in enumerate(kept.split(text)))


def clean_flat(text: str) -> str:
    """As `clean`, with emoji reduced to what takes the same columns everywhere.

    clean_flat("👨‍👩‍👧 👍🏽 🇩🇪")   → "👨👩👧 👍 DE"
    """
    return _TONE.sub("", clean(text))


def pieces(text: str) -> list[str]:
    """The characters and clusters of the text."""
    return list(text) if text.isascii() or not _PARTS.search(text) else _PIECE.findall(text)


def widest(text: str) -> int:
    """The most columns of the text in any terminal."""
    from rich.cells import cell_len

    if text.isascii() or not _PARTS.search(text):
        return cell_len(text)
    return cell_len(re.sub(f"[{_TONES}{_FLAGS}]", "漢", re.sub(f"[{_JOINERS}]", "", text)))
