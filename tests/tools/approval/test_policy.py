"""The policy: rules and their patterns, what holds without one, and what stands in the prompt."""

from __future__ import annotations

import random
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ossia.cli.settings.config import Resolved, flat_rules
from ossia.cli.settings.rules import rules_of
from ossia.cli.settings.table import Settings
from ossia.tools import sandbox
from ossia.tools.approval.policy import FROM_OUTSIDE, Policy, Ruling, suggested_rules, wider_rules
from ossia.tools.approval.rules import ACTIONS, Action, Origin, Rule, is_about, parse_rule
from ossia.tools.approval.shell_words import command_allowed, command_denied, parts_of, words_of
from ossia.tools.approval.wildcards import path_allowed, path_denied, url_allowed, url_denied
from ossia.tools.calls.names import BUILT_IN
from ossia.tools.python.tool import PythonTool
from ossia.tools.spec import Effect, Need, NoStop, Preview, Taint, ToolContext, ToolSpec
from ossia.tools.work import workspace_tools
from ossia.tools.workspace import Workspace

READS: frozenset[Effect] = frozenset({"read"})
WRITES: frozenset[Effect] = frozenset({"write"})
RUNS: frozenset[Effect] = frozenset({"run"})

READ = ToolSpec("repo_browser.open_file", "", effects=READS, provenance="built-in")
WRITE = ToolSpec("repo_browser.apply_patch", "", effects=WRITES, provenance="built-in")
SHELL = ToolSpec("container.exec", "", effects=RUNS, provenance="built-in")
PYTHON = ToolSpec("python", "", input="text", effects=RUNS, trained=True, provenance="built-in")
SEARCH = ToolSpec("browser.search", "", effects=frozenset({"read", "send"}), trained=True, provenance="built-in")
OPEN = ToolSpec("browser.open", "", effects=frozenset({"read", "send"}), trained=True, provenance="built-in")
MINE = ToolSpec("functions.weather", "", effects=RUNS, provenance="user", origin="file weather.py")
SERVER = ToolSpec("functions.files__list", "", effects=frozenset({"run", "send"}), provenance="mcp", origin="files")

CLEAN: frozenset[Taint] = frozenset()
OUTSIDE: frozenset[Taint] = frozenset({"outside"})
PRIVATE: frozenset[Taint] = frozenset({"private"})
BOTH: frozenset[Taint] = frozenset({"outside", "private"})


def _command(text: str, **more: Any) -> Preview:
    return Preview(f"run {text}", subjects=(text,), command=True, **more)


def _paths(*paths: str, caution: str = "") -> Preview:
    return Preview("write", subjects=paths, caution=caution)


PLAIN = Preview("")
CONFINED = Preview("", effects=frozenset())
UNCONFINED = Preview("", effects=RUNS, unconfined=True)
SHOWN_LINK = Preview("", subjects=("http://a.test/",), effects=READS)

# -- what holds: the table of docs/approvals.md -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "preview", "clean", "outside", "private"),
    [
        (READ, _paths("a.md"), "allow", "allow", "allow"),
        (READ, _paths(".env", caution="it often holds secrets"), "ask", "ask", "ask"),
        (PYTHON, CONFINED, "allow", "allow", "allow"),
        (PYTHON, UNCONFINED, "firm", "firm", "firm"),
        (SEARCH, PLAIN, "allow", "allow", "firm"),
        (SEARCH, Preview("", effects=READS), "allow", "allow", "allow"),  # the local library
        (OPEN, PLAIN, "allow", "allow", "firm"),
        (OPEN, SHOWN_LINK, "allow", "allow", "allow"),
        (WRITE, _paths("a.md"), "ask", "firm", "ask"),
        (SHELL, _command("ls"), "ask", "firm", "ask"),
        (MINE, PLAIN, "allow", "firm", "allow"),
        (
            ToolSpec("functions.f", "", provenance="user", origin="package tools_of_mine"),
            PLAIN,
            "allow",
            "firm",
            "allow",
        ),
        (SERVER, PLAIN, "ask", "firm", "firm"),
        (
            ToolSpec("functions.files__get", "", effects=READS, provenance="mcp", origin="files"),
            PLAIN,
            "ask",
            "ask",
            "ask",
        ),
    ],
)
def test_what_holds_without_a_rule(spec: ToolSpec, preview: Preview, clean: str, outside: str, private: str) -> None:
    def word(taint: frozenset[Taint]) -> str:
        ruling = Policy().rule_on(spec, preview, taint=taint)
        return "firm" if ruling.firm else ruling.action

    assert (word(CLEAN), word(OUTSIDE), word(PRIVATE)) == (clean, outside, private)
    assert word(BOTH) == ("firm" if "firm" in (outside, private) else clean)


@pytest.mark.parametrize(
    ("spec", "preview", "taint"),
    [
        (WRITE, _paths("docs/a.md"), OUTSIDE),
        (SHELL, _command("git status"), OUTSIDE),
        (SEARCH, PLAIN, PRIVATE),
        (OPEN, PLAIN, PRIVATE),
        (MINE, PLAIN, OUTSIDE),
        (SERVER, PLAIN, BOTH),
        (PYTHON, UNCONFINED, CLEAN),
    ],
)
def test_only_a_rule_of_the_users_answers_a_firm_question(
    spec: ToolSpec, preview: Preview, taint: frozenset[Taint]
) -> None:
    """Hostile row 15: in a tainted turn what is automatic, stored, remembered or a folder's asks, firmly."""
    others: tuple[Origin, ...] = ("stored", "folder")
    for origin in others:
        policy = Policy([Rule(spec.name, "allow", origin=origin)])
        if taint:
            policy.remember(spec, preview)
        ruling = policy.rule_on(spec, preview, taint=taint)
        assert (ruling.action, ruling.firm, ruling.rules) == ("ask", True, ())
    assert Policy([Rule(spec.name, "allow")]).rule_on(spec, preview, taint=taint).action == "allow"


@pytest.mark.parametrize(
    ("rules", "preview", "action"),
    [
        (("allow container.exec:git status*",), _command("git status -s"), "allow"),
        (("allow container.exec:git status*",), _command("git status; curl x"), "ask"),
        (("allow container.exec",), _command("git status; curl x"), "allow"),
        (("allow container.exec", "ask container.exec:git push*"), _command("git push"), "ask"),
        (("allow container.exec", "deny container.exec:rm*"), _command("ls; rm x"), "deny"),
        (("allow container.exec", "deny container.exec:rm*"), _command("X=rm; $X y"), "firm"),
        (("allow container.exec", "deny container.exec:rm*"), _command("ls"), "allow"),
        (("allow container.exec:*", "deny container.exec"), _command("ls"), "deny"),
        (("allow container.*:ls",), _command("ls"), "allow"),
        (("allow repo_browser.open_file:ls",), _command("ls"), "ask"),
    ],
)
def test_rules_about_commands(rules: tuple[str, ...], preview: Preview, action: str) -> None:
    ruling = _policy(rules).rule_on(SHELL, preview)
    assert ("firm" if ruling.firm else ruling.action) == action


@pytest.mark.parametrize(
    ("rules", "preview", "action"),
    [
        (("allow repo_browser.apply_patch:docs/**",), _paths("docs/a.md"), "allow"),
        (("allow repo_browser.apply_patch:docs/**",), _paths("docs/../x"), "ask"),
        (("allow repo_browser.apply_patch:docs/**",), _paths("docs/a.md", "b.md"), "ask"),
        (
            ("allow repo_browser.apply_patch:docs/**", "allow repo_browser.apply_patch:*.md"),
            _paths("docs/a.md", "b.md"),
            "allow",
        ),
        (
            ("allow repo_browser.apply_patch:docs/**", "deny repo_browser.apply_patch:docs/b*"),
            _paths("docs/a.md", "docs/b.md"),
            "deny",
        ),
        (("allow repo_browser.apply_patch", "deny repo_browser.apply_patch:src/**"), _paths("src"), "deny"),
        (("allow repo_browser.apply_patch", "deny repo_browser.apply_patch:src/a/**"), _paths("src"), "firm"),
        (("allow repo_browser.apply_patch", "deny repo_browser.apply_patch:src/**"), Preview("who knows"), "firm"),
        (("allow repo_browser.apply_patch:**",), Preview("who knows"), "ask"),
        (("allow repo_browser.apply_patch",), _paths(".git/config", caution="git runs what it says"), "ask"),
        (("allow repo_browser.apply_patch:.git/**",), _paths(".git/config", caution="git runs what it says"), "allow"),
        (("allow repo_browser.apply_patch:**",), _paths(".git/hooks/pre-commit", caution="git runs it"), "ask"),
        (
            ("allow repo_browser.apply_patch:**", "allow repo_browser.apply_patch:.env*"),
            _paths("a", ".env", caution="a secret"),
            "allow",
        ),
        (
            ("allow repo_browser.apply_patch:**", "allow repo_browser.apply_patch:.env*"),
            _paths(".git/a", ".env", caution="a secret"),
            "ask",
        ),
        (("allow repo_browser.apply_patch:docs/**",), _paths("docs/a", caution="it is write-protected"), "allow"),
        (("allow repo_browser.apply_patch:.git/**", "ask repo_browser.apply_patch"), _paths(".git/config"), "ask"),
    ],
)
def test_rules_about_paths(rules: tuple[str, ...], preview: Preview, action: str) -> None:
    ruling = _policy(rules).rule_on(WRITE, preview)
    assert ("firm" if ruling.firm else ruling.action) == action


def _policy(rules: tuple[str, ...]) -> Policy:
    actions: dict[str, Action] = {"allow": "allow", "ask": "ask", "deny": "deny"}
    return Policy(parse_rule(rule.partition(" ")[2], actions[rule.partition(" ")[0]]) for rule in rules)


def test_the_rule_that_allows_is_named() -> None:
    policy = _policy(("allow repo_browser.apply_patch:a", "allow repo_browser.apply_patch:docs/**"))
    assert policy.rule_on(WRITE, _paths("docs/x")).reason == "the rule repo_browser.apply_patch:docs/**"
    assert policy.rule_on(WRITE, _paths("docs/x", "a")).reason == "rules taken together"


def test_a_question_about_text_from_outside_says_what_the_call_changes_too() -> None:
    preview = replace(_paths("AGENTS.md", caution="it changes AGENTS.md"), firm=True)
    asked = Policy().rule_on(WRITE, preview, taint=frozenset({"outside"}))
    assert asked == Ruling("ask", f"it changes AGENTS.md; {FROM_OUTSIDE}", firm=True)
    named = Policy([parse_rule("repo_browser.apply_patch:AGENTS.md", "allow")])
    assert named.rule_on(WRITE, preview, taint=frozenset({"outside"})).action == "allow"


def test_a_rule_of_another_origin_clears_no_caution() -> None:
    preview = _paths(".env", caution="it often holds secrets")
    assert Policy([Rule("repo_browser.open_file", "allow", ".env", "stored")]).rule_on(READ, preview).action == "ask"


def test_an_answer_to_an_edit_covers_no_deletion_and_the_reverse() -> None:
    edit, gone = _paths("a", "b"), replace(_paths("a", "b"), deletes=("a",))
    for asked, others in ((edit, [gone, replace(_paths("b"), deletes=("b",))]), (gone, [edit, _paths("a")])):
        policy = Policy()
        policy.remember(WRITE, asked)
        assert policy.rule_on(WRITE, asked).action == "allow"
        assert [policy.rule_on(WRITE, other).action for other in others] == ["ask"] * len(others)


def test_what_is_remembered_is_the_exact_command_or_path() -> None:
    policy = Policy()
    policy.remember(SHELL, _command("git status; ls"))
    policy.remember(WRITE, _paths("a", "b"))
    policy.remember(PYTHON, UNCONFINED, "print(1)")
    assert policy.rule_on(SHELL, _command("git status; ls")).action == "allow"
    assert policy.rule_on(SHELL, _command("git status;  ls")).action == "ask"
    assert policy.rule_on(WRITE, _paths("b")).action == "allow"
    assert policy.rule_on(WRITE, _paths("b", "c")).action == "ask"
    assert policy.rule_on(WRITE, _paths("b", caution="it can't be undone")).action == "ask"
    assert policy.rule_on(PYTHON, UNCONFINED, "print(1)").action == "allow"
    assert policy.rule_on(PYTHON, UNCONFINED, "print(2)").action == "ask"


@pytest.mark.parametrize("unconfined", [True, False])
def test_python_says_whether_it_is_confined(unconfined: bool, tmp_path: Path) -> None:
    context = ToolContext(stop=NoStop(), workspace=None, data_dir=tmp_path, count_tokens=len)
    confinement = sandbox.Unconfined("python") if unconfined else sandbox.Off("python", "nothing confines here")
    tool = PythonTool(data_dir=tmp_path, confinement=confinement)
    preview = tool.preview("1", context=context)
    assert preview.unconfined is unconfined
    assert Policy().rule_on(tool.spec, preview, taint=OUTSIDE).action == ("ask" if unconfined else "allow")


# -- writing rules ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("container.exec:git status*", Rule("container.exec", "allow", "git status*")),
        ("container.exec: git status*", Rule("container.exec", "allow", "git status*")),
        ("repo_browser.apply_patch:docs/**", Rule("repo_browser.apply_patch", "allow", "docs/**")),
        ("browser.open:https://docs.python.org/*", Rule("browser.open", "allow", "https://docs.python.org/*")),
        ("python", Rule("python", "allow")),
        ("files__*", Rule("files__*", "allow")),
        ("container.exec:git commit -m 'a; b'", Rule("container.exec", "allow", "git commit -m 'a; b'")),
    ],
)
def test_a_rule_is_read(text: str, rule: Rule) -> None:
    assert parse_rule(text, "allow") == rule


@pytest.mark.parametrize(
    ("text", "action", "complaint"),
    [
        ("", "allow", "must be NAME or NAME:PATTERN"),
        (":ls", "allow", "must be NAME or NAME:PATTERN"),
        ("git status", "allow", "must be NAME or NAME:PATTERN"),
        ("container.exec:", "allow", "no pattern after the colon"),
        ("container.exec:git 'status", "deny", "a valid command pattern"),
        ("container.exec:ls; rm", "allow", "can never allow anything"),
        ("container.exec:ls > x", "allow", "can never allow anything"),
        ("repo_browser.apply_patch:../x", "allow", "can never allow anything"),
        ("browser.open:https://a.test*", "allow", "would allow other hosts too: write https://a.test/*"),
    ],
)
def test_a_rule_that_would_not_do_what_it_says_is_refused(text: str, action: Action, complaint: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_rule(text, action)
    assert complaint in str(raised.value)


def test_the_rules_of_a_config(tmp_path: Path) -> None:
    approvals = (("python", "never"), ("container.exec:ls*", "auto"), ("repo_browser.apply_patch", "ask"))
    resolved = Resolved(Settings(), {}, approvals, folder_approvals=(("container.exec:make", "auto"),))
    assert list(rules_of(resolved)) == [
        Rule("python", "deny"),
        Rule("container.exec", "allow", "ls*"),
        Rule("repo_browser.apply_patch", "ask"),
        Rule("container.exec", "allow", "make", "folder"),
    ]


def test_the_rules_in_the_docs_are_rules() -> None:
    page = (Path(__file__).parents[3] / "docs" / "approvals.md").read_text(encoding="utf-8")
    tables = [tomllib.loads(part.split("```")[0])["approvals"] for part in page.split("```toml\n")[1:]]
    written = {text: str(word) for table in tables for text, word in flat_rules(table).items()}
    rules = [parse_rule(text, ACTIONS[word]) for text, word in written.items()]
    assert any(is_about(rule.name, "container.exec") and rule.pattern == "git status*" for rule in rules)


def test_rules_that_name_no_tool_are_found() -> None:
    typo, short = Rule("shel", "deny"), Rule("exec", "allow")
    rules = [typo, Rule("container.exec", "deny"), Rule("*", "ask"), short, Rule("exec", "deny")]
    assert Policy(rules).unused([SHELL]) == (typo, short)


@pytest.mark.parametrize("name", ["exec", "open_file", "print_tree", "list_dir", "apply_patch", "search", "find"])
def test_the_last_part_of_a_name_denies_and_asks(name: str) -> None:
    """It doesn't allow: a function of the user's may have it."""
    meant = [tool for tool in BUILT_IN if tool.endswith(f".{name}")]
    for tool in meant:
        spec = ToolSpec(tool, "", effects=WRITES, provenance="built-in")
        for action in ("deny", "ask"):
            ruling = Policy([Rule("*", "allow"), Rule(name, action)]).rule_on(spec, PLAIN)
            assert ruling.action == action and f"the rule {name}" in ruling.reason
        assert Policy([Rule(name, "allow")]).rule_on(spec, PLAIN).action == "ask"
    mine = ToolSpec(f"functions.{name}", "", effects=RUNS, provenance="mcp", origin="x")
    assert meant and Policy([Rule(name, "allow")]).rule_on(mine, PLAIN).action == "allow"


PARTS = "cd x/", "pytest -q"


@pytest.mark.parametrize(
    ("spec", "preview", "rules"),
    [
        (SHELL, _command("git status"), ("container.exec:git status",)),
        (SHELL, _command("git commit -m 'a; b'"), ("container.exec:git commit -m 'a; b'",)),
        (SHELL, _command("git status; ls"), ("container.exec:git status", "container.exec:ls")),
        (SHELL, _command("cd x/ && pytest -q | tail"), tuple(f"container.exec:{part}" for part in PARTS)),
        (SHELL, _command("git status > x"), ()),
        (SHELL, _command("grep 'a*' x"), ()),
        (
            WRITE,
            _paths("docs/a.md", "b c.md"),
            ("repo_browser.apply_patch:docs/a.md", "repo_browser.apply_patch:b c.md"),
        ),
        (WRITE, _paths("app/[id].tsx"), ("repo_browser.apply_patch:app/[id].tsx",)),
        (WRITE, _paths("a*"), ()),
        (WRITE, _paths("a", caution="it can't be undone"), ()),
        (PYTHON, UNCONFINED, ()),
        (SERVER, PLAIN, ("functions.files__list",)),
    ],
)
def test_what_always_would_store(spec: ToolSpec, preview: Preview, rules: tuple[str, ...]) -> None:
    assert suggested_rules(spec, preview) == rules
    if rules:
        assert Policy().rule_on(spec, preview).rules == rules
        stored = Policy(parse_rule(rule, "allow", origin="stored") for rule in rules)
        assert stored.rule_on(spec, preview).action == "allow"


@pytest.mark.parametrize(
    ("command", "patterns", "another"),
    [
        ("python3 -m unittest tests.test_a", ["python3 -m unittest *"], "python3 -m unittest"),
        ("pytest -q", ["pytest *"], "pytest tests/a.py -k 'x or y'"),
        ("uv run .venv/bin/pytest", ["uv run .venv/bin/pytest *"], "uv run .venv/bin/pytest -x"),
        ("cd x && pytest -q | tail -5", ["cd x", "pytest *"], "cd x && pytest | tail -n 3 | cat | wc -l"),
        ("ls 'a*' x", ["ls *"], "ls b y | head"),
        ("pytest | grep FAILED", ["pytest *", "grep FAILED"], "pytest -q | grep FAILED"),
        ("ls && ls", ["ls *"], "ls -l; ls"),
        ("du 'a*' && ./run", ["du *", "./run"], "./run"),
    ],
)
def test_a_command_may_be_allowed_with_any_arguments(command: str, patterns: list[str], another: str) -> None:
    rules = tuple(f"container.exec:{pattern}" for pattern in patterns)
    assert Policy().rule_on(SHELL, _command(command)).wider == wider_rules(SHELL, _command(command)) == rules
    stored = Policy(parse_rule(rule, "allow", origin="stored") for rule in rules)
    assert [stored.rule_on(SHELL, _command(text)).action for text in (command, another)] == ["allow"] * 2
    assert stored.rule_on(SHELL, _command(f"{command} $(x)")).action == "ask"
    assert stored.rule_on(SHELL, _command(command.replace("unittest", "unittest2").replace("ls", "lsx"))).action == (
        "ask" if {"unittest", "ls"} & set(command.split()) else "allow"
    )


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("git log *", "git log -1 --format='import os' --output=src/app.py"),
        ("git diff *", "git diff --output src/app.py"),
        ("git diff *", "git diff --no-index /dev/null .env"),
        ("uv run ruff check *", "uv run ruff check --output-file=src/app.py"),
        ("pytest *", "pytest --basetemp=src"),
        ("pytest *", "pytest --junitxml=src/app.py"),
        ("python3 -m pytest *", "python3 -m pytest -qo addopts=--tx=popen//python=sh"),
        (".venv/bin/pytest *", ".venv/bin/pytest --tx 'popen//python=sh -c x'"),
        ("wc *", "wc --files0-from=names"),
        ("git diff *", "git diff /dev/null .env"),
        ("git blame *", "git blame --contents=sub/.env a.py"),
        ("git show *", "git show HEAD:.env"),
        ("ruff check *", "ruff check .env"),
        ("python3 -m py_compile *", "python3 -m py_compile id_rsa"),
    ],
)
def test_a_pattern_that_is_offered_stands_for_no_file_to_write_and_no_program(pattern: str, command: str) -> None:
    stored = Policy([parse_rule(f"container.exec:{pattern}", "allow", origin="stored")])
    plain = pattern.replace("*", "-q --oneline --output-indicator-new=x -p no:x --ignore=o")
    assert [stored.rule_on(SHELL, _command(text)).action for text in (plain, command)] == ["allow", "ask"]
    assert wider_rules(SHELL, _command(command)) == ()
    assert Policy([parse_rule("container.exec:*", "allow")]).rule_on(SHELL, _command(command)).action == "allow"


@pytest.mark.parametrize("command", ["cd build && rm -rf out", "cd a; cd b || make", "ls && cd x && ./run"])
def test_what_is_allowed_in_a_folder_is_not_allowed_elsewhere(command: str) -> None:
    rules = suggested_rules(SHELL, _command(command))
    assert rules == (f"container.exec:{command}",) and wider_rules(SHELL, _command(command)) == ()
    parts = command.replace("||", "&&").replace(";", " &&").split(" && ")
    stored = Policy(parse_rule(rule, "allow", origin="stored") for rule in (*rules, "container.exec:cd src"))
    quoted = command.replace("&&", "'&&'").replace("||", "'||'")
    others = [*parts, f"{command} ", f"{command}; ls", quoted, f"cd src && {parts[-1]}"]
    assert [stored.rule_on(SHELL, _command(text)).action for text in (command, *others)] == [
        "allow", *["ask"] * len(others)]  # fmt: skip
    each = Policy(parse_rule(f"container.exec:{part}", "allow") for part in (*parts, "cd src"))
    assert each.rule_on(SHELL, _command(f"cd src && {parts[-1]}")).action == "ask"


PROGRAMS = [
    *("bash", "sh", "zsh", "python", "python3", "perl", "ruby", "node", "awk", "sed", "find", "xargs", "env", "sudo"),
    *("ssh", "make", "npm", "npx", "cargo", "go", "docker", "tar", "sort", "rg", "mypy", "pip", "uv", "git", "timeout"),
    *("cat", "grep", "head", "tail", "diff", "nice", "nohup", "watch", "parallel", "eval", "exec", "source", "."),
    *("command", "time", "./x", "sub/pytest"),
]
FORMS = ["{} x", "{} -c x", "{} -m x", "{} run x", "{} test", "{} -C x status", "{} grep x", "{} push", "uv run {} x"]


def test_no_pattern_is_offered_whose_arguments_could_be_any_command() -> None:
    commands = [form.format(program) for form in FORMS for program in PROGRAMS]
    assert [command for command in commands if wider_rules(SHELL, _command(command))] == []
    assert wider_rules(SHELL, _command("git status", needs=frozenset({"git"}))) == ()
    assert wider_rules(SHELL, _command("ls", unconfined=True)) == wider_rules(SHELL, _command("ls > x")) == ()


@pytest.mark.parametrize(
    "command",
    [
        *("ls > x", "ls & x", "ls |& cat x", "ls\ncat x", "ls $x", "ls; A=b cat x", "ls; if cat x", "ls;; cat x"),
        *("&& ls", "ls && && cat x", "(ls; cat x)", "ls | sh", "cat x | xargs ls", "cat x | tee y", "ls 2>&1 | cat x"),
        *("export PATH=. && ls", "source x; ls", "printf -v PATH . ; ls", "cd x && ./ls", "cd x; cd y; y/ls", "'ls"),
        *("ls | tail x", "ls | head 5", "ls | wc -l x", "tail -5 && ls", "ls; tail"),
        *("set -x; ls", "alias ls=cat; ls", "exec ls; cat x", "command ls && cat x", "ls; cat x #", "ls ~; cat x"),
    ],
)
def test_what_is_more_than_simple_commands_in_a_row_is_allowed_by_no_patterns(command: str) -> None:
    patterns = ["ls *", "cat *", "sh *", "xargs *", "tee *", "export *", "source *", "printf *", "cd *", "./ls", "y/ls"]
    patterns += ["set *", "alias *", "exec *", "command *"]
    policy = Policy(parse_rule(f"container.exec:{pattern}", "allow") for pattern in patterns)
    assert policy.rule_on(SHELL, _command("cd x && cat y; ls -l || ls | cat")).action == "allow"
    assert policy.rule_on(SHELL, _command(command)).action == "ask"


def test_each_part_needs_a_rule_and_one_denied_part_is_enough() -> None:
    policy = Policy([parse_rule("container.exec:ls *", "allow"), parse_rule("container.exec:pwd", "ask")])
    assert policy.rule_on(SHELL, _command("ls && cat x")).action == "ask"
    assert policy.rule_on(SHELL, _command("ls && pwd")).reason == "the rule container.exec:pwd says to ask"
    denying = Policy([*policy.rules, parse_rule("container.exec:ls -a", "deny")])
    assert denying.rule_on(SHELL, _command("ls; ls -a")).action == "deny"
    giving = Policy([parse_rule("container.exec[git]:git *", "allow")])
    needs = frozenset[Need]({"git"})
    assert giving.rule_on(SHELL, _command("git add . && git commit -m x", needs=needs)).action == "ask"


# -- patterns of commands ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("git status", ("git", "status")),
        (" git\tstatus  -s ", ("git", "status", "-s")),
        ("git commit -m 'a; b' \"c d\"", ("git", "commit", "-m", "a; b", "c d")),
        ("a'b'\"c\"d ''", ("abcd", "")),
        ("cat\t'a\tb' \"c\td\"\t", ("cat", "a\tb", "c\td")),
        ("git show HEAD~1 HEAD^^ a=b", ("git", "show", "HEAD~1", "HEAD^^", "a=b")),
        ("echo héllo 'né pas'", ("echo", "héllo", "né pas")),
    ],
)
def test_the_words_of_a_simple_command(command: str, words: tuple[str, ...]) -> None:
    assert words_of(command) == words


@pytest.mark.parametrize(
    "command",
    [
        *("", "   ", "''", "a;b", "a&", "a|b", "a && b", "a\nb", "a\rb", "a $X", "a `b`", 'a "$(b)"', "a (b)", "{ a;}"),
        *("a > b", "a < b", "a *", "a ?", "a [b]", "a ~", "a ~/x", "a b:~", "a #b", "! a", "X=1 a", "a \\; b", "a 'b"),
        *('a "b', 'a "b\\"', "a {b,c}", "if a", "time a", "=a b", "a\x1b[2J", "a\u202eb", "a 'b\u202e'", "a\u00a0b"),
        *("a =b", "a\x00b", "a\u3164b", 'a "!b"', "a $'b'", "a\x7f", "a 'b\nc'", "x" * 10_001),
    ],
)
def test_what_is_no_simple_command(command: str) -> None:
    assert words_of(command) is None
    assert not command_allowed("*", command)


@pytest.mark.parametrize(
    ("pattern", "command", "allowed"),
    [
        ("git status*", "git status", True),
        ("git status*", "git status -s .", True),
        ("git status*", "git 'status' -s", True),
        ("git status*", "git statusx", True),
        ("git status*", "git stat", False),
        ("git status*", "git -c x=y status", False),
        ("git status*", "git 'status;' curl", True),  # one word of one command: `status;`
        ("git status*", "gitx status", False),
        ("git log *", "git log", True),
        ("git log *", "git log -1 x", True),
        ("git log *", "git logs", False),
        ("git * -s", "git status -s", True),
        ("git * -s", "git status x -s", False),
        ("git", "git", True),
        ("git", "git status", False),
        ("*", "anything at all", True),
        ("cat ?.md", "cat a.md", True),
        ("cat ?.md", "cat ab.md", False),
        ("echo 'a b'", "echo 'a b'", True),
        ("echo 'a b'", "echo a b", False),
        ("echo 'a b'", "echo\t'a b'", True),
        ("echo 'a b'", "echo 'a\tb'", False),
        ("Git status", "git status", False),
    ],
)
def test_what_a_pattern_allows(pattern: str, command: str, allowed: bool) -> None:
    assert command_allowed(pattern, command) is allowed


_HOLDS_RM = (
    *("rm", "rm -rf x", "/bin/rm x", "cd a && rm b", "a|rm", "a;rm", "a\nrm", "RM x", "r''m x", "'rm' x", "r\\m x"),
    *("\\rm x", "sudo -n rm x", "FOO=1 rm x", "env A=b rm x", "$(rm x)", "`rm x`", "if rm x; then a", "a & rm x"),
    *("xargs -n 1 rm", "timeout 5s rm x", "(rm x)", "{ rm x; }"),
)
_MAY_HOLD_RM = (
    *("sh -c 'rm x'", "sh -c \"r'm' x\"", "find -exec rm x", "cat rm.md", "X=rm; $X y", "ls *", "a > b", "{r,}m x"),
    "x" * 10_001,
)


@pytest.mark.parametrize(
    ("pattern", "command", "match"),
    [
        *(("rm*", command, "yes") for command in _HOLDS_RM),
        *(("rm*", command, "maybe") for command in _MAY_HOLD_RM),
        *(("rm*", command, "no") for command in ("ls", "git status -s", "form x", "echo a.rm")),
        ("rm", "rm -rf x", "yes"),
        ("git push*", "git push -f", "yes"),
        ("git push*", "git -C x push", "maybe"),
        ("git push *", "git push", "yes"),
        ("git push*", "git log", "no"),
    ],
)
def test_what_a_pattern_denies(pattern: str, command: str, match: str) -> None:
    assert command_denied(pattern, command) == match


_PIECES = st.sampled_from(
    [
        *"ab;|&<>(){}$`\\\"'!*?[]~^#=-_./,:+@% \t\n\r\x00\x1b\x7f",
        *("é", "\u00a0", "\u202e", "''", '""', "$(", "&&", "'a b'"),
    ]
)
_COMMANDS = st.lists(_PIECES, max_size=12).map("".join)
_UNQUOTED = frozenset(";|&<>(){}$`\\!*?[]#\n\r")


def _outside_quotes(command: str) -> str:
    """An independent reading: what is left when quoted parts are taken out."""
    kept, quote = [], ""
    for char in command:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            kept.append(char)
    assert not quote
    return "".join(kept)


@given(_COMMANDS, st.sampled_from(["*", "a*", "a *", "* *", "a b*"]))
@settings(max_examples=200)
@example("a 'b'\\''c'", "*")
def test_nothing_that_is_allowed_has_a_metacharacter_outside_quotes(command: str, pattern: str) -> None:
    if command_allowed(pattern, command):
        assert _UNQUOTED.isdisjoint(_outside_quotes(command))
        assert "\n" not in command
        ruling = Policy([Rule("container.exec", "allow", pattern)]).rule_on(SHELL, _command(command))
        assert ruling.action == "allow"


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_shell_reads_the_same_words(shell: str, tmp_path: Path) -> None:
    """`printf` gets what the command would: had a shell anything left to work out, the words would differ."""
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"there is no {shell} here")
    chars = [*map(chr, range(1, 128)), "é", "\u00a0", "ß", "''", '""', "'c d'"]
    pairs = [first + second for first in chars for second in chars]
    forms = ("{}", "a{}", "{}b", "a {} c", "'{}'", '"{}"')
    written = [form.format(pair) for pair in pairs for form in forms]
    draw, pieces = random.Random(1), [*chars, *("\t", " ", "'\t'", '"\t "', "'", '"') * 20]
    written += ["".join(draw.choices(pieces, k=draw.randint(3, 8))) for _ in range(20_000)]
    accepted = [(command, words) for command in written if (words := words_of(command)) is not None]
    assert len(accepted) > 40_000
    script = tmp_path / "script"
    script.write_text("\n".join(f"printf '%s\\0' {command}" for command, _ in accepted), encoding="utf-8")
    environment = {"PATH": "/nowhere", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [path, str(script)], cwd=tmp_path, capture_output=True, env=environment, timeout=60, check=False
    )
    expected = b"".join(word.encode() + b"\0" for _, words in accepted for word in words)
    assert (done.stdout == expected, done.stderr) == (True, b"")


def test_a_shell_runs_the_same_parts(tmp_path: Path) -> None:
    """`p` prints its arguments: had a shell read another command in there, they would differ."""
    path = shutil.which("bash")
    if path is None:
        pytest.skip("there is no bash here")
    draw, pieces = random.Random(2), ["p ", "p 'b; c'", 'p "d && e"', "; ", " && "] * 5 + [*" ab'\"#&()<>$~=!"]
    written = ["".join(draw.choices(pieces, k=draw.randint(3, 9))) for _ in range(40_000)]
    accepted = [(command, parts) for command in dict.fromkeys(written) if len(parts := parts_of(command)) > 1]
    accepted = [one for one in accepted if {part.split()[0] for part in one[1]} == {"p"}]
    assert len(accepted) > 500
    script = tmp_path / "script"
    script.write_text("p() { printf '%s\\0' p \"$@\"; }\n" + "\n".join(command for command, _ in accepted))
    done = subprocess.run([path, str(script)], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    words = [word for _, parts in accepted for part in parts for word in words_of(part) or ()]
    assert (done.stdout, done.stderr) == (b"".join(word.encode() + b"\0" for word in words), b"")


_RULES = st.lists(
    st.builds(
        Rule,
        st.sampled_from(["container.exec", "container.*", "*", "repo_browser.apply_patch"]),
        st.sampled_from(["allow", "ask", "deny"]),
        st.sampled_from([None, "*", "a*", "a b", "rm*"]),
        st.sampled_from(["user", "stored", "folder"]),
    ),
    max_size=5,
)


@given(_RULES, _COMMANDS, st.sampled_from([CLEAN, OUTSIDE, BOTH]), st.sampled_from(["a*", "rm*", "*", "a b"]))
@settings(max_examples=200)
def test_a_denial_always_wins(rules: list[Rule], command: str, taint: frozenset[Taint], pattern: str) -> None:
    """Whatever else is allowed, remembered or tainted: what would be allowed by a pattern is denied by it."""
    preview = _command(command)
    policy = Policy([*rules, Rule("container.exec", "deny", pattern)])
    policy.remember(SHELL, preview)
    ruling = policy.rule_on(SHELL, preview, taint=taint)
    if command_allowed(pattern, command):
        assert ruling.action == "deny"
    denied: Ruling = Policy([*rules, Rule("*", "deny")]).rule_on(SHELL, preview, taint=taint)
    assert denied.action == "deny"


@given(_COMMANDS, st.sampled_from(["a", "a b", "ab"]))
@settings(max_examples=200)
def test_what_is_denied_alone_is_never_allowed_inside(around: str, denied: str) -> None:
    for command in (f"{around};{denied}", f"{denied} {around}", f"{around} && {denied}", f"{around}\n{denied} x"):
        assert command_denied(f"{denied}*", command) != "no"


# -- patterns of paths and URLs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "path", "allowed"),
    [
        ("docs/**", "docs/a.md", True),
        ("docs/**", "docs/a/b.md", True),
        ("docs/**", "docs/.hidden", True),
        ("docs/**", "docs", False),
        ("docs/**", "docs/../x", False),
        ("docs/**", "docs/./a", False),
        ("docs/**", "/docs/a", False),
        ("docs/**", "../docs/a", False),
        ("docs/**", "xdocs/a", False),
        ("docs/**", "docs/a\nb", False),
        ("docs/**", "docs\\a", False),
        ("docs/", "docs/a/b", True),
        ("./docs/*", "docs/a", True),
        ("docs/*", "docs/a/b", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "x/y/a.md", True),
        ("**/*.md", "a.mdx", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("**", "a/b", True),
        ("**", ".", True),
        ("**", "..", False),
        ("*.md", "a/b.md", False),
        ("a?", "ab", True),
        ("a?", "a/", False),
        ("[ab].md", "a.md", False),
        ("[ab].md", "[ab].md", True),
        ("Docs/**", "docs/a", False),
    ],
)
def test_what_a_pattern_allows_of_paths(pattern: str, path: str, allowed: bool) -> None:
    assert path_allowed(pattern, path) is allowed


@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        (".env", ".env", "yes"),
        (".env", ".ENV", "yes"),
        (".env", "a/b/.env", "yes"),
        ("secret", "secret/a/b", "yes"),
        ("secret/**", "secret", "yes"),
        ("secret/**", "SECRET/x", "yes"),
        ("secret/**", "docs/../secret/x", "yes"),
        ("a/secret/**", "a", "maybe"),
        ("a/secret/**", ".", "maybe"),
        ("**/*.pem", ".", "maybe"),
        ("caf\u00e9/**", "cafe\u0301/x", "yes"),
        ("secret/**", "docs/a", "no"),
        ("secret/**", "secrets", "no"),
        ("*.pem", "a.md", "no"),
    ],
)
def test_what_a_pattern_denies_of_paths(pattern: str, path: str, match: str) -> None:
    assert path_denied(pattern, path) == match


@pytest.mark.parametrize(
    ("pattern", "path", "match"),
    [
        ("**/secret/**", "src", "maybe"),
        ("**/secret/**", "src/secret/deep", "yes"),
        ("**/notes.txt", "SRC/a", "maybe"),
        ("*.txt", "src", "maybe"),
        ("s*/secret/**", "src", "maybe"),
        ("s*/secret/**", "docs", "no"),
        ("s*/secret/**", "src/other", "no"),
        ("s?c/**/x/*.md", "src/a/b", "maybe"),
        ("a/**/b/**", "a/c", "maybe"),
        ("src/*", "src", "maybe"),
        ("src/*/x", "src/a/b", "no"),
        ("secret/**", "docs", "no"),
        ("a/b", ".", "maybe"),
        ("*/b", "c", "maybe"),
        ("*/b", "c/d", "no"),
    ],
)
def test_what_a_pattern_denies_of_folders_that_are_looked_into(pattern: str, path: str, match: str) -> None:
    assert path_denied(pattern, path, inside=True) == match


@pytest.mark.parametrize("pattern", ["**/secret/**", "**/notes.txt", "*.txt", "s*/secret/**", "src/secret/"])
def test_a_folder_above_what_is_denied_is_asked_about(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "src" / "secret").mkdir(parents=True)
    (tmp_path / "src" / "secret" / "notes.txt").write_text("x\n")
    (tmp_path / "src" / "a.py").write_text("x\n")
    context = ToolContext(NoStop(), Workspace(tmp_path.resolve(), trusted=True), tmp_path, len)
    policy = Policy([parse_rule(f"repo_browser.*:{pattern}", "deny")])
    tools = {tool.spec.name.partition(".")[2]: tool for tool in workspace_tools()}

    def ruling(name: str, **arguments: object) -> tuple[Action, bool]:
        found = policy.rule_on(tools[name].spec, tools[name].preview(arguments, context=context), arguments)
        return found.action, found.firm

    for name in ("search", "list_dir", "print_tree"):
        more = {"query": "x"} if name == "search" else {"depth": 2}
        assert ruling(name, path="src", **more) == ("ask", True)
    assert ruling("search", path="src/a.py", query="x") == ruling("open_file", path="src/a.py") == ("allow", False)


_PATHS = st.lists(st.sampled_from(["a", "b", ".", "..", "", "*", "é"]), min_size=1, max_size=5).map("/".join)


@given(_PATHS, _PATHS)
def test_no_pattern_allows_what_leads_out_or_is_denied_by_it(pattern: str, path: str) -> None:
    if path_allowed(pattern, path):
        assert ".." not in path.split("/") and not path.startswith("/")
        assert path_denied(pattern, path) == "yes"


@pytest.mark.parametrize(
    ("pattern", "url", "allowed"),
    [
        ("https://a.test/*", "https://a.test/x?y=z", True),
        ("https://a.test/*", "https://a.test/", True),
        ("https://a.test/*", "https://a.test", False),
        ("https://a.test/*", "http://a.test/", False),
        ("https://a.test/*", "https://a.test.evil.test/", False),
        ("https://a.test/*", "https://a.test@evil.test/", False),
        ("https://a.test/*", "https://a.test:80@evil.test/", False),
        ("https://a.test/*", "https://a.test\\@evil.test/", False),
        ("https://*.a.test/*", "https://evil.test/.a.test/", False),
        ("https://*.a.test/*", "https://evil.test?.a.test/", False),
        ("https://docs.*/*", "https://docs.@evil.test/", False),
        ("https://*.a.test/*", "https://b.a.test/x", True),
        ("https://a.test/docs/*", "https://a.test/docs/../x", False),
        ("https://a.test/docs/*", "https://a.test/docs/%2E%2e/x", False),
        ("https://a.test/docs/*", "https://a.test/docs/..%2fx", False),
        ("https://a.test/docs/*", "https://a.test/docs/a..b", True),
        ("https://a.test/*", "https://a.test/ x", False),
        ("*", "https://a.test/", True),
        ("https://*", "https://a.test/x", True),
        ("https://*", "http://a.test/x", False),
        ("a.test/*", "https://a.test/x", False),
        ("python *", "python docs", True),
        ("doc:*", "doc:17", True),
        ("https://a.test/*", "a search for https://a.test/x", False),
    ],
)
def test_what_a_pattern_allows_of_urls(pattern: str, url: str, allowed: bool) -> None:
    assert url_allowed(pattern, url) is allowed


@pytest.mark.parametrize(
    ("pattern", "url", "match"),
    [
        ("https://evil.test/*", "http://u@EVIL.test.:80/x", "yes"),
        ("https://evil.test", "https://evil.test/x", "yes"),
        ("evil.test", "https://evil.test/x", "yes"),
        ("*.evil.test/*", "https://a.evil.test/x", "yes"),
        ("https://evil.test/*", "https://good.test/x", "no"),
        ("https://evil.test/*", "https://evil.test?q=x", "yes"),
        ("https://evil.test/*", "https://evil.test#x", "yes"),
        ("https://evil.test/*", "https://ｅv\u00adil。test/x", "yes"),
        ("https://bücher.test/*", "https://xn--bcher-kva.test/", "yes"),
        ("http://127.0.0.1/*", "http://0x7f.1/x", "yes"),
        ("https://a.test/admin/*", "https://a.test/%61dmin/x", "yes"),
        ("https://a.test/admin/*", "https://a.test/b/..//admin/x?y#z", "yes"),
        ("https://a.test/admin", "https://a.test/admin#z", "yes"),
        ("https://a.test/admin/*", "https://a.test/public/?x=/admin/", "no"),
        ("*Secret*", "a secret plan", "yes"),
    ],
)
def test_what_a_pattern_denies_of_urls(pattern: str, url: str, match: str) -> None:
    assert url_denied(pattern, url) == match
