"""Published events as updates: texts apart, bounded output, results for people, sources at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ossia.agent.stream import events
from ossia.cli.acp.rpc import RpcError
from ossia.cli.acp.updates import Updates

ROOT = Path("/work").resolve()


def _sent(*seen: events.Event, end: events.Result | None = None) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []
    updates = Updates(sent.append, ROOT, 4096)
    for event in seen:
        updates.see(event)
    if end:
        updates.end(end)
    return sent


def test_two_messages_stand_apart_and_the_chunks_of_one_do_not() -> None:
    sent = _sent(events.Text("I ", 0, preamble=True), events.Text("look.", 0, preamble=True), events.Text("Done.", 1))
    assert [one["content"]["text"] for one in sent] == ["I ", "look.", "\n\nDone."]


def test_a_call_has_its_place_and_its_result_for_people() -> None:
    call = events.ToolCall("repo_browser.open_file", {"path": "a.py", "line_start": 5}, "call_1", "Read a.py", "read",
                           ("a.py",))  # fmt: skip
    output = "<returncode>0</returncode>\n<output>\nprint(1)\n</output>\ncwd: /work"
    sent = _sent(call, events.ToolStarted("call_1", call.name, call.arguments),
                 events.ToolResult("call_1", "done", output, "Read a.py", notices=("cut",)))  # fmt: skip
    assert sent[0] == {
        "sessionUpdate": "tool_call",
        "toolCallId": "call_1",
        "title": "Read a.py",
        "kind": "read",
        "status": "pending",
        "locations": [{"path": str(ROOT / "a.py"), "line": 5}],
        "rawInput": call.arguments,
    }
    assert [one.get("status") for one in sent] == ["pending", "in_progress", "completed"]
    assert [one["content"]["text"] for one in sent[-1]["content"]] == ["cut", "```\nprint(1)\n```"]


@pytest.mark.parametrize("line", [0, -1, True, 1 << 32, "5"])
def test_a_line_that_the_protocol_does_not_have_is_left_out(line: object) -> None:
    call = events.ToolCall("repo_browser.open_file", {"line_start": line}, "call_1", kind="read", paths=("a.py",))
    assert _sent(call)[0]["locations"] == [{"path": str(ROOT / "a.py")}]


@pytest.mark.parametrize("status", ["failed", "refused", "stopped"])
def test_a_call_that_did_not_work_failed(status: events.CallStatus) -> None:
    call = events.ToolCall("python", "print(1)", "call_1", "Run Python: print(1)", "run")
    sent = _sent(call, events.ToolResult("call_1", status, "Error: no"))
    assert (sent[0]["kind"], sent[0]["rawInput"], sent[1]["status"]) == ("execute", {"text": "print(1)"}, "failed")


def test_much_output_is_few_updates_of_its_end() -> None:
    sent: list[dict[str, Any]] = []
    now = iter(range(100_000))
    updates = Updates(sent.append, ROOT, 4096, clock=lambda: next(now) / 100_000)
    updates.see(events.ToolCall("container.exec", {}, "call_1"))
    updates.see(events.ToolStarted("call_1", "container.exec", {}))
    for number in range(20_000):
        updates.see(events.ToolOutput("call_1", f"line {number}\n"))
    updates.see(events.ToolResult("call_1", "done", "x" * 1_000_000))
    assert 3 < len(sent) < 8
    assert sum(len(str(one)) for one in sent) < 600_000


def test_a_call_that_takes_long_to_write_is_shown_meanwhile_as_the_same_call() -> None:
    sent: list[dict[str, Any]] = []
    now = [0.0]
    updates = Updates(sent.append, ROOT, 4096, clock=lambda: now[0])
    for now[0] in (0.0, 0.4, 0.6, 0.7, 1.2):
        updates.write(f"writing a.py · line {now[0]:.0f}", ["x = 1"])
    assert [one["title"] for one in sent] == ["Writing a.py · line 1", "Writing a.py · line 1"]
    updates.see(events.ToolCall("repo_browser.apply_patch", {}, "call_1", "New a.py", "write"))
    updates.see(events.ToolStarted("call_1", "repo_browser.apply_patch", {}))
    updates.see(events.ToolResult("call_1", "done", ""))
    assert [one["sessionUpdate"] for one in sent] == ["tool_call", *["tool_call_update"] * 4]
    assert {one["toolCallId"] for one in sent} == {updates.id_of("call_1")}
    assert [one.get("status") for one in sent] == ["pending", "pending", "pending", "in_progress", "completed"]


def test_a_call_that_was_never_finished_failed() -> None:
    sent: list[dict[str, Any]] = []
    now = [0.0]
    updates = Updates(sent.append, ROOT, 4096, clock=lambda: now[0])
    for now[0] in (0.0, 1.0):
        updates.write("writing a.py · line 1", [])
    updates.end(events.Result("stopped"))
    assert [one["status"] for one in sent] == ["pending", "failed"]


def test_the_sources_and_the_cause_of_a_cut_stand_at_the_end() -> None:
    source = events.Source(1, "Capybara", "https://example.org/capybara")
    sent = _sent(end=events.Result("tokens", "Big [1]", sources=(source,)))
    assert [one["content"]["text"] for one in sent] == [
        "\n\n[1] Capybara https://example.org/capybara",
        "\n\n[cut off: the token limit was reached]",
    ]


def test_a_turn_that_broke_is_an_error() -> None:
    with pytest.raises(RpcError, match="the engine broke"):
        _sent(end=events.Result("error", error="the engine broke"))
