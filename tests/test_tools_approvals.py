"""Rules, names and dry runs over the real tools of a workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.functions import workspace_tools
from tools.functions.shell import ShellTool
from tools.policy import Policy, Rule, parse_rule
from tools.shell_sandbox import choose
from tools.spec import ApprovalAsked, Decision, NoStop, Taint, ToolCall, ToolContext, ToolResult
from tools.toolbox import DRY_RUN, REFUSED, Toolbox
from tools.workspace import Workspace

PATCH = "*** Begin Patch\n*** Update File: a.md\n@@\n-one\n+two\n*** End Patch"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a note, a secret and a folder."""
    folder = tmp_path / "work"
    (folder / "docs").mkdir(parents=True)
    (folder / "a.md").write_text("one\n")
    (folder / ".env").write_text("KEY=1\n")
    return folder


def _toolbox(root: Path, *rules: Rule, dry_run: bool = False) -> Toolbox:
    context = ToolContext(NoStop(), Workspace(root, trusted=True), root.parent / "data", len)
    tools = [*workspace_tools(), ShellTool(confinement=choose(), home=root.parent, search_path="/usr/bin:/bin")]
    return Toolbox(tools, policy=Policy(rules), context=context, dry_run=dry_run)


def _run(
    toolbox: Toolbox, name: str, arguments: object, *, allow: bool = True, taint: frozenset[Taint] = frozenset()
) -> tuple[ToolResult, list[ApprovalAsked]]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    running = toolbox.run(ToolCall("c", name, text), stop=NoStop(), taint=taint)
    asked: list[ApprovalAsked] = []
    decision: Decision | None = None
    while True:
        try:
            event = running.send(decision)
        except StopIteration as stop:
            return stop.value, asked
        decision = None
        if isinstance(event, ApprovalAsked):
            asked.append(event)
            decision = Decision("c", allow)


def test_reading_is_free_but_for_secrets(root: Path) -> None:
    toolbox = _toolbox(root)
    for name, arguments in (
        ("functions.read_file", {"path": "a.md"}),
        ("repo_browser.print_tree", {"path": ".", "depth": "2"}),
        ("repo_browser.search", {"query": "one"}),
    ):
        result, asked = _run(toolbox, name, arguments)
        assert (result.error, asked) == (False, []), result.text
    _, asked = _run(toolbox, "functions.read_file", {"path": "./docs/../.env"})
    assert [(question.firm, question.rules) for question in asked] == [(False, ())]
    _, asked = _run(_toolbox(root, parse_rule("read_file:.env", "allow")), "read_file", {"file": ".env"})
    assert asked == []


def test_a_pattern_of_paths_is_about_where_they_lead(root: Path) -> None:
    toolbox = _toolbox(root, parse_rule("write_file:docs/**", "allow"))
    _, asked = _run(toolbox, "write_file", {"path": "docs/new.md", "content": "x\n"})
    assert (asked, (root / "docs" / "new.md").read_text()) == ([], "x\n")
    (root / "docs" / "link").symlink_to(root / "a.md")
    for path in ("docs/../a.md", "docs/link", "docs/../../outside"):
        result, asked = _run(toolbox, "write_file", {"path": path, "content": "x\n"}, allow=False)
        assert asked or result.error, path
    assert (root / "a.md").read_text() == "one\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("container.exec", {"cmd": ["apply_patch", PATCH]}),
        ("functions.shell", {"command": f"apply_patch <<'EOF'\n{PATCH}\nEOF"}),
        ("applypatch", PATCH),
        ("functions.apply_patch", {"input": PATCH}),
    ],
)
def test_a_patch_however_it_is_sent_is_asked_as_one(root: Path, name: str, arguments: object) -> None:
    """Hostile row 30."""
    toolbox = _toolbox(root, parse_rule("shell", "allow"))
    result, asked = _run(toolbox, name, arguments, allow=False)
    assert result.text == REFUSED
    assert [(question.preview.subjects, question.rules) for question in asked] == [(("a.md",), ("apply_patch:a.md",))]
    result, _ = _run(_toolbox(root), name, arguments)
    assert (result.error, (root / "a.md").read_text()) == (False, "two\n"), result.text


def test_a_tainted_turn_asks_where_a_stored_rule_allows(root: Path) -> None:
    """Hostile row 15, with real tools."""
    stored = [Rule("write_file", "allow", "a.md", "stored"), Rule("shell", "allow", None, "stored")]
    toolbox = _toolbox(root, *stored)
    for name, arguments in (("write_file", {"path": "a.md", "content": "x"}), ("shell", {"command": "rm -rf docs"})):
        result, asked = _run(toolbox, name, arguments, allow=False, taint=frozenset({"outside"}))
        assert (result.text, [question.firm for question in asked]) == (REFUSED, [True])
    assert (root / "docs").is_dir() and (root / "a.md").read_text() == "one\n"


def test_a_dry_run_changes_nothing(root: Path) -> None:
    toolbox = _toolbox(root, dry_run=True)
    written, asked = _run(toolbox, "write_file", {"path": "a.md", "content": "two\n"})
    assert written.text.startswith(DRY_RUN) and "-one\n+two" in written.text
    assert (written.brings, written.error, asked) == (frozenset({"private"}), False, [])
    ran, asked = _run(toolbox, "shell", "touch b.md")
    assert ran.text.startswith(DRY_RUN) and ran.text.endswith("\ntouch b.md")
    assert (asked, sorted(path.name for path in root.iterdir())) == ([], [".env", "a.md", "docs"])
    assert (root / "a.md").read_text() == "one\n"
    read, _ = _run(toolbox, "read_file", {"path": "a.md"})
    assert "one" in read.text
