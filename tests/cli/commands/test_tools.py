"""`ossia tools list` and `ossia tools call`: what is on, and a call by hand through the same toolbox as a model's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ossia.cli.main import invoke
from ossia.tools.work.result import formed
from tests.support.command import OSSIA, ossia, ossia_here, ossia_text, start
from tests.support.pty import PtyChat
from tests.support.site import Site, wait_until
from tests.support.work_calls import patch

OWN = '''\
import pathlib, sys, time

def double(n: int) -> int:
    """Doubles a number."""
    print("on the screen")
    return 2 * n

def echo(text: str) -> str:
    """Gives it back."""
    return text

def leave() -> str:
    """Leaves."""
    sys.exit(3)

def wait(seconds: float) -> str:
    """Waits."""
    pathlib.Path(__file__).with_name("waits").touch()
    time.sleep(seconds)
    return "waited"
'''


@pytest.fixture
def own(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def _script(folder: Path, *calls: object) -> str:
    path = folder / "calls.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in calls))
    return str(path)


def _answers(*arguments: str, code: int = 0) -> list[dict[str, Any]]:
    done = ossia("tools", "call", "--json", *arguments)
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


class TestList:
    def test_it_shows_the_text_of_the_prompt(self, own: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert (
            invoke(
                ["tools", "list", "--allow-host", "a.test", "--tools", own, "--allow", "double:3", "--deny", "leave"]
            )
            == 0
        )
        out, err = capsys.readouterr()
        assert err == ""
        assert "\n    // sources=docs (default: docs)\n    namespace browser {\n" in out
        assert "browser.search    built-in, auto\n" in out
        assert "functions.double  file own.py, auto; auto: double:3\n" in out
        assert "functions.leave   file own.py, never\n" in out
        assert "    // Doubles a number.\n    type double = (_: {\n    n: number,\n    }) => any;\n" in out

    def test_flags_that_only_a_model_needs_are_taken_and_not_listed(self, own: str) -> None:
        told = ossia_text("tools", "call", "--help").stdout
        assert "--workspace DIR" in told and "--temperature" not in told
        done = ossia_text("tools", "call", "double", '{"n": 4}', "--tools", own, "--temperature", "0", "--raw")
        assert (done.returncode, done.stdout) == (0, "8\n")

    def test_only_named_functions_and_those_that_are_skipped(
        self, own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert invoke(["tools", "list", "--tools", f"{own}:echo,double,browser", "--allow-host", "a.test"]) == 0
        on = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith(("func", "brow"))]
        assert on == ["browser.search", "browser.open", "browser.find", "functions.echo", "functions.double"]
        assert invoke(["tools", "list", "--tools", f"{own}:ecko"]) == 2
        assert capsys.readouterr().err.endswith("own.py: has no function 'ecko', only double, echo, leave, wait\n")
        (tmp_path / "half.py").write_text("def good() -> int: ...\ndef bad(x): ...\n")
        assert invoke(["tools", "list", "--tools", str(tmp_path / "half.py")]) == 0
        shown = capsys.readouterr()
        fault = "half.py line 2: the parameter 'x' has no type hint: write e.g. x: str"
        assert shown.err == f"ossia: warning: bad is skipped: {fault}\n"
        assert "functions.good  file half.py, auto\n" in shown.out
        assert shown.out.endswith(f"functions.bad  off: {fault}\n")
        assert invoke(["tools", "list", "--json", "--tools", str(tmp_path / "half.py")]) == 0
        assert json.loads(capsys.readouterr().out)["off"]["functions.bad"] == fault

    def test_as_json(self, own: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert invoke(["tools", "list", "--json", "--tools", own, "--tools", "browser"]) == 0
        listed = json.loads(capsys.readouterr().out)
        assert listed["version"] == 1
        by_name = {tool["name"]: tool for tool in listed["tools"]}
        assert set(by_name) == {"browser.search", "browser.open", "browser.find", "functions.double",
                                "functions.echo", "functions.leave", "functions.wait"}  # fmt: skip
        assert by_name["functions.double"] == {
            "name": "functions.double",
            "source": "file own.py",
            "effects": ["run"],
            "approval": "auto",
            "rules": [],
            "text": "// Doubles a number.\ntype double = (_: {\nn: number,\n}) => any;",
        }

    def test_a_workspace_turns_its_functions_on(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "work").mkdir()
        assert invoke(["tools", "list", "--json", "--workspace", str(tmp_path / "work"), "--unconfined"]) == 0
        approvals = {tool["name"]: tool["approval"] for tool in json.loads(capsys.readouterr().out)["tools"]}
        assert {name: approval for name, approval in approvals.items() if name.startswith(("repo_", "container"))} == {
            "container.exec": "ask", "repo_browser.apply_patch": "ask", "repo_browser.list_dir": "auto",
            "repo_browser.open_file": "auto", "repo_browser.print_tree": "auto", "repo_browser.search": "auto",
        }  # fmt: skip

    def test_a_rule_of_the_command_line_that_names_no_tool_is_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        """It would deny nothing, without a word."""
        assert (
            invoke(
                [
                    "tools",
                    "list",
                    "--allow-host",
                    "a.test",
                    "--deny",
                    "brwser",
                    "--deny",
                    "browser",
                    "--allow",
                    "python",
                ]
            )
            == 0
        )
        shown = capsys.readouterr()
        assert shown.err == "ossia: warning: --deny 'brwser': no tool of that name is on\n"
        assert "browser.open    built-in, never" in shown.out

    def test_a_rule_of_the_config_that_holds_nothing_back_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Not what names a tool that isn't on in every run, nor what would only allow something."""
        rules = {"brwser": "never", "weather:x": "ask", "open_file": "never", "exec": "ask", "a__b": "ask", "w": "auto"}
        (tmp_path / "c.toml").write_text("[approvals]\n" + "".join(f'"{one}" = "{rules[one]}"\n' for one in rules))
        monkeypatch.setenv("OSSIA_CONFIG", str(tmp_path / "c.toml"))
        line = "ossia: warning: [approvals] {}: no tool of that name is on\n"
        assert invoke(["tools", "list"]) == 0
        assert capsys.readouterr().err == line.format("'brwser'") + line.format("'weather:x'")
        assert invoke(["tools", "list", "--no-tools"]) == 0
        assert capsys.readouterr().err == ""
        assert invoke(["tools", "list", "--tools", "python", "--workspace", str(tmp_path), "--allow", "open_file"]) == 0
        hint = "ossia: warning: --allow 'open_file': no tool of that name is on: did you mean repo_browser.open_file?\n"
        shown = capsys.readouterr()
        assert hint in shown.err and "approvals" not in shown.err
        assert "repo_browser.open_file    built-in, never" in shown.out
        assert invoke(["tools", "list", "--allow-network", "uv sync"]) == 0
        warned = "ossia: warning: --allow-network 'container.exec[network]:uv sync': no tool of that name is on\n"
        assert warned in capsys.readouterr().err

    def test_a_rule_of_a_trusted_folder_for_no_tool(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / ".ossia").mkdir()
        (tmp_path / ".ossia" / "config.toml").write_text('[approvals]\n"brwser" = "never"\n"container.exec" = "ask"\n')
        assert invoke(["tools", "list", "--workspace", str(tmp_path), "--trust"]) == 0
        told = "ossia: warning: .ossia/config.toml: approvals 'brwser': no tool of that name is on\n"
        assert capsys.readouterr().err == told

    def test_nothing_is_on(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert invoke(["tools", "list", "--no-tools"]) == 0
        assert capsys.readouterr().out == ""


class TestCall:
    def test_exactly_what_the_model_is_given(self) -> None:
        done = ossia("tools", "call", "python", "print('a'); 1/0")
        assert done.returncode == 1 and done.stdout.startswith(b"a\n")
        assert b"ZeroDivisionError" in done.stdout and done.stdout.endswith(b"\n")
        assert done.stderr == b""

    def test_the_last_line_is_ended(self, own: str, tmp_path: Path) -> None:
        done = ossia("tools", "call", "double", '{"n": "21"}', "--tools", own)
        assert (done.returncode, done.stdout) == (0, b"42\n")
        (tmp_path / "a.txt").write_text("two\nlines\n")
        done = ossia("tools", "call", "echo", '{"text": "two\\nlines\\n"}', "--tools", own)
        assert (done.returncode, done.stdout) == (0, b"two\nlines\n"), "none is added to one that is"

    @pytest.mark.parametrize("name", ["repo_browser.open_file", "open_file", "read_file", "functions.read_file"])
    def test_a_name_is_taken_as_a_model_may_write_it(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("two\nlines\n")
        done = ossia_here("tools", "call", name, '{"path": "a.txt"}', "--workspace", str(tmp_path))
        assert (done.returncode, done.stdout.decode()) == (0, formed("two\nlines\n", tmp_path.resolve()) + "\n")

    @pytest.mark.needs_bwrap
    def test_the_toolchains_that_commands_see_and_the_line_for_the_model(self, home: Path, tmp_path: Path) -> None:
        program, keys = home / ".cargo/bin/cargo", home / ".ssh"
        for folder in (program.parent, keys, tmp_path / "app"):
            folder.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        flags = ("--workspace", str(tmp_path / "app"), "--readable", str(keys))
        done = ossia_text("tools", "list", "--verbose", *flags, env={"PATH": f"{program.parent}:/usr/bin:/bin"})
        assert "commands may read, for PATH: ~/.cargo/bin" in done.stderr
        assert f"warning: --readable {keys}: never shown, for secrets are kept there" in done.stderr
        assert "\n\n    Commands can use " in done.stdout and "cargo" in done.stdout

    @pytest.mark.needs_bwrap
    @pytest.mark.parametrize(
        "arguments", ['{"command": ["echo", "$HOME;ls"]}', '{"cmd": "echo \'$HOME;ls\'"}', '["echo", "$HOME;ls"]']
    )
    def test_a_command_is_a_list_or_a_line(self, arguments: str, tmp_path: Path) -> None:
        done = ossia("tools", "call", "exec", arguments, "--workspace", str(tmp_path), "--yes")
        assert (done.returncode, done.stdout.decode()) == (0, formed("$HOME;ls\n", tmp_path.resolve()) + "\n")

    @pytest.mark.parametrize(
        ("name", "arguments", "part", "code"),
        [
            ("nope", "{}", "there is no tool 'nope'", 2),
            ("double", "{", "not valid JSON", 1),
            ("double", '{"n": "x"}', "n of functions.double", 1),
            ("double", '{"m": 1}', "unknown argument 'm'", 1),
            ("leave", "", "SystemExit", 1),
        ],
    )
    def test_a_fault_is_the_models_text(self, name: str, arguments: str, part: str, code: int, own: str) -> None:
        done = ossia_here("tools", "call", name, arguments, "--tools", own)
        assert done.returncode == code and part in done.stdout.decode()

    def test_a_refusal_is_8(self, tmp_path: Path) -> None:
        call = ("tools", "call", "apply_patch", patch("a"), "--workspace", str(tmp_path))
        for flags in ((), ("--deny", "repo_browser.apply_patch"), ("--deny", "repo_browser.apply_patch")):
            done = ossia(*call, *flags)
            assert (done.returncode, done.stdout.count(b"\n")) == (8, 1), flags
        twice = _script(tmp_path, *2 * [{"name": "apply_patch", "arguments": {"patch": patch("a")}}])
        assert ossia("tools", "call", "--script", twice, "--workspace", str(tmp_path)).returncode == 8
        assert not (tmp_path / "a").exists()

    def test_a_script_ends_with_the_code_of_its_first_failure(self, own: str, tmp_path: Path) -> None:
        good, bad = {"name": "double", "arguments": {"n": 1}}, {"name": "leave", "arguments": {}}
        script = _script(tmp_path, good, bad, {"name": "nope", "arguments": {}}, good)
        done = ossia("tools", "call", "--script", script, "--tools", own)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (1, b"2")

    def test_bad_usage_is_2(self, tmp_path: Path) -> None:
        for arguments in ([], ["a", "--script", "b"], ["--script", str(tmp_path / "none")], ["a", "--tools", "no.py"],
                          [" "], ["--script", ""]):  # fmt: skip
            done = ossia_here("tools", "call", *arguments)
            assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), arguments

    @pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
    def test_a_dry_run_shows_the_diff_once_on_a_terminal(self, tmp_path: Path) -> None:
        call = ("tools", "call", "apply_patch", json.dumps({"patch": patch("a.md")}), "--dry-run")
        with PtyChat(*call, "--workspace", str(tmp_path)) as shown:
            assert shown.wait() == 0
        done = ossia(*call, "--workspace", str(tmp_path))
        assert [text.count("+new") for text in (shown.text, done.stdout.decode(), done.stderr.decode())] == [1, 1, 1]

    def test_as_json(self, own: str) -> None:
        (answer,) = _answers("functions.double", '{"n": 4}', "--tools", own)
        assert answer.pop("ms") >= 0
        assert answer == {"name": "functions.double", "text": "8", "notices": [], "error": False}

    def test_a_time_limit_holds_for_a_call(self, own: str) -> None:
        (answer,) = _answers("wait", '{"seconds": 60}', "--tools", own, "--timeout", "1", code=6)
        assert answer["error"] and answer["text"].startswith("[interrupted")

    @pytest.mark.needs_bwrap
    def test_a_command_that_ends_by_its_own_limit_is_cut_too(self, tmp_path: Path) -> None:
        arguments = json.dumps({"command": ["sleep", "60"], "timeout": 1000})
        (answer,) = _answers("container.exec", arguments, "--workspace", str(tmp_path), "--yes", "--trust", code=6)
        assert answer["error"] and "timed out after 1 s" in answer["text"]

    def test_an_address_that_was_typed_is_opened_though_private_text_stands_there(self, tmp_path: Path) -> None:
        """On the command line the user types it; in a script it may come from anywhere."""
        with Site() as site:
            site.page("/", "<title>A</title><p>Hello.")
            call = {"name": "browser.open", "arguments": {"id": site.url()}}
            flags = ("--allow-host", str(site.at()))
            (once,) = _answers("browser.open", json.dumps(call["arguments"]), *flags)
            secret = {"name": "python", "arguments": "print('secret')"}
            leak = {"name": "browser.open", "arguments": {"id": site.url("/?q=secret")}}
            first, _, last = _answers("--script", _script(tmp_path, call, secret, leak), *flags, code=8)
        assert (once["error"], first["error"], last["error"]) == (False, False, True)
        assert "nobody to ask" in last["text"] and "Hello." in first["text"]


class TestScript:
    def test_one_session_answered_line_by_line(self, own: str, tmp_path: Path) -> None:
        calls = (
            {"name": "python", "arguments": "x = 20"},
            {"name": "double", "arguments": {"n": 1}},
            {"name": "python", "arguments": "print(x + 1)"},
        )
        answers = _answers("--script", _script(tmp_path, *calls), "--tools", own)
        told = [(answer["name"], answer["text"]) for answer in answers[1:]]
        assert told == [("functions.double", "2"), ("python", "21")]

    def test_each_answer_comes_before_the_next_call(self, own: str) -> None:
        child = subprocess.Popen([str(OSSIA), "tools", "call", "--json", "--script", "-", "--tools", own],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))  # fmt: skip
        assert child.stdin and child.stdout
        with child:
            for number in (1, 2, 3):
                child.stdin.write(json.dumps({"name": "double", "arguments": {"n": number}}).encode() + b"\n")
                child.stdin.flush()
                assert json.loads(child.stdout.readline())["text"] == str(2 * number)
            child.stdin.close()
        assert child.returncode == 0

    @pytest.mark.parametrize("line", ["{", "[]", '{"name": 1}', '{"arguments": {}}', '{"name": "a", "argument": {}}'])
    def test_a_line_that_is_no_call_is_2_and_named(self, line: str, own: str, tmp_path: Path) -> None:
        path = tmp_path / "calls.jsonl"
        path.write_text('{"name": "double", "arguments": {"n": 1}}\n\n' + line + "\n")
        done = ossia_here("tools", "call", "--json", "--script", str(path), "--tools", own)
        assert done.returncode == 2 and b"line 3" in done.stderr and done.stderr.count(b"\n") == 1
        assert json.loads(done.stdout)["text"] == "2"

    def test_ctrl_c_ends_a_call_at_once(self, own: str) -> None:
        child = start("tools", "call", "wait", '{"seconds": 60}', "--tools", own)
        wait_until(Path(own).with_name("waits").exists, seconds=30)
        began = time.monotonic()
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=30)
        assert child.returncode == 130 and b"Traceback" not in err
        assert time.monotonic() - began < 15


class TestViews:
    """How much of a page is shown is counted in gpt-oss's vocabulary, whatever model runs."""

    def _lines(self, folder: Path, cache: Path) -> tuple[int, str]:
        """How many lines of a long page are shown, and what stderr says."""
        with Site() as site:
            site.page("/", "<title>Long</title>" + "<p>Some words on a line of their own.</p>" * 400)
            call = {"name": "browser.open", "arguments": {"id": site.url()}}
            script = _script(folder, call, {"name": "browser.open", "arguments": {"loc": 3}})
            flags = ("--allow-host", str(site.at()), "--model", "etude")
            done = ossia("tools", "call", "--script", script, *flags, env={"TIKTOKEN_CACHE_DIR": str(cache)})
        assert done.returncode == 0, done.stderr
        shown = done.stdout.decode().split("[1] Long")[0]
        return shown.count("\nL"), done.stderr.decode()

    def test_in_gpt_oss_s_vocabulary_and_in_the_model_s_own_where_there_is_none(
        self, tmp_path: Path, o200k_dir: Path
    ) -> None:
        lines, told = self._lines(tmp_path, o200k_dir)
        assert told == ""
        fewer, told = self._lines(tmp_path, tmp_path / "empty")
        assert "no gpt-oss vocabulary on this machine" in told and told.count("\n") == 1  # once, not for each page
        assert fewer < lines
