"""Rules, names and dry runs over the real tools of a workspace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule, parse_rule
from ossia.tools.calls.results import DRY_RUN, REFUSED, REFUSED_AGAIN
from ossia.tools.sandbox import choose
from ossia.tools.spec import (
    CHANGED,
    ApprovalAsked,
    ApprovalDecided,
    Decision,
    Fault,
    NoStop,
    Taint,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolResult,
    ToolStarted,
)
from ossia.tools.toolbox import Toolbox
from ossia.tools.undo.journal import Journal
from ossia.tools.work import workspace_tools
from ossia.tools.work.exec import Exec
from ossia.tools.workspace import Workspace
from tests.support.folders import rewritten

PATCH = "*** Begin Patch\n*** Update File: a.md\n@@\n-one\n+two\n*** End Patch"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a note, a secret and a folder."""
    folder = tmp_path / "work"
    (folder / "docs").mkdir(parents=True)
    (folder / "a.md").write_text("one\n")
    (folder / ".env").write_text("KEY=1\n")
    return folder


def _toolbox(root: Path, *rules: Rule, dry_run: bool = False, workspace: Workspace | None = None) -> Toolbox:
    context = ToolContext(NoStop(), workspace or Workspace(root, trusted=True), root.parent / "data", len)
    tools = [*workspace_tools(), Exec(confinement=choose(), home=root.parent, search_path="/usr/bin:/bin")]
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


OUTSIDE: frozenset[Taint] = frozenset({"outside", "private"})


def _written(root: Path, path: str, content: str) -> dict[str, str]:
    return {"patch": rewritten(root, path, content)}


def _accepting(root: Path, *rules: Rule, keeper: bool = True) -> tuple[Toolbox, list[ApprovalAsked]]:
    """A toolbox over a folder that isn't trusted, after the answer "accept edits" to the write of a.md."""
    workspace = Workspace(root, keeper=Journal(root.parent / "data", root) if keeper else None)
    toolbox = _toolbox(root, *rules, workspace=workspace)
    call = ToolCall("c", "apply_patch", json.dumps(_written(root, "a.md", "two")))
    running = toolbox.run(call, stop=NoStop(), taint=OUTSIDE)
    asked = next(running)
    assert isinstance(asked, ApprovalAsked)
    assert isinstance(running.send(Decision("c", True, "edits")), ApprovalDecided)
    list(running)
    assert (root / "a.md").read_text() == "two\n"
    return toolbox, [asked]


def test_edits_that_are_accepted_are_not_asked_about_again(root: Path) -> None:
    toolbox, asked = _accepting(root)
    assert [(one.firm, one.edits) for one in asked] == [(True, True)]
    for name, arguments in (
        ("apply_patch", _written(root, "docs/new.md", "new\n")),
        ("apply_patch", PATCH.replace("-one", "-two").replace("+two", "+three")),
        ("apply_patch", "*** Begin Patch\n*** Delete File: docs/new.md\n*** End Patch"),
    ):
        result, asked = _run(toolbox, name, arguments, taint=OUTSIDE)
        assert (result.error, asked) == (False, []), result.text
    assert (root / "a.md").read_text() == "three\n" and not (root / "docs" / "new.md").exists()


def test_accepted_edits_allow_nothing_else(root: Path) -> None:
    toolbox, _ = _accepting(
        root,
        parse_rule("repo_browser.apply_patch:docs/**", "ask"),
        parse_rule("repo_browser.apply_patch:no/**", "deny"),
    )
    for name, arguments in (
        *(("apply_patch", _written(root, one, "x")) for one in (".env", "AGENTS.md", "conftest.py", ".git/config")),
        *(("apply_patch", _written(root, one, "x")) for one in (".github/w/a.yml", "a/.venv/x", "setup.py")),
        ("apply_patch", _written(root, "docs/a.md", "x")),
        *(("apply_patch", f"*** Begin Patch\n*** Add File: {one}/b.md\n+x\n*** End Patch") for one in ("docs",)),
        ("container.exec", {"command": ["bash", "-lc", "ls"]}),
    ):
        _, asked = _run(toolbox, name, arguments, allow=False, taint=OUTSIDE)
        assert [one.edits for one in asked] == [False], arguments
    for path in ("no/a.md", "no/b.md"):
        result, asked = _run(toolbox, "apply_patch", _written(root, path, "x"), taint=OUTSIDE)
        assert result.error and asked == []


def test_edits_that_could_not_be_undone_are_not_accepted(root: Path) -> None:
    toolbox, asked = _accepting(root, keeper=False)
    assert [one.edits for one in asked] == [False]
    _, asked = _run(toolbox, "apply_patch", _written(root, "b.md", "x"), allow=False, taint=OUTSIDE)
    assert len(asked) == 1


def test_reading_is_free_but_for_secrets(root: Path) -> None:
    toolbox = _toolbox(root)
    for name, arguments in (
        ("repo_browser.open_file", {"path": "a.md"}),
        ("repo_browser.print_tree", {"path": ".", "depth": "2"}),
        ("repo_browser.search", {"query": "one"}),
    ):
        result, asked = _run(toolbox, name, arguments)
        assert (result.error, asked) == (False, []), result.text
    _, asked = _run(toolbox, "repo_browser.open_file", {"path": "./docs/../.env"})
    assert [(question.firm, question.rules) for question in asked] == [(False, ())]
    _, asked = _run(_toolbox(root, parse_rule("repo_browser.open_file:.env", "allow")), "read_file", {"file": ".env"})
    assert asked == []


def test_a_pattern_of_paths_is_about_where_they_lead(root: Path) -> None:
    toolbox = _toolbox(root, parse_rule("repo_browser.apply_patch:docs/**", "allow"))
    _, asked = _run(toolbox, "apply_patch", _written(root, "docs/new.md", "x\n"))
    assert (asked, (root / "docs" / "new.md").read_text()) == ([], "x\n")
    (root / "docs" / "link").symlink_to(root / "a.md")
    for path in ("docs/../a.md", "docs/link", "docs/../../outside"):
        result, asked = _run(toolbox, "apply_patch", _written(root, path, "x\n"), allow=False)
        assert asked or result.error, path
    assert (root / "a.md").read_text() == "one\n"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("container.exec", {"cmd": ["apply_patch", PATCH]}),
        ("container.exec", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]}),
        ("applypatch", PATCH),
        ("repo_browser.apply_patch", {"input": PATCH}),
    ],
)
def test_a_patch_however_it_is_sent_is_asked_as_one(root: Path, name: str, arguments: object) -> None:
    """Hostile row 30."""
    toolbox = _toolbox(root, parse_rule("container.exec", "allow"))
    result, asked = _run(toolbox, name, arguments, allow=False)
    assert result.text == REFUSED
    assert [(question.preview.subjects, question.rules) for question in asked] == [
        (("a.md",), ("repo_browser.apply_patch:a.md",))
    ]
    result, _ = _run(_toolbox(root), name, arguments)
    assert (result.error, (root / "a.md").read_text()) == (False, "two\n"), result.text


def test_a_tainted_turn_asks_where_a_stored_rule_allows(root: Path) -> None:
    """Hostile row 15, with real tools."""
    stored = [
        Rule("repo_browser.apply_patch", "allow", "a.md", "stored"),
        Rule("container.exec", "allow", None, "stored"),
    ]
    toolbox = _toolbox(root, *stored)
    for name, arguments in (
        ("apply_patch", _written(root, "a.md", "x")),
        ("container.exec", {"command": ["bash", "-lc", "rm -rf docs"]}),
    ):
        result, asked = _run(toolbox, name, arguments, allow=False, taint=frozenset({"outside"}))
        assert (result.text, [question.firm for question in asked]) == (REFUSED, [True])
    assert (root / "docs").is_dir() and (root / "a.md").read_text() == "one\n"


def test_a_dry_run_changes_nothing(root: Path) -> None:
    toolbox = _toolbox(root, dry_run=True)
    written, asked = _run(toolbox, "apply_patch", _written(root, "a.md", "two\n"))
    assert written.text.startswith(DRY_RUN) and "-one\n+two" in written.text
    assert (written.taints, written.error, asked) == (frozenset({"private"}), False, [])
    ran, asked = _run(toolbox, "container.exec", "touch b.md")
    assert ran.text.startswith(DRY_RUN) and ran.text.endswith("\ntouch b.md")
    assert (asked, sorted(path.name for path in root.iterdir())) == ([], [".env", "a.md", "docs"])
    assert (root / "a.md").read_text() == "one\n"
    read, _ = _run(toolbox, "read_file", {"path": "a.md"})
    assert "one" in read.text


# -- the user changes a call at its question ---------------------------------------------------------------------------

YES, NO = Decision("c", True), Decision("c", False)


def _edit(arguments: object) -> Decision:
    return Decision("c", True, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments))


def _asked_in_turn(
    toolbox: Toolbox, name: str, arguments: object, *answers: Decision | None
) -> tuple[ToolResult, list[ApprovalAsked], list[object]]:
    """The result of a call whose questions get these answers, one each; the questions, and the other events."""
    running = toolbox.run(ToolCall("c", name, json.dumps(arguments)), stop=NoStop())
    asked: list[ApprovalAsked] = []
    others: list[object] = []
    decision: Decision | None = None
    while True:
        try:
            event = running.send(decision)
        except StopIteration as stop:
            assert len(asked) == len(answers)
            return stop.value, asked, others
        decision = None
        if isinstance(event, ApprovalAsked):
            asked.append(event)
            decision = answers[len(asked) - 1]
        else:
            others.append(event)


def test_a_changed_call_is_previewed_and_asked_about_anew(root: Path) -> None:
    models, mine = _written(root, "a.md", "two\n"), _written(root, "b.md", "three\n")
    result, asked, others = _asked_in_turn(_toolbox(root), "apply_patch", models, _edit(mine), YES)
    assert [question.call.arguments for question in asked] == [json.dumps(models), json.dumps(mine)]
    assert [question.preview.subjects for question in asked] == [("a.md",), ("b.md",)]
    assert [question.arguments for question in asked] == [models, mine]
    assert "+three" in asked[1].preview.detail
    assert [path.name for path in sorted(root.iterdir())] == [".env", "a.md", "b.md", "docs"]
    assert ((root / "a.md").read_text(), (root / "b.md").read_text()) == ("one\n", "three\n")
    ran = ToolCall("c", "repo_browser.apply_patch", json.dumps(mine))
    decided, started, finished = others
    assert (decided, started) == (ApprovalDecided("c", True, "user", asked[1].reason), ToolStarted(ran))
    assert isinstance(finished, ToolFinished) and (finished.call, finished.result) == (ran, result)
    head, _, rest = result.text.partition("\n")
    assert head == f"{CHANGED} repo_browser.apply_patch {json.dumps(mine)}"
    assert "b.md" in rest and not result.error


def test_a_changed_call_is_asked_about_even_where_a_rule_allows_it(root: Path) -> None:
    toolbox = _toolbox(root, parse_rule("container.exec:echo *", "allow"))
    result, asked, _ = _asked_in_turn(
        toolbox,
        "container.exec",
        {"command": ["bash", "-lc", "rm a.md"]},
        _edit({"command": ["bash", "-lc", "echo hi"]}),
        YES,
    )
    assert [question.reason for question in asked] == ["it can change files and run code", "you changed the call"]
    assert (
        result.text.startswith(f'{CHANGED} container.exec {{"command": ["bash", "-lc", "echo hi"]}}\n')
        and "hi" in result.text
    )
    assert (root / "a.md").exists()


def test_a_changed_call_that_a_rule_denies_is_refused(root: Path) -> None:
    toolbox = _toolbox(root, parse_rule("container.exec:git push*", "deny"))
    changed = {"command": ["bash", "-lc", "git push"]}
    result, asked, others = _asked_in_turn(
        toolbox, "container.exec", {"command": ["bash", "-lc", "ls"]}, _edit(changed)
    )
    assert (len(asked), others[0]) == (1, ApprovalDecided("c", False, "policy", "the rule container.exec:git push*"))
    assert result.error and "is not allowed here" in result.text
    assert result.text.startswith(f"{CHANGED} container.exec {json.dumps(changed)}\n")
    assert not any(isinstance(event, ToolStarted) for event in others)


def test_a_fault_of_the_users_text_is_theirs_to_mend(root: Path) -> None:
    """The question stays about the call before it, and says what was wrong; the model never hears of it."""
    models = _written(root, "a.md", "two\n")
    faulty = [_edit(text) for text in ("{", "[1, 2]", {"path": "b.md"}, _written(root, "../b.md", "x"))]
    result, asked, _ = _asked_in_turn(_toolbox(root), "apply_patch", models, *faulty, YES)
    assert asked[0].fault == "" and all(question.fault for question in asked[1:])
    assert [question.rejected for question in asked] == ["", *(edit.arguments for edit in faulty)]
    assert {(question.call, question.preview) for question in asked} == {(asked[0].call, asked[0].preview)}
    assert (result.error, (root / "a.md").read_text()) == (False, "two\n")
    assert CHANGED not in result.text, "what ran is what the model wrote"


def test_a_mended_text_is_asked_about_without_the_fault(root: Path) -> None:
    edits = [_edit("{"), _edit(_written(root, "b.md", "x\n"))]
    _, asked, _ = _asked_in_turn(_toolbox(root), "apply_patch", _written(root, "a.md", "x"), *edits, YES)
    assert [bool(question.fault) for question in asked] == [False, True, False]
    assert (root / "b.md").exists()


def test_a_no_to_the_changed_call_refuses_both(root: Path) -> None:
    toolbox = _toolbox(root)
    models, mine = {"command": ["bash", "-lc", "rm a.md"]}, {"command": ["bash", "-lc", "rm .env"]}
    result, asked, others = _asked_in_turn(toolbox, "container.exec", models, _edit(mine), NO)
    assert (result, len(asked)) == (ToolResult(REFUSED, error=True, fault=Fault("refused")), 2)
    assert isinstance(others[-1], ToolFinished) and others[-1].call.arguments == json.dumps(models)
    for again in (models, mine):
        assert _asked_in_turn(toolbox, "container.exec", again)[0].text == REFUSED_AGAIN
    assert (root / "a.md").exists() and (root / ".env").exists()


def test_what_is_remembered_is_the_changed_call(root: Path) -> None:
    toolbox = _toolbox(root)
    session = Decision("c", True, "session")
    _asked_in_turn(
        toolbox,
        "container.exec",
        {"command": ["bash", "-lc", "rm a.md"]},
        _edit({"command": ["bash", "-lc", "echo hi"]}),
        session,
    )
    _asked_in_turn(toolbox, "container.exec", {"command": ["bash", "-lc", "echo hi"]})
    _asked_in_turn(toolbox, "container.exec", {"command": ["bash", "-lc", "rm a.md"]}, NO)


def test_new_arguments_are_no_agreement(root: Path) -> None:
    """Not with a no, not for another call, and not to what comes of them."""
    edit = _edit(_written(root, "b.md", "x\n"))
    for answer in (Decision("c", False, arguments=edit.arguments), Decision("d", True, arguments=edit.arguments)):
        result, _, _ = _asked_in_turn(_toolbox(root), "apply_patch", _written(root, "a.md", "y"), answer)
        assert result.text == REFUSED
    result, _, _ = _asked_in_turn(_toolbox(root), "apply_patch", _written(root, "a.md", "y"), edit, None)
    assert (result.text, (root / "b.md").exists()) == (REFUSED, False)


def test_a_command_may_become_a_patch(root: Path) -> None:
    toolbox = _toolbox(root)
    edit = _edit({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]})
    result, asked, _ = _asked_in_turn(toolbox, "container.exec", {"cmd": "ls"}, edit, YES)
    assert [question.call.name for question in asked] == ["container.exec", "repo_browser.apply_patch"]
    assert ((root / "a.md").read_text(), CHANGED in result.text) == ("two\n", True)


def test_what_a_long_text_has_become_is_cut_in_the_result(root: Path) -> None:
    edit = _edit(_written(root, "b.md", "x" * 50_000))
    result, _, _ = _asked_in_turn(_toolbox(root), "apply_patch", _written(root, "a.md", "y"), edit, YES)
    head = result.text.partition("\n[... ")[0]
    assert (root / "b.md").stat().st_size == 50_001 and len(result.text) < 8_000
    assert head.startswith(f"{CHANGED} repo_browser.apply_patch ") and "characters omitted]" in result.text
