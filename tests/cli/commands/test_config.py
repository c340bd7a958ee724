"""`ossia config`: what it prints can be read back."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from cli.main import invoke
from cli.settings.config import resolve
from cli.settings.table import Settings


def test_show_prints_each_value_and_where_it_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text('model = "a \\"b\\" \\u001b\\u007f é"\ntools = ["python", "browser"]\n')
    monkeypatch.setenv("OSSIA_CONFIG", str(path))
    monkeypatch.setenv("OSSIA_TOP_P", "0.5")
    assert invoke(["config", "show"]) == 0
    out, err = capsys.readouterr()
    lines = {line.split()[1 if line.startswith("#") else 0]: line for line in out.splitlines()}
    assert set(lines) == set(Settings.__dataclass_fields__)
    assert lines["top_p"].endswith("  # OSSIA_TOP_P")
    assert lines["tools"].startswith('tools = ["python", "browser"] ')
    assert lines["tools"].endswith(f"  # file {path}")
    assert lines["seed"].split("  ")[0] == "# seed is not set"
    assert lines["effort"].endswith("  # default")
    assert err == ""
    written = tmp_path / "again.toml"
    written.write_text(out, encoding="utf-8")
    shown = resolve({}, environ={"OSSIA_TOP_P": "0.5"}, path=path)
    assert resolve({}, environ={}, path=written).settings == shown.settings


def test_show_prints_the_tables_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = {"command": "npx", "args": ["-y", "a b"], "env": {"A.B": "${X}"}, "disabled": True, "timeout_s": 2.5}
    tables = {"approvals": {"shell:git status*": "auto", "python": "never"}, "mcpServers": {"my.files": server}}
    path = tmp_path / "config.toml"
    path.write_text(
        '[approvals]\n"shell:git status*" = "auto"\npython = "never"\n[mcpServers."my.files"]\ncommand = "npx"\n'
        'args = ["-y", "a b"]\ndisabled = true\ntimeout_s = 2.5\nenv."A.B" = "${X}"\n'
    )
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}}')
    monkeypatch.setenv("OSSIA_CONFIG", str(path))
    assert invoke(["config", "show"]) == 0
    out, err = capsys.readouterr()
    shown = tomllib.loads(out)
    assert ({key: shown[key] for key in tables}, err) == (tables, "")
    assert f"# mcpServers.other is in {tmp_path / 'mcp.json'}\n" in out


def test_show_warns_of_a_variable_that_is_none_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OSSIA_MODLE", "x")
    assert invoke(["config", "show"]) == 0
    out, err = capsys.readouterr()
    assert tomllib.loads(out)["effort"] == "medium"
    assert err == "ossia: warning: OSSIA_MODLE is not a setting: did you mean 'OSSIA_MODEL'?\n"


def test_a_bad_setting_is_one_line_and_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OSSIA_EFFORT", "much")
    assert invoke(["config", "show"]) == 2
    assert capsys.readouterr() == ("", "ossia: error: OSSIA_EFFORT: must be low, medium or high, not 'much'\n")


def test_path_prints_the_file_in_use_whether_it_is_there_or_not(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["config", "path"]) == 0
    usual = Path(capsys.readouterr().out.removesuffix("\n"))
    assert (home in usual.parents, usual.name, usual.exists()) == (True, "config.toml", False)
    monkeypatch.setenv("OSSIA_CONFIG", "/nowhere/at.toml")
    assert invoke(["config", "path"]) == 0
    assert capsys.readouterr().out == "/nowhere/at.toml\n"


def test_config_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config"]) == 0
    assert capsys.readouterr().out.startswith("Usage: ossia config ")
