"""Rulings on calls: allow, ask or deny, by rules, by a call's effects, and by the kinds of text in the prompt.

`docs/approvals.md` explains the order, and each part for a user; its table is `rule_on`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ossia.tools.approval import needs
from ossia.tools.approval.matching import (
    allowed,
    clears_caution,
    effects_of,
    is_browser,
    matchers,
    strictest,
    subjects_of,
)
from ossia.tools.approval.prefixes import prefix_of
from ossia.tools.approval.rules import Action, Rule, is_about, may_allow, parse_rule
from ossia.tools.approval.shell_words import words_of
from ossia.tools.spec import Effect, Need, Preview, Taint, ToolSpec

PLANNING = "a plan is being made: until the user says go, nothing is changed"
CAN: Mapping[Effect, str] = {
    "read": "look at things",
    "write": "change files",
    "run": "run code",
    "send": "send data away from this machine",
}
"""The effects of a call in words for people."""
BY_RULE = "the rule "
"""The beginning of the reason where a rule of the user decided."""
FROM_OUTSIDE = "the model has read text from outside"
"""The end of the reason where that is why a person must answer."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision on a call, and its reason in words for people.

    `firm`: a person must answer; `--yes` doesn't. `rules`: what "always" would store; empty: "always" isn't offered.
    `wider`: the same for any arguments, if that is offered. `lasting`: although it is firm, the answer may hold for the
    session, or always.
    """

    action: Action
    reason: str
    firm: bool = False
    rules: tuple[str, ...] = ()
    lasting: bool = False
    wider: tuple[str, ...] = ()


class Policy:
    """Rules, and what the user has allowed for this session.

    Of the rules that match, the strictest wins (deny, ask, allow). Every subject of a call must match an allowing rule.
    For a denying or asking rule any one is enough, and is matched generously.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._remembered: set[tuple[object, ...]] = set()
        self._given: dict[str, frozenset[Need]] = {}  # by command, for the session
        self.accepts_edits = False
        """For the rest of the session, every call with `is_edit` is allowed."""
        self.read_only = False
        """A plan is being made: calls may only look, whatever rules and answers say."""

    def rule_on(
        self, spec: ToolSpec, preview: Preview, arguments: object = "", *, taint: frozenset[Taint] = frozenset()
    ) -> Ruling:
        """The ruling on one call. `arguments`: the call's, parsed. `taint`: the kinds of text in the prompt."""
        if self.read_only and not _only_looks(spec, preview):
            return Ruling("deny", PLANNING)
        if self.accepts_edits and self.is_edit(spec, preview):
            return Ruling("allow", "edits are accepted in this session")
        rules = [rule for rule in self.rules if is_about(rule.name, spec.name)]
        denied, by = strictest(rules, "deny", spec, preview)
        if denied == "yes":
            return Ruling("deny", f"{BY_RULE}{by}")
        if denied == "maybe" and not self._remembers(spec, preview, arguments):
            return Ruling("ask", f"{BY_RULE}{by} may forbid it", firm=True)
        if preview.needs:
            return self._rule_on_needs(rules, spec, preview, arguments, taint)
        allowing = [rule for rule in rules if rule.action == "allow" and may_allow(rule.name, spec.name)]
        user = [rule for rule in allowing if rule.origin == "user"]
        exempt = allowed(user, spec, preview)
        firm = "" if exempt else _taint_reason(spec, preview, taint)
        warned = bool(preview.caution) and not clears_caution(user, spec, preview)
        if firm:
            return Ruling("ask", f"{preview.caution}; {firm}" if warned else firm, firm=True)
        if warned and preview.firm:
            return Ruling("ask", preview.caution, firm=True)
        if self._remembers(spec, preview, arguments):
            return Ruling("allow", "allowed for this session")
        if preview.unconfined and not exempt:
            return Ruling("ask", "it runs unconfined", firm=True)
        asked, by = strictest(rules, "ask", spec, preview)
        if asked != "no":
            return Ruling("ask", f"{BY_RULE}{by} says to ask")
        if warned:
            return Ruling("ask", preview.caution)
        if allowed(allowing, spec, preview):
            one = next((rule for rule in allowing if allowed([rule], spec, preview)), None)
            return Ruling("allow", f"{BY_RULE}{one}" if one else "rules taken together")
        ruling = _default(spec, preview)
        return replace(ruling, rules=(), wider=()) if self.read_only else ruling  # a rule would outlive the plan

    def _rule_on_needs(
        self, rules: list[Rule], spec: ToolSpec, preview: Preview, arguments: object, taint: frozenset[Taint]
    ) -> Ruling:
        """The ruling on a command that gets more than the confinement allows: no default and no `--yes` answers it.

        After text from outside a rule that the user wrote does, and no earlier answer; with private text, too, nothing.
        """
        asked, by = strictest(rules, "ask", spec, preview)
        if asked != "no":
            return Ruling("ask", f"{BY_RULE}{by} says to ask", firm=True)
        why = needs.reason(preview.needs)
        if {"outside", "private"} <= taint:
            return Ruling("ask", f"{why}; the conversation has private text, and {FROM_OUTSIDE}", firm=True)
        origins = {"user"} if "outside" in taint else {"user", "stored"}
        covering = [rule for rule in rules if rule.gives and rule.pattern and rule.origin in origins
                    and allowed([rule], spec, preview)]  # fmt: skip
        given = needs.NOTHING.union(*(rule.gives for rule in covering))
        if preview.needs <= given or "unconfined" in given:
            one = next((rule for rule in covering if rule.gives >= preview.needs or "unconfined" in rule.gives), None)
            return Ruling("allow", f"{BY_RULE}{one}" if one else "rules taken together")
        giving = suggested_rules(spec, preview)
        if "outside" in taint:
            return Ruling("ask", f"{why}; {FROM_OUTSIDE}", firm=True, rules=giving)
        if self._remembers(spec, preview, arguments):
            return Ruling("allow", "allowed for this session")
        return Ruling("ask", why, firm=True, rules=giving, lasting=True)

    def given(self, command: str) -> frozenset[Need]:
        """The needs that rules and answers for the session give a command of `container.exec` from the start."""
        found = [self._given.get(command, needs.NOTHING)]
        for rule in self.rules:
            if rule.gives and rule.pattern and rule.origin != "folder" and needs.covers(rule.pattern, command):
                found.append(needs.extra(rule.gives, rule.pattern, command))
        return needs.NOTHING.union(*found)

    def remember(self, spec: ToolSpec, preview: Preview, arguments: object = "") -> None:
        """For the rest of the session, allow what would be asked about: this exact command, or these paths.

        A call without subjects is remembered with its arguments. Denials stay, and so do questions asked because of the
        text in the prompt.
        """
        self._remembered.update(_keys(spec, preview, arguments))
        if preview.needs:
            self._given.update(dict.fromkeys(preview.subjects, preview.needs))

    def forget(self) -> None:
        """Forget what was allowed for the rest of the session: it is asked about again."""
        self._remembered.clear()
        self._given.clear()
        self.accepts_edits = False

    def is_edit(self, spec: ToolSpec, preview: Preview) -> bool:
        """True for a call that only writes plain files of the workspace, so that accepting edits may answer for it.

        Not files that run or instruct later tools, secrets or parts of ossia, nor what a rule denies or says to ask
        about.
        """
        special = preview.command or preview.caution or preview.firm or preview.own or preview.unconfined
        if special or spec.provenance != "built-in" or effects_of(spec, preview) != {"write"} or not preview.subjects:
            return False
        rules = [rule for rule in self.rules if is_about(rule.name, spec.name)]
        return all(strictest(rules, action, spec, preview)[0] == "no" for action in ("deny", "ask"))

    def _remembers(self, spec: ToolSpec, preview: Preview, arguments: object) -> bool:
        return self._remembered.issuperset(_keys(spec, preview, arguments))

    def unused(self, specs: Iterable[ToolSpec]) -> tuple[Rule, ...]:
        """The rules that do nothing with these tools: a typo, or a tool that is off."""
        names = [spec.name for spec in specs]

        def concerns(rule: Rule, name: str) -> bool:
            return may_allow(rule.name, name) if rule.action == "allow" else is_about(rule.name, name)

        return tuple(rule for rule in self.rules if not any(concerns(rule, name) for name in names))


def suggested_rules(spec: ToolSpec, preview: Preview) -> tuple[str, ...]:
    """The rules that "always" would store for a call: `("container.exec:git status",)`, `("functions.x",)`.

    Empty if a rule would not be exact (a subject with wildcards) or would allow nothing (a command that isn't
    simple, a caution, unconfined code).
    """
    if preview.caution or (preview.unconfined and not preview.needs):
        return ()
    name = spec.name.removeprefix("functions.") if spec.provenance == "built-in" else spec.name
    name += f"[{needs.listed(preview.needs)}]" if preview.needs else ""
    if not preview.subjects:
        return (name,)
    rules = tuple(f"{name}:{subject}" for subject in dict.fromkeys(subjects_of(preview)))
    return rules if all(_is_exact(rule, spec, preview) for rule in rules) else ()


def wider_rules(spec: ToolSpec, preview: Preview) -> tuple[str, ...]:
    """The rules for a command with any arguments, part by part: `("container.exec:pytest *",)`; empty without one."""
    if not preview.command or preview.needs or preview.caution or preview.unconfined:
        return ()
    parts = subjects_of(preview)
    wider = [prefix_of(words_of(part) or ()) for part in parts]
    rules = [f"{spec.name}:{wide or part}" for wide, part in zip(wider, parts, strict=True)]
    sound = all(wide or _is_exact(rule, spec, preview) for wide, rule in zip(wider, rules, strict=True))
    return tuple(dict.fromkeys(rules)) if any(wider) and sound else ()


def _is_exact(text: str, spec: ToolSpec, preview: Preview) -> bool:
    try:
        rule = parse_rule(text, "allow", origin="stored")
    except ValueError:
        return False
    assert rule.pattern is not None
    wild = any(char in rule.pattern for char in "*?") or (rule.pattern.endswith("/") and not preview.command)
    return not wild and matchers(spec, preview)[0](rule.pattern, text.partition(":")[2])


def acts(spec: ToolSpec, preview: Preview) -> bool:
    """True for a call that writes, runs code, or sends anything but a request for a page."""
    effects = effects_of(spec, preview)
    return bool(effects & {"write", "run"}) or ("send" in effects and not is_browser(spec))


def _only_looks(spec: ToolSpec, preview: Preview) -> bool:
    """True for a call that may run while a plan is made.

    A built-in tool's if it writes nothing: commands and python then run where they can't. A user's function if it says
    that it only reads; an MCP server's tool if the user's own config says so (it leaves the machine, so it sends).
    """
    effects = effects_of(spec, preview)
    if spec.provenance == "built-in":
        return "write" not in effects and not preview.unconfined
    return effects <= ({"read", "send"} if spec.provenance == "mcp" else {"read"})


def _keys(spec: ToolSpec, preview: Preview, arguments: object) -> set[tuple[object, ...]]:
    """The scope of a remembered answer: the same tool, effects, subject (left or deleted) and reason to ask."""
    what = (spec.name, preview.command, preview.inside, preview.caution, preview.unconfined, preview.needs,
            effects_of(spec, preview))  # fmt: skip
    if preview.subjects:
        return {(*what, subject, subject in preview.deletes) for subject in preview.subjects}
    return {(*what, json.dumps(arguments, sort_keys=True, default=str))}


# -- what holds without a rule -----------------------------------------------------------------------------------------


def _taint_reason(spec: ToolSpec, preview: Preview, taint: frozenset[Taint]) -> str:
    """The reason to ask that lies in the text of the prompt; "" without one.

    Text from outside alone is no reason to ask before reading the web: else no search result could be opened.
    """
    if "private" in taint and "send" in effects_of(spec, preview):
        return "the model has read private text, and this could send it out"
    return FROM_OUTSIDE if "outside" in taint and acts(spec, preview) else ""


def _default(spec: ToolSpec, preview: Preview) -> Ruling:
    effects = effects_of(spec, preview)
    if is_browser(spec) and effects <= {"read", "send"}:
        return Ruling("allow", "it reads the web")
    if spec.provenance == "user":  # they wrote it, or named it, to be called
        return Ruling("allow", f"it is your own function ({spec.source})")
    if effects <= {"read"} and spec.provenance != "mcp":
        return Ruling("allow", "it only reads" if effects else "it is confined")
    can = " and ".join(CAN[effect] for effect in CAN if effect in effects - {"read"})
    can = can or "do anything: it runs elsewhere"
    return Ruling("ask", f"it can {can}", rules=suggested_rules(spec, preview), wider=wider_rules(spec, preview))
