"""`ossia config`: what it prints can be read back."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from ossia.cli import paths
from ossia.cli.main import invoke
from ossia.cli.settings.config import resolve
from ossia.cli.settings.config_file import set_value
from ossia.cli.settings.table import Settings
from ossia.tools.files import write_whole
from tests.support.command import start


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
    tables["engines"] = {"team": {"url": "https://gpu.test", "key_env": "TEAM_KEY", "context": 2048}}
    path = tmp_path / "config.toml"
    path.write_text(
        '[approvals]\n"shell:git status*" = "auto"\npython = "never"\n[mcpServers."my.files"]\ncommand = "npx"\n'
        'args = ["-y", "a b"]\ndisabled = true\ntimeout_s = 2.5\nenv."A.B" = "${X}"\n'
        '[engines.team]\nurl = "https://gpu.test"\nkey_env = "TEAM_KEY"\ncontext = 2048\n'
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


def test_a_variables_name_is_cleaned(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OSSIA_\x1b]0;EVIL\x07", "x")
    assert invoke(["config", "show"]) == 0
    err = capsys.readouterr().err
    assert "EVIL" in err and "\x1b" not in err and "\x07" not in err


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


def test_config_alone_shows_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config", "show"]) == invoke(["config"]) == 0
    first, again = capsys.readouterr().out.split("# model is not set")[1:]
    assert first == again and "effort = " in first


# -- changing it -------------------------------------------------------------------------------------------------------

_MINE = """\
# mine
effort = "low"  # for speed

[approvals]
python = "ask"  # always

[mcpServers.files]
command = "npx"
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(_MINE)
    monkeypatch.setenv("OSSIA_CONFIG", str(path))
    return path


def test_set_keeps_all_else_as_it_is(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config", "set", "effort", "high"]) == 0
    assert invoke(["config", "set", "top-p", "0.9"]) == 0
    assert invoke(["config", "set", "allow", "shell:git status*", "shell:ls*"]) == 0
    assert invoke(["config", "set", "approvals.container.exec:git push*", "never"]) == 0
    expected = _MINE.replace('"low"', '"high"').replace(
        "for speed\n", 'for speed\ntop_p = 0.9\nallow = ["shell:git status*", "shell:ls*"]\n'
    )
    expected = expected.replace("always\n", 'always\n"container.exec:git push*" = "never"\n')
    assert mine.read_text() == expected
    assert f'ossia: {mine}: effort = "high"\n' in capsys.readouterr().err


def test_unset_puts_the_default_back(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["config", "unset", "effort"]) == 0
    assert invoke(["config", "unset", "approvals.python"]) == 0
    assert "effort" not in mine.read_text() and "python" not in mine.read_text()
    assert invoke(["config", "unset", "effort"]) == 2
    assert "'effort' isn't set there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ('[approvals.container]\nexec = "auto"\n', "container.exec"),
        ('[approvals]\ncontainer.exec = "auto"\n', "container.exec"),
        ('[approvals.container]\n"exec:rm *" = "auto"\n', "container.exec:rm *"),
        ('[approvals.container.exec]\n"rm *" = "auto"\n', "container.exec:rm *"),
        ('[approvals.weather]\n"Oslo*" = "auto"\n', "weather:Oslo*"),
    ],
)
def test_a_nested_rule_is_set_and_unset_as_any_other(
    written: str, rule: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for change, rules in ((("set", "never"), {rule: "never"}), (("unset",), {})):
        mine.write_text(written)
        assert invoke(["config", change[0], f"approvals.{rule}", *change[1:]]) == 0
        capsys.readouterr()
        assert invoke(["config", "show"]) == 0
        assert tomllib.loads(capsys.readouterr().out).get("approvals", {}) == rules


def test_a_date_in_an_engines_table_is_shown(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine.write_text('[engines.x]\nurl = "http://127.0.0.1:1"\nsince = 2024-01-31\n')
    assert invoke(["config", "show"]) == 0
    assert tomllib.loads(capsys.readouterr().out)["engines"]["x"]["since"].isoformat() == "2024-01-31"


def test_a_whole_table_is_not_taken_out_by_a_slip(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("approvals", "mcpServers"):
        assert invoke(["config", "unset", name]) == 2
        assert f"{name!r} is a table" in capsys.readouterr().err
    assert mine.read_text() == _MINE
    mine.write_text("approvals = 3\n")
    for command in (["set", "approvals.python", "ask"], ["unset", "approvals.python"]):
        assert invoke(["config", *command]) == 2
        assert "approvals: must be a table, not 3" in capsys.readouterr().err


def test_unset_takes_out_what_is_no_setting(mine: Path) -> None:
    mine.write_text(f"efort = 1\n{_MINE}")
    assert invoke(["config", "unset", "efort"]) == 0
    assert mine.read_text() == _MINE


@pytest.mark.parametrize(
    "arguments",
    [
        *(["effort", "hgih"], ["effort", "low", "high"], ["nope", "1"], ["approvals.shell", "maybe"], ["seed", "-1"]),
        *(["approvals.", "auto"], ["mcpServers", "x"], ["web_key", "sk-secret"], ["model", "a\udcff"]),
    ],
)
def test_what_cannot_be_set_changes_nothing(
    mine: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["config", "set", "--", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("ossia: error: ") and err.count("\n") == 1 and "sk-secret" not in err
    assert mine.read_text() == _MINE


def test_a_list_keeps_the_comments_of_what_stays(mine: Path) -> None:
    mine.write_text('allow = [\n    "shell:ls*",  # to look\n    "shell:git push*",  # no more\n    "python",\n]\n')
    assert invoke(["config", "set", "allow", "shell:ls*", "python", "shell:make*"]) == 0
    assert 'shell:ls*",  # to look\n' in mine.read_text() and "push" not in mine.read_text()
    assert resolve({}, environ={}, path=mine).settings.allow == ("shell:ls*", "python", "shell:make*")
    assert invoke(["config", "set", "allow", "python", "shell:ls*"]) == 0
    assert resolve({}, environ={}, path=mine).settings.allow == ("python", "shell:ls*")


def test_the_other_spelling_of_a_key_goes(mine: Path) -> None:
    mine.write_text(f"top-p = 0.5\n{_MINE}")
    assert invoke(["config", "set", "top_p", "0.9"]) == 0
    assert resolve({}, environ={}, path=mine).settings.top_p == 0.9


def test_a_file_of_functions_is_stored_as_it_will_be_found(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert invoke(["config", "set", "tools", "./fn.py", "python"]) == 0
    fn = str(tmp_path / "elsewhere" / "fn.py")
    assert fn in capsys.readouterr().err
    assert resolve({}, environ={}, path=mine).settings.tools == (fn, "python")


@pytest.mark.skipif(os.name == "nt", reason="no modes there")
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o660])
def test_owner_and_mode_stay(mine: Path, mode: int) -> None:
    mine.chmod(mode)
    if os.getuid() == 0:
        os.chown(mine, 1234, 4321)
    before = mine.stat()
    assert invoke(["config", "set", "effort", "high"]) == 0
    now = mine.stat()
    assert now.st_ino != before.st_ino
    assert (now.st_mode, now.st_uid, now.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_two_at_once_lose_nothing(mine: Path) -> None:
    keys = ("seed", "threads", "top_k", "gpu_layers", "max_tokens", "bell")
    started = [start("config", "set", key, str(number)) for number, key in enumerate(keys, 1)]
    assert [process.wait(60) for process in started] == [0] * len(keys)
    settings = resolve({}, environ={}, path=mine).settings
    assert [getattr(settings, key) for key in keys] == [1, 2, 3, 4, 5, 6]
    for process in started:
        process.communicate()


@pytest.mark.skipif(os.name == "nt", reason="no locks there")
def test_a_lock_of_another_is_not_waited_for_without_end(mine: Path) -> None:
    """Of the folder anybody can have one who can read it: that one means nothing."""
    import fcntl

    folder = os.open(mine.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert set_value(os.environ, "seed", ["7"], wait_s=0) == 7
    os.close(folder)
    with (paths.data_dir() / "config.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OSError) as raised:
            set_value(os.environ, "seed", ["8"], wait_s=0.05)
    assert raised.value.strerror == (
        f"another program has had {lock.name} locked for 0.05 s: end it, or try again"
    ) and "seed = 7" in mine.read_text(encoding="utf-8")


def test_unset_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OSSIA_CONFIG", str(tmp_path / "missing" / "config.toml"))
    assert invoke(["config", "unset", "seed"]) != 0
    assert list(tmp_path.iterdir()) == [] and not paths.data_dir().exists()


@pytest.mark.parametrize("command", [["edit"], ["set", "effort", "high"], ["unset", "effort"], ["show"]])
def test_links_in_a_circle_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (tmp_path / "a.toml").symlink_to("b.toml")
    (tmp_path / "b.toml").symlink_to("a.toml")
    monkeypatch.setenv("OSSIA_CONFIG", str(tmp_path / "a.toml"))
    assert invoke(["config", *command]) in (1, 2)
    err = capsys.readouterr().err
    assert "symbolic links" in err and err.startswith("ossia: error: ") and err.count("\n") == 1
    assert (tmp_path / "a.toml").is_symlink()


def test_a_variable_that_wins_is_named(
    mine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OSSIA_EFFORT", "medium")
    assert invoke(["config", "set", "effort", "high"]) == 0
    assert "OSSIA_EFFORT is set and overrides it" in capsys.readouterr().err


def test_set_follows_a_link_into_a_folder_of_dotfiles(
    tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link.toml"
    link.symlink_to(mine)
    monkeypatch.setenv("OSSIA_CONFIG", str(link))
    assert invoke(["config", "set", "effort", "high"]) == 0
    assert link.is_symlink() and '"high"' in mine.read_text()


def test_edit_opens_a_file_that_explains_itself_and_checks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "folder" / "config.toml"
    monkeypatch.setenv("OSSIA_CONFIG", str(path))
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "sed -i 's/^# effort = .medium.$/effort = \"high\"/'")
    assert invoke(["config", "edit"]) == 0
    assert resolve({}, environ={}, path=path).settings == Settings(effort="high")
    assert all(f"# {key} = " in path.read_text() for key in Settings.__dataclass_fields__ if key != "effort")
    monkeypatch.setenv("EDITOR", "sed -i s/high/hgih/")
    assert invoke(["config", "edit"]) == 2
    assert "hgih" in capsys.readouterr().err and "hgih" in path.read_text(), "what was typed is never thrown away"
    monkeypatch.setenv("EDITOR", "false")
    assert invoke(["config", "edit"]) == 1


def test_what_is_no_regular_file_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`OSSIA_CONFIG=/dev/null` means no file, also to root. (Here it is a pipe: a test that fails must do no harm.)"""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("OSSIA_CONFIG", str(pipe))
    for command in (["set", "effort", "high"], ["unset", "effort"]):
        assert invoke(["config", *command]) == 2
        assert capsys.readouterr().err == f"ossia: error: {pipe}: not a regular file\n"
    with pytest.raises(OSError, match="not a regular file"):
        write_whole(pipe, "x")
    assert pipe.is_fifo()
