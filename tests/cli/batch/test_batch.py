"""`ossia batch`: the lines, those that fail, and going on after an end in the middle."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.locks import file_lock
from tests.support.command import ossia, ossia_here, start, write_script
from tests.support.remote import EVENTS, answer, serve
from tests.support.site import Reply, Request, Site

FINAL = "<|channel|>final<|message|>{}<|return|>"
NUMBER = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}},
          "required": ["n"], "additionalProperties": False}  # fmt: skip
ETUDE = ("--model", "etude", "--no-tools")


def questions(folder: Path, *lines: object) -> str:
    """A file of questions; a line of bytes stands in it as it is."""
    path = folder / "in.jsonl"
    path.write_bytes(b"".join((one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in lines))
    return str(path)


def answers(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def without_times(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "usage"} for line in lines]


def test_each_line_gets_its_answer_or_its_own_fault(tmp_path: Path) -> None:
    asked = questions(
        tmp_path,
        "Hello",
        {"id": "a", "prompt": "One digit", "schema": NUMBER},
        b"",
        b"Hello",
        {"id": 7, "prompt": "Hello", "efort": "low"},
        {"prompt": "Hello", "effort": "lower"},
        {"id": "b", "prompt": " "},
        [1],
        b'"\xff"',
        {"id": "c", "prompt": "Hello", "schema": {"not": {}}},
        {"id": "d", "prompt": "Count to a hundred", "max_tokens": 1},
    )
    done = ossia("batch", asked, *ETUDE, "-o", str(tmp_path / "out.jsonl"))
    lines = answers((tmp_path / "out.jsonl").read_bytes())
    assert [(line["line"], line["id"], line["end"], line["exit"]) for line in lines] == [
        (1, None, "answered", 0),
        (2, "a", "answered", 0),
        (4, None, "error", 2),
        (5, 7, "error", 2),
        (6, None, "error", 2),
        (7, "b", "error", 2),
        (8, None, "error", 2),
        (9, None, "error", 2),
        (10, "c", "error", 2),
        (11, "d", "tokens", 6),
    ]
    assert set(lines[1]["data"]) == {"n"}
    assert lines[0]["text"]
    for line, said in zip(
        lines[2:9], ("JSON", "'efort'", "low, medium or high", '"prompt"', "[1]", "UTF-8", "not"), strict=True
    ):
        assert said in line["error"]
    assert done.returncode == 1
    assert done.stderr.decode() == (
        "ossia: 8 of 10 failed: lines 4, 5, 6, 7, 8 and 3 more; line 4: the line isn't JSON (Expecting value: line 1"
        ' column 1 (char 0)): a question is "text" or {"prompt": "text"}\n'
    )
    again = ossia("batch", asked, *ETUDE, "-o", str(tmp_path / "out.jsonl"))
    assert (again.returncode, again.stdout) == (1, b"")
    assert b"nothing to ask: 10 of 10 are done; --retry asks those that failed again" in again.stderr
    assert answers((tmp_path / "out.jsonl").read_bytes()) == lines


def test_the_answer_is_that_of_a_run(tmp_path: Path) -> None:
    """Whatever was asked before it, and in another lane, too."""
    own = {"prompt": "Hello", "instructions": "@in.jsonl", "effort": "low", "max_tokens": 30}
    done = ossia("batch", questions(tmp_path, *["What is 48*17?", own] * 2), "--model", "etude", "--parallel", "3")
    as_run = ["run", "--model", "etude", "--jsonl"]
    (tmp_path / "say").write_text("@in.jsonl")  # a line is data: no file is read
    low = ("-e", "low", "-s", f"@{tmp_path / 'say'}", "--max-tokens", "30")
    results = [answers(ossia(*as_run, *asked).stdout)[-1] for asked in (("What is 48*17?",), (*low, "Hello"))]
    for line, result in zip(answers(done.stdout), results * 2, strict=True):
        assert line["usage"]["prompt"] == result["usage"]["prompt"]
        assert without_times([{**line, **result}]) == without_times([line])


def test_a_refused_call_is_listed_with_the_rule_that_allows_it(tmp_path: Path) -> None:
    steps = (
        '<|channel|>commentary to=container.exec code<|message|>{"cmd": ["touch", "a"]}<|call|>',
        FINAL.format("No."),
    )
    folder = tmp_path / "work"
    folder.mkdir()
    script = write_script(tmp_path, *steps, *steps)
    done = ossia("batch", questions(tmp_path, "Hi", "Hi"), "--engine", script, "--workspace", str(folder))
    for line in answers(done.stdout):
        (refused,) = line["refused"]
        assert (line["exit"], line["text"], refused["name"]) == (0, "No.", "container.exec")
        assert "--allow" in refused["allow"]
    assert done.stderr == (
        b"ossia: 2 calls were refused, since nobody could be asked: container.exec (2);"
        b" --allow 'container.exec:touch a' allows it\n"
    )


def test_an_address_in_a_question_brings_the_browser_to_that_one_only(tmp_path: Path) -> None:
    script = write_script(tmp_path, *[FINAL.format("Yes.")] * 3)
    done = ossia("batch", questions(tmp_path, "Hello", "Look at https://a.test/", "Hello"), "--engine", script)
    first, second, third = (line["usage"]["prompt"] for line in answers(done.stdout))
    assert first == third < second - 100


@pytest.mark.needs_bwrap
def test_no_question_sees_the_variables_of_another(tmp_path: Path) -> None:
    sets = "<|channel|>analysis to=python code<|message|>print('x' in dir()); x = 1<|call|>"
    script = write_script(tmp_path, *(sets, FINAL.format("Yes.")) * 2)
    done = ossia("batch", questions(tmp_path, "Hi", "Hi"), "--engine", script)
    assert [line["calls"][0]["output"] for line in answers(done.stdout)] == ["False"] * 2


def test_it_goes_on_behind_half_a_line(tmp_path: Path) -> None:
    asked, out = questions(tmp_path, "Hello", "Name a colour.", "What is 3+4?"), tmp_path / "out.jsonl"
    ossia("batch", asked, *ETUDE, "-o", str(out))
    whole = out.read_bytes()
    first = whole.index(b"\n") + 1
    for size in (5, first, len(whole) - 1):
        out.write_bytes(whole[:size])
        assert ossia("batch", asked, *ETUDE, "-o", str(out)).returncode == 0
        assert without_times(answers(out.read_bytes())) == without_times(answers(whole))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_what_was_answered_stays(tmp_path: Path, name: str) -> None:
    """The second answer is under way."""
    asked, out = questions(tmp_path, "a", "b", "c"), tmp_path / "out.jsonl"
    slow = write_script(tmp_path, FINAL.format("One."), FINAL.format("on and on " * 2000), tokens_per_s=50)
    running = start("batch", asked, "--engine", slow, "--no-tools", "-o", str(out))
    while not (out.exists() and out.read_bytes().endswith(b"\n")):
        time.sleep(0.02)
        assert running.poll() is None
    os.kill(running.pid, getattr(signal, name))
    _, stderr = running.communicate(timeout=30)
    assert running.returncode in (130, -9)
    if name != "SIGKILL":
        assert stderr == b"ossia: interrupted: 1 of 3 are answered; the same command goes on from there\n"
    quick = write_script(tmp_path, FINAL.format("Two."), FINAL.format("Three."))
    assert ossia("batch", asked, "--engine", quick, "--no-tools", "-o", str(out)).returncode == 0
    assert [line["text"] for line in answers(out.read_bytes())] == ["One.", "Two.", "Three."]


def test_what_can_not_be_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    asked, out = questions(tmp_path, "a", "b"), tmp_path / "out.jsonl"
    other = tmp_path / "other"
    for text in ("notes", "notes\n"):
        other.write_text(text)
        done = ossia_here("batch", asked, "-o", str(other))
        assert (done.returncode, other.read_text()) == (2, text)
        assert b"isn't an answer of `ossia batch`" in done.stderr
    assert b"can't be read" in ossia_here("batch", str(tmp_path / "none")).stderr
    assert b"has the questions" in ossia_here("batch", asked, "-o", asked).stderr
    assert b"can't be written: Is a directory" in ossia_here("batch", asked, "-o", str(tmp_path)).stderr
    assert b"can't be written: No such file" in ossia_here("batch", asked, "-o", str(tmp_path / "no" / "out")).stderr
    ossia("batch", asked, *ETUDE, "-o", str(out))
    with file_lock(tmp_path / "out.jsonl.lock"):
        assert b"another `ossia batch` is writing it" in ossia("batch", asked, "-o", str(out)).stderr
    whole = out.read_bytes()
    for lines, said in ((("a", "c"), b"line 2 is another question now"), (("a",), b"it has no line 2 any more")):
        done = ossia_here("batch", questions(tmp_path, *lines), "-o", str(out))
        assert (done.returncode, said in done.stderr, out.read_bytes()) == (2, True, whole)


def test_retry_asks_what_failed_or_is_missing(tmp_path: Path) -> None:
    """A line that failed may have been mended, an answer removed; all others stay byte for byte."""
    out = tmp_path / "out.jsonl"
    ossia("batch", questions(tmp_path, "a", [2], "c", {"prompt": "d", "max_tokens": 1}, "e"), *ETUDE, "-o", str(out))
    first, _, third, _, fifth = before = out.read_bytes().splitlines(keepends=True)
    mended = questions(tmp_path, "a", "b", "c", {"prompt": "d", "max_tokens": 1}, "e")
    done = ossia_here("batch", mended, *ETUDE, "-o", str(out))
    assert b"line 2 is another question now; --retry asks it again" in done.stderr
    assert out.read_bytes() == b"".join(before)
    out.write_bytes(b"".join((first, third, before[3], fifth)))
    done = ossia_here("batch", mended, *ETUDE, "-o", str(out))
    assert b"out.jsonl has no answer to line 2: --retry asks what is missing" in done.stderr
    done = ossia("batch", mended, *ETUDE, "-o", str(out), "--retry")
    lines = out.read_bytes().splitlines(keepends=True)
    assert (done.returncode, done.stderr) == (1, b"ossia: 1 of 5 failed: line 4: end: tokens\n")
    assert [lines[0], lines[2], lines[4]] == [first, third, fifth]
    assert [(line["line"], line["exit"]) for line in map(json.loads, lines)] == [*enumerate((0, 0, 0, 6, 0), 1)]
    changed = questions(tmp_path, "a", "b", "C", "d", "e")
    done = ossia_here("batch", changed, *ETUDE, "-o", str(out), "--retry")
    assert b"line 3 is another question now; give another -o FILE" in done.stderr
    assert out.read_bytes() == b"".join(lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_a_dash_is_stdout(tmp_path: Path) -> None:
    done = ossia("batch", questions(tmp_path, "a"), *ETUDE, "-o", "-", cwd=tmp_path)
    assert [line["exit"] for line in answers(done.stdout)] == [0]
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]
    assert b"--retry needs -o OUT" in ossia_here("batch", "-", "-o", "-", "--retry").stderr


def test_other_settings_are_said(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    ossia("batch", questions(tmp_path, "a"), *ETUDE, "-o", str(out))
    done = ossia("batch", questions(tmp_path, "a", "b"), *ETUDE, "-o", str(out), "--effort", "high")
    assert b"the answers from before were given with other settings" in done.stderr


def test_a_server_gets_as_many_questions_at_once(site: Site, etude_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """It answers each once two have come; one that it refuses fails alone."""
    both = threading.Barrier(2, timeout=30)
    serve(site, etude_tokenizer)

    def complete(asked: Request) -> Reply:
        both.wait()
        if etude_tokenizer.encode("refuse")[0] in json.loads(asked.body)["prompt"]:
            return Reply(b'{"error": {"message": "too hot"}}', 400)
        return Reply(answer(etude_tokenizer, FINAL.format("Yes.")), headers=EVENTS)

    site.route("/completion", complete)
    asked = questions(tmp_path, "a", "b", "refuse", "d")
    done = ossia("batch", asked, "--engine", site.url(), "--no-tools", "--parallel", "2")
    assert [(line["text"], line["exit"]) for line in answers(done.stdout)] == [
        ("Yes.", 0),
        ("Yes.", 0),
        (None, 7),
        ("Yes.", 0),
    ], done
    using, failed = done.stderr.splitlines()
    assert using.startswith(b"ossia: using ")
    assert failed.startswith(b"ossia: 1 of 4 failed: line 3: ") and b"too hot" in failed


def test_a_server_that_is_gone_ends_it(tmp_path: Path) -> None:
    """Else all the questions would fail."""
    asked, out = questions(tmp_path, "a", "b", "c"), tmp_path / "out.jsonl"
    one = write_script(tmp_path, FINAL.format("One."))
    done = ossia("batch", asked, "--engine", one, "--no-tools", "-o", str(out))
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        7,
        b"ossia: 1 of 3 are answered; the same command goes on from there",
    )
    assert [line["text"] for line in answers(out.read_bytes())] == ["One."]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    done = ossia("batch", questions(tmp_path, "a", "b"), *ETUDE, "-o", "/dev/full")
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, lines[-1]) == (1, "ossia: error: /dev/full: the disk is full: free some space")
    assert lines[:-1] == ["ossia: 0 of 2 are answered; with -o FILE, the same command could go on from there"]
