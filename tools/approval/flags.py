"""The flags that allow a call, for whoever was refused it since nobody could be asked."""

from __future__ import annotations

import shlex

from ossia.tools.approval.needs import covers
from ossia.tools.approval.policy import BY_RULE
from ossia.tools.spec import ApprovalAsked

_SHOWN_RULES = 3


def flags_for(asked: ApprovalAsked) -> str:
    """The flags that would allow exactly this call, or else its tool: `"--allow 'container.exec:make test'"`.

    A call with a caution needs a pattern. A rule that says to ask is stricter than any that allows: there it is the
    answer to the question. "": no flag allows it.
    """
    if asked.reason.startswith(BY_RULE):
        return "" if asked.firm else "--yes"
    if asked.preview.needs:
        return " ".join(map(_giving, asked.rules))
    name = asked.call.name.removeprefix("functions.")
    careful = bool(asked.preview.caution)
    rules = asked.rules or tuple(f"{name}:{subject}" for subject in asked.preview.subjects if careful)
    if 0 < len(rules) <= _SHOWN_RULES and not any(char in rule for rule in rules for char in "*?"):
        return " ".join(f"--allow {_quoted(rule)}" for rule in rules)
    return f"--allow {f'{name}:PATTERN' if careful else name}"


def _giving(rule: str) -> str:
    """The flag for a rule that gives a command what it needs; one for git's folder would hold for a single message."""
    name, _, command = rule.partition(":")
    if name == "container.exec[git]" and covers("git *", command):
        return "--allow-git"
    return f"--allow-network {_quoted(command)}" if name == "container.exec[network]" else f"--allow {_quoted(rule)}"


def _quoted(rule: str) -> str:
    return shlex.quote(rule) if "'" in rule else f"'{rule}'"
