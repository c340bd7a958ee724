"""Matches rules with a call: which allow all of it, which may be about a part of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ossia.tools.approval import needs, sensitive, shell_words, wildcards
from ossia.tools.approval.autorun import part_of
from ossia.tools.approval.rules import Action, Rule
from ossia.tools.approval.wildcards import Match
from ossia.tools.spec import Effect, Preview, ToolSpec


def matchers(spec: ToolSpec, preview: Preview) -> tuple[Callable[[str, str], bool], Callable[[str, str], Match]]:
    """The functions that match a call's subjects: to allow, and to deny or ask."""
    if preview.command:
        return shell_words.command_allowed, shell_words.command_denied
    if is_browser(spec) or any("://" in subject for subject in preview.subjects):
        return wildcards.url_allowed, wildcards.url_denied
    return wildcards.path_allowed, partial(wildcards.path_denied, inside=preview.inside)


def allowed(rules: list[Rule], spec: ToolSpec, preview: Preview) -> bool:
    """True if these rules, taken together, allow every subject."""
    if not preview.subjects:
        return any(rule.pattern is None for rule in rules)
    matches, _ = matchers(spec, preview)

    def allows(rule: Rule, subject: str) -> bool:
        return rule.pattern is None or _safely(needs.covers if rule.gives else matches, rule.pattern, subject)

    wholes = dict.fromkeys((tuple(preview.subjects), tuple(subjects_of(preview))))  # a command by itself, by its parts
    return any(all(any(allows(rule, subject) for rule in rules) for subject in subjects) for subjects in wholes)


def subjects_of(preview: Preview) -> Sequence[str]:
    """The subjects for allowing rules; of a longer command its parts, unless it needs more."""
    if not preview.command or preview.needs:
        return preview.subjects
    return [part for subject in preview.subjects for part in shell_words.parts_of(subject) or (subject,)]


def clears_caution(rules: list[Rule], spec: ToolSpec, preview: Preview) -> bool:
    """True if these rules are meant for the subject of the caution: for a secret or `.git`, `**` isn't, `.git/**` is.

    What is firm for a reason other than its name (a file of a bare repository) must be named by its whole path. Parts
    of ossia itself must match a pattern that begins with a folder's or a file's name: `tools/**`.
    """
    patterned = [rule for rule in rules if rule.pattern is not None]
    warned = [subject for subject in preview.subjects if sensitive.must_be_named(subject)]
    if preview.firm and not any(map(part_of, preview.subjects)):
        warned = [subject for subject in preview.subjects if subject not in preview.own]
    naming = [rule for rule in patterned if rule.pattern in warned or sensitive.must_be_named(rule.pattern or "")]
    placed = [rule for rule in patterned if rule.pattern and rule.pattern[0] not in "*?["]
    return allowed(patterned, spec, preview) and all(
        allowed(rules, spec, replace(preview, subjects=(subject,)))
        for rules, subjects in ((naming, warned), (placed, preview.own))
        for subject in subjects
    )


def _safely(matches: Callable[[str, str], bool], pattern: str, subject: str) -> bool:
    try:
        return matches(pattern, subject)
    except ValueError:  # a pattern of another kind, from a rule whose name has wildcards
        return False


def strictest(rules: list[Rule], action: Action, spec: ToolSpec, preview: Preview) -> tuple[Match, str]:
    """The best match of a rule of this action (deny or ask) with the call, and the rule."""
    _, matches = matchers(spec, preview)
    best: tuple[Match, str] = ("no", "")
    for rule in (rule for rule in rules if rule.action == action):
        if rule.pattern is None:
            return "yes", str(rule)
        found: set[Match] = set() if preview.subjects else {"maybe"}  # with nothing to match it must not be ignored
        for subject in preview.subjects:
            try:
                found.add(matches(rule.pattern, subject))
            except ValueError:
                found.add("maybe")
        if "yes" in found:
            return "yes", str(rule)
        if "maybe" in found:
            best = "maybe", str(rule)
    return best


def is_browser(spec: ToolSpec) -> bool:
    return spec.provenance == "built-in" and spec.name.startswith("browser.")


def effects_of(spec: ToolSpec, preview: Preview) -> frozenset[Effect]:
    """The effects of this call; code that declares none can do anything."""
    effects = spec.effects if preview.effects is None else preview.effects
    return effects or (frozenset() if spec.provenance == "built-in" else frozenset({"run"}))
