"""A question above the input line: may this be done? Never answered by a key that was typed ahead.

The text can be of any length: it is scrolled in half of the screen, between the call and the keys. All of it, with a
search, is in the chat's pager.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import TextWrapper

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import ConditionalContainer, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from rich.segment import Segment
from rich.style import Style

from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.markdown.segment import Chunk
from ossia.cli.visible import seen, seen_line

QUIET_S = 0.5
"""An answer counts once the question has been on screen, and no key has come, for this long."""
LETTERS = "ynswael"
"""The possible answers."""
EXPLAIN = "?"

_MIN_ROWS, _OTHER_ROWS = 10, 3  # of the pane on a small screen; of the input, the bottom line and one of activity
_READABLE_ROWS = 3  # left for the text; else the note moves from below the keys to the text's end
_NOTE_ROWS, _HEAD_ROWS = 2, 4
_CHANGED_ROWS = 2  # of a diff, in sight at its beginning; else it is shown from its first changed row
_COLOURED_CHARS = 50_000  # a longer code is shown plainly: it would take a second
_TAB = 4
_IGNORED = "keys go to the input line: pause, then answer"
_TYPING = "keys go to the input line: Enter sends it, Ctrl-C empties it; then answer"


@dataclass(frozen=True, slots=True)
class Question:
    """A question in raw outside text: it is cleaned when it is drawn.

    `title` is one line, `reason` why it is asked, `detail` all that is agreed to (`language`: `"diff"`, `"sh"`,
    `"python"`…), `fault` the error in the last answer. `keys` answer, each with its word; `note` stands below them;
    `?` shows `explanation`, unless it is "". `careful`: the reason is shown as a warning. `elsewhere`: the key that
    shows the whole text in the pager, `Ctrl-O`.

        Question("container.exec: run ls", "it can run code", "ls", "sh", keys=(("y", "yes"), ("n", "no")))
    """

    title: str
    reason: str = ""
    detail: str = ""
    language: str = ""
    fault: str = ""
    keys: tuple[tuple[str, str], ...] = (("y", "yes"), ("n", "no"))
    note: str = ""
    explanation: str = ""
    careful: bool = False
    elsewhere: str = ""


class QuestionPane:
    """Shows one question at a time; `answered` gets the pressed key.

    pane.ask(Question("container.exec: run ls", "it can run code"), answered=print)      # prints y or n
    """

    def __init__(self, painter: Painter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._painter, self._clock = painter, clock
        self.typing: Callable[[], bool] = lambda: bool(get_app().current_buffer.text)
        """Is something being typed? Then all keys but PgUp and PgDn go there."""
        self._question: Question | None = None
        self._answered: Callable[[str], None] = lambda key: None
        self._shown_at: float | None = None  # None: it isn't on the screen yet
        self._key_at = self._key_before_at = float("-inf")
        self._ignored = self._explaining = False
        self._top: int | None = 0  # the first row in sight; None: a diff's first changed lines are
        self._bodies: dict[tuple[bool, bool, bool, int], list[Row]] = {}
        self.keys = self._bindings()
        asked = Condition(lambda: self._question is not None)
        window = Window(
            FormattedTextControl(self._fragments),
            height=lambda: Dimension.exact(self.height()),  # it may not be squeezed: the keys stand in its last rows
            dont_extend_height=True,
        )
        self.container = ConditionalContainer(window, asked)

    @property
    def open(self) -> bool:
        """Is a question on screen?"""
        return self._question is not None

    def ask(self, question: Question, answered: Callable[[str], None]) -> None:
        """Show a question; an earlier one stays without an answer."""
        self._question, self._answered = question, answered
        self._shown_at = self._top = None
        self._ignored = self._explaining = False
        self._bodies.clear()

    def withdraw(self) -> None:
        """Take the question off the screen, unanswered."""
        self._question = None
        self._bodies.clear()

    def covered(self) -> None:
        """Begin the wait anew once the question is drawn again: another program had the screen and the keys."""
        self._shown_at = None

    def height(self) -> int:
        """Its rows, at most half of the screen (more of a small one)."""
        return len(self._rows()) if self._question else 0

    def saw_key(self) -> None:
        """Begin the wait anew, since some key was pressed. To be called before the key takes effect."""
        self._key_before_at, self._key_at = self._key_at, self._clock()
        if self._question is not None and not self._armed(self._key_before_at):
            self._ignored = True

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _armed(self, last_key_at: float) -> bool:
        """Does it take answers? `last_key_at`: the time of the key before the present one."""
        since = max(self._shown_at, last_key_at) if self._shown_at is not None else float("inf")
        return self._clock() - since >= QUIET_S

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        no_text = Condition(lambda: not self.typing())
        armed = no_text & Condition(lambda: self._question is not None and self._armed(self._key_before_at))
        scrolls = Condition(lambda: self._question is not None and len(self._body()) > self._body_rows())

        for name in LETTERS:
            keys.add(name, filter=armed, eager=True)(lambda event: None)  # not offered: it does nothing
            offered = Condition(lambda name=name: name in dict(self._choices()))  # type: ignore[misc]

            @keys.add(name, filter=armed & offered, eager=True)
            def _(event: KeyPressEvent, name: str = name) -> None:
                answered = self._answered
                self.withdraw()
                answered(name)

        @keys.add(EXPLAIN, filter=armed & Condition(lambda: EXPLAIN in dict(self._choices())), eager=True)
        def _(event: KeyPressEvent) -> None:
            self._explaining, self._top = not self._explaining, 0 if not self._explaining else None
            self._uncount_key()

        for name, pages, rows in (("pageup", -1, 0), ("pagedown", 1, 0), ("up", 0, -1), ("down", 0, 1)):

            @keys.add(name, filter=scrolls if pages else scrolls & no_text, eager=True)
            def _(event: KeyPressEvent, pages: int = pages, rows: int = rows) -> None:
                self._top = (self._top or 0) + pages * max(1, self._body_rows() - 2) + rows  # drawing keeps it in range
                self._uncount_key()

        return keys

    def _choices(self) -> Sequence[tuple[str, str]]:
        question = self._question
        if question is None:
            return ()
        explain = "back" if self._explaining else "explain"
        return (*question.keys, (EXPLAIN, explain)) if question.explanation else question.keys

    def _uncount_key(self) -> None:
        """Let an answer follow at once: this key was meant for the question, not typed into the line."""
        self._key_at = self._key_before_at
        self._ignored = False

    # -- drawing -------------------------------------------------------------------------------------------------------

    def _fragments(self) -> StyleAndTextTuples:
        if self._shown_at is None:
            self._shown_at = self._clock()
        return list(self._painter.fragments(self._rows()))

    def _rows(self) -> list[Row]:
        body, room, top = self._body(), self._body_rows(), [*_air(), *self._fixed()]
        if len(body) <= room:
            return [*top, *body, *self._footer()]
        shown = max(1, room - 1)
        if self._top is None:
            is_diff = self._question is not None and self._question.language == "diff" and self._fixed()
            first = _first_changed(body) if is_diff else 0
            self._top = first - 1 if first + _CHANGED_ROWS > shown else 0
        self._top = max(0, min(self._top, len(body) - shown))
        elsewhere = self._question.elsewhere if self._question and not self._explaining else ""
        more = _more(self._top, len(body) - self._top - shown, self._painter.width, elsewhere)
        return [*top, *body[self._top : self._top + shown], _plain(more, "dim"), *self._footer()]

    def _body_rows(self) -> int:
        return max(2, _most_rows() - len(_air()) - len(self._fixed()) - len(self._footer()))

    def _fixed(self) -> list[Row]:
        """The title and the reason, in sight while the text is scrolled; none without room beside text."""
        head = self.head()
        room = _most_rows() - len(_air()) - len(self._footer()) - _READABLE_ROWS
        return head if not self._explaining and len(head) <= min(room, _HEAD_ROWS) else []

    def _body(self) -> list[Row]:
        """The whole text, in rows of the present width."""
        question, paint = self._question, self._painter
        if question is None:
            return []
        headless = bool(self._fixed())
        where = self._explaining, self._note_fits, headless, paint.width
        if where not in self._bodies:
            if self._explaining:
                rows = paint.text(seen(question.explanation))
            else:
                rows = [*([] if headless else self.head()), *self._detail(question)]
            if question.note and not self._note_fits:  # the effect of an answer must be readable
                rows = [*rows, [], *paint.text(seen_line(question.note), "dim")]
            self._bodies[where] = folded(rows, paint.width)
        return self._bodies[where]

    def head(self) -> list[Row]:
        """The call and the reason for the question, in rows of the present width."""
        question, paint = self._question, self._painter
        if question is None:
            return []
        rows = paint.text(seen_line(question.title), "bold")
        rows += paint.text(seen_line(question.reason), "yellow" if question.careful else "dim")
        rows += paint.text(seen_line(question.fault), "red") if question.fault else []
        return folded(rows, paint.width)

    def _detail(self, question: Question) -> list[Row]:
        language = question.language
        detail = seen(question.detail, language).removesuffix("\n").expandtabs(_TAB)
        if not detail:
            return []
        lines = detail.split("\n")
        if language == "diff":
            return [_plain(line, _diff_style(line)) for line in lines]
        code = Chunk("code", f"{detail}\n", gap=False, info=language)
        coloured = self._painter.chunk(code) if language and len(detail) <= _COLOURED_CHARS else []
        shown = ["".join(segment.text for segment in row) for row in coloured]
        whole = shown == [line.rstrip() for line in lines]  # colours must not change the text that is agreed to
        return coloured if whole else [_plain(line) for line in lines]

    def _footer(self) -> list[Row]:
        typing, width = self.typing(), self._painter.width
        armed = self._armed(self._key_at) and not typing
        keys = folded([_plain(line, "bold" if armed else "dim") for line in self._key_lines()], width)
        note = _TYPING if typing else _IGNORED if self._ignored and not armed else ""
        if self._note_fits and self._question and not note:
            note = seen_line(self._question.note)
        notes = folded(self._painter.text(note, "dim"), width) if note else []
        return [*keys, *notes] if len(keys) + len(notes) + _READABLE_ROWS <= _most_rows() else keys

    @property
    def _note_fits(self) -> bool:
        """Is there room for the whole note below the keys? Else it stands at the end of the text."""
        note = seen_line(self._question.note) if self._question else ""
        room = len(self._key_lines()) + _NOTE_ROWS + _READABLE_ROWS <= _most_rows()
        return room and len(note) <= _NOTE_ROWS * self._painter.width

    def _key_lines(self) -> list[str]:
        """The answers, closer together where that saves a row."""
        wrap = TextWrapper(self._painter.width, break_long_words=False, break_on_hyphens=False).wrap
        choices = [f"[{key}] {seen(word)}".replace(" ", "\0") for key, word in self._choices()]  # a choice stays whole
        lines = min((wrap(gap.join(choices)) for gap in ("  ", " ")), key=len)
        return [line.replace("\0", " ") for line in lines]


def _first_changed(body: list[Row]) -> int:
    """The number of a diff's first changed row, below its `@@`."""
    within = False
    for number, row in enumerate(body):
        begin = row[0].text[:1] if row else ""
        if within and begin in ("+", "-"):
            return number
        within = within or begin == "@"
    return 0


def _most_rows() -> int:
    rows = get_app().output.get_size().rows
    return min(max(rows // 2, _MIN_ROWS), rows - _OTHER_ROWS)


def _air() -> list[Row]:
    """A blank row above it, where there is room for one."""
    return [[]] if _most_rows() > _MIN_ROWS else []


def _more(above: int, below: int, width: int, elsewhere: str) -> str:
    """The numbers of hidden lines, and the keys that show them; in as many words as fit."""
    keys = " ".join(name for name, there in (("PgUp", above), ("PgDn", below)) if there)
    counts = [f"{above} lines above" if above else "", f"{below} more lines" if below else ""]
    long, brief = (f"… {', '.join(filter(None, counts))}, {keys}", f"… {above + below} more, {keys}")
    rest = f"; {elsewhere}: all" if elsewhere else ""
    ways = (f"{long}{rest}", f"{brief}{rest}", long, brief, keys)
    return next((way for way in ways if len(way) <= width), keys)


def _plain(text: str, style: str = "") -> Row:
    return [Segment(text, Style.parse(style) if style else None)] if text else []


def _diff_style(line: str) -> str:
    if line.startswith(("+++ ", "--- ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
