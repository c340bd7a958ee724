"""Who may do what: allow, ask or deny, by a tool's name and effects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from tools.spec import ToolSpec

Action = Literal["allow", "ask", "deny"]
_STRICTEST = ("deny", "ask", "allow")


@dataclass(frozen=True, slots=True)
class Rule:
    """`Rule("functions.*", "ask")`: `pattern` is matched with `fnmatch` against the tool's whole name."""

    pattern: str
    action: Action


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a policy says of a call, and why, in words for people."""

    action: Action
    reason: str


class Policy:
    """Rules, and what the user has allowed for this session.

    Of the rules that match, the strictest holds (deny, ask, allow). With none, a tool that only reads is allowed and
    every other one asks.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self._rules = tuple(rules)
        self._remembered: set[tuple[str, str]] = set()

    def rule_on(self, spec: ToolSpec, arguments: str) -> Ruling:
        """The ruling on one call; `arguments` is the text of the call."""
        actions = {rule.action for rule in self._rules if fnmatchcase(spec.name, rule.pattern)}
        for action in _STRICTEST:
            if action in actions:
                if action == "ask" and (spec.name, arguments) in self._remembered:
                    return Ruling("allow", "allowed for this session")
                return Ruling(action, f"a rule for {spec.name}")
        if spec.effects <= {"read"}:
            return Ruling("allow", "it only reads")
        if (spec.name, arguments) in self._remembered:
            return Ruling("allow", "allowed for this session")
        return Ruling("ask", "it can " + " and ".join(sorted(spec.effects - {"read"})))

    def remember(self, spec: ToolSpec, arguments: str) -> None:
        """Allow exactly this call for the rest of the session, where it would ask. A denial stays a denial."""
        self._remembered.add((spec.name, arguments))
