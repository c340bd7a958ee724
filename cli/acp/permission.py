"""`session/request_permission`: the client's user is asked whether a call may run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ossia.agent.events import ApprovalAsked, Decision
from ossia.cli.acp.updates import code, content
from ossia.cli.runtime.approval_text import answers, decision_of, hint_on, lasting_line, reason_of, title_of
from ossia.cli.visible import seen, seen_line

_REJECT = {"optionId": "n", "name": "Reject", "kind": "reject_once"}


def options_of(asked: ApprovalAsked) -> list[dict[str, str]]:
    """The options, by the keys of `approval_text`: lasting ones where ossia offers them, none if it is firm.

    Some clients have one button for all that lasts and take the first or the last: both allow this call alone.
    """
    names = {
        "y": "Allow",
        "s": lasting_line(asked, "s").replace("allowed", "Allow", 1),
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
