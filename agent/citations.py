"""Citations in an answer, `【6†L9-L11】`, become numbered footnotes; while it streams, an open one is held back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

from ossia.tools.browser.stack import read_states

Problem = Literal["", "no such page", "no such lines"]

# The parts between the marks have a maximum length, so that a bracket which is never closed holds back little text.
# They can't have a line break in them: a citation is on one line.
_PART = r"[^†【】\n]"
_WHOLE = re.compile(rf"【([0-9]{{1,6}})(?:†({_PART}{{1,200}})(?:†{_PART}{{1,200}})?)?】")
_HALF = re.compile(
    rf"【(?:[0-9]{{0,6}}|[0-9]{{1,6}}†{_PART}{{0,200}}|[0-9]{{1,6}}†{_PART}{{1,200}}†{_PART}{{0,200}})\Z"
)
_LINES = re.compile(r"\s*L?([0-9]{1,9})(?:\s*[-–—]\s*L?([0-9]{1,9}))?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cited:
    """A page that a cursor shows: `Cited("Capy — facts", "http://a.test/capy", 26)`; search results have no URL ("").

    Its lines are numbered from 0 to `total_lines - 1`.
    """

    title: str
    url: str
    total_lines: int


@dataclass(frozen=True, slots=True)
class Footnote:
    """The source behind `[number]` in the answer.

    `first_line` and `last_line` are both None where the whole page is cited. `title` and `url` are "" for a cursor that
    shows no page. `problem` says why it could not be verified. `places`: the ranges of characters, the end excluded,
    where `[number]` stands for it in the text.
    """

    number: int
    cursor: int
    title: str
    url: str
    first_line: int | None
    last_line: int | None
    problem: Problem = ""
    places: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def verified(self) -> bool:
        """True if the page and the lines exist, whatever they say."""
        return not self.problem

    def to_json(self) -> dict[str, object]:
        """The footnote in the form of `--json`."""
        fields = asdict(self)
        problem, _ = fields.pop("problem"), fields.pop("places")
        return {**fields, "verified": self.verified, **({"problem": problem} if problem else {})}


@dataclass(slots=True)
class Citations:
    """The citations of one answer. `lookup` gives the page behind a cursor, or None.

    However the text is split, what `feed` and `finish` return adds up to the same.

        citations = Citations(lookup_in(session.states))
        citations.feed("They swim【6†L9-")   # "They swim"
        citations.feed("L11】.")             # "[1]."
        citations.notes                      # (Footnote(1, 6, "Capy — facts", "http://a.test/capy", 9, 11),)
    """

    lookup: Callable[[int], Cited | None]
    _held: str = field(default="", init=False)
    _notes: dict[tuple[int, int | None, int | None], Footnote] = field(default_factory=dict, init=False)
    _places: dict[int, list[tuple[int, int]]] = field(default_factory=dict, init=False)
    _length: int = field(default=0, init=False)  # of the text returned so far

    @property
    def notes(self) -> tuple[Footnote, ...]:
        """The footnotes so far, by number. The same lines of the same cursor are one footnote."""
        return tuple(replace(note, places=tuple(self._places[note.number])) for note in self._notes.values())

    def feed(self, text: str) -> str:
        """The text with numbers for its whole citations; the beginning of another waits for the next piece."""
        text, done = self._held + text, ""
        place, self._held = 0, ""
        while (start := text.find("【", place)) >= 0:
            done += text[place:start]
            if whole := _WHOLE.match(text, start):
                number = self._number(whole)
                mark, begin = f"[{number}]", self._length + len(done)
                self._places.setdefault(number, []).append((begin, begin + len(mark)))
                done += mark
                place = whole.end()
            elif _HALF.match(text, start):
                self._held, text = text[start:], text[:start]
                place = start
            else:  # a bracket like any other
                done += "【"
                place = start + 1
        done += text[place:]
        self._length += len(done)
        return done

    def finish(self) -> str:
        """The end of the text: the piece held back, unchanged."""
        held, self._held = self._held, ""
        return held

    def _number(self, citation: re.Match[str]) -> int:
        cursor, (first, last) = int(citation[1]), _lines(citation[2] or "")
        key = (cursor, first, last)
        if key not in self._notes:
            self._notes[key] = self._footnote(len(self._notes) + 1, cursor, first, last)
        return self._notes[key].number

    def _footnote(self, number: int, cursor: int, first: int | None, last: int | None) -> Footnote:
        page = self.lookup(cursor)
        if page is None:
            return Footnote(number, cursor, "", "", first, last, "no such page")
        exists = last is None or last < page.total_lines
        return Footnote(number, cursor, page.title, page.url, first, last, "" if exists else "no such lines")


def _lines(content: str) -> tuple[int, int] | tuple[None, None]:
    """`"L9-L11"` → (9, 11), `"L9"` → (9, 9); anything else (`"source"`, a title) cites the whole page."""
    found = _LINES.fullmatch(content)
    if found is None:
        return None, None
    first, last = int(found[1]), int(found[2] or found[1])
    return min(first, last), max(first, last)


def cite(text: str, lookup: Callable[[int], Cited | None]) -> tuple[str, tuple[Footnote, ...]]:
    """A whole answer with its citations replaced, and their footnotes."""
    citations = Citations(lookup)
    return citations.feed(text) + citations.finish(), citations.notes


def lookup_in(states: Iterable[Mapping[str, object]]) -> Callable[[int], Cited | None]:
    """A lookup in the browser's states of a conversation (`session.states`); other tools' are skipped."""
    shown = {view.cursor: Cited(view.title, view.address, view.total_lines) for view in read_states(states)}
    return shown.get


def page_behind(
    states: Iterable[Mapping[str, object]], cursor: int, origin: Callable[[str], str | None]
) -> Cited | None:
    """The page behind a cursor of the browser, if any. `origin`: a library document's own address."""
    page = lookup_in(states)(cursor)
    return page and replace(page, url=origin(page.url) or page.url)
