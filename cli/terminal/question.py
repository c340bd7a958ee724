"""A question above the input line: may this be done? Never answered by a key that was typed ahead.

The text can be of any length: it is scrolled in the free rows of the screen, between the call and the keys. All of it,
with a search, is in the chat's pager.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition, emacs_mode, vi_insert_mode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from rich.segment import Segment

from ossia.cli.clean import fitted
from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.terminal.question_rows import detail_rows, head_rows, key_lines, more_line, styled
from ossia.cli.visible import seen, seen_line

if TYPE_CHECKING:
    from ossia.cli.terminal.input.editor import Editor

QUIET_S = 0.5
"""An answer counts once the question has been on screen, and no key has come, for this long."""
LETTERS, EXPLAIN = "ynsapwelc", "?"
"""The possible answers."""
_USUAL = "ynsawe"
"""Dropped where they aren't offered: whoever presses them means to answer."""

_OTHER_ROWS, _SPARE_FROM = 2, 13  # the bottom line, one of activity; from so many rows on, a blank one below them
_READABLE_ROWS, _AIRY_ROWS = 3, 10  # left for the text: else the note is at its end; free, for a blank one above all
_NOTE_ROWS, _HEAD_ROWS = 2, 4
_LEAST_ROWS = 2
_SMALL = "a question: enlarge the terminal"
_TYPING = "you are typing a message: Enter sends it, Ctrl-C empties it; then answer"
_REFUSING = (("Enter", "no"), ("Esc", "back"))
_WHY = "type why not, for the model to read; or just Enter"
_NO = re.compile("n*|o", re.IGNORECASE)
"""Behind the key `n`: a held key, the rest of a typed "no"; they are no reason."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question in raw outside text: it is cleaned when it is drawn.

    `title` is one line, `reason` why it is asked, `detail` all that is agreed to (`language`: `"diff"`, `"sh"`,
    `"python"`…), `fault` the error in the last answer. `keys` answer, each with its word; `note` stands below them;
    `?` shows `explanation`, unless it is "". `careful`: the reason is shown as a warning. `elsewhere`: the key that
    shows the whole text in the pager, `Ctrl-O`. `refusable`: a no may come with a reason, typed behind it.

        Question("Run ls", "it can run code", "ls", "sh", keys=(("y", "yes"), ("n", "no")))
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
    refusable: bool = False


class QuestionPane:
    """Shows one question at a time above the input line; `answered` gets the key, and the reason of a no, often "".

    pane.ask(Question("Run ls", "it can run code"), answered=print)      # prints y, or n and a reason
    """

    def __init__(self, painter: Painter, line: Editor, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._painter, self._line, self._clock = painter, line, clock
        self._question: Question | None = None
        self._answered: Callable[[str, str], object] = lambda key, reason: None
        self._shown_at: float | None = None  # None: it isn't on the screen yet
        self._key_at = self._key_before_at = float("-inf")
        self._explaining = self._refusing = False
        self._early = self._remark = ""  # letters that came too early, in a row; what is said of the last one
        self._top = 0  # the first row in sight
        self._bodies: dict[tuple[bool, bool, bool, int], list[Row]] = {}
        self.keys = self._bindings()
        window = Window(
            FormattedTextControl(self._fragments),
            height=lambda: Dimension.exact(self.height()),  # it may not be squeezed: the keys stand in its last rows
            dont_extend_height=True,
        )
        self.container = ConditionalContainer(window, Condition(lambda: self.open))

    @property
    def open(self) -> bool:
        """Is a question on screen?"""
        return self._question is not None

    def ask(self, question: Question, answered: Callable[[str, str], object]) -> None:
        """Show a question; an earlier one stays without an answer."""
        self.withdraw()
        self._question, self._answered = question, answered
        self._shown_at = None

    def withdraw(self) -> None:
        """Take the question off the screen, unanswered. A half-typed reason moves to the history."""
        if self._refusing and self._line.typing:
            self._line.put_aside()
        self._question = None
        self._explaining = self._refusing = False
        self._early = self._remark = ""
        self._top = 0
        self._bodies.clear()

    def covered(self) -> None:
        """Begin the wait anew once the question is drawn again: another program had the screen and the keys."""
        self._shown_at = None

    def height(self) -> int:
        """Its rows: at most the free ones."""
        return len(self._rows()) if self._question else 0

    def saw_key(self) -> None:
        """Begin the wait anew, since some key was pressed. To be called before the key takes effect."""
        self._key_before_at, self._key_at = self._key_at, self._clock()
        self._remark = ""
        if self._key_at - self._key_before_at >= QUIET_S:  # another text begins
            self._early = ""

    # -- keys ----------------------------------------------------------------------------------------------------------

    def _armed(self, last_key_at: float) -> bool:
        """Does it take answers? `last_key_at`: the time of the key before the present one."""
        since = max(self._shown_at, last_key_at) if self._shown_at is not None else float("inf")
        return self._clock() - since >= QUIET_S

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        no_text = Condition(lambda: not self._line.typing)
        answers = no_text & Condition(lambda: self._question is not None and not self._refusing)
        refusing = Condition(lambda: self._refusing)
        scrolls = Condition(lambda: self._question is not None and len(self._body()) > self._body_rows())
        typed_on = Condition(lambda: bool(self._early)) & (emacs_mode | vi_insert_mode)

        for name in (*LETTERS, EXPLAIN):

            @keys.add(name, filter=answers & Condition(partial(self._listens_to, name)), eager=True)
            def _(event: KeyPressEvent, name: str = name) -> None:
                self._press(name)

        @keys.add(Keys.Any, filter=answers & typed_on)
        def _(event: KeyPressEvent) -> None:  # the letters before were the beginning of a text
            event.current_buffer.insert_text(self._early + event.data)
            self._early = ""

        @keys.add("enter", filter=refusing, eager=True)
        def _(event: KeyPressEvent) -> None:
            reason = self._line.take().strip()
            self._answer("n", "" if _NO.fullmatch(reason) else reason)

        @keys.add("escape", filter=refusing)
        def _(event: KeyPressEvent) -> None:
            if self._line.typing:
                self._line.put_aside()
            self._refusing = False

        for name, pages, rows in (("pageup", -1, 0), ("pagedown", 1, 0), ("up", 0, -1), ("down", 0, 1)):

            @keys.add(name, filter=scrolls if pages else scrolls & no_text, eager=True)
            def _(event: KeyPressEvent, pages: int = pages, rows: int = rows) -> None:
                self._top += pages * max(1, self._body_rows() - 2) + rows  # drawing keeps it in range
                self._uncount_key()

        return keys

    def _listens_to(self, key: str) -> bool:
        """False for a letter of text: no usual answer, and none to this question."""
        return key in _USUAL or key in dict(self._choices())

    def _press(self, key: str) -> None:
        """Answer, if the question takes answers by now, and offers this one; else say why not."""
        assert self._question is not None
        if key not in dict(self._choices()):
            self._remark = f"[{key}] is no answer to this"
        elif not self._armed(self._key_before_at) and (key != EXPLAIN or self._early):
            self._remark = f"too early: press {key} again"
        elif key == EXPLAIN:
            self._explaining, self._top = not self._explaining, 0
            self._uncount_key()
        elif key == "n" and self._question.refusable:
            self._refusing = True
        else:
            return self._answer(key)
        if self._remark:
            self._early += key
        return None

    def _answer(self, key: str, reason: str = "") -> None:
        answered = self._answered
        self.withdraw()
        answered(key, reason)

    def _choices(self) -> Sequence[tuple[str, str]]:
        question = self._question
        if question is None or self._refusing:
            return _REFUSING if question else ()
        explains = ((EXPLAIN, "back" if self._explaining else "explain"),) if question.explanation else ()
        return (*question.keys, *explains)

    def _uncount_key(self) -> None:
        """Let an answer follow at once: this key was meant for the question, not typed into the line."""
        self._key_at = self._key_before_at

    # -- drawing -------------------------------------------------------------------------------------------------------

    def _fragments(self) -> StyleAndTextTuples:
        if not self._fits:
            self._shown_at = None
        elif self._shown_at is None:
            self._shown_at = self._clock()
        app = get_app()
        if app.loop and not self._armed(self._key_at):
            app.loop.call_later(QUIET_S, app.invalidate)  # the keys are drawn bright once they answer
        return list(self._painter.fragments(self._rows()))

    @property
    def _fits(self) -> bool:
        """Is there room for the keys, and two rows of what they answer? Else none of them does."""
        return len(self._key_rows("")) + _LEAST_ROWS <= self._most_rows()

    def _rows(self) -> list[Row]:
        if not self._fits:
            return [styled(fitted(_SMALL, self._painter.width), "bold")]
        body, room, head, footer = self._body(), self._body_rows(), self._fixed(), self._footer()
        if len(body) <= room:
            air = [list[Segment]()] if len(body) < room and self._most_rows() > _AIRY_ROWS else []
            return [*air, *head, *body, *footer]
        shown = max(1, room - 1)
        self._top = max(0, min(self._top, len(body) - shown))
        elsewhere = self._question.elsewhere if self._question and not self._explaining else ""
        end = self._top + shown
        more = more_line(self._top, len(body) - end, self._painter.width, elsewhere)
        return [*head, *body[self._top : end], styled(more, "dim"), *footer]

    def _most_rows(self) -> int:
        """The rows not needed by the input line and the rows around it."""
        rows = get_app().output.get_size().rows
        return rows - self._line.height(rows) - _OTHER_ROWS - (rows >= _SPARE_FROM)

    def _body_rows(self) -> int:
        return max(_LEAST_ROWS, self._most_rows() - len(self._fixed()) - len(self._footer()))

    def _fixed(self) -> list[Row]:
        """The title and the reason, in sight while the text is scrolled; none without room beside text."""
        head = self.head()
        room = self._most_rows() - len(self._footer()) - _READABLE_ROWS
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
                rows = [*([] if headless else self.head()), *detail_rows(question, paint)]
            if question.note and not self._note_fits:  # the effect of an answer must be readable
                rows = [*rows, [], *paint.text(seen_line(question.note), "dim")]
            self._bodies[where] = folded(rows, paint.width)
        return self._bodies[where]

    def head(self) -> list[Row]:
        """The call and the reason for the question, in rows of the present width."""
        return head_rows(self._question, self._painter) if self._question else []

    def _key_rows(self, look: str) -> list[Row]:
        width = self._painter.width
        return folded([styled(line, look) for line in key_lines(self._choices(), width)], width)

    def _footer(self) -> list[Row]:
        typing, width = self._line.typing and not self._refusing, self._painter.width
        armed = self._refusing or (self._armed(self._key_at) and not typing)
        keys = self._key_rows("bold" if armed else "dim")
        note = _WHY if self._refusing else _TYPING if typing else self._remark
        if self._note_fits and self._question and not note:
            note = seen_line(self._question.note)
        notes = folded(self._painter.text(note, "dim"), width) if note else []
        return [*keys, *notes] if len(keys) + len(notes) + _READABLE_ROWS <= self._most_rows() else keys

    @property
    def _note_fits(self) -> bool:
        """Is there room for the whole note below the keys? Else it stands at the end of the text."""
        note = seen_line(self._question.note) if self._question else ""
        keys = key_lines(self._choices(), self._painter.width)
        room = len(keys) + _NOTE_ROWS + _READABLE_ROWS <= self._most_rows()
        return room and len(note) <= _NOTE_ROWS * self._painter.width
