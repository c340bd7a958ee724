"""The answers of `approve` to the questions of a turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ossia.agent.events import ApprovalAsked, Decision
from ossia.api.host import LOG
from ossia.errors import ArgumentError

if TYPE_CHECKING:
    from ossia.agent.stream.events import Approval

Answer = bool | str | Mapping[str, object]
Approve = Callable[["Approval"], Answer]
_MAX_CHANGES = 8  # of one call: a function that changes whatever it is asked would be asked for ever
_EXPECTED = "approve: must return True, False, a reason (text) or changed arguments (a dict)"
_NEEDS_A_PERSON = "only a person may allow that: Agent(answers_for_a_person=True) if one answers"


class Approver:
    """Answers the questions of one turn by the program's `approve`; None: nobody can be asked, so all are refused.

    `for_a_person`: a person is behind `approve`, which may therefore allow firm questions, too.
    """

    def __init__(self, approve: Approve | None, *, for_a_person: bool) -> None:
        self._approve, self._for_a_person = approve, for_a_person
        self._call, self._changes = "", 0

    def decide(self, asked: ApprovalAsked, question: Approval) -> Decision:
        """The decision. Raises ArgumentError for any other answer, and whatever `approve` raises."""
        if self._approve is None:
            return _unasked(asked, "approve isn't given")
        answer = self._approve(question)
        if not isinstance(answer, bool | str | Mapping):
            raise ArgumentError(f"{_EXPECTED}, not {answer!r:.80}")
        if isinstance(answer, str) or answer is False:
            return Decision(asked.call.id, False, reason=answer or "")
        values = asked.arguments if answer is True else _in_form(answer, asked.arguments)
        if asked.form is None and values != asked.arguments:
            return self._changed(asked, values)
        if asked.firm and not self._for_a_person:
            return _unasked(asked, _NEEDS_A_PERSON)
        return Decision(asked.call.id, True, arguments=None if asked.form is None else json.dumps(values))

    def _changed(self, asked: ApprovalAsked, values: object) -> Decision:
        """The call with other arguments: it is previewed, then asked about again."""
        self._changes = self._changes + 1 if asked.call.id == self._call else 1
        self._call = asked.call.id
        if self._changes > _MAX_CHANGES:
            raise ArgumentError(f"approve: has changed one call {_MAX_CHANGES} times: return True once it is right")
        try:
            written = values if isinstance(values, str) else json.dumps(values)
        except (TypeError, ValueError) as fault:
            raise ArgumentError(f"{_EXPECTED}, as JSON has them: {fault}") from None
        return Decision(asked.call.id, True, arguments=written)


def _in_form(answer: Mapping[str, object], before: object) -> object:
    """The arguments as the tool takes them: of `{"code": "print(1)"}` the text, for a tool that takes a text."""
    if isinstance(before, str) and len(answer) == 1 and isinstance(text := next(iter(answer.values())), str):
        return text
    return dict(answer)


def _unasked(asked: ApprovalAsked, why: str) -> Decision:
    LOG.warning("%s was refused: %s, and %s", asked.call.name, asked.reason, why)
    return Decision(asked.call.id, False, unasked=True)
