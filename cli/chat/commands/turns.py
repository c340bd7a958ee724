"""/answer, /retry, /edit, /plan, /go, /undo, /copy, /quit: questions, answers and their changes of files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ossia.agent.prompt import GO, is_planned
from ossia.agent.sessions.session import Entry, UserText
from ossia.cli.attach.attach import OUTPUT
from ossia.cli.chat.commands.common import Block, Choice, CommandError, loaded, must_be, no_argument, turn_of
from ossia.cli.clean import one_line
from ossia.cli.clipboard import copy_with_programs, copyable, fits_terminal
from ossia.cli.code_blocks import Extract
from ossia.cli.terminal.input.typed import Typed, as_text
from ossia.cli.visible import seen_line
from ossia.cli.words import count, files_of, git_stays, may_force, undone_or_not
from ossia.tools.skills import Skill

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.tools.undo.journal import Turn, Undone

COPIES: Sequence[Choice] = (
    ("code", "the last code block in the answer"),
    ("thinking", "the thinking before it"),
)
PLANS: Sequence[Choice] = (("off", "change things again, without a word to the model"),)
UNDOS: Sequence[Choice] = (
    ("list", "what can be undone, latest first"),
    ("force", "also files that were changed since then"),
    ("skip", "forget about files that can't be undone"),
)
_LABEL_CHARS = 60


def answer(talk: Chat, face: Face, argument: str) -> None:
    """`/answer`: end the thinking; the answer begins."""
    if talk.control is None:
        raise CommandError("no answer is under way")
    talk.answer_now()
    face.note("answering now")


def quit_(talk: Chat, face: Face, argument: str) -> None:
    """`/quit`: leave."""
    talk.leave()


def retry(talk: Chat, face: Face, argument: str) -> None:
    """`/retry`: ask the last question again, instead of its answer."""
    no_argument(argument, "/edit TURN goes back further")
    turn = turn_of(talk, "")
    loaded(talk)
    asked = question_of(talk, face, turn)
    talk.go_back(turn)
    typed = asked.message.text if asked.typed is None else asked.typed
    face.view.user(typed or one_line(asked.message.text, 200))
    talk.say(UserText(asked.message.text, typed, asked.taints))


def edit(talk: Chat, face: Face, argument: str) -> None:
    """`/edit [TURN]`: a question in the input again; once sent, it replaces that turn and those after it."""
    turn = turn_of(talk, argument)
    asked = question_of(talk, face, turn)
    if not may_send_again(asked):
        raise CommandError(f"turn {turn + 1} isn't your own text, so it can't be edited: /retry asks it again")
    later = len(talk.session.ends) - turn - 1
    if later and talk.store is None:
        gone = "the turn" if later == 1 else f"the {later} turns"
        face.note(f"this chat isn't stored: {gone} after it can't be brought back", "yellow")
    put_into_input(face, asked, replaces=turn)


def plan(talk: Chat, face: Face, argument: str) -> None:
    """`/plan [TEXT|off]`: change nothing from now on; TEXT is the task to plan."""
    if argument == "off":
        talk.plan(False)
        return face.note("changes are possible")
    loaded(talk)
    talk.plan(True)
    face.note("only looking now: nothing can be changed until /go (/plan off ends planning)")
    return _say(talk, argument, argument) if argument else None


def go(talk: Chat, face: Face, argument: str) -> None:
    """`/go [TEXT]`: carry out the plan, with a remark."""
    if not talk.settings.plan:
        raise CommandError("no plan is being made: /plan begins one")
    if not is_planned(talk.session):
        raise CommandError("there is no plan yet: say what to plan")
    loaded(talk)
    talk.plan(False)
    return _say(talk, f"/go {argument}".rstrip(), f"{GO}\n\n{argument}".rstrip())


def undo(talk: Chat, face: Face, argument: str) -> None:
    """`/undo [list|force|skip]`: restore the files changed in the last turn; the conversation stays."""
    if argument not in ("", *(word for word, _ in UNDOS)):
        must_be("list, force, skip or nothing", argument)
    if talk.folder is None:
        raise CommandError("there is no workspace: /tools workspace DIR sets one")
    journal, root = talk.folder.journal, talk.folder.workspace.root
    if argument == "list":
        return talk.background.run(journal.turns, lambda turns: _show_turns(face, turns))

    def show(undone: Undone | None) -> None:
        if undone is None:
            return face.note(f"nothing to undo in {root}")
        return _show_undone(face, undone, skipping=argument == "skip")

    return talk.background.run(lambda: journal.undo(force=argument == "force", skip=argument == "skip"), show)


def copy(talk: Chat, face: Face, argument: str) -> None:
    """`/copy [code|thinking|TURN]`: an answer to the clipboard, as the model wrote it."""
    what, text = _copied(talk, argument)
    text = copyable(text)
    asked = fits_terminal(text) and not face.plain
    if asked:
        face.copy(text)
    size = count(len(text), "character")

    def report(by: tuple[str, ...]) -> None:
        if by:
            face.note(f"copied {what}: {size} ({', '.join(by)})")
        elif asked:
            face.note(f"sent {what} to the terminal's clipboard: {size}; not every terminal accepts it")
        elif face.plain:
            face.note(f"can't copy {what}, this terminal has no clipboard: /export writes a file", "yellow")
        else:
            face.note(f"{what} is too long for the terminal's clipboard: {size}; /export writes a file", "yellow")

    talk.background.run(lambda: copy_with_programs(text, talk.environ), report)


def turns(talk: Chat, prefix: str) -> Sequence[Choice]:
    """Completions of `/edit` and `/fork`: `("3", "What is 48*17?")`, the last turn first."""
    users: dict[int, str] = {}
    for entry in talk.session.entries:
        if entry.message.role == "user":
            typed = entry.message.text if entry.typed is None else entry.typed
            users.setdefault(entry.turn, one_line(typed, 60))
    return [(str(turn + 1), text) for turn, text in sorted(users.items(), reverse=True)][:50]


# -- within ------------------------------------------------------------------------------------------------------------


def _say(talk: Chat, shown: str, text: str) -> None:
    """Say it, with its attachments: files behind `@`, the output of a command."""
    typed = Typed(shown, text, literal=True)
    if talk.outbox.attaching.needed(typed):
        return talk.outbox.send(typed)
    return talk.say(UserText(text, shown))


def question_of(talk: Chat, face: Face, turn: int) -> Entry:
    """The user's message of a turn. (Not always its first entry: an open call may be answered before it.)"""
    said = [one for one in talk.session.entries if one.turn == turn and one.message.role == "user"]
    if not said:
        raise CommandError(f"turn {turn + 1} has no question: choose another with /edit TURN")
    if said[1:]:
        face.note(f"what you sent during turn {turn + 1} is removed, too: send it again if it is still needed")
    return said[0]


def may_send_again(asked: Entry) -> bool:
    """False for a text from outside: sent from the input it would count as the user's own words."""
    return bool(asked.typed) or "outside" not in asked.taints


def put_into_input(face: Face, asked: Entry, *, replaces: int | None = None) -> None:
    """Put a question into the input again. `replaces`: the turn that it replaces once sent."""
    if asked.typed and asked.message.text.removeprefix(asked.typed).startswith(f"\n\n{OUTPUT}"):
        face.note("the output of your command won't be attached again: run it once more, or use /retry")
    typed = asked.typed or asked.message.text
    face.put_into_input(typed if Skill.is_called(asked.message.text, typed) else as_text(typed), replaces=replaces)


def undone_rows(block: Block, undone: Undone, *, skipping: bool = False) -> None:
    """Add the rows about each file, what to do with those that were left, and git's way back."""
    for path in undone.restored:
        block.item(f"  restored  {seen_line(path)}")
    for path in undone.removed:
        block.item(f"  removed   {seen_line(path)}")
    for one in undone.skipped:
        block.item(f"  left as it is  {seen_line(one.path)}  ({one.reason})", "yellow")
    if undone.skipped and not skipping:
        force = "/undo force overwrites them, " if may_force(undone) else ""
        block.item(f"  {force}/undo skip forgets about them", "dim")
    if undone.git:
        block.item(f"  {git_stays(undone)}")
    for command in undone.git:
        block.item(f"    {seen_line(command)}")


def _copied(talk: Chat, argument: str) -> tuple[str, str]:
    """The name of the copied thing, and its text."""
    word, _, rest = argument.partition(" ")
    if word not in ("", "code", "thinking") and not word.isdecimal():
        must_be("code, thinking or a turn number", argument)
    number = word if word.isdecimal() else rest.strip()
    turn = turn_of(talk, number)
    kind = "thinking" if word == "thinking" else "answer"
    said = [item.text for item in talk.transcript.items if item.kind == kind and item.turn == turn]
    texts = [text for text in said if text.strip()]
    if not texts and not number and kind == "answer":
        before = talk.transcript.last_answer()  # of an earlier turn
        texts = [before] if before else []
    if not texts:
        raise CommandError(f"turn {turn + 1} has no {kind}")
    if word == "code":
        if (code := Extract().of(texts[-1])) is None:
            raise CommandError("the answer has no code block: /copy alone copies all of it")
        return "the code", code
    return f"the {kind}", "\n\n".join(texts) if kind == "thinking" else _cited(talk, texts[-1])


def _cited(talk: Chat, text: str) -> str:
    """The answer with its citations as numbered footnotes: cursors of the browser mean nothing outside this chat."""
    if "【" not in text:
        return text
    from ossia.agent.citations import cite
    from ossia.cli.footnotes import lines

    numbered, notes = cite(text, talk.page)
    return "\n".join([numbered, "", *lines(notes, links=False)]) if notes else numbered


def _show_turns(face: Face, turns: Sequence[Turn]) -> None:
    if not turns:
        return face.note("nothing to undo")
    block = Block(face, "What can be undone, latest first")
    for turn in turns:
        when = datetime.fromtimestamp(turn.changed_at)
        block.item(f"  {when:%Y-%m-%d %H:%M}  {files_of(turn):>9}  {one_line(turn.label, _LABEL_CHARS)}")
    return block.show()


def _show_undone(face: Face, undone: Undone, *, skipping: bool) -> None:
    head = undone_or_not(undone, skipping=skipping).capitalize()
    block = Block(face, f"{head}: {one_line(undone.label, _LABEL_CHARS)}")
    undone_rows(block, undone, skipping=skipping)
    block.item("  the conversation stays as it is: /retry or /edit take it back, too", "dim")
    block.show()
