"""/allow: the rules for calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ossia.cli.chat.commands.common import Block, Choice, CommandError, loaded
from ossia.cli.visible import seen_line
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import ACTION_WORDS, Rule, parse_rule
from ossia.tools.approval.trust import TrustError

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.tools.build import Toolset

_EDITS = "edits"
_FROM = {
    "user": "from this chat, its flags or the config",
    "stored": 'from an "always" answer',
    "folder": "from the workspace",
}


def allow(talk: Chat, face: Face, argument: str) -> None:
    """`/allow [RULE|remove RULE]`: a rule for the rest of this chat; alone: the rules in effect."""
    word, _, rest = argument.partition(" ")
    tools = loaded(talk).tools
    if argument in ("", "list"):
        return _show(face, tools)
    if word == "remove":
        return _remove(talk, face, tools, rest.strip())
    return _add(talk, face, tools, argument)


def rules(talk: Chat, prefix: str) -> Sequence[Choice]:
    """Completions of `/allow`."""
    if not prefix.startswith("remove "):
        return (("list", "the rules in effect"), ("remove", "remove a rule"))
    policy = talk.loaded.tools.policy if talk.loaded else Policy(())
    edits = [(f"remove {_EDITS}", "from an answer")] if policy.accepts_edits else []
    return [*edits, *((f"remove {rule}", _FROM[rule.origin]) for rule in policy.rules if rule.action == "allow")]


def _add(talk: Chat, face: Face, tools: Toolset, text: str) -> None:
    try:
        rule = parse_rule(text, "allow")
    except ValueError as error:
        raise CommandError(str(error)) from None
    talk.change_settings(allow=tuple(dict.fromkeys((*talk.settings.allow, str(rule)))))
    tools.policy.rules = (*tools.policy.rules, rule)
    if Policy([rule]).unused(tools.toolbox.specs):
        return face.note(f"allowed in this chat: {rule}; but no tool of that name is on", "yellow")
    return face.note(f"allowed in this chat: {rule}")


def _remove(talk: Chat, face: Face, tools: Toolset, text: str) -> None:
    if not text:
        raise CommandError("needs a rule: /allow remove RULE, as /allow lists it")
    own, policy = text in talk.settings.allow, tools.policy
    if own:
        talk.change_settings(allow=tuple(rule for rule in talk.settings.allow if rule != text))
    held = own or any(_is(rule, text) for rule in policy.rules) or (text == _EDITS and policy.accepts_edits)
    if held:
        policy.rules = tuple(rule for rule in policy.rules if not _is(rule, text))
        policy.forget()  # the answer that stored the rule also allowed it for this session, or it was "all edits"
    try:
        deleted = tools.grants.forget(text)
    except TrustError as error:
        if not held:
            raise
        return face.note(f"will ask again in this chat: {text}; it may still be stored: {error}", "yellow")
    if not held and not deleted:
        raise CommandError(f"no such rule in this chat: {text!r} (rules from the config are changed there)")
    return face.note(f"will ask again: {text}")


def _is(rule: Rule, text: str) -> bool:
    return str(rule) == text and rule.action == "allow" and rule.origin != "folder"


def _show(face: Face, tools: Toolset) -> None:
    rules, accepts_edits = tools.policy.rules, tools.policy.accepts_edits
    if not rules and not accepts_edits:
        file = "/allow repo_browser.apply_patch:docs/** files"
        return face.note(f"no rules yet: /allow container.exec:git status allows one command, {file}")
    block = Block(face, "Rules (the strictest match wins)")
    for rule in rules:
        block.row(f"  {ACTION_WORDS[rule.action]:<5}  {seen_line(str(rule))}  ({_FROM[rule.origin]})")
    if accepts_edits:
        block.row(f"  auto   {_EDITS}  (from an answer, until ossia ends)")
    return block.show()
