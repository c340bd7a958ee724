"""/allow: which calls aren't asked about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.chat_commands.common import Block, Choice, CommandError
from cli.tools_list import WORDS
from tools.policy import Policy, Rule, parse_rule

if TYPE_CHECKING:
    from cli.chat import Chat

_FROM = {"user": "of this chat, its command line or the config", "stored": "an always", "folder": "of the workspace"}


def allow(chat: Chat, argument: str) -> None:
    """`/allow [RULE|remove RULE]`: a rule for the rest of this chat, at once; alone: those that hold."""
    word, _, rest = argument.partition(" ")
    if argument in ("", "list"):
        return _show(chat)
    if word == "remove":
        return _remove(chat, rest.strip())
    return _add(chat, argument)


def rules(chat: Chat, prefix: str) -> Sequence[Choice]:
    """What `/allow` can be completed with."""
    if not prefix.startswith("remove "):
        return (("list", "the rules that hold"), ("remove", "take a rule back"))
    policy = chat.assembly.tools.policy.rules if chat.assembly else ()
    return [(f"remove {rule}", _FROM[rule.origin]) for rule in policy if rule.action == "allow"]


def _add(chat: Chat, text: str) -> None:
    try:
        rule = parse_rule(text, "allow")
    except ValueError as error:
        raise CommandError(str(error)) from None
    chat.change_settings(allow=tuple(dict.fromkeys((*chat.settings.allow, str(rule)))))
    if chat.assembly:
        tools = chat.assembly.tools
        tools.policy.rules = (*tools.policy.rules, rule)
        if Policy([rule]).unused(tools.toolbox.specs):
            return chat.note(f"allowed in this chat: {rule}; but no tool of that name is on", "yellow")
    return chat.note(f"allowed in this chat: {rule}")


def _remove(chat: Chat, text: str) -> None:
    if not text:
        raise CommandError("expected a rule: /allow remove RULE, as /allow lists them")
    own = text in chat.settings.allow
    if own:
        chat.change_settings(allow=tuple(rule for rule in chat.settings.allow if rule != text))
    forgotten = chat.assembly is not None and chat.assembly.tools.grants.forget(text)
    if not own and not forgotten:
        raise CommandError(f"no such rule is of this chat or an always: {text!r} (the config's are changed there)")
    if chat.assembly:
        policy = chat.assembly.tools.policy
        policy.rules = tuple(rule for rule in policy.rules if not _is(rule, text))
        policy.forget()  # the answer that stored it holds for this session, too
    chat.note(f"asked about again: {text}")


def _is(rule: Rule, text: str) -> bool:
    return str(rule) == text and rule.action == "allow" and rule.origin != "folder"


def _show(chat: Chat) -> None:
    rules = chat.assembly.tools.policy.rules if chat.assembly else ()
    if not rules:
        return chat.note("no rule holds: /allow shell:git status allows one command, /allow write_file:docs/** files")
    block = Block(chat, "Rules (the strictest that matches holds)")
    for rule in rules:
        block.row(f"  {WORDS[rule.action]:<5}  {rule}  ({_FROM[rule.origin]})")
    return block.show()
