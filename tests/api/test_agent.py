"""Agents from Python: answers, events, the ends of turns, wrong arguments."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from ossia import (
    Agent,
    AgentBusy,
    AgentClosed,
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
    Steered,
    Text,
    ToolCall,
    ToolResult,
    ToolStarted,
    Usage,
)
from ossia.harmony.tokenizer import Tokenizer
from tests.support.agents import DONE, LONG, PATCH, Scripted, called, rest, weather
from tests.support.command import write_script
from tests.support.remote import serve
from tests.support.site import Site


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
    before = threading.enumerate()  # those of other tests
    with Model(engine=f"script:{tmp_path / 'script.json'}") as model, Agent(model) as agent:
        with pytest.raises(OssiaError, match="can't be read"):
            agent.ask("go")
        for thread in [one for one in threading.enumerate() if one.name.startswith("ossia") and one not in before]:
            thread.join(30)
            assert not thread.is_alive()
        write_script(tmp_path, DONE)
        assert agent.ask("go").text == "Done."


def test_a_server_runs_the_model(site: Site, etude_tokenizer: Tokenizer) -> None:
    serve(site, etude_tokenizer, [DONE])
    with Model(engine=site.url()) as model, Agent(model) as agent:
        result = agent.ask("go")
    assert (result.text, result.usage.completion > 0) == ("Done.", True)
    assert any(request.path == "/completion" for request in site.requests)


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
        ({"model": 20}, "model: must be a name, the path of a GGUF file or a Model, not 20"),
        ({"context": "8k"}, "context: must be a whole number, not '8k'"),
        ({"instructions": 7}, "instructions: must be a text, not 7"),
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
    meant = r"did you mean repo_browser\.apply_patch\?"
    with Agent(model(DONE), allow=["apply_patch"]) as agent, pytest.raises(ArgumentError, match=meant):
        agent.ask("go")
    with Agent(model(DONE), allow=["repo_browser.apply_patch"], deny=["apply_patch"]) as agent:
        assert agent.ask("go").text == "Done."
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
