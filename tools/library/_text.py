"""The library's words: the indexed text, the terms of a query, the passage of a hit.

SQLite's tokenizer makes one token of a run of letters. In scripts without spaces between words that is a whole
sentence. So each of their characters is indexed as a word, and a query looks for pairs of neighbours: 工具 is found in
调用工具的函数 (unicode61 alone finds nothing there, and trigram no word of two characters).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from typing import Final

TOKENIZER: Final = "unicode61 remove_diacritics 2 categories 'L* N* Mn Mc'"
"""For FTS5. Marks count as part of a word: the vowels of हिन्दी are marks, and it would be split into letters."""

MAX_TERMS: Final = 12
_QUERY_CHARS: Final = 4_000
_PREFIX_CHARS: Final = 3  # shorter ones, such as `in*`, would match everywhere
_LONE: Final = 3  # how many one-letter words ("C", "R") are searched, if a query has no others

_SPACELESS: Final = (
    "\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # 々〇, kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\u1100-\u11ff\ua000-\ua48f\uac00-\ud7ff"  # Korean (its words carry their particles), Yi
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
)
_ONE_SPACELESS: Final = re.compile(f"([{_SPACELESS}])")
_RUNS: Final = re.compile(f"[{_SPACELESS}]+|[^{_SPACELESS}]+")


def indexed(text: str) -> str:
    """`text` for FTS5: compatibility forms and case folded, spaces around characters of spaceless scripts.

    indexed("ﬁle 函数") → "file  函  数 "
    """
    if text.isascii():
        return text.lower()
    return _ONE_SPACELESS.sub(r" \1 ", _folded(text))


def _folded(text: str) -> str:
    """The ligatures of PDFs, full-width letters, decomposed Hangul: each as a user would type it."""
    return unicodedata.normalize("NFKC", text).casefold()


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a query, folded. `prefix`: words that begin so. `pair`: neighbours in a spaceless script."""

    text: str
    prefix: bool = False
    pair: bool = False

    @property
    def match(self) -> str:
        """The term in FTS5's query language. It has letters, digits and marks only: nothing can end the quotes."""
        return f'"{" ".join(self.text) if self.pair else self.text}"' + ("*" if self.prefix else "")


def terms(query: str) -> tuple[Term, ...]:
    """The terms of a query, at most 12 different ones; the last word also as a prefix.

    terms("The 工具 functi") → (Term("the"), Term("工具", pair=True), Term("functi", prefix=True)). Empty when there are
    no letters or digits in it.
    """
    found = list(dict.fromkeys(_all_terms(query)))
    chosen = [term for term in found if term.pair or len(term.text) > 1][:MAX_TERMS] or found[:_LONE]
    last = chosen[-1] if chosen else None
    if last and not last.pair and len(last.text) >= _PREFIX_CHARS:
        chosen[-1] = Term(last.text, prefix=True)
    return tuple(chosen)


def _all_terms(query: str) -> list[Term]:
    words = "".join(char if _in_word(char) else " " for char in _folded(query[:_QUERY_CHARS])).split()
    found: list[Term] = []
    for run in (run for word in words for run in _RUNS.findall(word)):
        if not _ONE_SPACELESS.match(run):
            found.append(Term(run))
        else:  # pairs, so that parts of a long run without spaces are found too
            found += [Term(run[at : at + 2], pair=True) for at in range(max(len(run) - 1, 1))]
    return found


def _in_word(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LN" or category in ("Mn", "Mc")


# -- snippets ----------------------------------------------------------------------------------------------------------
# Not FTS5's snippet(): it tokenizes the whole document again, and returns the text with our added spaces.

_WIDTH: Final = 240  # characters
_BEFORE: Final = 60
_PLACES: Final = 50  # how many of each term are looked at
MARK: Final = re.compile(r"【(\d+)†([^【】]*?)(?:†[^【】†]*)?】")
"""A link in a page: its id and its text."""

_HALF_MARKS: Final = re.compile(r"^[^【】]*†[^【】]*】|^\d*】|【[^】]*$")


def without_links(text: str) -> str:
    """The text of a page for reading: `"see 【3†the list†a.test】"` → `"see the list"`."""
    return MARK.sub(r"\2", text)


def snippet(page: str, wanted: tuple[Term, ...]) -> tuple[str, bool]:
    """Some 240 characters of a page on one line, from where most terms stand close together, and whether any was found.

    Without any it is the page's start.
    """
    places = _places(page, wanted)
    start = max(_best_place(places) - _BEFORE, 0)
    if start:
        start = next((at + 1 for at in range(start, start + _BEFORE) if page[at].isspace()), start)
    window = page[start : start + 3 * _WIDTH]  # links take characters that aren't shown
    text = " ".join(_HALF_MARKS.sub("", without_links(window)).split())
    more = start + len(window) < len(page) or len(text) > _WIDTH
    if len(text) > _WIDTH:
        text = text[:_WIDTH].rsplit(None, 1)[0] if " " in text[_WIDTH - _BEFORE : _WIDTH] else text[:_WIDTH]
    return f"{'… ' if start else ''}{text}{' …' if more else ''}", bool(places)


def _places(text: str, wanted: tuple[Term, ...]) -> list[tuple[int, int]]:
    """Pairs of a place and a term's number, in order."""
    lowered = text.lower()
    places = _places_in(lowered if len(lowered) == len(text) else text, wanted)
    if not places and not text.isascii():
        places = _places_in(text.translate(_PLAIN), wanted)
    return sorted(places)


def _places_in(text: str, wanted: tuple[Term, ...]) -> list[tuple[int, int]]:
    found = []
    for which, term in enumerate(wanted):
        at = text.find(term.text)
        for _ in range(_PLACES):
            if at < 0:
                break
            if term.pair or _is_word(text, at, term):
                found.append((at, which))
            at = text.find(term.text, at + len(term.text))
    return found


def _is_word(text: str, at: int, term: Term) -> bool:
    end = at + len(term.text)
    ends = term.prefix or not text[end : end + 1].isalnum()
    return ends and not (at and text[at - 1].isalnum())


def _best_place(places: list[tuple[int, int]]) -> int:
    """The begin of the first stretch with the most different terms."""
    best, best_at, first = 0, 0, 0
    within: Counter[int] = Counter()
    for at, which in places:
        within[which] += 1
        while places[first][0] < at - (_WIDTH - _BEFORE):
            gone = places[first][1]
            within[gone] -= 1
            if not within[gone]:
                del within[gone]
            first += 1
        if len(within) > best:
            best, best_at = len(within), places[first][0]
    return best_at


class _Plain(dict[int, int]):
    """Each letter without accent and case, one for one: positions stay the same."""

    def __missing__(self, code: int) -> int:
        plain = unicodedata.normalize("NFKD", chr(code))[0].lower()
        self[code] = ord(plain) if len(plain) == 1 else code
        return self[code]


_PLAIN: Final = _Plain()
