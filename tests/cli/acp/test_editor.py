"""`ossia acp` in an editor: the protocol's own client, a real process; on leaving, `Editor` checks every message."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.acp.editor import Editor
from tests.support.command import ROOT, write_script
from tests.support.work_calls import reads, wants, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asyncio reads no such pipes there")

FINAL = "<|channel|>final<|message|>Done.<|return|>"
THINKING = "<|channel|>analysis<|message|>Look first.<|end|><|start|>assistant"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "note.md").write_text("Roses.\n")
    return folder.resolve()


def test_a_task_with_reading(work: Path) -> None:
    with Editor("--engine", write_script(work.parent, THINKING + reads("note.md"), FINAL)) as editor:
        session = editor.new(work).session_id
        assert editor.ask(session, "What does note.md say?") == "end_turn"
        assert editor.questions == []
        assert editor.text(session) == "Done."
        assert editor.text(session, "agent_thought_chunk") == "Look first."
        (begun,) = editor.of(session, "tool_call")
        assert (begun.kind, [place.path for place in begun.locations]) == ("read", [str(work / "note.md")])
        last = editor.of(session, "tool_call_update")[-1]
        assert last.status == "completed" and "Roses." in str(last)
        assert {"available_commands_update", "usage_update"} <= set(editor.kinds(session))


def test_an_approval_shows_the_diff_before_anything_is_written(work: Path) -> None:
    new, change = work / "new.md", work / "note.md"
    changed = writes("note.md", "Tulips.\n", before="Roses.\n")
    script = write_script(work.parent, writes("new.md", "A\n"), FINAL, changed, FINAL)
    with Editor("--engine", script) as editor:
        session = editor.new(work).session_id
        editor.client.answer = None
        turn = editor.begin(session, "Write new.md.")
        editor.until(lambda: editor.questions)
        assert not new.exists()
        (call, options) = editor.questions[0]
        (diff,) = [part for part in call.content if part.type == "diff"]
        assert (diff.path, diff.old_text or "", diff.new_text) == (str(new), "", "A\n")
        assert [place.path for place in call.locations] == [str(new)]
        assert {option.kind for option in options} >= {"allow_once", "reject_once"}
        editor.client.answer = "allow_once"
        editor.release()
        assert editor.end(turn) == "end_turn"
        assert new.read_text() == "A\n"
        editor.ask(session, "Change note.md.")
        (diff,) = [part for part in editor.questions[1][0].content if part.type == "diff"]
        assert (diff.path, diff.old_text, diff.new_text) == (str(change), "Roses.\n", "Tulips.\n")
        assert change.read_text() == "Tulips.\n"


def test_a_refusal_goes_to_the_model_and_nothing_is_written(work: Path) -> None:
    with Editor("--engine", write_script(work.parent, writes("new.md"), FINAL)) as editor:
        session = editor.new(work).session_id
        editor.client.answer = "reject_once"
        assert editor.ask(session, "Write it.") == "end_turn"
        assert len(editor.questions) == 1 and not (work / "new.md").exists()
        assert editor.of(session, "tool_call_update")[-1].status == "failed"
        assert editor.text(session) == "Done."


SLOWLY = " ".join(map(str, range(60)))
NAP = """
import time


def nap() -> str:
    "Sleeps."
    time.sleep(60)
    return "awake"


nap.effects = {"read"}
"""
PHASES = {
    "at once": (f"<|channel|>final<|message|>{SLOWLY}<|return|>", lambda editor, session: True),
    "thinking": (
        f"<|channel|>analysis<|message|>{SLOWLY}<|end|>",
        lambda editor, session: editor.text(session, "agent_thought_chunk"),
    ),
    "answering": (
        f"<|channel|>final<|message|>{SLOWLY}<|return|>",
        lambda editor, session: editor.text(session),
    ),
    "a question is open": (writes("new.md"), lambda editor, session: editor.questions),
    "a tool runs": (
        wants("functions.nap"),
        lambda editor, session: any(one.status == "in_progress" for one in editor.of(session, "tool_call_update")),
    ),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_cancel_is_a_result_in_each_phase(phase: str, work: Path) -> None:
    step, begun = PHASES[phase]
    script = write_script(work.parent, step, FINAL, FINAL, tokens_per_s=100)
    (work.parent / "nap.py").write_text(NAP)
    with Editor("--engine", script, "--tools", str(work.parent / "nap.py")) as editor:
        session = editor.new(work).session_id
        editor.client.answer = None
        turn = editor.begin(session, "Go on.")
        editor.until(lambda: begun(editor, session))
        editor.cancel(session)
        assert editor.end(turn) == "cancelled"
        assert not (work / "new.md").exists()
        editor.client.answer = "cancelled"
        editor.release()  # its late answer has no effect
        assert editor.ask(session, "Again.") == "end_turn"


def test_a_cancel_while_the_prompt_is_read(work: Path) -> None:
    script = work.parent / "script.json"
    script.write_text(json.dumps({"version": 1, "pause_s": 60, "steps": [FINAL]}))
    with Editor("--engine", f"script:{script}") as editor:
        session = editor.new(work).session_id
        turn = editor.begin(session, "Go on.")
        editor.cancel(session)
        assert editor.end(turn) == "cancelled"


def test_a_cancel_while_the_model_is_loaded(work: Path) -> None:
    with Editor("--model", "etude") as editor:
        session = editor.new(work).session_id
        turn = editor.begin(session, "What is 2+3?")
        editor.cancel(session)
        assert editor.end(turn) == "cancelled"
        assert editor.ask(session, "What is 2+3?") == "end_turn"


def test_a_session_is_listed_loaded_resumed_and_deleted(work: Path) -> None:
    script = write_script(work.parent, THINKING + reads("note.md"), FINAL)
    with Editor("--engine", script) as editor:
        session = editor.new(work).session_id
        editor.ask(session, "What does note.md say?")
    with Editor("--engine", write_script(work.parent, FINAL, FINAL)) as editor:
        listed = editor.request("session/list", cwd=str(work))["sessions"]
        assert [(one["sessionId"], one["cwd"]) for one in listed] == [(session, str(work))]
        assert editor.request("session/list", cwd=str(work.parent))["sessions"] == []
        editor.request("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        assert editor.text(session, "user_message_chunk") == "What does note.md say?"
        assert editor.text(session) == "Done."
        (call,), (result,) = editor.of(session, "tool_call"), editor.of(session, "tool_call_update")
        assert "note.md" in call.title and result.status == "completed"
        assert editor.ask(session, "Once more.") == "end_turn"
        assert editor.text(session) == "Done.Done."
    with Editor("--engine", write_script(work.parent, FINAL)) as editor:
        editor.request("session/resume", sessionId=session, cwd=str(work), mcpServers=[])
        assert editor.text(session, "user_message_chunk") == "" == editor.text(session)
        assert editor.ask(session, "And again.") == "end_turn"
        editor.request("session/close", sessionId=session)
        editor.request("session/delete", sessionId=session)
        assert editor.request("session/list")["sessions"] == []


def test_a_session_in_the_home_folder_has_no_folder_to_work_in(home: Path) -> None:
    """An editor without a project opens it there; ossia's own data is in it."""
    script = write_script(home, writes("new.md"), FINAL)
    with Editor("--engine", script) as editor:
        session = editor.new(home.resolve()).session_id
        assert editor.ask(session, "Write it.") == "end_turn"
        assert "open the folder of a project" in editor.text(session, "agent_thought_chunk")
        assert not (home / "new.md").exists()
    with Editor("--engine", script) as editor:
        editor.request("session/load", sessionId=session, cwd=str(home.resolve()), mcpServers=[])
        assert editor.text(session) == "Done."


def test_a_changed_effort_and_plan_mode(work: Path) -> None:
    with Editor("--engine", write_script(work.parent, writes("new.md"), FINAL)) as editor:
        made = editor.new(work)
        session = made.session_id
        effort = next(option for option in made.config_options if option.category == "thought_level")
        changed = editor.run(editor.connection.set_config_option(config_id=effort.id, session_id=session, value="high"))
        values = {option.category: option.current_value for option in changed.config_options}
        assert values["thought_level"] == "high" != effort.current_value
        assert "plan" in {mode.id for mode in made.modes.available_modes}
        editor.run(editor.connection.set_session_mode(session_id=session, mode_id="plan"))
        editor.ask(session, "Write it.")
        assert editor.questions == [] and not (work / "new.md").exists()


def test_a_slash_command_is_offered_and_answered_without_the_model(work: Path) -> None:
    with Editor("--engine", write_script(work.parent, writes("new.md"), FINAL)) as editor:
        session = editor.new(work).session_id
        editor.until(lambda: editor.of(session, "available_commands_update"))
        offered = editor.of(session, "available_commands_update")[-1].available_commands
        assert "undo" in {one.name for one in offered}
        editor.client.answer = "allow_once"
        editor.ask(session, "Write it.")
        assert (work / "new.md").exists()
        assert editor.ask(session, "/undo") == "end_turn"  # the script is at its end: no model answers
        assert not (work / "new.md").exists()
        assert "new.md" in editor.text(session).removeprefix("Done.")


def test_a_server_of_the_client_is_connected_and_asked_about(work: Path) -> None:
    from acp.schema import McpServerStdio

    server = McpServerStdio(
        name="study", command=sys.executable, args=[str(ROOT / "tests/support/mcp_server.py"), "stdio"], env=[]
    )
    script = write_script(work.parent, wants("functions.study__get_weather", city="Oslo"), FINAL)
    with Editor("--engine", script) as editor:
        session = editor.new(work, [server]).session_id
        editor.client.answer = "allow_once"
        assert editor.ask(session, "What is the weather in Oslo?") == "end_turn"
        assert len(editor.questions) == 1
        assert "10 degrees celsius in Oslo" in str(editor.of(session, "tool_call_update")[-1])
