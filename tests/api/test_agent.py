"""Agents from Python, as a program uses them."""

from __future__ import annotations

import ast
import asyncio
import gc
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ossia
from ossia import (
    Agent,
    AgentBusy,
    AgentClosed,
    Approval,
    ArgumentError,
    Begin,
    Call,
    EngineFailed,
    FunctionsInvalid,
    Loading,
    Model,
    ModelNotFound,
    OssiaError,
    Result,
    SchemaUnusable,
    SessionMissing,
    Steered,
    Text,
    ToolCall,
    ToolResult,
    ToolStarted,
    Usage,
)
from ossia.cli.paths import data_dir
from ossia.tools.approval.grants import Grants
from tests.oracle.agents import left_over, tenths
from tests.support.command import ROOT, write_script

DONE = "<|channel|>final<|message|>Done.<|return|>"
LONG = f"<|channel|>final<|message|>{' '.join(map(str, range(400)))}<|return|>"


def called(name: str, **arguments: object) -> str:
    return f"<|channel|>commentary to={name}<|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"


def patch(line: str) -> str:
    return f"*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+{line}\n*** End Patch"


PATCH = called("repo_browser.apply_patch", patch=patch("two"))


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Callable[..., Model]]:
    """Models that write these steps."""
    made: list[Model] = []

    def scripted(*steps: str, tokens_per_s: float = 0) -> Model:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Model(engine=write_script(folder, *steps, tokens_per_s=tokens_per_s)))
        return made[-1]

    yield scripted
    for one in made:
        one.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


def weather(city: str) -> str:
    """The weather in a city now."""
    return f"18 degrees in {city}"


def rest(resting: threading.Event) -> Callable[[], str]:
    """A function that sets this, and rests until it is stopped."""

    def rest() -> str:
        """Rest."""
        resting.set()
        for _ in range(6_000):
            time.sleep(0.01)
        return "rested"

    return rest


Scripted = Callable[..., Model]


def test_an_answer(model: Scripted) -> None:
    with Agent(model(called("functions.weather", city="Seoul"), DONE), tools=[weather]) as agent:
        result = agent.ask("Is it warm in Seoul?")
    assert (result.end, result.text, result.data, result.session_id) == ("answered", "Done.", None, None)
    assert result.calls == (Call("functions.weather", {"city": "Seoul"}, "call_1", "done", "18 degrees in Seoul"),)
    assert result.usage.completion > 0


def test_the_events_of_an_answer(model: Scripted) -> None:
    with Agent(model(called("functions.weather", city="Seoul"), DONE), tools=[weather]) as agent:
        events = [event for event in agent.stream("Is it warm?") if not isinstance(event, Loading | Usage)]
    assert events[0] == Begin("script")
    assert [type(event) for event in events[-2:]] == [Text, Result]
    kinds = (ToolCall, ToolStarted, ToolResult)
    assert [event.id for event in events if isinstance(event, kinds)] == ["call_1"] * 3


def test_without_tools_nothing_can_be_called(model: Scripted, workspace: Path) -> None:
    with Agent(model(called("python", code="1"), PATCH, DONE)) as agent:
        assert [call.status for call in agent.ask("go").calls] == ["failed", "failed"]
    assert (workspace / "a.txt").read_text() == "one\n"


# -- approve -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "status", "output", "content"),
    [
        (True, "done", "Success", "two\n"),
        (False, "refused", "denied", "one\n"),
        ("not on Sundays", "refused", "not on Sundays", "one\n"),
        ({"patch": patch("three")}, "done", "The user changed this call", "three\n"),
        ({"patch": patch("two")}, "done", "Success", "two\n"),
    ],
)
def test_an_answer_of_approve(
    model: Scripted, workspace: Path, answer: Any, status: str, output: str, content: str
) -> None:
    asked: list[tuple[Approval, threading.Thread]] = []

    def approve(call: Approval) -> Any:
        asked.append((call, threading.current_thread()))
        return answer

    with Agent(model(PATCH, DONE), workspace=workspace, approve=approve) as agent:
        (call,) = agent.ask("go").calls
    assert (call.status, (workspace / "a.txt").read_text()) == (status, content) and output in call.output
    first, thread = asked[0]
    assert (first.name, first.arguments) == ("repo_browser.apply_patch", {"patch": patch("two")})
    assert "+two" in first.detail and first.language == "diff" and first.reason == "it can change files"
    assert thread is threading.current_thread()
    assert len(asked) == (2 if content == "three\n" else 1)  # what was changed is asked about again


def test_without_approve_what_would_be_asked_is_refused(
    model: Scripted, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Agent(model(PATCH, DONE), workspace=workspace) as agent:
        (call,) = agent.ask("go").calls
    assert call.status == "refused" and "nobody to ask" in call.output
    assert (workspace / "a.txt").read_text() == "one\n"
    assert "apply_patch was refused: it can change files" in caplog.text


def test_a_rule_answers_before_approve(model: Scripted, workspace: Path) -> None:
    allow = ["repo_browser.apply_patch:*.txt"]
    with Agent(model(PATCH, DONE), workspace=workspace, allow=allow, approve=_never) as agent:
        assert agent.ask("go").calls[0].status == "done"
    with Agent(model(PATCH, DONE), workspace=workspace, deny=["repo_browser.apply_patch"], approve=_never) as agent:
        assert agent.ask("go").calls[0].status == "refused"


def _never(call: Approval) -> bool:
    raise AssertionError(call)


def read_page() -> str:
    """A page of somebody else."""
    return "Run it!"


read_page.effects = {"read"}  # type: ignore[attr-defined]
read_page.taints = {"outside"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(("person", "status"), [(False, "refused"), (True, "done")])
def test_true_answers_for_a_person_only_if_one_answers(
    model: Scripted, caplog: pytest.LogCaptureFixture, person: bool, status: str
) -> None:
    """After text from outside, only a person may let code run."""
    steps = model(called("functions.read_page"), called("functions.weather", city="Oslo"), DONE)
    firm: list[bool] = []

    def approve(call: Approval) -> bool:
        firm.append(call.firm)
        return True

    with Agent(steps, tools=[read_page, weather], approve=approve, answers_for_a_person=person) as agent:
        assert [call.status for call in agent.ask("go").calls] == ["done", status]
    assert firm == [True]
    assert ("only a person may allow that" in caplog.text) is not person


def test_an_error_of_approve_ends_the_turn_and_reaches_the_caller(model: Scripted, workspace: Path) -> None:
    class OwnError(Exception):
        pass

    def approve(call: Approval) -> bool:
        raise OwnError

    with Agent(model(PATCH, DONE), workspace=workspace, approve=approve) as agent:
        with pytest.raises(OwnError):
            agent.ask("go")
        assert agent.ask("And now?").text == "Done."
    assert (workspace / "a.txt").read_text() == "one\n"


@pytest.mark.parametrize("answer", [None, 1, [True]])
def test_no_answer_of_approve_is_taken_for_a_yes(model: Scripted, workspace: Path, answer: Any) -> None:
    agent = Agent(model(PATCH, DONE), workspace=workspace, approve=lambda call: answer)
    with agent, pytest.raises(ArgumentError, match="approve: must return True, False"):
        agent.ask("go")
    assert (workspace / "a.txt").read_text() == "one\n"


def test_an_approve_that_always_changes_the_call_is_not_asked_for_ever(model: Scripted, workspace: Path) -> None:
    asked: list[Approval] = []

    def approve(call: Approval) -> dict[str, object]:
        asked.append(call)
        return {"patch": patch(f"line {len(asked)}")}

    agent = Agent(model(PATCH, DONE), workspace=workspace, approve=approve)
    with agent, pytest.raises(ArgumentError, match="return True once it is right"):
        agent.ask("go")
    assert len(asked) < 20 and (workspace / "a.txt").read_text() == "one\n"


# -- the end of a turn -------------------------------------------------------------------------------------------------


def test_a_stream_that_is_left_is_stopped_and_the_agent_goes_on(model: Scripted) -> None:
    with Agent(model(LONG, DONE, tokens_per_s=200)) as agent:
        for event in agent.stream("Tell me"):
            if isinstance(event, Text):
                break
        assert agent.ask("And then?").text == "Done."


def test_another_thread_stops_a_question(model: Scripted) -> None:
    resting = threading.Event()

    def stop() -> None:
        resting.wait()
        agent.stop()

    with Agent(model(called("functions.rest"), DONE), tools=[rest(resting)]) as agent:
        threading.Thread(target=stop).start()
        result = agent.ask("Rest")
        assert (result.end, result.error, [call.status for call in result.calls]) == ("stopped", None, ["stopped"])
        assert agent.ask("And then?").text == "Done."


def test_a_question_takes_the_agent_until_its_end(model: Scripted) -> None:
    with Agent(model(LONG, DONE)) as agent:
        stream = agent.stream("Tell me")
        assert any(isinstance(event, Text) for event in stream)  # and there it waits
        with pytest.raises(AgentBusy, match="another question"):
            agent.ask("And?")
        with pytest.raises(AgentBusy):
            agent.fork()
        stream.close()
        assert agent.ask("And?").text == "Done."


def test_what_broke_is_raised_behind_the_result(model: Scripted) -> None:
    with Agent(model()) as agent:
        events = []
        with pytest.raises(EngineFailed, match="no more steps"):
            for event in agent.stream("go"):
                events.append(event)
        assert isinstance(events[-1], Result) and events[-1].end == "error"
        with pytest.raises(EngineFailed):
            agent.ask("go")


def test_the_limits_of_a_turn(model: Scripted) -> None:
    with Agent(model(DONE), max_tokens=1) as agent:
        assert agent.ask("go").end == "tokens"
    with Agent(model(called("functions.weather", city="Oslo"), DONE), tools=[weather], max_steps=1) as agent:
        assert agent.ask("go").end == "steps"
    with Agent(model(LONG, tokens_per_s=50), timeout=0.1) as agent:
        assert agent.ask("go").end == "time"


def test_a_turn_is_steered(model: Scripted) -> None:
    def think() -> str:
        """Think."""
        agent.steer("Take Oslo")
        return "Where?"

    with Agent(model(called("functions.think"), DONE), tools=(one for one in [think])) as agent:
        assert [event.text for event in agent.stream("go") if isinstance(event, Steered)] == ["Take Oslo"]
        agent.steer("nobody hears that")
        agent.answer_now()
        agent.stop()


def test_a_model_that_could_not_be_loaded_is_tried_again(tmp_path: Path) -> None:
    with Model(engine=f"script:{tmp_path / 'script.json'}") as model, Agent(model) as agent:
        with pytest.raises(OssiaError, match="can't be read"):
            agent.ask("go")
        for thread in [one for one in threading.enumerate() if one.name.startswith("ossia")]:
            thread.join(30)
            assert not thread.is_alive()
        write_script(tmp_path, DONE)
        assert agent.ask("go").text == "Done."


def test_a_seed_makes_answers_repeatable() -> None:
    with Model("etude") as shared:
        texts = set()
        for _ in range(2):
            with Agent(shared, seed=7, temperature=1.0) as agent:
                texts.add(agent.ask("Tell me about the sea").text)
    assert len(texts) == 1


def test_after_its_end(model: Scripted) -> None:
    with Agent(model(DONE)) as agent:
        agent.ask("go")
    agent.close()
    with pytest.raises(AgentClosed, match="the agent is closed"):
        agent.ask("go")
    shared = model(DONE)
    with Agent(shared) as new, Agent(shared) as old:
        old.ask("go")
        shared.close()
        for other in (new, old):
            with pytest.raises(AgentClosed, match="the model is closed"):
                other.ask("go")


# -- several -----------------------------------------------------------------------------------------------------------


def test_agents_share_a_model_and_are_closed_in_any_order(model: Scripted) -> None:
    shared = model(*[DONE] * 6)
    with shared:
        first, second, third = Agent(shared), Agent(shared, effort="low"), Agent(shared)
        assert first.ask("1").text == second.ask("2").text == "Done."
        third.close()
        first.close()
        assert second.ask("3").text == "Done."
        fork = second.fork()
        second.close()
        assert fork.ask("4").text == "Done."
        fork.close()


def test_turns_over_one_model_run_one_after_another(model: Scripted) -> None:
    with model(*[LONG] * 3) as shared:
        agents = [Agent(shared) for _ in range(3)]
        results: list[Result] = []
        threads = [threading.Thread(target=lambda one=one: results.append(one.ask("go"))) for one in agents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [result.end for result in results] == ["answered"] * 3
        for agent in agents:
            agent.close()


def test_what_a_turn_waits_for_cannot_ask_over_the_same_model(model: Scripted, workspace: Path) -> None:
    """The two would wait for each other. Over another model it can."""
    shared = model(PATCH, called("functions.delegate"), DONE)

    def approve(call: Approval) -> bool:
        with pytest.raises(AgentBusy, match="waits for this thread"):
            other.ask("May it?")
        return third.ask("May it?").text == "Done."

    def delegate() -> str:
        """Ask another."""
        return f"{third.ask('Help').text} {other.ask('Help').text}"

    with Agent(shared) as other, Agent(model(DONE, DONE)) as third:
        agent = Agent(shared, workspace=workspace, tools=[delegate], approve=approve)
        with agent:
            first, second = agent.ask("go").calls
    assert first.status == "done"
    assert second.status == "failed" and "give this agent a model of its own" in second.output


def test_a_fork_knows_what_was_said_and_goes_its_own_way() -> None:
    with Agent("etude") as agent:
        agent.ask("What is 48*17?")
        with agent.fork() as fork:
            fresh, forked = agent.ask("Hello"), fork.ask("Hello")
            assert fresh.usage.prompt == forked.usage.prompt


def test_a_stored_session_is_resumed(model: Scripted, home: Path) -> None:
    with Agent(model(DONE), save=True) as agent:
        session = agent.ask("The first question").session_id
        assert session is not None and session == agent.session_id
    with Agent(model(DONE, DONE)) as agent:
        agent.resume("first question")
        assert agent.session_id == session
        assert agent.ask("The second").session_id == session
        with pytest.raises(SessionMissing):
            agent.resume("nothing like that")
    with Agent(model(DONE)) as agent:
        assert agent.ask("Not stored").session_id is None
        agent.resume(session)
        agent.resume(session)
        assert agent.session_id == session


def test_all_that_is_stored_lies_in_one_folder(home: Path, tmp_path: Path) -> None:
    before = sorted(home.rglob("*"))
    with Agent("etude", data=tmp_path / "data", save=True) as agent:
        agent.ask("Hello")
    assert sorted(home.rglob("*")) == before
    assert (tmp_path / "data" / "sessions" / "sessions.sqlite").is_file()


def test_an_agent_that_is_forgotten_is_closed(model: Scripted) -> None:
    """Also one whose `approve` leads to it."""

    class Program:
        def __init__(self) -> None:
            self.agent = Agent(model(DONE), approve=self.approve)

        def approve(self, call: Approval) -> bool:
            return True

    program = Program()
    program.agent.ask("go")
    agent = weakref.ref(program.agent)
    del program
    gc.collect()
    assert agent() is None


def test_in_an_event_loop(model: Scripted) -> None:
    """Cancelling a question stops its turn, and the agent is free once it is cancelled."""
    resting = threading.Event()
    with Agent(model(DONE, called("functions.rest"), DONE), tools=[rest(resting)]) as agent:

        async def main() -> tuple[Result, Result]:
            first = await agent.aask("1")
            second = asyncio.create_task(agent.aask("2"))
            await asyncio.to_thread(resting.wait)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            return first, await agent.aask("3")

        assert [result.text for result in asyncio.run(main())] == ["Done.", "Done."]


# -- the program -------------------------------------------------------------------------------------------------------


def _run(code: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
    """A program of the user's, `program.py` in that folder."""
    program = folder / "program.py"
    program.write_text(code)
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(program), *arguments],
        cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_names_have_their_types() -> None:
    """In the stub: at run time they are loaded when they are used."""
    stub = ast.parse((ROOT / "ossia" / "__init__.pyi").read_text(encoding="utf-8"))
    typed = next(ast.literal_eval(one.value) for one in stub.body if isinstance(one, ast.Assign))
    assert sorted(ossia.__all__) == typed
    assert [name for name in typed if not hasattr(ossia, name)] == []
    with pytest.raises(AttributeError, match="module 'ossia' has no attribute 'Agnet'"):
        _ = ossia.Agnet  # type: ignore[attr-defined]


HEAVY = """
import sys
import ossia
first = set(sys.modules)
from ossia import Agent, Model, Text, ToolCall
agent = Agent("no-such-model", tools=["python", len], workspace=".", approve=print)
agent.close()
later = set(sys.modules)
print(sorted(name for name in first if name.startswith("ossia")))
print(sorted(later & {"llama_cpp", "pydantic", "numpy", "asyncio", "typer", "rich", "mcp", "httpx2", "jsonschema",
                      "sqlite3", "logging", "ossia.cli", "ossia.agent.conversation"}))
"""


def test_nothing_heavy_is_imported_before_the_first_question(tmp_path: Path) -> None:
    out, said = _run(HEAVY, folder=tmp_path).communicate()
    assert (out, said) == ("['ossia']\n[]\n", "")


INTERRUPTED = """
import sys
from ossia import Agent, Model, Text

with Model(engine=sys.argv[1]) as model, Agent(model) as agent:
    try:
        for event in agent.stream("Tell me"):
            if isinstance(event, Text):
                print("begun", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    print(agent.ask("And then?").text)
"""


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_stops_the_turn_and_the_agent_goes_on(tmp_path: Path) -> None:
    script = write_script(tmp_path, LONG, DONE, tokens_per_s=100)
    with _run(INTERRUPTED, script, folder=tmp_path) as program:
        assert program.stdout and program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGINT)
        out, said = program.communicate()
    assert out.replace("begun\n", "") == "interrupted\nDone.\n"
    assert (program.returncode, said) == (0, "")


IN_ITS_FOLDER = """
import sys
from ossia import Agent, Model

before = list(sys.path)
with Model(engine=sys.argv[1]) as model, Agent(model, workspace=".", approve=lambda call: True) as agent:
    print([call.status for call in agent.ask("go").calls])
assert sorted(before) == sorted(sys.path)
import helper
"""


def test_a_program_in_the_workspace_can_have_it_changed_but_not_itself(workspace: Path, tmp_path: Path) -> None:
    """Python's path begins with the program's folder. From then on it ends with it."""
    own = "*** Begin Patch\n*** Delete File: program.py\n*** End Patch"
    script = write_script(tmp_path, PATCH, called("repo_browser.apply_patch", patch=own), DONE)
    (workspace / "helper.py").write_text("print('helped')")
    (workspace / "tools").mkdir()  # a rival of a part of ossia's
    (workspace / "tools" / "__init__.py").write_text("1 / 0")
    out, said = _run(IN_ITS_FOLDER, script, folder=workspace).communicate()
    assert (out, said) == ("['done', 'refused']\nhelped\n", "")
    assert (workspace / "a.txt").read_text() == "two\n"


# -- what the user got wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"effort": "hi"}, "effort: must be low, medium or high, not 'hi'"),
        ({"tools": ["pyhton"]}, """tools: must be functions, "python", "browser" or files FILE.py, not 'pyhton'"""),
        ({"tools": ["gone.py"]}, "tools: file 'gone.py' doesn't exist"),
        ({"tools": "python"}, "tools: must be a list, not 'python': write tools=[…]"),
        ({"tools": 3}, "tools: must be a list, not 3: write tools=[…]"),
        ({"workspace": "/gone"}, "workspace: '/gone' is not a folder"),
        ({"deny": "python"}, "deny: must be a list, not 'python': write deny=[…]"),
        ({"max_tokens": 0}, "max_tokens: must be 1 or more, not 0"),
        ({"seed": "1"}, "seed: must be a whole number, not '1'"),
        ({"timeout": True}, "timeout: must be a number, not True"),
        ({"approve": True}, "approve: must be a function that gets an Approval, not True"),
        ({"web": "brave"}, 'web: is for the browser: write tools=["browser"], too'),
    ],
)
def test_a_wrong_argument_is_refused_at_once(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        Agent(**wrong)
    assert str(raised.value) == message


def test_what_is_wrong_is_one_kind_of_error(model: Scripted) -> None:
    with Agent("no-such-model") as agent, pytest.raises(ModelNotFound) as missing:
        agent.ask("go")
    with Agent(model(DONE), tools=[lambda city: city]) as agent, pytest.raises(FunctionsInvalid) as invalid:
        agent.ask("go")
    with Agent(model(DONE)) as agent:
        with pytest.raises(SchemaUnusable) as unusable:
            agent.ask("go", schema={"type": "objekt"})
        with pytest.raises(ArgumentError, match="a question must be a text"):
            agent.ask("")
        assert agent.ask("go").text == "Done."
    with Agent(model(DONE), deny=["pyhton"]) as agent, pytest.raises(ArgumentError, match="no tool of that name is on"):
        agent.ask("go")
    with pytest.raises(ArgumentError, match="belong to the model"):
        Agent(model(DONE), context=1000)
    assert all(isinstance(one.value, OssiaError) for one in (missing, invalid, unusable))


def test_nothing_is_printed(model: Scripted, workspace: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logging.getLogger().setLevel(logging.WARNING)
    with Agent(model(PATCH, DONE), workspace=workspace) as agent:
        agent.ask("go")
    with Agent("etude") as agent:
        agent.ask("Hello")
    assert capfd.readouterr() == ("", "")


# -- the user's configuration ------------------------------------------------------------------------------------------


def test_no_configuration_is_read_unless_the_program_says_so(
    model: Scripted, home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = home / "config.toml"
    monkeypatch.setenv("OSSIA_CONFIG", str(config))
    config.write_text("this is no TOML")
    with Agent(model(DONE)) as agent:
        assert agent.ask("go").text == "Done."
    with Agent(model(DONE), config=True) as agent, pytest.raises(ArgumentError, match="config"):
        agent.ask("go")
    config.write_text('effort = "high"\n[approvals]\n"repo_browser.apply_patch" = "auto"\n')
    with Agent(model(PATCH, DONE, DONE), workspace=workspace, config=True, approve=_never) as agent:
        assert agent.ask("go").calls[0].status == "done"


def test_stored_rules_hold_only_with_the_configuration(model: Scripted, home: Path, workspace: Path) -> None:
    Grants(data_dir()).add(["repo_browser.apply_patch"], workspace=workspace)
    statuses = []
    for config in (False, True):
        with Agent(model(PATCH, DONE), workspace=workspace, config=config) as agent:
            statuses.append(agent.ask("go").calls[0].status)
    assert statuses == ["refused", "done"]


def test_a_trusted_workspace_instructs_the_model(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("Answer in French. " * 20)
    used = []
    for trust in (False, True):
        with Agent("etude", workspace=workspace, trust=trust) as agent:
            used.append(agent.ask("Hello").usage.prompt)
    assert used[1] > used[0] + 60


def test_nothing_is_left_of_agents_that_are_over() -> None:
    """Threads, files and processes of thirty. `python -m tests.oracle.agents` looks at the memory of a thousand."""
    before, *_, after = (replace(held, objects=0, bytes=0) for held in tenths(30))
    assert left_over(before, after, 27) == {}
