"""The client's MCP servers: their shapes and names; a real one, called; one that isn't there."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ossia.cli.acp.servers import with_servers
from ossia.tools.build import ToolsSpec
from ossia.tools.functions import McpConfigInvalid
from ossia.tools.mcp.config import McpConfig, expanded
from tests.support.acp_lines import Lines, Message, update_of
from tests.support.command import write_script
from tests.support.mcp_servers import SERVER, over_http
from tests.support.site import wait_until

NOTES = {"name": "My notes", "command": "/bin/notes", "args": [], "env": []}
STUDY = {"name": "Study server", "command": sys.executable, "args": [str(SERVER), "stdio"], "env": []}
CALL = (
    "<|channel|>commentary to=functions.Study_server__environment <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>final<|message|>Done.<|return|>",
)


@pytest.mark.skipif(sys.platform == "win32", reason="a path of POSIX")
def test_a_server_is_read_with_its_values_as_they_stand() -> None:
    env = [{"name": "TOKEN", "value": "${HOME}"}, {"name": "DEBUG", "value": "1"}]
    given = {**NOTES, "args": ["--api-key", "k3y-of-mine"], "env": env}
    spec, unused = with_servers(ToolsSpec(), [given])
    (config,) = spec.servers
    assert unused == () and config == McpConfig(
        "My_notes",
        command="/bin/notes",
        args=("--api-key", "k3y-of-mine"),
        env={"TOKEN": "${HOME}", "DEBUG": "1"},
        where="mcpServers[0]",
        literal=True,
        secrets=("k3y-of-mine",),
    )
    assert expanded(config, os.environ) == config
    assert config.target == "/bin/notes --api-key …"


def test_the_users_own_servers_keep_their_names() -> None:
    own = ToolsSpec(servers=(McpConfig("my-notes", command="x"), McpConfig("mail", command="y")))
    http = {"type": "http", "name": "mail", "url": "https://mail.test/mcp", "headers": []}
    spec, unused = with_servers(own, [NOTES, http, NOTES, {**NOTES, "name": "¡!"}])
    assert [config.name for config in spec.servers] == ["my-notes", "mail", "My_notes", "My_notes_2", "server"]
    assert unused == ("the editor's MCP server mail isn't used: you have configured one of that name",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "mcpServers: must be a list of servers, not dict"),
        ([1], "mcpServers[0]: must be an object with a name"),
        ([{"command": "/x"}], "mcpServers[0]: must be an object with a name"),
        ([NOTES, {"name": "a"}], 'mcpServers[1]: needs "command" or "url"'),
        ([{"name": "a", "command": "notes"}], "mcpServers[0].command: must be an absolute path, not 'notes'"),
        ([{**NOTES, "args": [1]}], "mcpServers[0].args: must be a list of texts, not [1]"),
        ([{**NOTES, "env": {"A": "b"}}], "mcpServers[0].env: must be a list of objects with name and value"),
        ([{**NOTES, "env": [{"name": []}]}], "mcpServers[0].env: each must have a name"),
        ([{**NOTES, "env": [{"name": "A", "value": 1}]}], "mcpServers[0].env.A: must be a name and a text, not 1"),
        ([{**NOTES, "type": "sse"}], 'mcpServers[0].type: must be "stdio" or "http", not \'sse\''),
        ([{**NOTES, "type": [1]}], "mcpServers[0].type: must be"),
        ([{"name": "a", "type": "http", "url": "ftp://x"}], "mcpServers[0].url: must be http://"),
        ([{"name": "a", "type": "http", "command": "/x"}], 'mcpServers[0]: needs "command" or "url"'),
    ],
)
def test_a_wrong_shape_is_refused_with_its_place(given: Any, said: str) -> None:
    with pytest.raises(McpConfigInvalid) as caught:
        with_servers(ToolsSpec(), given)
    assert str(caught.value).startswith(said)


def test_an_accepted_server_is_asked_about_as_any_tool(tmp_path: Path) -> None:
    with Lines("--engine", write_script(tmp_path, *CALL)) as agent:
        agent.request("initialize", protocolVersion=1)
        session = agent.request("session/new", cwd=str(tmp_path), mcpServers=[STUDY])["result"]["sessionId"]
        for line in ("/mcp", "/mcp accept Study_server"):
            agent.answer(agent.prompt(session, line))
        texts = [update_of(message).get("content") for message in agent.messages]
        shown = [content["text"] for content in texts if content]
        assert any("- Study_server `get_weather`: The weather of a city now. (new)" in text for text in shown)
        assert shown[-1] == "Accepted: the tools of Study_server, from the next session on."
        session = agent.request("session/new", cwd=str(tmp_path), mcpServers=[STUDY])["result"]["sessionId"]
        prompt = agent.prompt(session)
        asked = agent.until(lambda message: message.get("method") == "session/request_permission")
        assert "allow_always" in [one["kind"] for one in asked["params"]["options"]]
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"outcome": {"outcome": "cancelled"}}})
        assert agent.answer(prompt)["result"] == {"stopReason": "cancelled"}


def test_without_tools_no_server_is_connected(tmp_path: Path) -> None:
    with Lines("--no-tools", "--engine", write_script(tmp_path, *CALL)) as agent:
        agent.request("initialize", protocolVersion=1)
        session = agent.request("session/new", cwd=str(tmp_path), mcpServers=[STUDY])["result"]["sessionId"]
        agent.answer(agent.prompt(session, "/tools"))
        assert agent.update("agent_message_chunk")["params"]["update"]["content"]["text"] == "No tools are on.\n"


def test_a_server_over_http_is_called(tmp_path: Path) -> None:
    with over_http() as url, Lines("--engine", write_script(tmp_path, *CALL)) as agent:
        agent.request("initialize", protocolVersion=1)
        server = {"type": "http", "name": "Study server", "url": url, "headers": []}
        session = agent.request("session/new", cwd=str(tmp_path), mcpServers=[server])["result"]["sessionId"]
        agent.answer(agent.prompt(session, "/tools"))
        assert any("functions.Study_server__book" in str(update_of(message)) for message in agent.messages)


@pytest.fixture
def silent(tmp_path: Path) -> tuple[Message, Path]:
    """A server that never answers, and the file with its process's id."""
    number = tmp_path / "number"
    program = f"import os, time; open({str(number)!r}, 'w').write(f'{{os.getpid()}}\\n'); time.sleep(600)"
    return {"name": "silent", "command": sys.executable, "args": ["-c", program], "env": []}, number


def test_a_silent_server_holds_up_its_own_session_alone(tmp_path: Path, silent: tuple[Message, Path]) -> None:
    with Lines("--engine", write_script(tmp_path, CALL[1])) as agent:
        agent.request("initialize", protocolVersion=1)
        waiting, other = (
            agent.request("session/new", cwd=str(tmp_path), mcpServers=servers)["result"]["sessionId"]
            for servers in ([silent[0]], [])
        )
        first = agent.prompt(waiting)
        assert agent.answer(agent.prompt(other))["result"] == {"stopReason": "end_turn"}
        assert not any(message.get("id") == first for message in agent.messages)


@pytest.mark.skipif(sys.platform == "win32", reason="processes by their ids")
@pytest.mark.parametrize("prompted", [False, True])
def test_a_server_that_never_answers_ends_with_ossia(
    tmp_path: Path, silent: tuple[Message, Path], prompted: bool
) -> None:
    server, number = silent
    with Lines("--engine", write_script(tmp_path, CALL[1])) as agent:
        agent.request("initialize", protocolVersion=1)
        session = agent.request("session/new", cwd=str(tmp_path), mcpServers=[server])["result"]["sessionId"]
        if prompted:
            agent.prompt(session)
        wait_until(lambda: number.exists() and number.read_text().endswith("\n"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(number.read_text()), 0)


def test_a_real_server_is_asked_about_and_called_and_no_secret_is_shown(tmp_path: Path) -> None:
    env = [{"name": "STUDY_TOKEN", "value": "s3cret-of-mine"}]
    study = {**STUDY, "env": env}
    gone = {"name": "gone", "command": str(tmp_path / "none"), "args": ["--token", "s3cret-of-mine"], "env": []}
    with Lines("--engine", write_script(tmp_path, *CALL)) as agent:
        greeting = agent.request("initialize", protocolVersion=1)["result"]["agentCapabilities"]
        assert greeting["mcpCapabilities"] == {"http": True, "sse": False}
        session = agent.request("session/new", cwd=str(tmp_path), mcpServers=[study, gone])["result"]["sessionId"]
        prompt = agent.prompt(session)
        asked = agent.until(lambda message: message.get("method") == "session/request_permission")
        assert [one["kind"] for one in asked["params"]["options"]] == ["allow_once", "reject_once"]
        chosen = {"outcome": {"outcome": "selected", "optionId": asked["params"]["options"][0]["optionId"]}}
        agent.send({"jsonrpc": "2.0", "id": asked["id"], "result": chosen})
        assert agent.answer(prompt)["result"] == {"stopReason": "end_turn"}
    updates = [update_of(message) for message in agent.messages]
    (done,) = (one for one in updates if one.get("status") == "completed")
    assert "STUDY_TOKEN" in str(done["content"])
    thoughts = "".join(one["content"]["text"] for one in updates if "thought" in one.get("sessionUpdate", ""))
    assert thoughts.startswith("the MCP server gone isn't connected: there is no program")
    assert "the MCP server Study_server is new: /mcp shows its tools" in thoughts
    stored = [path.read_bytes() for path in Path(os.environ["HOME"]).rglob("*") if path.is_file()]
    assert stored and not any(b"s3cret-of-mine" in one for one in [*stored, str(updates).encode(), *agent.torn])
    assert "s3cret-of-mine" not in agent.errors
