"""The question above the input line: what is drawn, which keys answer, and when. The clock is moved by hand."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import merge_key_bindings
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.layout.dimension import Dimension
from rich.cells import cell_len
from rich.segment import Segment

from ossia.cli.clean import clean
from ossia.cli.terminal.fold import folded
from ossia.cli.terminal.input.editor import Editor
from ossia.cli.terminal.input.typed import Typed
from ossia.cli.terminal.markdown.paint import Painter
from ossia.cli.terminal.question import QUIET_S, Question, QuestionPane
from tests.support.screen import Terminal

PGUP, PGDN, UP, DOWN = "\x1b[5~", "\x1b[6~", "\x1b[A", "\x1b[B"
ALL = (("y", "yes"), ("n", "no"), ("s", "this session"), ("a", "always"), ("e", "edit"))
DIFF = "-one\n+two\n"
WRITE = Question(
    "repo_browser.apply_patch: make a.md", "it can change files", DIFF, "diff", keys=ALL, explanation="Why."
)
WAIT = QUIET_S + 0.01


class Stage:
    """The pane above an input line, in an application of its own."""

    def __init__(self, question: Question | None = WRITE, *, columns: int = 80, rows: int = 24) -> None:
        self.now = 100.0
        self.answers: list[str] = []
        self.terminal = Terminal(columns, rows)
        self.painter = Painter(columns)
        self.sent: list[Typed] = []
        self.editor = Editor(self.sent.append)
        self.line = self.editor.buffer
        self.pane = QuestionPane(self.painter, self.editor, clock=lambda: self.now)
        self._first = question
        self._pipe = create_pipe_input()

    async def __aenter__(self) -> Stage:
        self._keys = self._pipe.__enter__()
        greedy = Window(height=Dimension(preferred=100))  # what is above must not squeeze it
        parts = [greedy, self.pane.container, self.editor.container, Window(height=1)]
        self.app: Application[None] = Application(
            Layout(HSplit(parts), focused_element=self.editor.window),
            key_bindings=merge_key_bindings([self.editor.keys, self.pane.keys]),
            input=self._keys,
            output=self.terminal.output,
        )
        self.app.key_processor.before_key_press += lambda _: self.pane.saw_key()
        self._task = asyncio.create_task(self.app.run_async(handle_sigint=False))
        while not self.app.is_running:
            await asyncio.sleep(0)
        if self._first:
            await self.ask(self._first)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.app.exit()
        await self._task
        self._pipe.__exit__(kind, error, trace)

    @property
    def drafts(self) -> str:
        """The lines in the history."""
        return "\n".join(entry.text for entry in self.editor.history.entries)

    def answered(self, key: str, reason: str) -> None:
        self.answers.append(f"{key} {reason}".rstrip())

    async def ask(self, question: Question) -> None:
        self.pane.ask(question, self.answered)
        await self.draw()

    async def draw(self) -> None:
        self.app.invalidate()
        while self.app.invalidated:
            await asyncio.sleep(0.001)  # 0 would keep the loop busy, and drawing waits until it isn't

    async def press(self, *keys: str, after_s: float = 0.0) -> None:
        """Press keys one after another, each `after_s` seconds after the last thing that happened."""
        for key in keys:
            self.now += after_s
            pressed = asyncio.Event()
            seen = lambda _, pressed=pressed: pressed.set()  # noqa: E731
            self.app.key_processor.after_key_press += seen
            self._keys.send_text(key)
            await asyncio.wait_for(pressed.wait(), 10)
            self.app.key_processor.after_key_press -= seen
            await self.draw()

    @property
    def shown(self) -> str:
        """The rows above the input line."""
        return "\n".join(("", *self.terminal.display)).partition("\n›")[0].strip("\n")


def play(scene: Callable[[Stage], Awaitable[None]], stage: Stage | None = None) -> None:
    async def run() -> None:
        async with stage or Stage() as there:
            await scene(there)

    asyncio.run(run())


def test_it_shows_all_that_is_asked_and_the_keys() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.shown.splitlines() == [
            "repo_browser.apply_patch: make a.md",
            "it can change files",
            " - one",
            " + two",
            "[y] yes  [n] no  [s] this session  [a] always  [e] edit  [?] explain",
        ]
        assert (stage.pane.open, stage.pane.height()) == (True, 6)

    play(scene)


@pytest.mark.parametrize(("columns", "rows", "room"), [(50, 15, 5), (80, 24, 14), (120, 40, 31)])
def test_a_diff_takes_the_free_rows_and_opens_at_the_first_files_name(columns: int, rows: int, room: int) -> None:
    """Below what is asked, above the keys, with the way to the rest; `?` and back show it from its beginning."""
    lines = ["--- a/a.md", "+++ b/a.md", "@@ -1,60 +1,60 @@", *(f"-old {number}" for number in range(60))]
    lines += [f"+new {number}" for number in range(60)]
    title, reason = "Edit a.md +60 −60", "it can change files"
    keys = (*ALL, ("w", "all edits, till I leave"))
    question = Question(title, reason, "\n".join(lines), "diff", keys=keys, note="'a' allows a.md", explanation="Why.")

    async def scene(stage: Stage) -> None:
        def in_sight() -> list[str]:
            shown = stage.shown.splitlines()
            assert shown[:2] == [title, reason] and shown[-1] == "'a' allows a.md"
            assert "[y] yes" in stage.shown and "[?] explain" in stage.shown
            more = next(number for number, row in enumerate(shown) if row.startswith("… "))
            return shown[2:more]

        first = in_sight()
        assert first == ["a.md", *(f" {number + 1:2} - old {number}" for number in range(room - 1))]
        await stage.press("?", after_s=WAIT)
        assert "Why." in stage.shown
        await stage.press("?", after_s=WAIT)
        assert in_sight() == first
        for _ in range(60):
            if "PgDn" in stage.shown:
                await stage.press(PGDN)
        assert in_sight()[-1] == " 60 + new 59"

    play(scene, Stage(question, columns=columns, rows=rows))


def test_a_long_line_of_the_input_takes_rows_from_it() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.pane.height() == 20
        stage.line.insert_text("\n" * 7)
        await stage.draw()
        assert stage.pane.height() == 13 and "[y] yes" in stage.shown and "too small" not in stage.shown

    play(scene, Stage(LONG))


@pytest.mark.parametrize("key", ["y", "n", "s", "a", "e"])
def test_a_deliberate_key_answers_at_once_and_closes_it(key: str) -> None:
    async def scene(stage: Stage) -> None:
        await stage.press(key, after_s=WAIT)
        assert (stage.answers, stage.line.text, stage.pane.open, stage.pane.height()) == ([key], "", False, 0)

    play(scene)


def test_a_question_mark_explains_at_once_and_answers_nothing() -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("?", after_s=QUIET_S - 0.01)
        assert stage.answers == [] and "[?] back" in stage.shown and "too early" not in stage.shown

    play(scene)


@pytest.mark.parametrize("key", [*"ynsae"])
def test_a_key_before_half_a_second_on_screen_is_dropped_and_that_is_said(key: str) -> None:
    async def scene(stage: Stage) -> None:
        await stage.press(key, after_s=QUIET_S - 0.01)
        assert (stage.answers, stage.line.text, stage.pane.open) == ([], "", True)
        assert stage.shown.endswith(f"\ntoo early: press {key} again")
        await stage.press("y", after_s=WAIT)
        assert stage.answers == ["y"]

    play(scene)


def test_the_keys_are_dim_until_they_answer() -> None:
    async def scene(stage: Stage) -> None:
        assert re.search(r"\x1b\[[\d;]*\b2m\[y\] yes", "".join(stage.terminal.sent))
        stage.terminal.sent.clear()
        stage.now += WAIT
        await stage.draw()
        assert re.search(r"\x1b\[[\d;]*\b1m\[y\] yes", "".join(stage.terminal.sent))

    play(scene)


def test_letters_at_random_moments_before_it_listens_neither_answer_nor_stand_in_the_line() -> None:
    dice = random.Random(8)

    async def scene(stage: Stage) -> None:
        for _ in range(10):
            await stage.ask(WRITE)
            for _ in range(dice.randint(1, 6)):
                await stage.press(dice.choice("ynsawe?"), after_s=dice.uniform(0, QUIET_S - 0.01))
            assert (stage.answers, stage.line.text, stage.pane.open) == ([], "", True)

    play(scene)


@pytest.mark.parametrize("text", ["we say yes", "any", "yes, any", "a", "nn", "see why"])
def test_a_text_that_is_typed_on_while_it_comes_is_whole(text: str) -> None:
    """Its first letters could be answers: they come back with the first sign that isn't one."""

    async def scene(stage: Stage) -> None:
        await stage.press(*text, ".", after_s=0.2)
        assert (stage.answers, stage.line.text) == ([], f"{text}.")

    play(scene)


@pytest.mark.parametrize(("text", "said"), [("save it", "[s] is no answer to this"), ("let us", ""), ("print", "")])
def test_a_text_may_begin_with_a_letter_that_answers_other_questions(text: str, said: str) -> None:
    async def scene(stage: Stage) -> None:
        stage.now += WAIT
        await stage.press(text[0])
        assert (said or "Ctrl-C empties it") in stage.shown
        await stage.press(*text[1:], after_s=0.2)
        assert (stage.answers, stage.line.text) == ([], text)

    play(scene, Stage(Question("t", "r", keys=(("y", "yes"), ("n", "no"), ("e", "edit")))))


def test_letters_that_came_too_early_are_no_beginning_of_a_later_text() -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("y", after_s=0.1)
        await stage.press("go", after_s=WAIT)
        assert (stage.answers, stage.line.text) == ([], "go")

    play(scene)


def test_nor_of_one_that_follows_another_key() -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("y", after_s=0.1)
        await stage.press("\x14", after_s=WAIT)  # Ctrl-T, which the chat takes
        await stage.press(*"good", after_s=0.2)
        assert (stage.answers, stage.line.text) == ([], "good")

    play(scene)


REFUSABLE = replace(WRITE, refusable=True)


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("", "n"), ("use pytest: yes", "n use pytest: yes"), ("nnn", "n"), ("o", "n"), ("not yet", "n not yet")],
)
@pytest.mark.parametrize("columns", [40, 80])
def test_a_no_takes_a_reason(typed: str, answer: str, columns: int) -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("n", after_s=WAIT)
        assert "[Enter] no  [Esc] back" in stage.shown and "for the model" in stage.shown and "[y]" not in stage.shown
        assert "+ two" in stage.shown, "the call stays in sight"
        await stage.press(*typed, after_s=WAIT)
        assert (stage.answers, stage.line.text) == ([], typed)
        stage.painter.width = 60
        await stage.draw()
        await stage.press("\r")
        assert (stage.answers, stage.line.text, stage.pane.open) == ([answer], "", False)
        assert (stage.sent, stage.drafts) == ([], ""), "it is no message"

    play(scene, Stage(REFUSABLE, columns=columns))


def test_escape_leaves_the_reason_and_the_question_waits_again() -> None:
    async def scene(stage: Stage) -> None:
        stage.app.timeoutlen = stage.app.ttimeoutlen = 0.01
        await stage.press("n", *"why", "\x1b", after_s=WAIT)
        while not stage.drafts:  # the terminal may still send the rest of a sequence
            await asyncio.sleep(0.01)
        await stage.draw()
        assert (stage.answers, stage.line.text, stage.drafts) == ([], "", "why")
        assert "[y] yes" in stage.shown
        await stage.press("y", after_s=0.1)
        assert (stage.answers, stage.line.text) == ([], "")
        await stage.press("y", after_s=WAIT)
        assert stage.answers == ["y"]

    play(scene, Stage(REFUSABLE))


@pytest.mark.parametrize("replaced", [True, False])
def test_a_reason_for_a_question_that_is_gone_goes_nowhere(replaced: bool) -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("n", *"why", after_s=WAIT)
        if replaced:
            await stage.ask(replace(REFUSABLE, title="another"))
        else:
            stage.pane.withdraw()
        await stage.press("\r", after_s=0.1)
        assert (stage.answers, stage.line.text.strip(), stage.drafts, stage.sent) == ([], "", "why", [])
        if replaced:
            await stage.press("y", after_s=0.1)
            assert stage.answers == []
            stage.line.reset()
            await stage.press("y", after_s=WAIT)
            assert stage.answers == ["y"]

    play(scene, Stage(REFUSABLE))


def test_a_pasted_letter_is_no_answer() -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("\x1b[200~y\x1b[201~", after_s=WAIT)
        assert (stage.answers, stage.line.text) == ([], "y")

    play(scene)


def test_a_key_that_is_held_answers_nothing() -> None:
    async def scene(stage: Stage) -> None:
        await stage.press(*"y" * 20, after_s=0.03)
        assert (stage.answers, stage.line.text, stage.pane.open) == ([], "", True)

    play(scene)


def test_typing_never_answers() -> None:
    """Row of the study: somebody types on, with 400 ms between their keys."""

    async def scene(stage: Stage) -> None:
        stage.now += WAIT
        await stage.press("h")  # while it listens: no answer, and from now on it waits again
        await stage.press(*"ey, yes, any", after_s=0.4)
        assert (stage.answers, stage.line.text) == ([], "hey, yes, any")

    play(scene)


@pytest.mark.parametrize("text", ["wh", " ", "two\nlines"])
def test_while_the_line_holds_text_letters_go_there_however_long_one_waits(text: str) -> None:
    async def scene(stage: Stage) -> None:
        stage.line.insert_text(text)
        for key in ("y", "n", "a", "?"):
            await stage.press(key, after_s=WAIT)
        assert (stage.answers, stage.line.text) == ([], f"{text}yna?")
        assert "Ctrl-C empties it" in stage.shown
        stage.line.reset()
        await stage.press("y", after_s=WAIT)
        assert stage.answers == ["y"]

    play(scene)


def test_it_waits_from_when_it_is_seen_not_from_when_it_was_asked() -> None:
    async def scene(stage: Stage) -> None:
        stage.pane.ask(WRITE, stage.answered)  # as while a pager has the screen: nothing is drawn
        stage.now += 60
        await stage.press("y")
        assert (stage.answers, stage.line.text) == ([], "")

    play(scene, Stage(None))


@pytest.mark.parametrize("key", ["\r", " ", "\t", "\x1b", "x"])
def test_no_other_key_is_a_yes(key: str) -> None:
    async def scene(stage: Stage) -> None:
        stage.now += WAIT
        await stage.press("z" if key == "\x1b" else key)
        assert (stage.answers, stage.pane.open) == ([], True)

    play(scene)


def test_a_firm_question_has_neither_session_nor_always() -> None:
    async def scene(stage: Stage) -> None:
        assert "session" not in stage.shown and "always" not in stage.shown
        for key in ("s", "a", "?"):
            await stage.press(key, after_s=WAIT)
        assert (stage.answers, stage.line.text, stage.pane.open) == ([], "?", True)
        await stage.press("n", "s", "a")  # while the line holds text they belong to it
        assert (stage.answers, stage.line.text, stage.pane.open) == ([], "?nsa", True)

    play(scene, Stage(Question("t", "r", keys=(("y", "yes"), ("n", "no"), ("e", "edit")))))


def test_what_was_asked_before_is_gone_without_an_answer() -> None:
    async def scene(stage: Stage) -> None:
        await stage.press(PGDN, after_s=WAIT)
        others: list[str] = []
        stage.pane.ask(Question("another", "r"), lambda key, reason: others.append(key))
        await stage.draw()
        assert "another" in stage.shown and "a.md" not in stage.shown
        await stage.press("y", after_s=0.1)
        assert others == []
        stage.line.reset()
        await stage.press("n", after_s=WAIT)
        assert (others, stage.answers) == (["n"], [])
        stage.pane.ask(WRITE, stage.answered)
        stage.pane.withdraw()
        await stage.draw()
        assert (stage.pane.open, stage.shown, stage.answers) == (False, "", [])

    play(scene)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 24), (40, 12)])
def test_a_note_that_has_no_room_below_the_keys_ends_the_text_whole(columns: int, rows: int) -> None:
    rule = "container.exec:" + "word " * (16 if rows < 24 else 40) + "end"

    async def scene(stage: Stage) -> None:
        seen = stage.shown
        for _ in range(10):
            await stage.press(PGDN)
            seen += stage.shown
        assert "end" in seen and "word end" in " ".join(seen.split()) and "…" not in stage.shown.split("end")[0][-20:]

    play(scene, Stage(replace(WRITE, note=f'"a" will always allow `{rule}` here'), columns=columns, rows=rows))


LINES = "".join(f"line {n}\n" for n in range(60))
LONG = Question("t", "r", LINES, keys=ALL, note="always stores x", explanation="Why.")


def test_a_long_text_takes_the_free_rows_and_can_be_read_to_its_end() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.pane.height() == 20
        seen = set(re.findall(r"line \d+$", stage.shown, re.MULTILINE))
        assert "… 45 more lines, PgDn" in stage.shown and "line 15" not in stage.shown
        for _ in range(12):
            await stage.press(PGDN)
            assert stage.shown.startswith("t\nr\nline "), "what is asked stays in sight"
            seen |= set(re.findall(r"line \d+$", stage.shown, re.MULTILINE))
        assert len(seen) == 60, "each line was there once"
        assert "… 45 lines above, PgUp" in stage.shown and "line 59" in stage.shown
        assert stage.shown.endswith("[?] explain\nalways stores x")
        for _ in range(12):
            await stage.press(PGUP)
        assert stage.shown.startswith("t\nr\nline 0")

    play(scene, Stage(LONG))


def test_scrolling_is_no_typing() -> None:
    async def scene(stage: Stage) -> None:
        stage.now += WAIT
        await stage.press(PGDN, DOWN, UP, "y")
        assert (stage.answers, stage.line.text) == (["y"], "")

    play(scene, Stage(LONG))


def test_arrows_belong_to_the_line_once_something_is_typed() -> None:
    async def scene(stage: Stage) -> None:
        before = stage.shown
        await stage.press(DOWN)
        assert stage.shown != before
        await stage.press(UP, "h")
        first = stage.shown.partition("\n")[0]
        await stage.press(DOWN)
        assert stage.shown.partition("\n")[0] == first

    play(scene, Stage(LONG))


def test_it_explains_itself_and_goes_back() -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("?", after_s=WAIT)
        assert "Why." in stage.shown and "+ two" not in stage.shown and "[?] back" in stage.shown
        await stage.press("?")
        assert "Why." not in stage.shown and "+ two" in stage.shown
        await stage.press("y")
        assert stage.answers == ["y"]

    play(scene)


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (40, 24), (20, 10), (80, 8), (200, 50)])
def test_every_key_stays_on_screen_however_small_it_is(columns: int, rows: int) -> None:
    count = 2 * rows

    async def scene(stage: Stage) -> None:
        for key, word in (*ALL, ("?", "explain")):
            assert f"[{key}] {word}" in stage.shown, stage.shown
        assert "PgDn" in stage.shown and "Window too small" not in stage.shown
        assert stage.pane.height() <= rows - 3
        seen = stage.shown
        for _ in range(40):
            if "PgDn" not in stage.shown:
                break
            await stage.press(PGDN)
            seen += stage.shown
        assert f"line {count - 1}" in seen and "always stores x" in seen and "PgUp" in stage.shown
        await stage.press("y", after_s=WAIT)
        assert stage.answers == ["y"]

    lines = "".join(f"line {n}\n" for n in range(count))
    play(scene, Stage(replace(LONG, detail=lines), columns=columns, rows=rows))


@pytest.mark.parametrize(("columns", "rows"), [(20, 5), (8, 9), (80, 5)])
def test_without_room_it_takes_no_answer_and_with_room_it_waits_anew(columns: int, rows: int) -> None:
    async def scene(stage: Stage) -> None:
        assert "a quest" in stage.shown and "too small" not in "\n".join(stage.terminal.display)
        await stage.press("y", after_s=WAIT)
        assert stage.answers == []
        stage.now += WAIT
        stage.terminal.resize(80, 24)
        stage.painter.width = 80
        await stage.draw()
        assert "[y] yes" in stage.shown
        await stage.press("y")
        assert stage.answers == []
        await stage.press("y", after_s=WAIT)
        assert stage.answers == ["y"]

    play(scene, Stage(columns=columns, rows=rows))


def test_a_resize_wraps_it_anew() -> None:
    async def scene(stage: Stage) -> None:
        assert "x" * 70 in stage.shown
        stage.painter.width = 40
        await stage.draw()
        rows = [row for row in stage.shown.splitlines() if set(row) == {"x"}]
        assert rows == ["x" * 40, "x" * 30]

    play(scene, Stage(Question("t", "r", "x" * 70)))


def test_colours_of_diffs_and_of_code() -> None:
    async def scene(stage: Stage) -> None:
        sent = "".join(stage.terminal.sent)
        assert re.search(r"\x1b\[[\d;]*32m\+ two", sent) and re.search(r"\x1b\[[\d;]*31m- one", sent)
        await stage.ask(Question("t", "r", "def f():\n\treturn 1\n", "python"))
        assert "def f():\n    return 1\n" in stage.shown
        assert re.search(r"\x1b\[0;[1-9][\d;]*m(def|return)", "".join(stage.terminal.sent))

    play(scene)


def test_a_command_that_the_title_holds_whole_is_shown_once() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.shown.startswith("Run ls -l\nit can run code\n[y] yes")
        await stage.ask(Question("Run ls -l", "it can run code", "ls -l\n\nrm x", "bash"))
        assert stage.shown.startswith("Run ls -l\nit can run code\nls -l\n\nrm x\n[y] yes")
        stage.painter.width = 40
        await stage.ask(Question(f"Run {'ls  ' * 20}", "", "ls  " * 20, "bash"))
        assert stage.shown.count("ls") == 40, "words are broken in the title: all blanks stand below it"

    play(scene, Stage(Question("Run ls -l", "it can run code", "ls -l", "bash")))


def test_a_fault_of_an_edit_is_shown() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.shown.splitlines()[2] == "Your change was not taken: no JSON"

    play(scene, Stage(Question("t", "r", "d", fault="Your change was not taken: no JSON")))


HOSTILE = "a\x1b[2Jb\x1b]52;c;ZXZpbA==\x07c\x9bd\u202ee\r\nf\u200bg"


@pytest.mark.parametrize("language", ["", "diff", "python", "sh", "nonsense"])
def test_nothing_of_it_is_obeyed_by_the_terminal(language: str) -> None:
    async def scene(stage: Stage) -> None:
        await stage.press("?", after_s=WAIT)
        sent = re.sub(r"\x1b(?:\[[\d;?]*[A-Za-z]|[78])", "", "".join(stage.terminal.sent))
        assert not re.search("[\x00-\x07\x0b-\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b]", sent)
        assert not re.search(r"\x1b\[2J.*b␛", "".join(stage.terminal.sent))

    keys = (("y", HOSTILE), ("n", "no"))
    play(scene, Stage(Question(HOSTILE, HOSTILE, HOSTILE, language, HOSTILE, keys, HOSTILE, HOSTILE), rows=50))


@given(st.text(st.sampled_from("ab \t木👍🏽\u0301é…"), max_size=60), st.integers(2, 20))
def test_folding_loses_nothing_and_fits(text: str, width: int) -> None:
    row = [Segment(text[: len(text) // 2]), Segment(text[len(text) // 2 :])]
    parts = folded([row], width)
    shown = ["".join(segment.text for segment in part) for part in parts]
    assert "".join(shown) == text
    assert all(cell_len(part) <= width for part in shown)
    assert len(parts) <= max(1, 2 * -(-2 * len(text) // width)), "each character takes two columns at most"


def test_a_very_long_text_is_drawn_plainly() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.pane.height() == 20 and re.search(r"… \d+ more lines, PgDn", stage.shown)
        await stage.press(PGDN, PGDN)
        assert "lines above" in stage.shown

    play(scene, Stage(Question("t", "r", clean("x" * 200_000 + "\n" + "y = 1\n" * 20_000), "python")))
