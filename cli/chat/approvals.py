"""The questions about calls: may this one run?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ossia.agent.events import ApprovalAsked, Decision
from ossia.cli.runtime.approval_text import (
    arguments_to_edit,
    decision_of,
    edited_arguments,
    lasting_line,
    question_of,
    unseen,
)
from ossia.cli.visible import seen_line
from ossia.cli.words import count
from ossia.tools.approval.trust import TrustError

if TYPE_CHECKING:
    from ossia.cli.chat.owner import Owner


_HINT = "/tools trust if the files of the workspace are your own"


class Approvals:
    """Asks the user, and answers the worker."""

    def __init__(self, chat: Owner) -> None:
        self._chat = chat
        self._asked: ApprovalAsked | None = None

    def ask(self, asked: ApprovalAsked) -> None:
        """May this call run?"""
        loaded = self._chat.loaded
        assert loaded is not None  # a call runs only where it was loaded
        if self._chat.face.asks:
            self._chat.face.note("a call is asked about first: give the command of the question before again", "yellow")
        self._asked = asked
        tools = loaded.tools
        spec = tools.toolbox.by_name.get(asked.call.name)
        question = question_of(asked, spec=spec, hint=tools.hint and _HINT, workspace=tools.folder is not None)
        self._chat.face.ask(question, lambda key: self._answer(asked, key))

    def withdraw(self) -> None:
        """The call is over, or its turn: nothing is asked about it any more. Another question stays."""
        if self._asked is not None:
            self._asked = None
            self._chat.face.withdraw()

    def _answer(self, asked: ApprovalAsked, key: str) -> None:
        chat, loaded = self._chat, self._chat.loaded
        assert loaded is not None
        if key == "e":
            text, suffix = arguments_to_edit(asked)
            if hidden := unseen(text, asked.preview.language):
                warning = f"the text holds {count(hidden, 'hidden character')}, which your editor may not show"
                chat.face.note(warning, "yellow")
            chat.face.edit(text, lambda edited: self._edited(asked, edited), suffix=suffix)
            return
        self._asked, store = None, loaded.tools.store
        try:
            decision = decision_of(asked, key, store)
        except TrustError as error:  # then it holds for this session only
            chat.face.note(f"rule not stored, it holds for this session only: {error}", "yellow")
            key, decision = "s", decision_of(asked, "s", store)
        self._decide(decision)
        if line := lasting_line(asked, key):
            chat.face.note(seen_line(line))

    def _edited(self, asked: ApprovalAsked, edited: str | None) -> None:
        """The user has left their editor. About a changed call the toolbox asks again, about an unchanged one we do."""
        if self._asked is not asked:  # the turn ended meanwhile
            return
        arguments = None if edited is None else edited_arguments(asked, edited)
        if arguments is None:
            self.ask(asked)
        else:
            self._decide(Decision(asked.call.id, True, arguments=arguments))

    def _decide(self, decision: Decision) -> None:
        if turn := self._chat.conversation.turn:
            turn.answer(decision)
