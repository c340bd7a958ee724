"""/rewind: the turns, and back to before one: the conversation, with the files changed since then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ossia.cli.chat.commands.common import Block, turn_of
from ossia.cli.chat.commands.turns import may_send_again, put_into_input, question_of, turns, undone_rows
from ossia.cli.clean import one_line
from ossia.cli.terminal.question import Question
from ossia.cli.visible import seen_line
from ossia.cli.words import count, moment
from ossia.tools.outcome import diff_in
from ossia.tools.undo.restore import Undone

if TYPE_CHECKING:
    from ossia.agent.sessions.session import Entry
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.tools.undo.turns import Turn

_NO_UNDO = "no undo"
"""It changed files, but undo doesn't have them: they were undone, or are too old."""


def rewind(talk: Chat, face: Face, argument: str) -> None:
    """`/rewind [TURN]`: back to before a turn, with the files changed since; alone: list the turns."""
    journal, turn = talk.folder.journal if talk.folder else None, turn_of(talk, argument)
    if not argument:
        return talk.background.run(
            lambda: journal.turns() if journal else (), lambda kept: _show_turns(talk, face, kept)
        )
    asked, entries = question_of(talk, face, turn), talk.session.entries
    marks = {entry.mark for entry in entries if entry.turn >= turn and entry.mark}

    def found(looked: tuple[Undone | None, Sequence[Turn]]) -> None:
        undone, kept = looked
        assert undone is not None
        lost = _lost(entries, turn, kept)
        if not (undone.restored or undone.removed or talk.store is None):
            return _go_back(talk, face, asked, undone, lost)

        def answered(key: str) -> None:
            talk.turn.unanswered = None
            if key == "n":
                return face.note("nothing was changed")
            if talk.control is not None or talk.session.entries != entries:
                return face.note(f"the conversation has changed: /rewind {argument} asks again", "yellow")
            if key == "c" or journal is None:
                return _go_back(talk, face, asked, None)
            return talk.before_next_turn(
                lambda: journal.rewind(marks, agreed=undone), lambda done: restored(done, lost), stops=False
            )

        talk.turn.unanswered = face.withdraw
        return talk.ask(_question(talk, turn, undone, lost), answered)

    def restored(undone: Undone | None, lost: str) -> None:
        if undone is None:
            changed = "files or undo's copies changed meanwhile"
            return face.note(f"{changed}: nothing was done, /rewind {argument} asks again", "yellow")
        return _go_back(talk, face, asked, undone, lost)

    if journal is None or not marks:
        return found((Undone(""), ()))
    return talk.before_next_turn(lambda: (journal.rewind(marks), journal.turns()), found)


def _show_turns(talk: Chat, face: Face, kept: Sequence[Turn]) -> None:
    """List the turns, the last one first."""
    choices = turns(talk, "")
    facts = [_facts(talk.session.entries, int(number) - 1, kept) for number, _ in choices]
    wide = [max(map(len, column)) for column in zip(*facts, strict=True)]
    block = Block(face, "Turns, latest first")
    for (number, text), (when, files) in zip(choices, facts, strict=True):
        block.row(f"  {number:>{len(choices[0][0])}}  {when:>{wide[0]}}  {files:>{wide[1]}}  {text}")
    if (earlier := len(talk.session.ends) - len(choices)) > 0:
        block.row(f"  and {count(earlier, 'earlier turn')}", "dim")
    block.item("  /rewind TURN goes back to before it: the conversation and the files", "dim")
    block.show()


def _facts(entries: Sequence[Entry], turn: int, kept: Sequence[Turn]) -> tuple[str, str]:
    """When a turn began, and what undo has of it: `("14:02", "2 files")`."""
    own = [entry for entry in entries if entry.turn == turn]
    said_at = next((entry.said_at for entry in own if entry.said_at is not None), None)
    marks = {entry.mark for entry in own if entry.mark}
    found = [one for one in kept if one.mark in marks]
    paths = {path for one in found for path in one.paths}
    lost = _NO_UNDO if any(diff_in(entry.state) for entry in own) else ""
    files = count(len(paths), "file") if paths else "only git" if found else lost
    return "" if said_at is None else moment(said_at), files


def _lost(entries: Sequence[Entry], turn: int, kept: Sequence[Turn]) -> str:
    """A line about this turn and later ones if they changed files that undo doesn't have; else ""."""
    marks = {one.mark for one in kept}
    found = {entry.turn for entry in entries if entry.mark in marks}
    lost = {entry.turn for entry in entries if entry.turn >= turn and diff_in(entry.state)} - found
    return f"{_NO_UNDO}  files of {count(len(lost), 'turn')}  (undone, too old, or not of this folder)" if lost else ""


def _question(talk: Chat, turn: int, undone: Undone, lost: str) -> Question:
    """The question about all that would change."""
    rows = [f"restore  {seen_line(path)}" for path in undone.restored]
    rows += [f"remove   {seen_line(path)}" for path in undone.removed]
    rows += [f"leave    {seen_line(one.path)}  ({seen_line(one.reason)})" for one in undone.skipped]
    rows += [lost] if lost else []
    gone = count(len(talk.session.ends) - turn, "turn")
    reason = f"a fork keeps {gone}" if talk.store else f"this chat isn't stored: {gone} can't be brought back"
    keys: tuple[tuple[str, str], ...] = (("y", "go back"), ("n", "cancel"))
    if undone.restored or undone.removed:
        keys = (("y", "with the files"), ("c", "only the conversation"), ("n", "cancel"))
    title, detail = f"Go back to before turn {turn + 1}?", "\n".join(rows)
    return Question(title, reason, detail, keys=keys, careful=talk.store is None)


def _go_back(talk: Chat, face: Face, asked: Entry, undone: Undone | None, lost: str = "") -> None:
    """Cut the conversation; its question is in the input again. `undone` None: the files stay as they are."""
    tools = talk.conversation.tools
    python = tools.python.spec.name if tools and tools.python else None
    if not talk.turn.keep_after(asked.turn - 1):
        face.note(f"the conversation stays{', the files went back' if undone and undone != Undone('') else ''}")
        return
    taken = talk.go_back(asked.turn)
    block = Block(face, f"Back before turn {asked.turn + 1}{'' if undone else ', with the files as they are'}")
    if undone:
        undone_rows(block, undone)
    if lost:
        block.item(f"  {lost}", "yellow")
    if python and any(entry.message.name == python for entry in taken):
        if undone:
            talk.conversation.forget_variables()
        block.item(f"  python {'begins anew, without its variables' if undone else 'keeps its variables'}", "dim")
    block.show()
    if not may_send_again(asked):
        return
    face.clear_input()
    put_into_input(face, asked)
    if face.plain:
        face.note(f"turn {asked.turn + 1} was: {one_line(asked.typed or asked.message.text, 200)}")
