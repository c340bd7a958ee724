"""Rules written for the tools that `container.exec` and `repo_browser` have replaced: none allows more than it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule, parse_rule
from ossia.tools.sandbox import choose
from ossia.tools.spec import NoStop, Preview, Taint, Tool, ToolContext, ToolSpec
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace

Calls = Sequence[tuple[str, dict[str, Any]]]
FILES = {"a.md": "one\n", "docs/b.md": "b\n", "docs/key.pem": "k\n", "prod.env": "KEY=1\n", "Makefile": "all:\n"}


def _patch(*lines: str) -> dict[str, str]:
    return {"patch": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


ADD, UPDATE = _patch("*** Add File: docs/new.md", "+x"), _patch("*** Update File: a.md", "@@", "-one", "+x")
OLD_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read a.md": ("read_file", {"path": "a.md"}),
    "read docs/b.md": ("read_file", {"path": "docs/b.md"}),
    "read prod.env": ("read_file", {"path": "prod.env"}),
    "list docs": ("list_dir", {"path": "docs"}),
    "grep": ("grep", {"pattern": "x"}),
    "grep docs/key.pem": ("grep", {"pattern": "x", "path": "docs/key.pem"}),
    "write docs/new.md": ("write_file", {"path": "docs/new.md", "content": "x\n"}),
    "write a.md": ("write_file", {"path": "a.md", "content": "x\n"}),
    "write prod.env": ("write_file", {"path": "prod.env", "content": "x\n"}),
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
    "read secret": "allow read_file:prod.env",
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
    "hooks": "allow write_file:.git/**, allow write_file:prod.env",
    "tainted": "allow shell:git status*, stored write_file:a.md, stored apply_patch:docs/**",
    "edits": "ask write_file:docs/**",
    "edits deny": "deny apply_patch:a.md",
}


def rulings(policy: Policy, name: str, tools: Mapping[str, Tool], calls: Calls, context: ToolContext) -> str:
    """A letter for each call: allow, question, firm (only a person may answer it), deny."""
    policy.accepts_edits = name.startswith("edits")
    taint: frozenset[Taint] = frozenset({"outside"}) if name == "tainted" else frozenset()
    letters = []
    for whole, arguments in calls:
        tool = tools[whole]
        ruling = policy.rule_on(tool.spec, tool.preview(arguments, context=context), arguments, taint=taint)
        letters.append("f" if ruling.firm else {"allow": "a", "ask": "q", "deny": "d"}[ruling.action])
    return "".join(letters)


def policy_of(name: str) -> Policy:
    rules: list[Rule] = []
    for text in filter(None, RULES[name].split(", ")):
        word, _, rule = text.partition(" ")
        if word in ("stored", "folder"):
            rules.append(parse_rule(rule, "allow", origin="stored" if word == "stored" else "folder"))
        else:
            rules.append(parse_rule(rule, {"allow": "allow", "ask": "ask", "deny": "deny"}[word]))  # type: ignore[arg-type]
    return Policy(rules)


def filled(root: Path) -> Path:
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def _add(path: str) -> tuple[str, dict[str, Any]]:
    return "repo_browser.apply_patch", _patch(f"*** Add File: {path}", "+x")


def _update(path: str, old: str) -> tuple[str, dict[str, Any]]:
    return "repo_browser.apply_patch", _patch(f"*** Update File: {path}", "@@", f"-{old}", "+x")


NEW_CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "read a.md": ("repo_browser.open_file", {"path": "a.md"}),
    "read docs/b.md": ("repo_browser.open_file", {"path": "docs/b.md"}),
    "read prod.env": ("repo_browser.open_file", {"path": "prod.env"}),
    "list docs": ("repo_browser.list_dir", {"path": "docs"}),
    "grep": ("repo_browser.search", {"query": "x", "path": ""}),
    "grep docs/key.pem": ("repo_browser.search", {"query": "x", "path": "docs/key.pem"}),
    "write docs/new.md": _add("docs/new.md"),
    "write a.md": _update("a.md", "one"),
    "write prod.env": _update("prod.env", "KEY=1"),
    "write .git/hooks/x": _add(".git/hooks/x"),
    "write Makefile": _update("Makefile", "all:"),
    **{name: ("container.exec", {"command": ["bash", "-lc", arguments["command"]]})
       for name, (tool, arguments) in OLD_CALLS.items() if tool == "shell"},
    **{name: ("repo_browser.apply_patch", arguments)
       for name, (tool, arguments) in OLD_CALLS.items() if tool == "apply_patch"},
}  # fmt: skip
SAME = {"write docs/new.md": "add docs/new.md", "write a.md": "update a.md"}
"""Two functions did the same: a rule that allowed either one allows it, and no more than the looser of both rulings."""

STRICTER = {"deny write": "delete a.md, delete docs/b.md, move a.md", "deny *_file docs": "delete docs/b.md, move a.md",
            "ask write docs": "delete docs/b.md, move a.md"}  # fmt: skip
"""Whoever forbids writing a file, or wants to be asked, means deleting it and moving one there, too."""

BEFORE = {
    "none": "aaqaaqqqqfqqqqqqqqq",
    "shell": "aaqaaqqqqfqaaaqqqqq",
    "shell git": "aaqaaqqqqfqaqqqqqqq",
    "functions.shell git": "aaqaaqqqqfqaqqqqqqq",
    "deny rm": "aaqaaqqqqfqafdqqqqq",
    "ask git": "aaqaaqqqqfqqqaqqqqq",
    "write": "aaqaaqaaqfqqqqqqqqq",
    "write docs": "aaqaaqaqqfqqqqqqqqq",
    "functions.write docs": "aaqaaqaqqfqqqqqqqqq",
    "write all": "aaqaaqaaqfaqqqqqqqq",
    "deny write": "aaqaaqdddddqqqqqqqq",
    "ask write docs": "aaqaaqqqqfqqqqaaaaa",
    "patch": "aaqaaqqqqfqqqqaaaaa",
    "functions.patch docs": "aaqaaqqqqfqqqqaqqaq",
    "both": "aaqaaqqaqfqqqqaqqaq",
    "deny patch docs": "aaqaaqaaqfqqqqdqqdd",
    "read secret": "aaaaaqqqqfqqqqqqqqq",
    "deny read": "dddaaqqqqfqqqqqqqqq",
    "deny read docs": "adqaaqqqqfqqqqqqqqq",
    "ask list": "aaqqaqqqqfqqqqqqqqq",
    "deny list": "aaqdaqqqqfqqqqqqqqq",
    "deny grep": "aaqaddqqqfqqqqqqqqq",
    "allow grep": "aaqaaaqqqfqqqqqqqqq",
    "functions": "aaqaaqaaqfqaaaaaaaa",
    "functions.*": "aaqaaqaaqfqaaaaaaaa",
    "deny functions": "ddddddddddddddddddd",
    "browser": "aaqaaqqqqfqqqqqqqqq",
    "ask browser": "aaqaaqqqqfqqqqqqqqq",
    "*browser*": "aaqaaqqqqfqqqqqqqqq",
    "*": "aaqaaqaaqfqaaaaaaaa",
    "deny *": "ddddddddddddddddddd",
    "*_file": "aaqaaqaaqfqqqqqqqqq",
    "deny *_file docs": "adqaaqdaqfqaaaaaaaa",
    "*a*": "aaqaaqqqqfqqqqaaaaa",
    "stored": "aaqaaqqaqfqaqqaqqqq",
    "folder": "aaqaaqaaqfqaaaaaaaa",
    "hooks": "aaqaaqqqaaqqqqqqqqq",
    "tainted": "aaqaaqfffffafffffff",
    "edits": "aaqaaqqaqfqqqqqaaqq",
    "edits deny": "aaqaaqaqqfqqqqaddad",
}
"""What the policy ruled on each of the old calls, in their order, when those functions were there (f524794)."""


@pytest.mark.parametrize("name", RULES)
def test_no_old_rule_allows_more_than_it_did(name: str, tmp_path: Path) -> None:
    root = filled(tmp_path.resolve() / "w")
    tools = {tool.spec.name: tool for tool in (*workspace_tools(), Exec(confinement=choose(), home=tmp_path))}
    context = ToolContext(NoStop(), Workspace(root, trusted=True), tmp_path / "data", len)
    policy = policy_of(name)
    now = rulings(policy, name, tools, [NEW_CALLS[call] for call in OLD_CALLS], context)
    before = dict(zip(OLD_CALLS, BEFORE[name], strict=True))
    for one, other in SAME.items():
        before[one] = before[other] = before[one] + before[other]
    stricter = STRICTER.get(name, "").split(", ")
    for call, letter in zip(OLD_CALLS, now, strict=True):
        assert "aqfd".index(letter) >= min(map("aqfd".index, before[call])), call
        assert (letter not in before[call]) == (call in stricter), call
    trees = [("repo_browser.print_tree", {"path": "docs", "depth": 2})]
    assert rulings(policy, name, tools, trees, context) == now[list(OLD_CALLS).index("list docs")]


def test_old_rules_go_on_matching_a_users_function_of_that_name() -> None:
    spec = ToolSpec("functions.read_file", "", effects=frozenset({"write"}), provenance="user")
    for text in ("read_file", "functions.read_file", "*_file"):
        assert Policy([parse_rule(text, "deny")]).rule_on(spec, Preview("read")).action == "deny"
    for text in ("repo_browser.open_file", "repo_browser"):
        assert Policy([parse_rule(text, "deny")]).rule_on(spec, Preview("read")).action == "allow"
