"""A wait as a call: only a long one, once a second, ended once."""

from __future__ import annotations

from typing import Any

from ossia.cli.acp.waiting import Waiting


def test_only_a_long_wait_is_shown_and_each_as_a_call_of_its_own() -> None:
    sent: list[dict[str, Any]] = []
    now = [0.0]
    waiting = Waiting(sent.append, clock=lambda: now[0])
    for now[0] in (1.0, 4.0):
        waiting.show("reading the prompt")
    waiting.close()
    assert sent == []
    for now[0] in (5.0, 9.9, 10.1, 10.2, 10.9, 11.2):
        waiting.show(f"reading the prompt · {now[0]:.0f} s")
    for now[0], said in ((12.5, "reading the prompt · 11 s"), (13.0, "")):
        waiting.show(said)
    waiting.close()
    waiting.close()
    assert [one.get("title") for one in sent] == ["Reading the prompt · 10 s", "Reading the prompt · 11 s", None]
    assert [one["sessionUpdate"] for one in sent] == ["tool_call", "tool_call_update", "tool_call_update"]
    assert [one["status"] for one in sent] == ["in_progress", "in_progress", "completed"]
    assert len({one["toolCallId"] for one in sent}) == 1
