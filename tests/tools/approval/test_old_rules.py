"""Rules written for the tools that `container.exec` and `repo_browser` have replaced: none allows more than it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.approval.policy import Policy, parse_rule
from tools.sandbox import choose
from tools.spec import NoStop, ToolContext
from tools.work import workspace_tools
from tools.work.exec import Exec
from tools.workspace import Workspace

FILES = {"a.md": "one\n", "docs/b.md": "b\n", "docs/key.pem": "k\n", ".env": "KEY=1\n", "Makefile": "all:\n"}


def _patch(*lines: str) -> dict[str, str]:
    return {"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


ADD, UPDATE = _patch("*** Add File: docs/new.md", "+x"), _patch("*** Update File: a.md", "@@", "-one", "+x")
OLD_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read a.md": ("read_file", {"path": "a.md"}),
    "read docs/b.md": ("read_file", {"path": "docs/b.md"}),
    "read .env": ("read_file", {"path": ".env"}),
    "list docs": ("list_dir", {"path": "docs"}),
    "grep": ("grep", {"pattern": "x"}),
    "grep docs/key.pem": ("grep", {"pattern": "x", "path": "docs/key.pem"}),
    "write docs/new.md": ("write_file", {"path": "docs/new.md", "content": "x\n"}),
    "write a.md": ("write_file", {"path": "a.md", "content": "x\n"}),
    "write .env": ("write_file", {"path": ".env", "content": "x\n"}),
    "write .git/hooks/x": ("write_file", {"path": ".git/hooks/x", "content": "x\n"}),
    "write Makefile": ("write_file", {"path": "Makefile", "content": "x\n"}),
    "git status -s": ("shell", {"command": "git status -s"}),
    "git status; curl x": ("shell", {"command": "git status; curl x"}),
    "rm -rf docs": ("shell", {"command": "rm -rf docs"}),
    "add docs/new.md": ("apply_patch", ADD),
    "update a.md": ("apply_patch", UPDATE),
    "delete a.md": ("apply_patch", _patch("*** Delete File: a.md")),
    "delete docs/b.md": ("apply_patch", _patch("*** Delete File: docs/b.md")),
    "move a.md": ("apply_patch", _patch("*** Update File: a.md", "*** Move to: docs/m.md")),
}
RULES = {
    "none": "",
    "shell": "allow shell",
    "shell git": "allow shell:git status*",
    "functions.shell git": "allow functions.shell:git status*",
    "deny rm": "allow functions.shell, deny shell:rm*",
    "ask git": "allow shell, ask functions.shell:git*",
    "write": "allow write_file",
    "write docs": "allow write_file:docs/**",
    "functions.write docs": "allow functions.write_file:docs/**",
    "write all": "allow write_file:**",
    "deny write": "deny write_file",
    "ask write docs": "allow apply_patch, ask write_file:docs/**",
    "patch": "allow apply_patch",
    "functions.patch docs": "allow functions.apply_patch:docs/**",
    "both": "allow write_file:a.md, allow apply_patch:docs/**",
    "deny patch docs": "allow write_file, deny apply_patch:docs/**",
    "read secret": "allow read_file:.env",
    "deny read": "deny functions.read_file",
    "deny read docs": "deny read_file:docs/**",
    "ask list": "ask list_dir",
    "deny list": "deny functions.list_dir:docs/**",
    "deny grep": "deny grep",
    "allow grep": "allow functions.grep:docs/key.pem",
    "functions": "allow functions",
    "functions.*": "allow functions.*",
    "deny functions": "deny functions",
    "browser": "allow browser",
    "ask browser": "ask browser",
    "*browser*": "allow *browser*",
    "*": "allow *",
    "deny *": "deny *, allow shell",
    "*_file": "allow *_file",
    "deny *_file docs": "allow functions.*, deny *_file:docs/**",
    "*a*": "allow *a*",
    "stored": "stored shell:git status -s, stored write_file:a.md, stored apply_patch:docs/new.md",
    "folder": "folder shell, folder write_file, folder apply_patch",
    "hooks": "allow write_file:.git/**, allow write_file:.env",
    "tainted": "allow shell:git status*, stored write_file:a.md, stored apply_patch:docs/**",
    "edits": "ask write_file:docs/**",
    "edits deny": "deny apply_patch:a.md",
}
# -- recorded


def rulings(make_policy: Any, tools: Any, name: str, calls: Any, context: Any) -> str:
    """A letter for each call: allow, ask, firm (only a person may answer), deny."""
    policy = make_policy(name)
    policy.accepts_edits = name.startswith("edits")
    taint = frozenset({"outside"}) if name == "tainted" else frozenset()
    letters = []
    for whole, arguments in calls:
        tool = tools[whole]
        ruling = policy.rule_on(tool.spec, tool.preview(arguments, context=context), arguments, taint=taint)
        letters.append("firm"[0] if ruling.firm else {"allow": "a", "ask": "q", "deny": "d"}[ruling.action])
    return "".join(letters)


def policy_of(name: str, policy: Any, parse: Any) -> Any:
    rules = []
    for text in filter(None, RULES[name].split(", ")):
        word, _, rule = text.partition(" ")
        origin = word if word in ("stored", "folder") else "user"
        rules.append(parse(rule, "allow" if origin != "user" else word, origin=origin))
    return policy(rules)


def filled(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
