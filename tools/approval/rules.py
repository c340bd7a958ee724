"""The rules that users write: which calls of which tools are allowed, asked about or denied."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from ossia.tools.approval import shell_words
from ossia.tools.calls.names import BUILT_IN

Action = Literal["allow", "ask", "deny"]
Origin = Literal["user", "stored", "folder"]
"""user: written by the user (a flag, the config). stored: an answer "always". folder: from a folder the user trusts."""

ACTIONS: Mapping[str, Action] = {"auto": "allow", "ask": "ask", "never": "deny"}
"""The words of the config."""
ACTION_WORDS: Mapping[Action, str] = {action: word for word, action in ACTIONS.items()}

_NAME = re.compile(r"[A-Za-z0-9_.*?-]+")


@dataclass(frozen=True, slots=True)
class Rule:
    """A ruling on the calls that match: `Rule("container.exec", "allow", "git status*")`.

    `name` is a tool's, with or without `functions.`, with the wildcards of `fnmatch`; `browser` and `functions` stand
    for all of their tools. `pattern` is matched against the subjects of a call's preview; None: every call.
    """

    name: str
    action: Action
    pattern: str | None = None
    origin: Origin = "user"

    def __str__(self) -> str:
        """As `--allow` and `--deny` take it: `container.exec:git status*`."""
        return self.name if self.pattern is None else f"{self.name}:{self.pattern}"


def parse_rule(text: str, action: Action, *, origin: Origin = "user") -> Rule:
    """The rule in `NAME[:PATTERN]`. Raises ValueError, with a line that says what to write instead.

        parse_rule("container.exec:git status*", "allow")      →  Rule("container.exec", "allow", "git status*")
        parse_rule("browser.open:https://docs.python.org/*", "allow"), parse_rule("python", "deny")
        parse_rule("repo_browser.apply_patch:docs/**", "allow"), parse_rule("files__*", "ask")
    """
    name, colon, pattern = (part.strip() for part in text.partition(":"))
    if not _NAME.fullmatch(name):
        raise ValueError(f"must be NAME or NAME:PATTERN, such as container.exec:git status*, not {text!r}")
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


def _fault_of(name: str, pattern: str, action: Action) -> str:
    """The reason that a pattern would never do what it seems to; "" for a sound one."""
    if name in ("container.exec", "exec"):
        try:
            shell_words.pattern_words(pattern)
        except ValueError as error:
            return f"isn't a valid command pattern: {error}"
        bare = pattern.replace("*", "x").replace("?", "x")
        if action == "allow" and shell_words.words_of(bare) is None:
            return "can never allow anything: commands with ;, |, &, $, redirections or globs are always asked about"
    elif action == "allow" and ".." in pattern.split("/"):
        return "can never allow anything: paths must be relative to the workspace, without .."
    elif action == "allow" and re.fullmatch(r"[\w+.-]+://[^/?#*]+[^/?#]*\*", pattern):
        return f"would allow other hosts too: write {pattern.rstrip('*')}/*"
    return ""
