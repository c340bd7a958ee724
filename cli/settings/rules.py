"""The rules about tools, from the flags, the config file and a trusted folder's own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ossia.cli.exits import ExitError
from ossia.cli.settings.config import FOLDER_CONFIG, Resolved, config_path
from ossia.cli.settings.table import Settings
from ossia.tools.approval.rules import ACTIONS, Action, Origin, Rule, is_about, parse_rule
from ossia.tools.calls.names import BUILT_IN

if TYPE_CHECKING:
    from ossia.tools.spec import ToolSpec


def rules_of(resolved: Resolved) -> tuple[Rule, ...]:
    """The rules of the settings. Their order doesn't matter: the strictest one that matches holds."""
    settings = resolved.settings
    rules = [_rule(where, text, action) for where, text, action in _given(settings)]
    file, own = f"{config_path(os.environ)}: approvals", f"{FOLDER_CONFIG}: approvals"
    rules += [_rule(file, text, ACTIONS[word]) for text, word in resolved.approvals]
    rules += [_rule(own, text, ACTIONS[word], "folder") for text, word in resolved.folder_approvals]
    return tuple(rules)


def unmatched_rules(resolved: Resolved, specs: Sequence[ToolSpec]) -> list[str]:
    """Warnings about rules that name no tool: a misspelled `--deny` would deny nothing.

    Of the rules in files only those that are to hold something back, unless they are about a tool that isn't on in
    every run: a built-in one, one of an MCP server (`files__read`), or any if the command line chooses the tools.
    """
    from ossia.tools.approval.policy import Policy  # 20 ms that showing the settings needn't take

    settings, origins = resolved.settings, resolved.origins
    given = [one for one in _given(settings) if origins[one[0].removeprefix("--").replace("-", "_")] == one[0]]
    if resolved.only is None and not any(origins.get(key, "").startswith("--") for key in ("tools", "no_tools")):
        given += [("[approvals]", text, ACTIONS[word]) for text, word in resolved.approvals if _holds_back(text, word)]
    rules = [(f"{where} {text!r}", _rule(where, text, action)) for where, text, action in given]
    return [f"{what}: no tool of that name is on{_meant(rule, specs)}" for what, rule in rules
            if Policy([rule]).unused(specs)]  # fmt: skip


def _given(settings: Settings) -> list[tuple[str, str, Action]]:
    """The rules of flags and settings: the flag, the rule and its action."""
    given: list[tuple[str, str, Action]] = [("--allow", text, "allow") for text in settings.allow]
    given += [("--allow-network", f"container.exec[network]:{text}", "allow") for text in settings.allow_network]
    given += [("--allow-git", "container.exec[git]:git *", "allow")] if settings.allow_git else []
    return given + [("--deny", text, "deny") for text in settings.deny]


def _holds_back(text: str, word: str) -> bool:
    name = text.partition(":")[0].strip()
    return word != "auto" and "__" not in name and not any(is_about(name, tool) for tool in BUILT_IN)


def _meant(rule: Rule, specs: Sequence[ToolSpec]) -> str:
    """To allow, the last part of a name isn't enough."""
    names = [spec.name for spec in specs if is_about(rule.name, spec.name)]
    return f": did you mean {' or '.join(names)}?" if names else ""


def unknown_rules_of_folder(resolved: Resolved, specs: Sequence[ToolSpec]) -> list[tuple[str, str]]:
    """The rules of a trusted folder that name no tool, neither one that is on nor a trained one."""
    own, names = f"{FOLDER_CONFIG}: approvals", [*BUILT_IN, *(spec.name for spec in specs)]
    rules = [(text, _rule(own, text, "deny").name) for text, _ in resolved.folder_approvals]
    return [(own, text) for text, rule in rules if not any(is_about(rule, name) for name in names)]


def _rule(where: str, text: str, action: Action, origin: Origin = "user") -> Rule:
    try:
        return parse_rule(text, action, origin=origin)
    except ValueError as error:
        raise ExitError(f"{where}: {error}") from None
