"""The rules that users write: which calls of which tools are allowed, asked about or denied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from ossia.tools.approval import shell_words
from ossia.tools.approval.needs import NEEDS, NOTHING, listed
from ossia.tools.calls.names import BUILT_IN

if TYPE_CHECKING:
    from ossia.tools.spec import Need

Action = Literal["allow", "ask", "deny"]
Origin = Literal["user", "stored", "folder"]
"""user: written by the user (a flag, the config). stored: an answer "always". folder: from a folder the user trusts."""

ACTIONS: Mapping[str, Action] = {"auto": "allow", "ask": "ask", "never": "deny"}
"""The words of the config."""
ACTION_WORDS: Mapping[Action, str] = {action: word for word, action in ACTIONS.items()}

_NAME = re.compile(r"([A-Za-z0-9_.*?-]+)(?:\[([^\]]*)\])?")
_SHELL = "container.exec"
_NEVER = "can never allow anything: write a rule for each command in it, without ;, |, &, $, > or globs"


@dataclass(frozen=True, slots=True)
class Rule:
    """A ruling on the calls that match: `Rule("container.exec", "allow", "git status*")`.

    `name` is a tool's, with or without `functions.`, with the wildcards of `fnmatch`; `browser` and `functions` stand
    for all of their tools. `pattern` is matched against the subjects of a call's preview; None: every call.
    `gives`: the needs beyond the confinement that a command gets from it; nothing if its origin is a folder.
    """

    name: str
    action: Action
    pattern: str | None = None
    origin: Origin = "user"
    gives: frozenset[Need] = NOTHING

    def __str__(self) -> str:
        """As `--allow` and `--deny` take it: `container.exec:git status*`, `container.exec[network]:uv sync`."""
        name = f"{self.name}[{listed(self.gives)}]" if self.gives else self.name
        return name if self.pattern is None else f"{name}:{self.pattern}"


def parse_rule(text: str, action: Action, *, origin: Origin = "user") -> Rule:
    """The rule in `NAME[:PATTERN]` or `NAME[NEED,NEED]:PATTERN`. Raises ValueError with what to write instead.

        parse_rule("container.exec:git status*", "allow")      →  Rule("container.exec", "allow", "git status*")
        parse_rule("browser.open:https://docs.python.org/*", "allow"), parse_rule("python", "deny")
        parse_rule("repo_browser.apply_patch:docs/**", "allow"), parse_rule("files__*", "ask")
        parse_rule("container.exec[network]:uv sync", "allow")
    """
    name, colon, pattern = (part.strip() for part in text.partition(":"))
    found = _NAME.fullmatch(name)
    if not found:
        raise ValueError(f"must be NAME or NAME:PATTERN, such as container.exec:git status*, not {text!r}")
    name, needs = found[1], found[2]
    if needs is not None:
        return _giving(text, needs, Rule(name, action, pattern, origin))
    if not colon:
        return Rule(name, action, None, origin)
    if not pattern:
        raise ValueError(f"{text!r} has no pattern after the colon: write {name!r} to match every call")
    fault = _fault_of(name, pattern, action)
    if fault:
        raise ValueError(f"{text!r} {fault}")
    return Rule(name, action, pattern, origin)


def is_about(name: str, tool: str) -> bool:
    """True if a rule of this name denies the tool, or asks: of built-in tools, the last part (`exec`) is enough for it.

    A rule that allows must also pass `may_allow`: the last part alone could be the user's own function.
    """
    return may_allow(name, tool) or (tool in BUILT_IN and fnmatchcase(tool.rpartition(".")[2], name))


def may_allow(name: str, tool: str) -> bool:
    """True for the whole name, with or without `functions.`, and for the namespace: `browser` is all of it."""
    forms = tool, tool.removeprefix("functions."), tool.partition(".")[0]
    return any(fnmatchcase(form, name) for form in forms)


def _giving(text: str, needs: str, rule: Rule) -> Rule:
    """The rule with what it gives, `"git,network"`. Raises ValueError for a rule that may give nothing."""
    named = [need.strip() for need in needs.split(",")]
    gives = frozenset(need for need in NEEDS if need in named)
    if len(gives) != len(named):
        raise ValueError(f"{text!r}: a command may be given {', '.join(NEEDS)}, not {needs!r}")
    if rule.origin == "folder":
        raise ValueError(f"{text!r}: a folder's own rule can't give {listed(gives)}: write it into your own config")
    if rule.action != "allow" or rule.name != _SHELL:
        raise ValueError(f"{text!r}: only a rule that allows {_SHELL} can give {listed(gives)}")
    if not rule.pattern or re.search(r"[*?]", rule.pattern.split()[0]):
        raise ValueError(f"{text!r}: name the program that gets {listed(gives)}, as in 'uv sync' or 'git *'")
    fault = _fault_of(rule.name, rule.pattern, rule.action)
    fault = fault or (_NEVER if shell_words.is_whole(rule.pattern) else "")
    if fault:
        raise ValueError(f"{text!r} {fault}")
    return replace(rule, gives=gives)


def _fault_of(name: str, pattern: str, action: Action) -> str:
    """The reason that a pattern would never do what it seems to; "" for a sound one."""
    if name in ("container.exec", "exec"):
        try:
            shell_words.pattern_words(pattern)
        except ValueError as error:
            return f"isn't a valid command pattern: {error}"
        bare = pattern.replace("*", "x").replace("?", "x")
        if action == "allow" and shell_words.words_of(bare) is None and not shell_words.is_whole(pattern):
            return _NEVER
    elif action == "allow" and ".." in pattern.split("/"):
        return "can never allow anything: paths must be relative to the workspace, without .."
    elif action == "allow" and re.fullmatch(r"[\w+.-]+://[^/?#*]+[^/?#]*\*", pattern):
        return f"would allow other hosts too: write {pattern.rstrip('*')}/*"
    return ""
