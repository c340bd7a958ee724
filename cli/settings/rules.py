"""The rules about tools that hold for a run: of the command line, the files, the workspace, and stored answers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cli.exits import ExitError
from cli.settings.config import FOLDER_CONFIG, Resolved, config_path
from cli.settings.workspace import Folder
from harmony.builtins import TRAINED_NAMES
from tools.approval.policy import Policy
from tools.approval.rule_names import is_about
from tools.approval.rules import ACTIONS, Action, Origin, Rule, parse_rule
from tools.approval.trust import Grants
from tools.spec import ToolSpec

ACTION_WORDS = {action: word for word, action in ACTIONS.items()}
"""How an action is called in the settings and to people: `{"allow": "auto", …}`."""


def rules_of(resolved: Resolved, grants: Grants, folder: Folder | None) -> list[Rule]:
    """Every rule there is. Their order doesn't matter: the strictest one that matches holds."""
    settings = resolved.settings
    rules = [_rule("--allow", text, "allow") for text in settings.allow]
    rules += [_rule("--deny", text, "deny") for text in settings.deny]
    file, own = f"{config_path(os.environ)}: approvals", f"{FOLDER_CONFIG}: approvals"
    rules += [_rule(file, text, ACTIONS[word]) for text, word in resolved.approvals]
    rules += [_rule(own, text, ACTIONS[word], "folder") for text, word in resolved.folder_approvals]
    return [*rules, *grants.rules(workspace=folder.workspace.root if folder else None)]


def unmatched_rules(resolved: Resolved, specs: Sequence[ToolSpec]) -> list[tuple[str, str]]:
    """The rules of this command line that name no tool: a misspelled `--deny` would deny nothing."""
    settings, origins = resolved.settings, resolved.origins
    given = [("--allow", text) for text in settings.allow] + [("--deny", text) for text in settings.deny]
    named = [(flag, text) for flag, text in given if origins[flag.removeprefix("--")] == flag]
    return [(flag, text) for flag, text in named if Policy([_rule(flag, text, "deny")]).unused(specs)]


def unknown_rules_of_folder(resolved: Resolved, specs: Sequence[ToolSpec]) -> list[tuple[str, str]]:
    """The rules of a trusted folder that name no tool, neither one that is on nor a trained one."""
    own, names = f"{FOLDER_CONFIG}: approvals", [*TRAINED_NAMES, *(spec.name for spec in specs)]
    rules = [(text, _rule(own, text, "deny").name) for text, _ in resolved.folder_approvals]
    return [(own, text) for text, rule in rules if not any(is_about(rule, name) for name in names)]


def _rule(where: str, text: str, action: Action, origin: Origin = "user") -> Rule:
    try:
        return parse_rule(text, action, origin=origin)
    except ValueError as error:
        raise ExitError(f"{where}: {error}") from None
