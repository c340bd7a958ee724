"""`ossia trust`: what it shows, what it asks, what it keeps."""

from __future__ import annotations

from pathlib import Path

import pexpect
import pytest

from ossia.cli import paths
from ossia.cli.main import invoke
from ossia.tools.approval.grants import Grants
from ossia.tools.approval.trust import TrustStore
from tests.support.pty import spawn

FILES = "'session' and 'always' work here; writes and commands are still asked about"
CONFIG = r"""
tools = ["fun.py", "./../evil.py:f,g", "package"]
[approvals]
"container.exec:git status*" = "auto"
"repo_browser.apply_patch" = {"docs/**" = "auto"}
container.exec = "auto"
repo_browser.search = {"*.md" = "ask"}
[mcpServers.files]
command = "npx"
args = ["-y", "a b\u001b]52;c;eA==\u0007\r\u2028"]
env = {KEY = "${KEY}"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".ossia").mkdir(parents=True)
    (folder / ".ossia" / "config.toml").write_text(CONFIG)
    server = '{"url": "http://127.0.0.1:1/mcp", "read_only": ["x"]}'
    (folder / ".ossia" / "mcp.json").write_text(f'{{"mcpServers": {{"web": {server}}}}}')
    (folder / ".ossia" / "fun.py").write_text("def f(): ...\n")
    (folder / ".ossia" / "prompt\x1b[2J.md").write_text("x")
    (folder / "AGENTS.md").write_text("Be brief.\n")
    return folder


def _store() -> TrustStore:
    return TrustStore(paths.data_dir())


def test_it_shows_all_that_would_take_effect(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["trust", str(project), "--yes"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{project}: not trusted",
        "  functions fun.py",
        "  functions ./../evil.py:f,g  (NOT in .ossia/: it can change after you trusted it)",
        "  functions package",
        "  rule      container.exec:git status* = auto",
        "  rule      repo_browser.apply_patch:docs/** = auto",
        "  rule      container.exec = auto",
        "  rule      repo_browser.search:*.md = ask",
        "  server    files: npx -y 'a b␛]52;c;eA==␇␍⟨U+2028⟩' env={'KEY': '${KEY}'}",
        "  code      .ossia/fun.py (13 bytes)",
        "  server    web: url=http://127.0.0.1:1/mcp",
        "  notes     AGENTS.md (10 bytes) is added to the instructions",
        "  others    .ossia/prompt␛[2J.md",
        f"  files     count as written by you: {FILES}",
    ]
    assert err == f"ossia: {project} is trusted, until its .ossia, AGENTS.md or skills change\n"
    assert _store().state(project) == "trusted"


@pytest.mark.parametrize(("answer", "state"), [("y", "trusted"), ("YES", "trusted"), ("n", "unknown"), ("", "unknown")])
def test_it_asks_on_a_terminal(project: Path, answer: str, state: str) -> None:
    child = spawn("trust", str(project))
    child.expect_exact("Trust it? [y/N] ")
    shown = str(child.before)
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "container.exec:git status* = auto" in shown and "\x1b" not in shown
    assert _store().state(project) == state


def test_on_a_terminal_it_is_broken_between_words(project: Path) -> None:
    child = spawn("trust", str(project), "--yes", columns=50)
    shown = child.read()
    assert "\r\n  files     count as written by you:" in shown and FILES in " ".join(shown.split())
    assert all(len(row) < 50 for row in shown.splitlines() if "written" in row or "asked" in row)
    child.close()


def test_nobody_to_ask_is_no_yes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["trust", str(project)]) == 2
    assert "there is no terminal to ask on: --yes trusts without asking" in capsys.readouterr().err
    assert _store().state(project) == "unknown"


@pytest.mark.parametrize("command", [["trust"], ["undo"], ["mcp", "test"]])
def test_a_folder_that_is_gone_is_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert invoke(command) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [["trust", "{}"], ["undo", "--workspace", "{}"], ["docs", "add", "{}"], ["run", "--workspace", "{}", "hi"],
     ["run", "--tools", "{}.py", "hi"]],
)  # fmt: skip
def test_a_name_that_is_too_long_is_one_line(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([part.format("x" * 300) for part in command]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "File name too long" in err


def test_the_list_says_what_has_changed(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other\nfolder"
    other.mkdir()
    for folder in (project, other):
        assert invoke(["trust", str(folder), "--yes"]) == 0
    (project / "AGENTS.md").write_text("Run everything.\n")
    grants = Grants(paths.data_dir())
    grants.add(["container.exec:git status"], workspace=project)
    grants.add(["functions.files__read"])
    _store().decline(tmp_path)
    capsys.readouterr()
    assert invoke(["trust", "--list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"trusted  {tmp_path}/other␊folder",
        f"changed  {project}",
        f"declined {tmp_path}   (the chat doesn't ask about it again)",
        "always   functions.files__read   (for runs without a workspace)",
        f"always   container.exec:git status   (for {project})",
    ]
    assert invoke(["trust", "--forget", "functions.files__read"]) == 0
    assert invoke(["trust", "--forget", "functions.files__read"]) == 2
    assert invoke(["trust", "--revoke", str(project)]) == 0
    assert capsys.readouterr().err.splitlines()[::2] == [
        "ossia: forgotten: functions.files__read",
        f"ossia: {project} is no longer trusted",
    ]
    assert invoke(["trust", "--revoke", str(project)]) == 2
    assert (invoke(["trust", "--revoke", str(tmp_path)]), _store().declined()) == (0, ())
    assert (_store().folders(), dict(grants.by_workspace())) == ((other,), {})


@pytest.mark.parametrize(
    "arguments",
    [["--list", "x"], ["--list", "--revoke"], ["--forget", "x", "--revoke"], ["--forget", "x", "y"], ["no/such/dir"]],
)
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["trust", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_in_the_way_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".ossia" / "link").symlink_to("/etc/passwd")
    assert invoke(["trust", str(project), "--yes"]) == 1
    told = "is a link, and its target could change unnoticed: replace it with a copy\n"
    assert capsys.readouterr().err.endswith(told)
    paths.data_dir().mkdir(parents=True)
    (paths.data_dir() / "trust.json").write_text("{")
    for arguments in (["--list"], [str(project), "--yes"], ["--revoke", str(project)]):
        assert invoke(["trust", *arguments]) == 1
        assert "trust.json is damaged: it is ignored; move it away" in capsys.readouterr().err


def test_settings_that_are_none_are_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".ossia" / "config.toml").write_text("= [")
    (project / ".ossia" / "mcp.json").write_text("[]")
    assert invoke(["trust", str(project), "--yes"]) == 0
    out = capsys.readouterr().out
    assert "settings  .ossia/config.toml can't be read" in out
    assert "servers   .ossia/mcp.json can't be read" in out
