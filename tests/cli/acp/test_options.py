"""The options of a session: modes, effort, the model, as a client sets and sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.models.catalog import ETUDE_PATH
from ossia.cli import paths
from tests.support.acp_lines import Lines, Message
from tests.support.command import write_script
from tests.support.work_calls import writes

DONE = "<|channel|>final<|message|>Done.<|return|>"


def opened(folder: Path, *steps: str) -> tuple[Lines, str]:
    """A client of a scripted model, and its session in the folder `work`."""
    (folder / "work").mkdir()
    agent = Lines("--engine", write_script(folder, *steps))
    return agent, agent.opened(folder / "work")


def values(options: list[dict[str, Any]]) -> dict[str, str]:
    return {one["id"]: one["currentValue"] for one in options}


def choose(agent: Lines, session: str, name: str, value: object) -> Message:
    return agent.request("session/set_config_option", sessionId=session, configId=name, value=value)


def question(agent: Lines) -> Message:
    return agent.until(lambda message: message.get("method") == "session/request_permission")


def pick(agent: Lines, asked: Message, key: str) -> None:
    outcome = {"outcome": "selected", "optionId": key}
    agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": outcome}})


@pytest.fixture
def models() -> Iterator[Path]:
    """A folder of ossia's models: a copy of the built-in one, and one that is cut off."""
    folder = paths.data_dir() / "models" / "mine"
    folder.mkdir(parents=True)
    whole = ETUDE_PATH.read_bytes()
    (folder / "gpt-oss-mini.gguf").write_bytes(whole)
    (folder / "gpt-oss-cut.gguf").write_bytes(whole[:100_000])
    yield folder


def test_a_session_says_its_options_in_both_ways(tmp_path: Path) -> None:
    with Lines("--engine", write_script(tmp_path, DONE)) as agent:
        agent.request("initialize", protocolVersion=1)
        result = agent.request("session/new", cwd=str(tmp_path), mcpServers=[])["result"]
    assert [(one["id"], one["category"], one["type"]) for one in result["configOptions"]] == [
        ("mode", "mode", "select"),
        ("model", "model", "select"),
        ("effort", "thought_level", "select"),
    ]
    for one in result["configOptions"]:
        assert one["currentValue"] in [choice["value"] for choice in one["options"]]
    modes = result["modes"]
    assert modes["currentModeId"] == "ask"
    assert [mode["id"] for mode in modes["availableModes"]] == ["ask", "plan", "accept_edits"]


def test_in_plan_mode_nothing_is_changed_and_then_it_may_be(tmp_path: Path) -> None:
    agent, session = opened(tmp_path, writes("a.md"), DONE, writes("a.md"), DONE)
    with agent:
        assert values(choose(agent, session, "mode", "plan")["result"]["configOptions"])["mode"] == "plan"
        assert agent.answer(agent.prompt(session))["result"] == {"stopReason": "end_turn"}
        assert not (tmp_path / "work" / "a.md").exists()
        agent.messages.clear()
        assert agent.request("session/set_mode", sessionId=session, modeId="accept_edits")["result"] == {}
        assert agent.update("current_mode_update")["params"]["update"]["currentModeId"] == "accept_edits"
        sent = agent.update("config_option_update")["params"]["update"]
        assert values(sent["configOptions"])["mode"] == "accept_edits"
        assert agent.answer(agent.prompt(session))["result"] == {"stopReason": "end_turn"}
    assert (tmp_path / "work" / "a.md").exists()
    assert not [one for one in agent.messages if one.get("method") == "session/request_permission"]


def test_an_answer_that_accepts_all_edits_is_the_mode_and_ask_ends_it(tmp_path: Path) -> None:
    agent, session = opened(tmp_path, writes("a.md"), DONE, writes("b.md"), DONE, writes("c.md"), DONE)
    with agent:
        prompt = agent.prompt(session)
        pick(agent, question(agent), "w")
        agent.answer(prompt)
        assert agent.update("current_mode_update")["params"]["update"]["currentModeId"] == "accept_edits"
        agent.answer(agent.prompt(session))
        assert len([one for one in agent.messages if one.get("method") == "session/request_permission"]) == 1
        assert values(choose(agent, session, "mode", "ask")["result"]["configOptions"])["mode"] == "ask"
        agent.messages.clear()
        prompt = agent.prompt(session)
        pick(agent, question(agent), "n")
        agent.answer(prompt)
    assert [(tmp_path / "work" / name).exists() for name in ("a.md", "b.md", "c.md")] == [True, True, False]


def test_what_is_chosen_during_a_turn_holds_at_once_or_with_the_next_one(tmp_path: Path) -> None:
    agent, session = opened(tmp_path, writes("a.md"), writes("b.md"), DONE)
    with agent:
        prompt = agent.prompt(session)
        asked = question(agent)
        assert values(choose(agent, session, "effort", "high")["result"]["configOptions"])["effort"] == "high"
        assert "result" in choose(agent, session, "model", "script")  # the one in use: nothing is loaded
        choose(agent, session, "mode", "plan")
        pick(agent, asked, "y")
        assert agent.answer(prompt)["result"] == {"stopReason": "end_turn"}
        agent.request("session/close", sessionId=session)
        again = agent.request("session/resume", sessionId=session, cwd=str(tmp_path / "work"), mcpServers=[])["result"]
        assert values(again["configOptions"]) == {"mode": "plan", "model": "script", "effort": "high"}
    assert not (tmp_path / "work" / "b.md").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("mode", "yolo", "mode: must be one of ask, plan, accept_edits, not 'yolo'"),
        ("effort", ["high"], "effort: must be one of low, medium, high, not ['high']"),
        ("model", None, "model: must be one of"),
        ("colour", "red", "configId: must be mode, model or effort, not 'colour'"),
    ],
)
def test_what_cannot_be_chosen_is_refused(tmp_path: Path, name: str, value: object, said: str) -> None:
    agent, session = opened(tmp_path, DONE)
    with agent:
        error = choose(agent, session, name, value)["error"]
        assert error["code"] == -32602 and error["message"].startswith(said)
        assert agent.request("session/set_mode", sessionId=session, modeId="yolo")["error"]["code"] == -32602


def test_the_model_that_was_chosen_is_named_before_the_first_prompt(tmp_path: Path, models: Path) -> None:
    (models / "gpt-oss-cut.gguf").rename(models / "gpt-oss-20b-mxfp4.gguf")  # the best one by its name
    with Lines() as agent:
        agent.request("initialize", protocolVersion=1)
        first = agent.request("session/new", cwd=str(tmp_path), mcpServers=[])["result"]["configOptions"]
        sent = agent.update("config_option_update")["params"]["update"]["configOptions"]
    assert (values(first)["model"], values(sent)["model"]) == ("gpt-oss-20b", "etude")


def test_another_model_is_loaded_and_one_that_cannot_be_leaves_the_one_before(tmp_path: Path, models: Path) -> None:
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    paths.config_file().write_text('[approvals]\npython = "ask"\n')
    with Lines("--model", "etude") as agent:
        session = agent.opened(tmp_path)
        changed = choose(agent, session, "model", "gpt-oss-mini")["result"]["configOptions"]
        assert values(changed)["model"] == "gpt-oss-mini"
        error = choose(agent, session, "model", "gpt-oss-cut")["error"]
        assert "gpt-oss-cut.gguf: cut off" in error["message"]
        assert values(choose(agent, session, "effort", "low")["result"]["configOptions"])["model"] == "gpt-oss-mini"
        prompt = agent.prompt(session, "What is 48*17?")
        asked = question(agent)
        during = choose(agent, session, "model", "etude")
        assert during["error"]["message"].startswith("a turn is under way")
        pick(agent, asked, "y")
        assert agent.answer(prompt)["result"] == {"stopReason": "end_turn"}
        assert "result" in choose(agent, session, "model", "etude")
