"""Several agents: over one model, forked, resumed, in an event loop, forgotten, a thousand."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from ossia import (
    Agent,
    AgentBusy,
    AgentClosed,
    Approval,
    EngineFailed,
    Event,
    Model,
    Result,
    SessionMissing,
    SessionUnclear,
    Text,
    ToolStarted,
)
from tests.oracle.agents import left_over, tenths
from tests.support.agents import DONE, LONG, PATCH, Scripted, called, rest
from tests.support.site import wait_until


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


def test_turns_over_a_model_with_lanes_run_at_once(model: Scripted) -> None:
    """A function asks another agent over the same model. One more has no lane: it isn't waited for, or stopped."""
    resting = threading.Event()
    shared = model(called("functions.delegate"), called("functions.rest"), DONE, DONE, DONE, parallel=2)

    def delegate() -> str:
        """Ask another."""
        asked = threading.Thread(target=lambda: other.ask("Help"))
        asked.start()
        resting.wait(10)
        with pytest.raises(AgentBusy, match="parallel=2"):
            third.ask("Help")
        stopped = threading.Thread(target=lambda: ends.append(third.ask("Me?").end))
        stopped.start()
        wait_until(lambda: third._talk._conversation is not None)
        third.stop()
        stopped.join(10)
        other.stop()
        asked.join(10)
        return third.ask("Help").text

    ends: list[str] = []
    with shared, Agent(shared, tools=[rest(resting)]) as other, Agent(shared) as third:
        with Agent(shared, tools=[delegate]) as agent:
            (call,) = agent.ask("go").calls
        assert (call.status, call.output, ends) == ("done", "Done.", ["stopped"])


def test_lanes_share_the_weights_and_answer_as_one_does() -> None:
    questions = ["What is 48*17?", "What is 12*12?", "Hello"]
    with Agent("etude", temperature=0) as alone:
        expected = [alone.ask(questions[0]).text]
    with Model("etude", parallel=3) as shared:
        agents = [Agent(shared, temperature=0) for _ in questions]
        answers = list(zip(agents, questions, strict=True))
        results = dict[int, str]()
        threads = [
            threading.Thread(target=lambda n=n, one=one, said=said: results.update({n: one.ask(said).text}))
            for n, (one, said) in enumerate(answers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results[0] == expected[0] and sorted(results) == [0, 1, 2]
        assert agents[1].ask("And 13*13?").usage.reused > 0
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


def test_what_a_turn_waits_for_can_close_its_model(model: Scripted, workspace: Path) -> None:
    steps = model(called("functions.close"), PATCH, DONE)

    def close() -> str:
        """Close it."""
        steps.close()
        return "closed"

    def approve(call: Approval) -> bool:
        steps.close()
        return False

    with Agent(steps, tools=[close], workspace=workspace, approve=approve) as agent:
        assert [call.status for call in agent.ask("go").calls] == ["done", "refused"]
        with pytest.raises(AgentClosed, match="the model is closed"):
            agent.ask("And now?")


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


def test_what_could_not_be_stored_has_no_id(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Agent("etude", data=tmp_path / "file", save=True) as agent:
        assert agent.ask("Hello").session_id is None and agent.session_id is None


def test_a_title_that_several_sessions_have_is_unclear(model: Scripted, home: Path) -> None:
    for question in ("The first question", "The second question"):
        with Agent(model(DONE), save=True) as agent:
            agent.ask(question)
    with Agent(model(DONE)) as agent, pytest.raises(SessionUnclear):
        agent.resume("question")


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


def test_events_in_an_event_loop(model: Scripted) -> None:
    """The loop is free meanwhile; leaving it stops the turn; what goes wrong comes behind the result."""
    resting = threading.Event()
    with Agent(model(DONE, called("functions.rest"), DONE), tools=[rest(resting)]) as agent:

        async def main() -> tuple[list[Event], Result]:
            before = [event async for event in agent.astream("1")]
            async with aclosing(agent.astream("2")) as events:
                async for event in events:
                    if isinstance(event, ToolStarted):
                        break
            assert (await agent.aask("3")).text == "Done."
            failed = []
            with pytest.raises(EngineFailed):  # the script is over
                async for event in agent.astream("4"):
                    failed.append(event)
            assert isinstance(failed[-1], Result)
            return before, failed[-1]

        before, failed = asyncio.run(main())
    assert isinstance(before[-1], Result) and before[-1].text == "Done." and any(isinstance(e, Text) for e in before)
    assert failed.end == "error"


def test_nothing_is_left_of_agents_that_are_over() -> None:
    """Threads, files and processes of twenty. `python -m tests.oracle.agents` looks at the memory of a thousand."""
    found = [replace(held, objects=0, bytes=0) for held in tenths(20)]
    assert left_over(found[4], found[-1], 10) == {}
