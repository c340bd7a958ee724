"""A turn followed to its end: its events go to the client, its questions (`session/request_permission`) come back."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ossia.agent.events import ApprovalAsked, Decision, Event, Progress, ToolStarted
from ossia.agent.stream.account import Account
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Tapped
from ossia.cli.acp.updates import Send, Updates, code, content
from ossia.cli.acp.waiting import Waiting
from ossia.cli.runtime.activity import Activity
from ossia.cli.runtime.approval_text import answers, decision_of, hint_on, lasting_line, reason_of, title_of
from ossia.cli.runtime.writing import Writing
from ossia.cli.visible import seen, seen_line

if TYPE_CHECKING:
    from pathlib import Path

    from ossia.agent.conversation import Conversation
    from ossia.agent.turn import Turn

_DRAFT_LINES = 12
_REJECT = {"optionId": "n", "name": "Reject", "kind": "reject_once"}
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


# -- the question ------------------------------------------------------------------------------------------------------


def options_of(asked: ApprovalAsked) -> list[dict[str, str]]:
    """The options, by the keys of `approval_text`: lasting ones where ossia offers them, none if it is firm.

    Some clients have one button for all that lasts and take the first or the last: both allow this call alone.
    """
    names = {
        "y": "Allow",
        "s": lasting_line(asked, "s").replace("allowed until ossia ends", "Allow in this session", 1),
        "p": f"Always allow {', '.join(asked.wider)}",
        "w": "Allow all edits in this session",
        "a": f"Always allow {', '.join(asked.rules)}",
    }
    keys = [key for key in names if key in answers(asked) and (key == "y" or not asked.firm)]
    offered = [
        {"optionId": key, "name": seen_line(names[key]), "kind": "allow_once" if key == "y" else "allow_always"}
        for key in keys
    ]
    return [*offered, _REJECT]


def question_of(
    asked: ApprovalAsked, diffs: Sequence[Mapping[str, object]], *, call: str = "", trust: str = ""
) -> dict[str, object]:
    """The question: the call with its diffs, command or code, the reason to ask, and the options.

    `call`: the client's id of the call, if it is another; `trust`: the command that trusts the folder, "" if it is
    trusted.
    """
    preview = asked.preview
    shown = [code(seen(preview.detail, preview.language), preview.language)] if preview.detail and not diffs else []
    form = [code(json.dumps(asked.arguments, indent=2, ensure_ascii=False), "json")] if asked.form else []
    why = f"Asked because: {seen_line(reason_of(asked))}"
    if hint := hint_on(asked, trust):
        why += f". Your own files? {seen_line(hint)} in a terminal, and a new session here: then you are asked less."
    update = {
        "toolCallId": call or asked.call.id,
        "title": title_of(asked),
        **({"locations": [{"path": diff["path"]} for diff in diffs]} if diffs else {}),
        "content": [*diffs, *shown, *form, content(why)],
    }
    return {"toolCall": update, "options": options_of(asked)}


def can_ask(asked: ApprovalAsked) -> bool:
    """False for a form with values to fill in: the stable protocol has no way to."""
    return not asked.form or (isinstance(asked.arguments, Mapping) and None not in asked.arguments.values())


def answer_of(asked: ApprovalAsked, answer: object, store: Callable[[Sequence[str]], None]) -> Decision | None:
    """The decision behind the client's answer; None: the prompt was cancelled.

    Whatever isn't one of the options offered is a refusal.
    """
    outcome: Any = answer.get("outcome") if isinstance(answer, Mapping) else None
    outcome = outcome if isinstance(outcome, Mapping) else {}
    if outcome.get("outcome") == "cancelled":
        return None
    key = outcome.get("optionId") if outcome.get("outcome") == "selected" else None
    offered = any(key == one["optionId"] for one in options_of(asked))
    if offered and key == "y" and asked.form:
        return Decision(asked.call.id, True, arguments=json.dumps(asked.arguments))
    return decision_of(asked, str(key), store) if offered else Decision(asked.call.id, False, unasked=True)
