"""An agent wherever Python runs: in threads, beside an event loop, in a notebook; and the user's settings, unread."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia import Agent, Model, Result
from ossia.cli import paths
from ossia.tools.approval.grants import Grants
from ossia.tools.approval.trust import TrustStore
from tests.support.command import write_script
from tests.support.notebook import Notebook

DONE = "<|channel|>final<|message|>It is 42.<|return|>"


def _call(name: str, **arguments: object) -> str:
    return f"<|channel|>commentary to={name}<|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class Gate:
    """A function that holds a turn in the middle."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def hold(self) -> str:
        """Wait for the gate to open."""
        self.reached.set()
        while not self.open.is_set():
            time.sleep(0.005)
        return "open"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def _model(folder: Path, *steps: str) -> Model:
    return Model(engine=write_script(folder, *steps))


def test_in_a_thread(tmp_path: Path) -> None:
    answers: list[str | None] = []
    with _model(tmp_path, DONE, DONE) as model, Agent(model) as agent:
        threads = [threading.Thread(target=lambda: answers.append(agent.ask("What is 6*7?").text)) for _ in range(2)]
        for thread in threads:
            thread.start()
            thread.join()
    assert answers == ["It is 42."] * 2


def test_in_an_event_loop_others_run_meanwhile(tmp_path: Path, gate: Gate) -> None:
    async def main() -> tuple[Result, int]:
        with _model(tmp_path, _call("functions.hold"), DONE) as model, Agent(model, tools=[gate.hold]) as agent:
            question = asyncio.create_task(agent.aask("What is 6*7?"))
            turns = 0
            while not gate.reached.is_set() or turns < 3:
                await asyncio.sleep(0.001)
                turns += 1
            assert not question.done()
            gate.open.set()
            return await question, turns

    result, turns = asyncio.run(main(), debug=True)
    assert (result.text, result.end) == ("It is 42.", "answered") and turns >= 3


def test_a_cancelled_question_is_a_stopped_turn(tmp_path: Path, gate: Gate) -> None:
    """The agent is free again at once, and the loop ends without a thread that waits."""

    async def main() -> Result:
        with _model(tmp_path, _call("functions.hold"), DONE) as model, Agent(model, tools=[gate.hold]) as agent:
            question = asyncio.create_task(agent.aask("What is 6*7?"))
            while not gate.reached.is_set():
                await asyncio.sleep(0.001)
            question.cancel()
            with pytest.raises(asyncio.CancelledError):
                await question
            return await agent.aask("Again?")

    threads = set(threading.enumerate())
    assert asyncio.run(main(), debug=True).text == "It is 42."
    assert set(threading.enumerate()) <= threads


CELL = """
import time
from ossia import Agent, Model, Text, ToolStarted

def hold() -> str:
    "Wait for a long time."
    while True:
        time.sleep(0.005)

agent = Agent(Model(engine={engine!r}), tools=[hold])
"""


def test_the_stop_button_of_a_notebook(tmp_path: Path) -> None:
    """It ends the cell with KeyboardInterrupt, wherever the turn is; the next cell goes on with the agent."""
    engine = write_script(tmp_path, _call("functions.hold"), DONE, DONE)
    with Notebook(tmp_path) as notebook:
        assert notebook.run(CELL.format(engine=engine)).error == ""
        begin = "for event in agent.stream('What is 6*7?'):\n    if isinstance(event, ToolStarted): print(event.name)"
        stopped = notebook.run(begin, on_text=lambda text: notebook.interrupt())
        assert (stopped.text, stopped.error) == ("functions.hold\n", "KeyboardInterrupt: ")
        again = "for event in agent.stream('Again?'):\n    print(end=event.delta if isinstance(event, Text) else '')"
        assert notebook.run(again).text == "It is 42."
        assert notebook.run("agent.ask('And?').text").text == "'It is 42.'"
        assert notebook.run("agent.close()").error == ""


SETTINGS = """
effort = "high"
instructions = "Say HOSTILE before each answer, and again after it."
tools = [{mark}]

[approvals]
"repo_browser.apply_patch" = "auto"

[mcpServers.mark]
command = {python}
args = [{mark}]
"""
MARK = """
from pathlib import Path
Path({marks!r}, "server" if __name__ == "__main__" else "functions").touch()
def hostile() -> str: return ""
"""
PATCH = "*** Begin Patch\n*** Add File: {}\n+HOSTILE\n*** End Patch\n"


def test_nothing_of_the_users_is_read_unasked(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings, stored rules and trust would be noticed: by marks, by a longer prompt, by a call that runs unasked."""
    folder, marks = tmp_path / "work", tmp_path / "marks"
    folder.mkdir()
    marks.mkdir()

    def ask(file: str, *, config: bool) -> Result:
        call = _call("repo_browser.apply_patch", patch=PATCH.format(file))
        with _model(tmp_path, call, DONE) as model, Agent(model, workspace=folder, config=config) as agent:
            return agent.ask("What is 6*7?")

    before = ask("a.txt", config=False)
    assert [call.status for call in before.calls] == ["refused"]

    mark = home / "mark.py"
    mark.write_text(MARK.format(marks=str(marks)))
    settings = SETTINGS.format(mark=json.dumps(str(mark)), python=json.dumps(sys.executable))
    paths.config_file().parent.mkdir(parents=True)
    paths.config_file().write_text(settings)
    monkeypatch.setenv("OSSIA_EFFORT", "high")
    (folder / "AGENTS.md").write_text("Say HOSTILE.")
    (folder / ".ossia").mkdir()
    (folder / ".ossia" / "config.toml").write_text('approvals."repo_browser.apply_patch" = "auto"')
    Grants(paths.data_dir()).add(["repo_browser.apply_patch"], workspace=folder)
    TrustStore(paths.data_dir()).trust(folder)

    after = ask("a.txt", config=False)
    assert (after.text, after.end, after.calls, after.usage.prompt) == (
        *(before.text, before.end, before.calls, before.usage.prompt),
    )
    assert _names(marks) == [] and not (folder / "a.txt").exists()

    asked_for = ask("b.txt", config=True)
    assert [call.status for call in asked_for.calls] == ["done"] and (folder / "b.txt").exists()
    assert asked_for.usage.prompt > before.usage.prompt
    assert _names(marks) == ["functions", "server"]
