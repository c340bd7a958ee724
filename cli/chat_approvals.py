"""The questions of a chat: may this call run? And a few of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.events import ApprovalAsked, Decision
from cli.approving import arguments_to_edit, decision_of, edited_arguments, question_of, told_of
from cli.terminal.external import EditorFailed, edit
from tools.trust import TrustError

if TYPE_CHECKING:
    from cli.chat import Chat
    from cli.terminal.question import Question


class Approvals:
    """Asks in the pane above the input, and answers the worker."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._asked: ApprovalAsked | None = None

    def ask(self, asked: ApprovalAsked) -> None:
        """May this call run?"""
        assembly = self._chat.assembly
        assert assembly is not None  # a call runs only where it was loaded
        self._asked = asked
        question = question_of(
            asked, spec=assembly.tools.toolbox.by_name.get(asked.call.name), hint=assembly.tools.hint
        )
        self._chat.question.ask(question, lambda key: self._answer(asked, key))

    def ask_user(self, question: Question, answered: Callable[[str], object]) -> None:
        """Ask something of our own, if nothing else is being asked; a call's question takes its place unanswered."""
        chat = self._chat
        if chat.question.open:
            return chat.note("answer the question above first", "yellow")

        def act(key: str) -> None:
            try:
                answered(key)
            except Exception as error:
                chat.tell(error)

        chat.question.ask(question, act)
        return chat.screen.wake()

    def withdraw(self) -> None:
        """The call is over, or its turn: nothing is asked any more."""
        self._asked = None
        self._chat.question.withdraw()

    def _answer(self, asked: ApprovalAsked, key: str) -> None:
        chat = self._chat
        assert chat.assembly is not None
        if key == "e":
            chat.screen.app.create_background_task(self._edit(asked))
            return
        store = chat.assembly.tools.store
        try:
            decision = decision_of(asked, key, store)
        except TrustError as error:  # then it holds for this session only
            chat.note(f"the rule is not stored: {error}", "yellow")
            key, decision = "s", decision_of(asked, "s", store)
        chat.worker.answer(decision)
        if told := told_of(asked, key):
            chat.note(told)

    async def _edit(self, asked: ApprovalAsked) -> None:
        """Let the user change a call in their editor; the toolbox asks again about what comes of it."""
        chat = self._chat
        text, suffix = arguments_to_edit(asked)
        try:
            edited = await edit(text, aside=chat.screen.aside, environ=chat.environ, suffix=suffix)
        except EditorFailed as failure:
            chat.note(str(failure), "yellow")
            edited = None
        arguments = None if edited is None else edited_arguments(asked, edited)
        if self._asked is not asked:  # the turn ended meanwhile
            return
        if arguments is None:
            self.ask(asked)
        else:
            chat.worker.answer(Decision(asked.call.id, True, arguments=arguments))
