"""`ossia acp` in an editor: the protocol's own client, a real process; on leaving, `Editor` checks every message."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.acp.editor import Editor
from tests.support.command import write_script
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
