"""The words of approvals: from a call that asks to what a person reads, and from their key to a decision.

`ossia run` (`cli.oneshot.ask`) and the chat say the same. All text here is as it came: whoever shows it
makes all of it visible (`cli.visible`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ossia.agent.events import ApprovalAsked, Decision
from ossia.cli.visible import seen_line, visible
from ossia.tools.approval.needs import named
from ossia.tools.approval.policy import CAN, FROM_OUTSIDE
from ossia.tools.present import present_of

if TYPE_CHECKING:
    from ossia.cli.terminal.question import Question
    from ossia.tools.spec import ToolSpec

WORDS = {
    "y": "yes",
    "n": "no",
    "s": "this session",
    "a": "always",
    "p": "always, any arguments",
    "e": "edit",
    "w": "all edits, till I leave",
}
"""Each answer in the order in which they are offered."""
_STILL_ASKED = "what holds secrets, files that run or instruct later tools, and what a rule of yours asks about"
_ALLOW_GIT = "--allow-git, or /allow container.exec[git]:git * in the chat, for simple commands of git"
_SUBJECT_CHARS = 60


# -- what both ways of asking share ------------------------------------------------------------------------------------


def answers(asked: ApprovalAsked) -> tuple[str, ...]:
    """The answering keys: `("y", "n", "s", "a", "p")`. A firm question is asked each time, but "w" answers it."""
    lasting = asked.lasting or not asked.firm
    offered = {"s": lasting, "a": lasting and asked.rules, "p": lasting and asked.wider, "w": asked.edits}
    return ("y", "n", *(key for key, holds in offered.items() if holds))


def title_of(asked: ApprovalAsked) -> str:
    """The call in a line: `Run ls -l`."""
    return seen_line(asked.preview.summary)


def unseen(text: str, language: str = "") -> int:
    """The number of invisible characters: signs stand for them."""
    return visible(text, language)[1]


def reason_of(asked: ApprovalAsked) -> str:
    """The reason to ask, the conditions of the call, and a warning of invisible characters."""
    return "; ".join(filter(None, (asked.reason, asked.preview.conditions, _warning(asked))))


def _warning(asked: ApprovalAsked) -> str:
    preview = asked.preview
    hidden = unseen(preview.detail, preview.language) + sum(map(unseen, (preview.summary, *asked.rules)))
    return f"it holds invisible characters ({hidden})" if hidden else ""


def hint_on(asked: ApprovalAsked, hint: str) -> str:
    """The hint, if text from outside is why it is asked; it doesn't help against carrying private text out."""
    return hint if asked.firm and asked.reason.endswith(FROM_OUTSIDE) else ""


def decision_of(asked: ApprovalAsked, key: str, store: Callable[[Sequence[str]], None], reason: str = "") -> Decision:
    """The decision behind one of `answers`; "a" and "p" store the question's rules first, with `store`.

    `reason`: of a no, for the model.
    """
    if key in ("a", "p"):
        store(_rules(asked, key))
    remember: Mapping[str, Literal["session", "edits"]] = {"s": "session", "a": "session", "p": "session", "w": "edits"}
    return Decision(asked.call.id, key != "n", remember.get(key, "once"), reason=reason)


# -- the chat's --------------------------------------------------------------------------------------------------------


def question_of(
    asked: ApprovalAsked, *, spec: ToolSpec | None = None, trust: str = "", workspace: bool = True
) -> Question:
    """The question as the chat's screen shows it. `spec`: the tool's, for what it may do.

    `trust`: the command that trusts the folder, if that helps. `workspace`: there is one, which "always" is about.
    """
    from ossia.cli.terminal.question import Question

    offered = {*answers(asked), *("e" if asked.form != {} else "")}
    where = "here" if workspace else "where there is no workspace"
    return Question(
        title_of(asked),
        _each_time(asked, trust),
        asked.preview.detail,
        asked.preview.language,
        f"Your change can't be used: {asked.fault}" if asked.fault else "",
        tuple((key, word) for key, word in WORDS.items() if key in offered),
        "; ".join(f'"{key}" always allows {_allowed(asked, key)} {where}' for key in "ap" if key in offered),
        explanation(asked, spec=spec, trust=trust),
        careful=asked.firm or bool(asked.preview.caution) or bool(_warning(asked)),
        elsewhere="Ctrl-O",
        refusable=asked.form is None,
    )


def explanation(asked: ApprovalAsked, *, spec: ToolSpec | None = None, trust: str = "") -> str:
    """The reason to ask, the effects of the call, the meaning of each answer; several lines."""
    preview = asked.preview
    lines = [title_of(asked), f"Tool: {asked.call.name}.", f"Asked because: {asked.reason}."]
    if asked.form is not None:
        lines += ["", "y  yes: the server gets the values that are shown", "n  no: the server learns that you declined"]
        lines += ["e  edit: change the values, as JSON, in your editor; null: no value"] if asked.form else []
        return "\n".join(map(seen_line, lines))
    effects = preview.effects if preview.effects is not None else spec.effects if spec else frozenset()
    can = " and ".join(CAN[effect] for effect in CAN if effect in effects)
    lines += [f"It can {can}."] if can and not asked.reason.startswith("it can ") else []
    lines += [f"How it runs: {preview.conditions}."] if preview.conditions else []
    lines += ["Nothing confines it: it can do whatever you can."] if preview.unconfined else []
    lines += [f"It is about: {', '.join(preview.subjects)}"] if preview.subjects and not preview.command else []
    if asked.firm and not asked.lasting:
        but = ", only all edits" if asked.edits else ", only a rule that you wrote"
        lines.append(f"Asked each time: no earlier answer covers it{'' if preview.needs and not asked.rules else but}.")
    lines += ["`--yes` doesn't answer it."] if asked.lasting else []
    lines += [f"To be asked less: {_ALLOW_GIT}."] if preview.needs == {"git"} else []
    lines += [f"Your own files? {trust}, and you are asked less."] if hint_on(asked, trust) else []
    stored = "it runs, and is never asked about again here: {} (`ossia trust --forget RULE` undoes that)"
    meanings = {
        "y": "it runs, once",
        "n": "it doesn't run; you may type why, and the model reads that",
        "s": f"it runs, and until ossia ends {_remembered(asked)} isn't asked about",
        "a": stored.format(", ".join(asked.rules)),
        "p": stored.format(", ".join(asked.wider)),
        "w": "it runs, and until ossia ends edits of this folder's files aren't asked about, whatever the model has "
        f"read; nor is deleting one (/undo restores it); {_STILL_ASKED} still is",
        "e": "change the call in your editor; you see it again before it runs",
    }
    keys = (*answers(asked), "e")
    lines += ["", *(f"{key}  {WORDS[key]}: {meanings[key]}" for key in WORDS if key in keys)]
    return "\n".join(seen_line(line) for line in lines)


def lasting_line(asked: ApprovalAsked, key: str) -> str:
    """A line for the chat on an answer that holds for other calls, too; "" for one that doesn't."""
    if key in ("a", "p"):
        return f"always allowed: {', '.join(_rules(asked, key))} · /allow remove RULE takes it back"
    if key == "w":
        return "edits accepted until ossia ends: /undo reverts, /allow remove edits asks again"
    return f"allowed until ossia ends: {_remembered(asked)}" if key == "s" else ""


def _each_time(asked: ApprovalAsked, trust: str) -> str:
    """`reason_of`; about text from outside, with the helping command."""
    before, outside, after = f"; {asked.reason}".rpartition(f"; {FROM_OUTSIDE}")
    if not asked.firm or not outside or after:
        return reason_of(asked)
    cause = f"this folder isn't trusted. Your own files? {trust}" if trust else FROM_OUTSIDE
    each_time = f"asked each time, because {cause}"
    return "; ".join(filter(None, (before[2:], asked.preview.conditions, _warning(asked), each_time)))


def _rules(asked: ApprovalAsked, key: str) -> tuple[str, ...]:
    """The rules stored by an answer."""
    return asked.wider if key == "p" else asked.rules


def _allowed(asked: ApprovalAsked, key: str) -> str:
    """The rules: a command as it is typed, a patch by its files, any other rule as it is written."""
    present, rules = present_of(asked.call.name), _rules(asked, key)
    if asked.preview.needs:
        return f"`{', '.join(rule.partition(':')[2] for rule in rules)}` with {named(asked.preview.needs)}"
    if present.is_command or present.language == "diff":
        rules = tuple(rule.removeprefix(f"{asked.call.name}:") for rule in rules)
    return f"{'patches of ' if present.language == 'diff' else ''}{', '.join(f'`{rule}`' for rule in rules)}"


def _remembered(asked: ApprovalAsked) -> str:
    """The scope of an answer for the session: `functions.write_file on a.md`."""
    subjects = ", ".join(asked.preview.subjects)
    if asked.preview.command:
        given = f" with {named(asked.preview.needs)}" if asked.preview.needs else ""
        return f"exactly `{seen_line(subjects, _SUBJECT_CHARS)}`{given}"
    if not subjects:
        return f"{asked.call.name} with exactly these arguments"
    gone = [subject for subject in asked.preview.deletes if subject in asked.preview.subjects]
    return f"{asked.call.name} on {subjects}" + (f" (deleting {', '.join(gone)})" if gone else "")


# -- editing a call ----------------------------------------------------------------------------------------------------


def arguments_to_edit(asked: ApprovalAsked) -> tuple[str, str]:
    """The text to put before the user, and the suffix of a file for it: code, a command, a file's text; else JSON.

    If what they wrote last had a fault, they get that again.

        arguments_to_edit(…)    # ("ls -l", ".sh")
    """
    present, args = present_of(asked.call.name), asked.arguments
    if _is_json(asked):
        return asked.rejected or json.dumps(args, indent=2, ensure_ascii=False), ".json"
    if asked.rejected:
        args = asked.rejected if present.argument == "" else json.loads(asked.rejected)
    shown = present.text(args)
    return (str(args), ".txt") if shown is None else (shown, present.suffix)


def edited_arguments(asked: ApprovalAsked, text: str) -> str | None:
    """The edited text of `arguments_to_edit`, as the arguments of a call; None: nothing was changed.

    An emptied text is no change either: there is no call without arguments to be asked about. If the text ended
    with a newline, so does the new one: the editor's own was removed with it.
    """
    shown, _ = arguments_to_edit(asked)
    text = f"{text}\n" if shown.endswith("\n") and not text.endswith("\n") else text
    if not text.strip() or text == shown:
        return None
    present = present_of(asked.call.name)
    if _is_json(asked) or present.argument == "":  # code is sent as it is, not as JSON
        return text
    return json.dumps(present.edited(asked.arguments, text), ensure_ascii=False)


def _is_json(asked: ApprovalAsked) -> bool:
    """True if the arguments are edited as JSON, and not a text of theirs alone."""
    return not isinstance(asked.arguments, str) and present_of(asked.call.name).text(asked.arguments) is None
