"""The outbox of a chat: lines sent and not said yet."""

from __future__ import annotations

import queue
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ossia.agent.control import Control
from ossia.agent.models.memory import size_text
from ossia.agent.sessions.session import UserText
from ossia.cli.chat.attaching import Attaching
from ossia.cli.clean import one_line
from ossia.cli.runtime.skills import with_skill
from ossia.cli.terminal.input.typed import Typed, as_text
from ossia.cli.words import bytes_of

if TYPE_CHECKING:
    from ossia.agent.turn import Turn
    from ossia.cli.chat.owner import Owner

_ANSWER_S = 0.1


@dataclass(frozen=True, slots=True)
class Waiting(Typed):
    """A line that waits. `replaces`: the turn to replace; None: it comes after the others."""

    replaces: int | None = None


class Outbox:
    """`queue`: lines for the end of the turn; `steering`: lines that the turn under way has, but hasn't taken yet.

    `attaching` holds the attachments of the next line. Called on the loop's thread.
    """

    def __init__(self, chat: Owner) -> None:
        self._chat = chat
        self.queue: deque[Waiting] = deque()
        self.steering: deque[Waiting] = deque()
        self.attaching = Attaching(lambda: chat.settings, chat.post)

    def __bool__(self) -> bool:
        return bool(self.queue or self.steering)

    def send(self, typed: Typed, *, replaces: int | None = None) -> None:
        """Say the line now, or behind the next result of the turn under way, or after the turn.

        `replaces`: the turn to replace, with those after it.
        """
        line = Waiting(typed.shown, typed.text, typed.literal, typed.waits, typed.skill, replaces)
        if (turn := self._chat.conversation.turn) and self._may_steer(line, turn):
            self.steering.append(line)
            turn.steer(line.text)
        else:
            self.queue.append(line)
        self._chat.go_on()

    def _may_steer(self, line: Waiting, turn: Turn) -> bool:
        """True if the turn is under way and can take the line: it comes alone, after no other, and needs no browser."""
        loaded, control = self._chat.loaded, turn.control
        alone = not (line.waits or line.skill or self.queue or self.attaching.needed(line)) and line.replaces is None
        joins = loaded is not None and loaded.tools.browser_joins_for(line.text)
        return alone and not joins and control is self._chat.control and not control.stopped

    def say_next(self) -> None:
        """Say the first line of the queue. Its attachments are read before, on the worker: a page may take a while."""
        chat, line = self._chat, self.queue.popleft()
        chat.face.view.user(line.shown)
        if line.skill:
            chat.face.note(f"  the skill's text · {size_text(bytes_of(line.skill))}")
        if not self.attaching.needed(line):
            return chat.say(_said(UserText(line.text, line.text), line), replaces=line.replaces)
        chat.control = control = Control()
        workspace = chat.folder.workspace if chat.folder else None
        use = chat.use
        room = use.total_tokens - use.used_tokens - use.reserve_tokens if use else None
        chat.face.view.begin()

        def done(future: Future[UserText | None]) -> None:
            chat.control = None
            chat.face.view.end()
            message = future.result()  # a bug on the worker's thread becomes a traceback here
            if message is None or control.stopped:
                self.queue.appendleft(line)  # later lines may depend on it
                self._return(self._emptied())
            else:
                chat.say(_said(message, line), replaces=line.replaces)

        ask = partial(self._may_attach, control)
        work = chat.conversation.worker.submit(
            lambda: self.attaching.put_together(line, workspace=workspace, room_tokens=room, stop=control, ask=ask)
        )
        return work.add_done_callback(lambda future: chat.background.on_loop(lambda: done(future)))

    def _may_attach(self, control: Control, name: str, why: str) -> bool:
        """Ask about a file. Blocks, on the worker's thread, until the answer or a stop."""
        from ossia.cli.terminal.question import Question

        face, on_loop, answers = self._chat.face, self._chat.background.on_loop, queue.SimpleQueue[str]()
        question = Question(f"Attach @{name}?", why, careful=True)
        on_loop(lambda: face.ask(question, lambda key, _: answers.put(key)))
        while not control.stopped:
            with suppress(queue.Empty):
                return answers.get(timeout=_ANSWER_S) == "y"
        on_loop(face.withdraw)
        return False

    def requeue(self, turn: Turn) -> None:
        """The turn is over: the lines that it didn't take come next."""
        self.queue.extendleft(reversed(self._not_taken(turn)))
        self.steering.clear()

    def replace_none(self) -> None:
        """Another session goes on: no line replaces a turn of it."""
        self.queue = deque(replace(line, replaces=None) for line in self.queue)

    def take_back(self) -> None:
        """Return all lines to the input."""
        turn = self._chat.conversation.turn
        self._return([*(self._not_taken(turn) if turn else ()), *self._emptied()])

    def _emptied(self) -> list[Waiting]:
        lines = list(self.queue)
        self.queue.clear()
        return lines

    def _not_taken(self, turn: Turn) -> list[Waiting]:
        """Remove and return the lines not taken by the turn."""
        return [self.steering.pop() for _ in turn.control.unsaid()][::-1]

    def _return(self, lines: list[Waiting]) -> None:
        """Put the lines into the input, before the text there. The turns that they were to replace still exist.

        A plain terminal has no input: the user gets a note instead.
        """
        if not lines:
            return
        face = self._chat.face
        if face.plain:
            for line in lines:
                face.note(f"not sent: {one_line(line.shown, 200)}", "yellow")
            return
        replaces = next((line.replaces for line in lines if line.replaces is not None), None)
        text = "\n".join([*(line.shown for line in lines), *filter(None, [face.input_text])])
        face.put_into_input(text if lines[0].skill else as_text(text), replaces=replaces)


def _said(said: UserText, line: Waiting) -> UserText:
    return with_skill(said, line.skill) if line.skill else said
