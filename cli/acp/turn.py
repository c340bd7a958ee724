"""A turn followed to its end: its events go to the client, its questions come back as answers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ossia.agent.events import ApprovalAsked, Decision, Event, Progress, ToolStarted
from ossia.agent.stream.account import Account
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Tapped
from ossia.cli.acp.permission import answer_of, can_ask, question_of
from ossia.cli.acp.updates import Send, Updates
from ossia.cli.acp.waiting import Waiting
from ossia.cli.runtime.activity import Activity
from ossia.cli.runtime.writing import Writing

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.agent.conversation import Conversation
    from ossia.agent.turn import Turn

_DRAFT_LINES = 12
Ask = Callable[[Mapping[str, object], Callable[[object, bool], None]], Callable[[], None]]
"""Asks the client, as `Connection.request` does."""


def follow(turn: Turn, talk: Conversation, root: Path, *, send: Send, ask: Ask, yes: bool) -> dict[str, object]:
    """Send the events of a conversation's turn to its end; returns the response of the prompt. `root`: its folder.

    `yes` allows what a question that isn't firm asks. Raises RpcError if the turn broke, and the error of a bug.
    """
    following = _Following(turn, talk, root, send, ask, yes=yes)
    try:
        while not turn.over:
            event = turn.next()
            if event is not None and not isinstance(event, Tapped):
                following.see(event)
            following.tick()
    except BaseException:
        turn.stop()
        turn.done.exception()  # the next turn needs its end
        raise
    following.waiting.close()
    turn.result()
    return following.updates.end(following.publisher.account.result())


class _Following:
    def __init__(self, turn: Turn, talk: Conversation, root: Path, send: Send, ask: Ask, *, yes: bool) -> None:
        assert talk.model is not None and talk.tools is not None
        self._turn, self._root, self._tools, self._ask, self._yes = turn, root, talk.tools, ask, yes
        tools, states = talk.tools, list(talk.session.states)
        account = Account(talk.model.name, origin=tools.origin, stopped=lambda: turn.control.stopped, states=states)
        self.publisher = Publisher(account, lambda: tools.toolbox.by_name)
        self._writing = Writing()
        self._prefill: Activity | None = None  # while the prompt is read, or older turns are summed up
        self.waiting = Waiting(send)
        self.updates = Updates(send, root, talk.model.engine.context_tokens)

    def tick(self) -> None:
        """Send what is due. Called often."""
        self.updates.tick()
        if self._prefill:
            self.waiting.show(self._prefill.text())

    def see(self, event: Event) -> None:
        """Send one event; ask, if it is a question."""
        if isinstance(event, Progress):
            self._prefill = self._prefill or Activity()
            self._prefill.see(event)
        else:
            self._prefill = None
            self.waiting.close()
        if isinstance(event, ToolStarted | ApprovalAsked) and event.preview:
            from ossia.tools.work.apply_patch import texts_of

            self.updates.show(event.call.id, texts_of(event.preview))
        for published in self.publisher.see(event):
            self.updates.see(published)
        self._writing.see(event)
        if writing := self._writing.text():
            self.updates.write(writing, self._writing.lines(_DRAFT_LINES))
        if isinstance(event, ApprovalAsked):
            self._answer(event)

    def _answer(self, asked: ApprovalAsked) -> None:
        """Ask the client, unless `--yes` answers; a form with values to fill in is refused."""
        turn, tools = self._turn, self._tools
        if self._yes and not asked.firm:
            return turn.answer(Decision(asked.call.id, True))
        if not can_ask(asked):
            return turn.answer(Decision(asked.call.id, False, unasked=True))

        def answered(result: object, ok: bool) -> None:
            try:
                decision = answer_of(asked, result if ok else None, tools.store)
            except BaseException:  # a rule that can't be stored
                turn.answer(Decision(asked.call.id, False, unasked=True))
                raise
            if decision is None:
                turn.stop()
            else:
                turn.answer(decision)

        trust = f"ossia trust {shlex.quote(str(self._root))}" if tools.hint else ""
        call = self.updates.id_of(asked.call.id)
        question = question_of(asked, self.updates.shown(asked.call.id), call=call, trust=trust)
        forget = self._ask(question, answered)
        turn.control.on_stop(forget)
        return None
