"""`ossia run --jsonl --control stdin`: answers, steering and stops as lines."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.stream.events import Refused
from ossia.cli.oneshot.control import MAX_BYTES, Order, read_order
from tests.cli.oneshot.test_ask import BOOKS, with_server
from tests.events import answer, events_of
from tests.support.command import OSSIA, ossia, start, write_script
from tests.support.manual import PAGES, blocks
from tests.support.work_calls import reads, runs, writes

FINAL = "<|channel|>final<|message|>Done.<|return|>"
pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")


class Client:
    """A run whose stdin is ours, in a workspace `work`."""

    def __init__(self, folder: Path, *steps: str, flags: tuple[str, ...] = (), per_s: float = 0) -> None:
        self.work, self.lines = folder / "work", list[dict[str, Any]]()
        self.work.mkdir(exist_ok=True)
        reader, self.writer = os.pipe()
        engine = write_script(folder, *steps, tokens_per_s=per_s)
        args = ("run", "hi", "--jsonl", "--control", "stdin", "--engine", engine, "--workspace", str(self.work), *flags)
        self.process = start(*args, stdin=reader)
        os.close(reader)
        self._out = self._read()

    def _read(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))
            yield self.lines[-1]

    def until(self, kind: str) -> dict[str, Any]:
        return next(line for line in self._out if line["type"] == kind)

    def send(self, type_: str, **keys: object) -> None:
        self.write(json.dumps({"type": type_, **keys}).encode() + b"\n")

    def write(self, line: bytes) -> None:
        while line:
            line = line[os.write(self.writer, line) :]

    def hang_up(self) -> None:
        os.close(self.writer)
        self.writer = -1

    def end(self) -> dict[str, Any]:
        """The result, once all is checked."""
        for _ in self._out:
            pass
        if self.writer >= 0:
            self.hang_up()
        out = "".join(json.dumps(line) + "\n" for line in self.lines)
        return events_of(out.encode(), self.process.wait(60))[-1]

    def refused(self) -> list[str]:
        return [line["reason"] for line in self.lines if line["type"] == "refused"]


# -- the lines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        (b'{"type": "approve", "id": "a"}', {"id": "a"}),
        (b'{"type": "approve", "id": "a", "remember": "always"}\n', {"id": "a", "remember": "always"}),
        (b'{"type": "approve", "id": "a", "arguments": {"x": 1}}\n', {"id": "a", "arguments": {"x": 1}}),
        (b'{"type": "deny", "id": "a", "reason": "no"}\r\n', {"id": "a", "reason": "no"}),
        (b'{"type": "steer", "text": "\\u00fc"}\n', {"text": "ü"}),
        (b'{"type": "answer_now"}\n', {}),
        (b' {"type": "stop"} \n', {}),
    ],
)
def test_an_order(line: bytes, keys: dict[str, Any]) -> None:
    order = read_order(line)
    assert isinstance(order, Order) and (order.type, order.keys) == (json.loads(line)["type"], keys)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"\n", "expected one JSON object a line, as UTF-8: "),
        (b"yes\n", "expected one JSON object a line, as UTF-8: "),
        (b'{"type": "stop"} {"type": "stop"}\n', "expected one JSON object a line, as UTF-8: "),
        (b'{"type": "steer", "text": "\xff"}\n', "expected one JSON object a line, as UTF-8: "),
        (b'{"type": "steer", "text": NaN}\n', "expected one JSON object a line, as UTF-8: "),
        (b"[" * 100_000, "expected one JSON object a line, as UTF-8: "),
        (b'["stop"]\n', "expected a JSON object"),
        (b"{}\n", "expected as type one of approve, deny, steer, answer_now, stop"),
        (b'{"type": ["stop"]}\n', "expected as type one of approve, deny, steer, answer_now, stop"),
        (b'{"type": "approve"}\n', "expected the key id in approve"),
        (b'{"type": "approve", "id": 1}\n', "expected a text as id"),
        (b'{"type": "approve", "id": "a", "arguments": [1]}\n', "expected an object or a text as arguments"),
        (b'{"type": "approve", "id": "a", "remember": "x"}\n', "expected as remember one of once, session, always"),
        (b'{"type": "deny", "id": "a", "arguments": {}}\n', "expected no key 'arguments' in deny: it may have id, "),
        (b'{"type": "stop", "now": true}\n', "expected no key 'now' in stop: it may have none"),
        (b'{"type": "steer", "text": " \\n"}\n', "expected a text that says something"),
        (b'{"type": "steer", "text": "' + b"x" * MAX_BYTES, "expected a line of at most 1,000,000 bytes"),
    ],
)
def test_a_line_that_is_refused(line: bytes, reason: str) -> None:
    refused = read_order(line)
    assert isinstance(refused, Refused) and refused.reason.startswith(reason)
    assert len(refused.line) <= 200 and line.decode("utf-8", "replace").startswith(refused.line)


# -- answers -----------------------------------------------------------------------------------------------------------


def test_answers_at_random_moments() -> None:
    """A small part of `python -m tests.events`: none answers another question, nothing early counts."""
    counts = answer(12, seed=3)
    assert counts["approved"] and counts["denied"] and counts["refused lines"]


def test_an_answer_counts_for_its_own_question_alone(tmp_path: Path) -> None:
    client = Client(tmp_path, writes("a.txt"), writes("b.txt"), FINAL)
    client.until("begin")
    client.send("approve", id="call_1/1")  # the next one's name, but for its ending
    first = client.until("approval")
    assert re.fullmatch("call_1/1-[0-9a-f]{8}", first["id"])
    client.send("approve", id=f"{first['id']}0")
    client.send("deny", id=first["id"], reason="not here")
    client.send("approve", id=first["id"])
    second = client.until("approval")
    client.send("approve", id=first["id"])
    client.send("approve", id=second["id"])
    result = client.end()
    assert [(one["status"], "not here" in one["output"]) for one in result["calls"]] == [
        ("refused", True), ("done", False)
    ]  # fmt: skip
    assert [path.name for path in client.work.iterdir()] == ["b.txt"]
    open_one = "expected the id of the open approval, "
    nothing = "expected no answer: nothing is asked"
    refused = client.refused()
    assert len(refused) == 4 and set(refused) <= {nothing, open_one + first["id"], open_one + second["id"]}


def test_a_firm_question_is_the_persons_who_holds_stdin(tmp_path: Path) -> None:
    client = Client(tmp_path, reads("in.txt"), writes("a.txt"), FINAL, flags=("--yes",))
    (client.work / "in.txt").write_text("by somebody else")
    asked = client.until("approval")
    assert asked["firm"] and asked["always"] == [] and not asked["session"]
    client.send("approve", id=asked["id"], remember="session")
    assert client.until("refused")["reason"] == "expected as remember one of once, edits"
    client.send("approve", id=asked["id"])
    assert [one["status"] for one in client.end()["calls"]] == ["done", "done"]


def test_a_changed_call_is_asked_about_anew(tmp_path: Path) -> None:
    client = Client(tmp_path, runs("echo one"), FINAL)
    first = client.until("approval")
    client.send("approve", id=first["id"], arguments="echo two")
    assert client.until("refused")["reason"] == "expected an object as arguments"
    client.send("approve", id=first["id"], arguments={}, remember="once")
    assert client.until("refused")["reason"].startswith("expected no remember beside arguments")
    client.send("approve", id=first["id"], arguments={"no": 1})
    second = client.until("approval")
    assert second["fault"] and second["arguments"] == first["arguments"] and second["id"] != first["id"]
    client.send("approve", id=second["id"], arguments={"command": ["echo", "two"]})
    third = client.until("approval")
    assert (third["fault"], third["arguments"]) == ("", {"command": ["echo", "two"]})
    client.send("approve", id=third["id"])
    (call,) = client.end()["calls"]
    assert call["status"] == "done" and "two" in call["output"]


def test_changed_code_is_a_text(tmp_path: Path, home: Path) -> None:
    config = home / ".config" / "ossia" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[approvals]\npython = "ask"\n')
    client = Client(tmp_path, "<|channel|>analysis to=python code<|message|>print(1)<|call|>", FINAL)
    first = client.until("approval")
    client.send("approve", id=first["id"], arguments={"code": "print(2)"})
    assert client.until("refused")["reason"] == "expected a text as arguments"
    client.send("approve", id=first["id"], arguments="print(2)")
    second = client.until("approval")
    assert second["arguments"] == "print(2)"
    client.send("deny", id=second["id"])
    assert client.end()["calls"][0]["status"] == "refused"


def test_always_stores_the_rules(tmp_path: Path) -> None:
    client = Client(tmp_path, writes("a.txt"), FINAL, flags=("--trust",))
    asked = client.until("approval")
    client.send("approve", id=asked["id"], remember="always")
    assert client.end()["calls"][0]["status"] == "done"
    listed = ossia("trust", "--list", cwd=client.work).stdout.decode()
    assert asked["always"] and all(rule in listed for rule in asked["always"])


def test_the_form_of_a_server_takes_its_values(tmp_path: Path, home: Path) -> None:
    with_server(home)
    client = Client(tmp_path, BOOKS, FINAL, flags=("--trust",))
    client.send("approve", id=client.until("approval")["id"])
    form = client.until("approval")
    assert form["form"] == {"day": "Begin · date · needed", "people": "integer, 1 to …"}
    client.send("approve", id=form["id"], arguments={"day": "Soon", "people": 3})
    again = client.until("approval")
    assert again["fault"].startswith("day: 'Soon' is not a 'date'")
    client.send("approve", id=again["id"], arguments={"day": "2027-01-02", "people": 3})
    (booked,) = client.end()["calls"]
    assert booked["output"].startswith('{"action": "accept", "content": {"day": "2027-01-02", "people": 3}}\n')


def test_where_stdin_ends_nobody_can_be_asked(tmp_path: Path) -> None:
    client = Client(tmp_path, writes("a.txt"), writes("b.txt"), FINAL, flags=("--strict-approvals",))
    client.until("approval")
    client.hang_up()
    result = client.end()
    assert (result["end"], result["exit"]) == ("answered", 8)
    assert [one["status"] for one in result["calls"]] == ["refused", "refused"]
    codes = [line["code"] for line in client.lines if line["type"] == "notice"]
    assert codes == ["control-ended", "unasked", "unasked", "refused"]
    reason = "and stdin has ended; --allow 'repo_browser.apply_patch:a.txt' allows it"
    assert any(reason in line.get("text", "") for line in client.lines)


@pytest.mark.parametrize("step", [writes("README.md", before="# Titel"), runs("touch made")])
def test_the_example_of_the_docs(step: str, tmp_path: Path) -> None:
    (block,) = [one for one in blocks((PAGES["docs/programs.md"]).read_text(encoding="utf-8")) if one.name]
    work = tmp_path / "work"
    work.mkdir()
    (work / "README.md").write_text("# Titel\n")
    (tmp_path / block.name).write_text(block.text)
    path = f"{OSSIA.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "OSSIA_ENGINE": write_script(tmp_path, step, FINAL), "PATH": path}
    command = [sys.executable, str(tmp_path / block.name)]
    done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[-2:]) == (0, ["Done.", "answered"]), done
    assert ((work / "README.md").read_text() == "new\n") is ("patch" in step) and not (work / "made").exists()


# -- steering and stops ------------------------------------------------------------------------------------------------


def test_a_text_is_taken_behind_the_next_result(tmp_path: Path) -> None:
    client = Client(tmp_path, writes("a.txt"), FINAL)
    asked = client.until("approval")
    client.send("steer", text="Shorter, please.")
    client.send("approve", id=asked["id"])
    assert client.until("steered")["text"] == "Shorter, please."
    assert client.end()["end"] == "answered"


def test_a_text_that_came_too_late_is_named(tmp_path: Path) -> None:
    client = Client(tmp_path, "<|channel|>final<|message|>" + "a b " * 20 + "<|return|>", per_s=60)
    client.until("text")
    client.send("steer", text="Shorter, please.")
    client.end()
    notices = [line["text"] for line in client.lines if line["type"] == "notice"]
    assert notices == ["the turn ended before it could take this: Shorter, please."]


def test_answer_now_ends_the_thinking(tmp_path: Path) -> None:
    thought = "<|channel|>analysis<|message|>" + "".join(f"word {n} " for n in range(2000))
    client = Client(tmp_path, thought, "Enough.<|return|>", per_s=100)
    client.until("reasoning")
    client.send("answer_now")
    assert client.end()["text"] == "Enough."


@pytest.mark.parametrize("at", ["reasoning", "approval"])
def test_a_stop_is_an_interrupt(at: str, tmp_path: Path) -> None:
    thought = "<|channel|>analysis<|message|>" + "".join(f"word {n} " for n in range(60))
    client = Client(tmp_path, f"{thought}<|end|><|start|>assistant{writes('a.txt')}", FINAL, per_s=200)
    client.until(at)
    client.send("stop")
    client.send("stop")
    result = client.end()
    assert (result["end"], result["exit"], list(client.work.iterdir())) == ("stopped", 130, [])


def test_what_comes_before_the_turn_is_refused(tmp_path: Path) -> None:
    """A stop isn't: it ends the loading."""
    lines = b'{"type": "steer", "text": "x"}\n{"type": "answer_now"}\n'
    script, waits = write_script(tmp_path, FINAL), tmp_path / "waits.py"
    waits.write_text(
        "import threading\n"
        "for thread in threading.enumerate():\n"
        "    if thread.name == 'ossia-control':\n"
        "        thread.join()\n"  # all was read before the turn begins
        "def nothing() -> str:\n    'Does nothing.'\n"
    )
    flags = ("--jsonl", "--control", "stdin", "--engine", script)
    done = ossia("run", "hi", *flags, "--tools", str(waits), stdin=lines)
    events = events_of(done.stdout, done.returncode)
    kinds = [line["type"] for line in events if line["type"] != "loading"]
    assert kinds[:4] == ["refused", "refused", "notice", "begin"] and events[-1]["end"] == "answered"
    refused = next(line for line in events if line["type"] == "refused")
    assert refused["reason"] == "expected it after the begin event: no turn runs yet"
    stopped = ossia("run", "hi", *flags, stdin=b'{"type": "stop"}\n')
    assert events_of(stopped.stdout, stopped.returncode)[-1]["exit"] == 130


def test_a_long_line_is_passed_over(tmp_path: Path) -> None:
    client = Client(tmp_path, writes("a.txt"), FINAL)
    asked = client.until("approval")
    client.write(b'{"type": "steer", "text": "' + b"x" * 3 * MAX_BYTES + b'"}\n')
    assert client.until("refused")["reason"] == "expected a line of at most 1,000,000 bytes"
    client.send("deny", id=asked["id"])
    assert client.end()["end"] == "answered" and len(client.refused()) == 1


def test_lines_without_an_end_hold_up_nothing(tmp_path: Path) -> None:
    script = write_script(tmp_path, FINAL)
    with subprocess.Popen(["yes", "x"], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        done = ossia(
            "run", "hi", "--jsonl", "--control", "stdin", "--no-tools", "--engine", script, stdin=writer.stdout.fileno()
        )
        writer.stdout.close()
    assert events_of(done.stdout, done.returncode)[-1]["end"] == "answered"


def test_the_users_functions_read_no_line_of_control(tmp_path: Path) -> None:
    sent = tmp_path / "sent"  # the function waits for it: there is a line to read, and the run isn't over
    (tmp_path / "asks.py").write_text(
        'def asks() -> str:\n    """Ask."""\n    import os, pathlib, time\n'
        f"    while not pathlib.Path({str(sent)!r}).exists():\n        time.sleep(0.01)\n"
        '    return f"read: {os.read(0, 99)}"\n'
    )
    call = "<|channel|>commentary to=functions.asks <|constrain|>json<|message|>{}<|call|>"
    client = Client(tmp_path, call, FINAL, flags=("--tools", str(tmp_path / "asks.py")))
    client.until("begin")
    client.send("steer", text="secret")
    sent.touch()
    assert client.end()["calls"][0]["output"] == "read: b''"
