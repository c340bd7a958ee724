"""`ossia run` on a terminal: a real pty, 80 columns, and everything it wrote."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from ossia.cli.clean import fitted
from ossia.cli.terminal.keyboard import KEYS_BACK, PLAIN_KEYS
from tests.support.command import write_script
from tests.support.documents import counted
from tests.support.emulator import Emulator, Stream
from tests.support.pty import spawn
from tests.support.work_calls import wants

THINK = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
CALL = "<|channel|>analysis to=python code<|message|>print(6*7)<|call|>"
FINAL = "<|channel|>final<|message|>Done.<|return|>"
HOSTILE = "a\x1b]52;c;ZXZpbA==\x07b\x1b[2Jc\u202ed\x9be"
# What we write ourselves: moves of the cursor and erasures, frames, dim, the colour of code, plain.
OURS = re.compile(r"\r(?=\x1b)|\x1b\[(?:2?K|\d*[AB]|\?2026[hl]|(?:0|2|36)m)|\x1b[78]")


def _screen(
    *arguments: str, code: int = 0, columns: int = 80, command: tuple[str, ...] = ("run",), **env: str
) -> str:
    """Everything that a run writes to its terminal, as text, but for the modes of keys."""
    child = spawn(*command, *arguments, columns=columns, environ={"TERM": "xterm-256color", **env})
    text = child.read()
    child.close()
    assert child.exitstatus == code, text
    assert isinstance(text, str)
    return text.replace(PLAIN_KEYS, "").replace(KEYS_BACK, "")


def _lines(text: str) -> list[str]:
    """The lines that stay, on a terminal on which none is wrapped."""
    screen = Emulator(1000, 200)
    Stream(screen).feed(text.encode())
    return [row for row in screen.shown if row]


def test_a_call_by_hand_hints_at_the_workspace() -> None:
    text = _screen("repo_browser.open_file", '{"path": "a.txt"}', command=("tools", "call"), code=2)
    assert "→ --workspace DIR gives it a folder to work in" in text


def test_a_turn_with_a_call(tmp_path: Path) -> None:
    script = write_script(tmp_path, THINK + CALL, FINAL, tokens_per_s=40)
    text = _screen("hi", "--engine", script)
    lines = _lines(text)
    assert re.fullmatch(r"▸ ran Python: print\(6\*7\) · 42( · \d+\.\d s)?", lines[0])
    assert lines[1] == "Done."
    assert re.fullmatch(r"script · \d+ tokens · [\d.,]+ tok/s", lines[2])
    assert len(lines) == 3
    assert "thinking · " in text and "\x1b[2m" in text


def test_a_function_is_shown_as_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text('def look(at: str, n: int = 0) -> str:\n    "Looks."\n    return "seen"\n')
    shown = {'{"at": "a  b"}': 'look(at="a  b")', '{"at": "a", "n": 7}': 'look(at="a", n=7)'}
    calls = [f"<|channel|>analysis to=functions.look code<|message|>{arguments}<|call|>" for arguments in shown]
    lines = _lines(
        _screen("hi", "--engine", write_script(tmp_path, *calls, FINAL), "--tools", str(tmp_path / "own.py"))
    )
    assert lines[:2] == [f"▸ {said} · seen" for said in shown.values()]


def test_what_is_not_attached_is_told_on_lines_of_its_own() -> None:
    told = _lines(_screen("@gone.md @lost.md", "--max-tokens", "1", "--no-tools", code=6))
    for name in ("gone.md", "lost.md"):
        assert f"ossia: warning: @{name}: not attached: there is no such file" in told


def test_a_citation_that_is_held_back_costs_nothing_of_the_answer(tmp_path: Path) -> None:
    final = "<|channel|>final<|message|>It was built in winter【1†L2-L3】 of stone【2†L1】 and 木.<|return|>"
    lines = _lines(_screen("hi", "--engine", write_script(tmp_path, final, tokens_per_s=12)))
    assert lines[0] == "It was built in winter[1] of stone[2] and 木."


def test_where_the_codes_files_are_is_told(tmp_path: Path) -> None:
    call = "<|channel|>analysis to=python code<|message|>open('/mnt/data/x', 'w').write('abc')<|call|>"
    lines = _lines(_screen("hi", "--engine", write_script(tmp_path, call, FINAL), XDG_DATA_HOME=str(tmp_path)))
    (told,) = [line for line in lines if line.startswith("python's files: ")]
    (folder,) = (tmp_path / "ossia").iterdir()
    assert told == f"python's files: {folder}"  # whole, however long it is
    assert (folder / "x").read_text() == "abc"


def test_thinking_is_dim_and_on_lines_of_its_own(tmp_path: Path) -> None:
    text = _screen("hi", "--engine", write_script(tmp_path, THINK + FINAL, tokens_per_s=40), "--show-thinking")
    assert _lines(text)[:2] == ["Hm.", "Done."]
    assert "\x1b[2mH" in text


@pytest.mark.parametrize("flag", ["", "--show-thinking", "--raw", "--json"])
def test_no_control_reaches_the_terminal(flag: str, tmp_path: Path) -> None:
    hostile_call = f"<|channel|>analysis to=python code<|message|>print({HOSTILE!r})#{HOSTILE}<|call|>"
    steps = (
        f"<|channel|>analysis<|message|>{HOSTILE}<|end|><|start|>assistant" + hostile_call,
        f"<|channel|>final<|message|>{HOSTILE} \\(\\text{{{HOSTILE}}}\\)\n\n```{HOSTILE}\n{HOSTILE}\n```<|return|>",
    )
    text = _screen("hi", "--engine", write_script(tmp_path, *steps), *filter(None, [flag]))
    rest = OURS.sub("", text)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)
    assert ("\\u001b" if flag == "--json" else "␛") in rest


def test_the_raw_stream_is_not_written_over(tmp_path: Path) -> None:
    text = _screen("hi", "--engine", write_script(tmp_path, THINK + FINAL, tokens_per_s=40), "--raw")
    assert text == f"<|start|>assistant{THINK}{FINAL}\r\n"


def test_no_colour_and_dumb_terminals(tmp_path: Path) -> None:
    script = write_script(tmp_path, THINK + FINAL, tokens_per_s=40)
    assert "\x1b[2m" not in _screen("hi", "--engine", script, "--show-thinking", NO_COLOR="1")
    assert "\x1b" not in _screen("hi", "--engine", script, "--show-thinking", TERM="dumb")


def test_what_verbose_adds_stands_on_lines_of_its_own(tmp_path: Path) -> None:
    flags = ("--no-tools", "--verbose")
    lines = _screen("hi", "--engine", write_script(tmp_path, FINAL), *flags, TERM="dumb").split("\r\n")
    assert lines[0] == "Done." and lines[1].startswith("step: ")
    assert lines[2].startswith("script · ") and lines[3:] == [""]


def test_quiet_is_only_the_answer(tmp_path: Path) -> None:
    assert _lines(_screen("hi", "--engine", write_script(tmp_path, THINK + FINAL), "--quiet")) == ["Done."]
    plain = _screen("hi", "--engine", write_script(tmp_path, THINK + FINAL), "--quiet", "--plain")
    assert plain == "Done.\r\n"


def test_two_answers_of_a_turn_stand_on_lines_of_their_own(tmp_path: Path) -> None:
    first = "<|channel|>final<|message|>Wait.<|end|><|start|>assistant"
    text = _screen("hi", "--engine", write_script(tmp_path, first + CALL, FINAL))
    assert [line for line in _lines(text) if line in ("Wait.", "Done.")] == ["Wait.", "Done."]
    text = _screen("hi", "--engine", write_script(tmp_path, first + FINAL, tokens_per_s=40))
    assert _lines(text)[:2] == ["Wait.", "Done."]


def test_code_in_the_final_channel_is_no_answer(tmp_path: Path) -> None:
    call = "<|channel|>final to=python<|message|>print(1)<|call|>"
    lines = _screen("hi", "--engine", write_script(tmp_path, call, FINAL), "--no-tools", TERM="dumb").split("\r\n")
    assert lines[:2] == [
        "✗ Run Python: print(1) · there is no tool 'python'. No tools are on: answer",
        "  without one.",
    ]
    assert lines[2] == "  → all tools are off: --no-tools is set, here or in the config"
    assert lines[3] == "Done." and lines[4].startswith("script · ") and lines[5:] == [""]


@pytest.mark.parametrize("columns", [50, 80, 120])
def test_why_calls_failed_and_what_helps_is_whole_at_any_width(columns: int, tmp_path: Path, home: Path) -> None:
    servers = home / ".config" / "ossia" / "mcp.json"
    servers.parent.mkdir(parents=True)
    servers.write_text(json.dumps({"mcpServers": {"my-files": {"command": sys.executable, "args": ["-c", ""]}}}))
    long = "/long" * 60
    steps = (
        wants("browser.open", id=f"http://127.0.0.1:9{long}"),
        wants("browser.search", query="llamas", source="web"),
        wants("repo_browser.open_file", path="a.txt"),
        wants("functions.my-files__read", path="a.txt"),
        "<|channel|>analysis to=python code<|message|>import no_such_module.part<|call|>",
        FINAL,
    )
    flags = ("--allow-host", "a.test", "--engine", write_script(tmp_path, *steps))
    text = _screen("hi", *flags, columns=columns, TERM="dumb")
    lines = text.split("\r\n")
    told = " ".join(" ".join(lines).split())
    for reason in (
        " · 127.0.0.1 isn't on the public internet; ossia started with --allow-host 127.0.0.1:9 opens it",
        " · no web search service is set up",
        "→ --web URL searches the web: a SearXNG's address, or brave, exa, … with a key",
        "✗ Read a.txt · there is no tool",
        "→ --workspace DIR gives it a folder to work in",
        "check it with `ossia mcp test my-files`",
        "→ ossia mcp test my-files says why that server is off",
        " · ModuleNotFoundError: No module named 'no_such_module'",
        "→ ossia python setup no_such_module installs it for the model's Python",
    ):
        assert reason in told
    assert "Error" not in told.replace("ModuleNotFoundError", "") and long not in told
    assert all(len(line) < columns for line in lines if "warning" not in line)


def test_ctrl_c(tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>" + counted("word ", 450), tokens_per_s=100)
    child = spawn("run", "hi", "--engine", script, environ={"TERM": "xterm"}, encoding=None)
    child.expect_exact("word 0 word 1")
    child.sendintr()
    rest = child.read()
    child.close()
    assert child.exitstatus == 130
    assert b"Traceback" not in rest and rest.endswith(f"\r\n\x1b[?2026l{KEYS_BACK}".encode())


@pytest.mark.parametrize(
    ("text", "cells", "expected"),
    [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("日本語", 4, "日…"), ("日本語", 5, "日本…"), ("a\tb", 3, "a b")],
)
def test_a_line_fits_its_columns(text: str, cells: int, expected: str) -> None:
    assert fitted(text, cells) == expected
