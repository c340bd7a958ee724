"""`ossia run --jsonl`: the lines, and the result at every end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.stream.account import arguments_of
from ossia.agent.stream.events import Result, Text
from ossia.cli.oneshot.lines import Lines
from ossia.harmony.tokenizer import Tokenizer
from tests import events_schema
from tests.events import Difference, events_of, play
from tests.support.command import ossia, ossia_here, start, write_script
from tests.support.pty import spawn
from tests.support.remote import EVENTS, answer, serve
from tests.support.site import Reply, Site
from tests.support.work_calls import runs, writes

FINAL = "<|channel|>final<|message|>Done.<|return|>"
YEAR = '{"type": "object", "properties": {"year": {"type": "integer"}}, "required": ["year"]}'
CHEAP = (
    "answered", "misfit", "refused", "shown", "odd arguments", "failed engine", "wrong", "unreadable settings",
    "full output", "closed pipe", "signal",
)  # fmt: skip


def _events(*args: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> list[dict[str, Any]]:
    done = ossia("run", "hi", "--jsonl", *args, env=env, cwd=cwd)
    return events_of(done.stdout, done.returncode)


def test_the_schema_is_that_of_the_events() -> None:
    """`python -m tests.events_schema` writes it."""
    assert events_schema.PAGE.read_text(encoding="utf-8") == events_schema.text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and signals")
def test_turns_with_all_ends() -> None:
    """A small part of `python -m tests.events`."""
    ended = play(22, seed=7, kinds=CHEAP)
    assert len(ended) >= len(CHEAP)


def test_a_wrong_line_does_not_pass(tmp_path: Path) -> None:
    """Each line of a turn, with a field less, one more, or of another type: the schema says so."""
    script = write_script(tmp_path, writes("a.txt"), FINAL)
    (tmp_path / "work").mkdir()
    lines = _events("--engine", script, "--workspace", str(tmp_path / "work"))
    kinds = {line["type"] for line in lines}
    assert kinds >= {"begin", "text", "arguments", "usage", "tool_call", "approval", "approval_decided", "tool_result"}
    for line in {line["type"]: line for line in lines}.values():
        assert not list(events_schema.faults(line))
        wrong = [{key: value for key, value in line.items() if key != gone} for gone in line]
        wrong += [{**line, "more": 1}, {**line, "v": 2}, {**line, "turn": 0}, {**line, "type": "event"}]
        wrong += [{**line, key: [line[key]]} for key in line if key not in ("data", "arguments")]
        wrong += [{**line, key: 1} for key, value in line.items() if isinstance(value, str | bool)]
        assert all(list(events_schema.faults(one)) for one in wrong)
    with pytest.raises(Difference):
        events_of(b"".join(json.dumps(line).encode() + b"\n" for line in [*lines, lines[-1]]), 0)


def test_the_lines_of_a_turn(tmp_path: Path) -> None:
    think = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    call = '<|channel|>commentary to=functions.nothing <|constrain|>json<|message|>{"n": 1}<|call|>'
    lines = _events("--engine", write_script(tmp_path, think + call, FINAL), "--no-tools")
    seen = [(line["type"], line.get("delta")) for line in lines if line["type"] != "arguments"]
    assert seen == [
        ("begin", None), ("reasoning", "H"), ("reasoning", "m"), ("reasoning", "."), ("usage", None),
        ("tool_call", None), ("tool_result", None), ("text", "D"), ("text", "one"), ("text", "."), ("usage", None),
        ("result", None),
    ]  # fmt: skip
    result = lines[-1]
    assert (result["text"], result["end"], result["exit"], result["error"]) == ("Done.", "answered", 0, None)
    assert [(one["name"], one["arguments"], one["status"]) for one in result["calls"]] == [
        ("functions.nothing", {"n": 1}, "failed")
    ]


def test_what_could_not_be_stored_has_no_id(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    script = write_script(tmp_path, "<|channel|>final<|message|>Done.<|return|>")
    arguments = ("run", "go", "--jsonl", "--save", "--no-tools", "--engine", script)
    done = ossia(*arguments, env={"XDG_DATA_HOME": str(tmp_path / "file")})
    assert events_of(done.stdout, done.returncode)[-1]["session_id"] is None
    done = ossia(*arguments[:-1], "script:nowhere.json")
    assert events_of(done.stdout, 2)[-1]["session_id"] is None


def test_the_loading_and_the_warnings_are_lines_too() -> None:
    done = ossia("run", "What is <|end|> 48*17?", "--jsonl", "--seed", "1", "--no-tools")
    lines = events_of(done.stdout, done.returncode)
    notices = [(line["code"], line["text"]) for line in lines if line["type"] == "notice"]
    said = [line.removeprefix("ossia: ").removeprefix("warning: ") for line in done.stderr.decode().splitlines()]
    assert [text for _, text in notices] == said and [code for code, _ in notices] == ["note", "warning"]
    assert {"loading", "progress"} <= {line["type"] for line in lines}
    assert all(one != following for one, following in pairwise(lines))


def test_an_answer_by_a_schema_is_data(tmp_path: Path) -> None:
    script = write_script(tmp_path, '<|channel|>final<|message|>{"year": 1815}<|return|>')
    result = _events("--engine", script, "--no-tools", "--schema", YEAR)[-1]
    assert (result["data"], result["text"]) == ({"year": 1815}, '{"year": 1815}')


def test_a_server_that_goes_away_in_the_middle(site: Site, etude_tokenizer: Tokenizer) -> None:
    half = answer(etude_tokenizer, "<|channel|>final<|message|>It is", whole=False)
    serve(site, etude_tokenizer, [Reply(half, headers=EVENTS)])
    lines = _events("--engine", site.url(), "--no-tools")
    result = lines[-1]
    assert (result["end"], result["exit"], result["text"]) == ("error", 7, "It is") and result["error"]


@pytest.mark.parametrize("text", ['{"n": NaN}', '{"n": 1e999}', '{"n": ' * 3000 + "1" + "}" * 3000, "[1]", "{"])
def test_arguments_that_are_no_object_of_json_are_a_text(text: str) -> None:
    assert arguments_of(text) == text
    assert arguments_of('{"n": 1}') == {"n": 1}


def test_nothing_comes_after_the_result_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, data: Any) -> int:
            super().write(bytes(data)[:5])
            raise OSError(28, "No space left on device")

    for buffer, first in ((io.BytesIO(), Result("answered")), (Full(), Text("a"))):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(buffer, write_through=True))
        lines = Lines()
        with contextlib.suppress(OSError):
            lines.write(first)
        written = buffer.getvalue()
        lines.write(Text("b"))
        lines.write(Result("answered"))
        assert written and buffer.getvalue() == written


def test_a_stored_session_has_its_id_in_the_first_and_the_last_line(tmp_path: Path) -> None:
    lines = _events("--engine", write_script(tmp_path, FINAL), "--no-tools", "--save")
    (begin,) = [line for line in lines if line["type"] == "begin"]
    seen = ossia("sessions", "list", "--json")
    assert begin["session_id"] == lines[-1]["session_id"] == json.loads(seen.stdout)["sessions"][0]["id"]


@pytest.mark.parametrize("config", ["jsonl = true", "jsonl = true\neffort = 'huge'"])
def test_wherever_it_was_asked_for(config: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(config)
    flags = ("--jsonl",) if "huge" in config else ()
    done = ossia("run", "hi", "--workspace", "nowhere", *flags, env={"OSSIA_CONFIG": str(tmp_path / "config.toml")})
    assert events_of(done.stdout, done.returncode)[-1]["exit"] == 2


@pytest.mark.parametrize(
    ("flags", "seen"),
    [
        (("--jsonl", "--json"), "use one of --raw, --json and --jsonl"),
        (("--jsonl", "--raw"), "use one of --raw, --json and --jsonl"),
        (("--jsonl", "-o", "answer.md"), "use -o or --jsonl, not both"),
        (("--control", "stdin"), "--control stdin needs --jsonl: the events say what is asked"),
        (("--jsonl", "--control", "tty"), "--control tty: expected stdin, as in: "),
    ],
)
def test_flags_that_do_not_go_together(flags: tuple[str, ...], seen: str) -> None:
    done = ossia_here("run", "hi", *flags)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert done.stderr.decode().startswith(f"ossia: error: {seen}")
    if "--jsonl" in flags:
        assert events_of(done.stdout, 2)[-1]["error"].startswith(seen)


@pytest.mark.parametrize("prompt", [(), ("-",), (" ",)])
def test_control_needs_the_question_as_an_argument(prompt: tuple[str, ...]) -> None:
    done = ossia("run", *prompt, "--jsonl", "--control", "stdin", stdin=b"What is 48*17?\n")
    error = events_of(done.stdout, 2)[-1]["error"]
    assert error == "--control stdin needs the question as an argument: stdin holds the lines of control"


def test_a_line_is_one_for_every_reader(tmp_path: Path) -> None:
    """What Python's splitlines takes for a line's end is escaped."""
    script = write_script(tmp_path, "<|channel|>final<|message|>a\x85b\u2028c\u2029d\x0be\n<|return|>")
    done = ossia("run", "hi", "--jsonl", "--engine", script, "--no-tools")
    assert done.stdout.decode().splitlines() == done.stdout.decode().removesuffix("\n").split("\n")
    assert events_of(done.stdout, 0)[-1]["text"] == "a\x85b\u2028c\u2029d\x0be\n"


def test_on_a_terminal_nothing_acts(tmp_path: Path) -> None:
    script = write_script(tmp_path, "<|channel|>final<|message|>\x1b[2J\x9b1m\x7f\u202eü<|return|>")
    child = spawn("run", "hi", "--jsonl", "--engine", script, "--no-tools")
    shown = str(child.read())
    child.close()
    line = next(line for line in shown.splitlines() if '"type": "result"' in line)
    assert line.isascii() and line.isprintable() and json.loads(line)["text"] == "\x1b[2J\x9b1m\x7f\u202eü"


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_more_interrupts_take_no_result_away(tmp_path: Path) -> None:
    """The first one ends a command that takes a while to end."""
    script = write_script(tmp_path, runs("trap '' TERM INT; touch started; sleep 30"), FINAL)
    (tmp_path / "work").mkdir()
    process = start("run", "hi", "--jsonl", "--engine", script, "--workspace", str(tmp_path / "work"), "--yes")
    assert process.stdout is not None
    out = b""
    for line in process.stdout:
        out += line
        if b'"tool_started"' in line:
            break
    for _ in range(300):
        process.send_signal(signal.SIGINT)
        time.sleep(0.0001)
    rest, errors = process.communicate(timeout=60)
    result = events_of(out + rest, process.returncode)[-1]
    assert (result["end"], result["exit"]) == ("stopped", 130) and b"Traceback" not in errors


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
def test_a_reader_that_waits_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    """Nobody reads: a line waits, and a second Ctrl-C, a second later, ends it."""
    script = write_script(tmp_path, "<|channel|>final<|message|>" + " ".join(map(str, range(3000))))
    process = start("run", "hi", "--jsonl", "--engine", script, "--no-tools")
    assert process.stdout is not None
    process.stdout.read(1)
    time.sleep(1)  # until the pipe is full
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        _wait(process)
    lines = process.stdout.read().split(b"\n")
    assert process.returncode == 130 and all(json.loads(line) for line in lines[1:-1])


def _wait(process: Any) -> None:
    import subprocess

    try:
        process.wait(0.3)
    except subprocess.TimeoutExpired:
        return
