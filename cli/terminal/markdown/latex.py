r"""Formulas in LaTeX as readable text: `\sqrt{x^2+1}` → `√(x²+1)`.

Own, since pylatexenc drops the commands it doesn't know, writes `\frac{a+b}{c}` as `a+b/c` and leaves `x^2`, and
unicodeit (LPPL) replaces piece by piece. Here a formula is either read whole or left as it was typed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from ossia.cli.terminal.markdown._signs import (
    ACCENTS,
    BLANKS,
    DROPPED,
    FUNCTIONS,
    LINES,
    PLAIN,
    PREFIXES,
    ROOTS,
    ROWS,
    SEAM,
    WORDS,
    Unreadable,
    script,
    symbols,
)

_MAX_CHARS, _DEPTH, _UNDER_A_LINE = 4000, 20, 40

_TOKEN = re.compile(r"\\([A-Za-z]+)\*?|\\(.)|([{}^_&~])|(\s+)|([^\\{}^_&~\s])", re.DOTALL)
_SEAMS = re.compile(r"(?<=[A-Za-z0-9α-ωΑ-Ω)])\0(?=[A-Za-z0-9α-ωΑ-Ω√∂∑∏∫])|(?<=[∑∏∫⋃⋂])\0(?=[A-Za-z0-9α-ωΑ-Ω(√])")
_FACTOR = re.compile(r"-?(?:\d+(?:\.\d+)?|[d∂]?[^\W\d_][\u0300-\u036f\u20d7⁰¹²³⁴-⁹ⁿₐ-ₜ₀-₉ᵢⱼ′']*|√\w|∞)|\([^()]*\)")
_TERM = re.compile(r"[^\s+\-±∓·×÷/=<>≤≥,;:()\[\]|]+(?:\([^()]*\))?|\([^()]*\)|-?\d+(?:\.\d+)?")

_IN = r"(?:(?!\\[(\[]).)+?"  # no other opener: or each of many would be searched for an end as long as the text
_FORMULA = re.compile(rf"\$\$.+?\$\$|\$[^$\n]+\$|\\\({_IN}\\\)|\\\[{_IN}\\\]", re.DOTALL)
_CLOSERS = {"$$": "$$", "$": "$", "\\(": "\\)", "\\[": "\\]"}
_GROUP = re.compile(r"\{[^{}]*\}")
_NAMES = re.compile(rf"\b(?:{FUNCTIONS.replace(' ', '|')})\b")


@lru_cache(256)
def readable(formula: str) -> str:
    r"""The formula as text, without its marks; as it was typed if a part of it has no such form, or it may be money.

    readable(r"$\frac{a+b}{2}$")    → "(a+b)/2"
    readable(r"\(\mystery{x}\)")    → r"\(\mystery{x}\)"
    readable("$5, or 6$")           → "$5, or 6$"
    """
    begin = next((begin for begin in _CLOSERS if formula.startswith(begin)), "")
    end = _CLOSERS.get(begin, "")
    inner = formula.strip()[len(begin) :]
    if not begin or not inner.endswith(end) or len(inner) > _MAX_CHARS:
        return formula
    inner = inner.removesuffix(end)
    if _is_words(inner) or (begin == "$" and _is_money(inner)):
        return formula
    try:
        text = _Reader(inner).whole()
    except Unreadable:
        return formula
    lines = (re.sub(r" {2,}", " ", _SEAMS.sub(" ", line).replace(SEAM, "")).strip() for line in text.split("\n"))
    return "\n".join(filter(None, lines)) or formula


def formulas(source: str) -> list[tuple[int, int, str]]:
    """The begin and end of each formula with a form as text, and this form; it may stand in code."""
    found = ((match.start(), match.end(), readable(match[0])) for match in _FORMULA.finditer(source))
    return [(start, stop, text) for start, stop, text in found if text != source[start:stop]]


def _is_words(inner: str) -> bool:
    """Words between marks of another meaning: `\\[not a link\\]`, `$HOME and $`."""
    if "\\" in inner:
        return False
    bare = _NAMES.sub("", _GROUP.sub("", inner))
    return re.search(r"[^\W\d_]{3}", bare) is not None


def _is_money(inner: str) -> bool:
    """An amount, or a variable of two letters, between two dollars."""
    if re.search(r"[\\^_=<>+*/]", inner):
        return False
    return inner[0].isdecimal() or re.search(r"[^\W\d_]", inner) is None or re.search(r"[^\W\d_]{2}", inner) is not None


class _Reader:
    """One pass over the tokens of a formula."""

    def __init__(self, formula: str) -> None:
        self._tokens = list(_TOKEN.finditer(formula))
        self._at = self._depth = 0
        if sum(len(token[0]) for token in self._tokens) != len(formula):
            raise Unreadable  # a backslash at the end

    def whole(self) -> str:
        text = self._until()
        if self._at < len(self._tokens):
            raise Unreadable
        return text

    def _peek(self) -> str:
        """The next token; "": the end."""
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _skip_blanks(self) -> None:
        while self._peek().isspace():
            self._at += 1

    def _until(self, *ends: str) -> str:
        """The text up to one of these or a closing brace (not taken), or to the end."""
        done: list[str] = []
        while (token := self._peek()) and token != "}" and token not in ends:
            if token in ("^", "_"):
                self._at += 1
                done.append(script(self._argument(), raised=token == "^"))
            else:
                done.append(self._one())
        return "".join(done)

    def _one(self) -> str:
        """The next token, with its arguments."""
        if self._at >= len(self._tokens) or self._depth >= _DEPTH:
            raise Unreadable
        self._depth += 1
        done = self._token()
        self._depth -= 1
        return done

    def _token(self) -> str:
        command, escaped, mark, blank, char = self._tokens[self._at].groups()
        self._at += 1
        if command:
            return self._command(command)
        if escaped:
            if escaped == "\\":
                return "\n"
            if escaped not in BLANKS and escaped not in "{}%$#&_|":
                raise Unreadable
            return BLANKS.get(escaped, "‖" if escaped == "|" else escaped)
        if mark == "{":
            inner = self._until()
            self._take("}")
            return inner
        if mark in ("}", "^", "_", "&") or char in ("#", "%", "$"):
            raise Unreadable
        return " " if mark or blank else char

    def _take(self, token: str) -> None:
        if self._peek() != token:
            raise Unreadable
        self._at += 1

    def _argument(self) -> str:
        self._skip_blanks()
        return self._one()

    def _raw(self) -> str:
        """An argument in braces as it is written."""
        self._skip_blanks()
        self._take("{")
        begin = self._at
        while self._peek() not in ("}", ""):
            self._at += 1
        raw = "".join(token[0] for token in self._tokens[begin : self._at])
        self._take("}")
        return raw

    def _command(self, name: str) -> str:
        if sign := symbols().get(name):
            if name in PREFIXES:
                self._skip_blanks()
            return sign
        if name in BLANKS:
            return BLANKS[name]
        if name in ACCENTS:
            return _accented(self._argument(), ACCENTS[name], each=name in ("overline", "underline"))
        if name in WORDS:
            return self._words()
        if name in PLAIN:
            return self._argument()
        if name in DROPPED:
            self._skip_blanks()
            if name in ("left", "right", "middle") and self._peek() == ".":
                self._at += 1
            return ""
        read = _COMMANDS.get(name)
        if read is None:
            raise Unreadable
        return read(self)

    def _words(self) -> str:
        """The argument of `\\text`."""
        raw = self._raw()
        if re.search(r"[\\$^_{]", raw):
            raise Unreadable
        return raw

    def _fraction(self) -> str:
        above, below = self._argument().strip(), self._argument().strip()
        above = above if _TERM.fullmatch(above) else f"({above})"
        return f"{SEAM}{above}/{below if _FACTOR.fullmatch(below) else f'({below})'}{SEAM}"

    def _root(self) -> str:
        degree = ""
        if self._peek() == "[":
            self._at += 1
            degree = self._until("]")
            self._take("]")
        inner = self._argument().strip()
        root = ROOTS.get(degree) or script(degree, raised=True) + "√"
        return f"{root}{inner if _FACTOR.fullmatch(inner) else f'({inner})'}{SEAM}"

    def _blackboard(self) -> str:
        letter = self._argument().strip()
        name = unicodedata.name(letter, "").rpartition(" ")[2] if len(letter) == 1 else ""
        kind = "CAPITAL" if letter.isupper() else "DIGIT" if letter.isdigit() else "SMALL"
        for prefix in ("DOUBLE-STRUCK", "MATHEMATICAL DOUBLE-STRUCK"):
            with suppress(KeyError):
                return unicodedata.lookup(f"{prefix} {kind} {name}")
        raise Unreadable

    def _binomial(self) -> str:
        return f"C({self._argument()}, {self._argument()})"

    def _modulo(self) -> str:
        return f" (mod {self._argument()})"

    def _tag(self) -> str:
        return f"  ({self._raw()})"

    def _not(self) -> str:
        return f" {unicodedata.normalize('NFC', self._argument().strip() + chr(0x338))} "

    def _environment(self) -> str:
        name = self._raw()
        if name == "array":
            self._raw()
        if name not in ROWS and name not in LINES:
            raise Unreadable
        rows: list[list[str]] = [[]]
        while True:
            rows[-1].append(self._until("&", "\\\\", "\\end"))
            if (end := self._peek()) not in ("&", "\\\\", "\\end"):
                raise Unreadable
            self._at += 1
            if end == "\\end":
                break
            rows += [[]] if end == "\\\\" else []
        if self._raw() != name:
            raise Unreadable
        if name in LINES:
            return "\n".join("".join(row) for row in rows)
        begin, between, close = ROWS[name]
        shown = [between.join(cell.strip() for cell in row) for row in rows]
        return begin + "; ".join(filter(None, shown)) + close


_COMMANDS: dict[str, Callable[[_Reader], str]] = {
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), _Reader._fraction),
    **dict.fromkeys(("binom", "dbinom", "tbinom"), _Reader._binomial),
    "sqrt": _Reader._root,
    "mathbb": _Reader._blackboard,
    "pmod": _Reader._modulo,
    "tag": _Reader._tag,
    "not": _Reader._not,
    "begin": _Reader._environment,
}


def _accented(inner: str, mark: str, *, each: bool) -> str:
    inner = inner.strip()
    if not inner or len(inner) > (_UNDER_A_LINE if each else 1):
        raise Unreadable
    return "".join(unicodedata.normalize("NFC", char + mark) for char in inner)
