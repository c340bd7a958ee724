"""Slash commands and skills in a prompt: listed, carried out without the model, or sent to it as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from tests.support.acp_lines import Lines, update_of
from tests.support.command import write_script
from tests.support.work_calls import writes

DONE = "<|channel|>final<|message|>Done.<|return|>"
SKILL = "---\nname: review\ndescription: Review the changes\nargument-hint: '[file]'\n---\nRead $ARGUMENTS with care.\n"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def skill(home: Path, name: str, text: str = SKILL) -> None:
    folder = home / ".agents" / "skills" / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text.replace("name: review", f"name: {name}"))


def said(agent: Lines, session: str, text: str) -> str:
    """The text that answers a prompt; questions are answered with yes."""
    agent.messages.clear()
    prompt = agent.prompt(session, text)
    while (message := agent.next()).get("id") != prompt or "method" in message:
        if message.get("method") == "session/request_permission":
            outcome = {"outcome": {"outcome": "selected", "optionId": "y"}}
            agent.send({"jsonrpc": "2.0", "id": message["id"], "result": outcome})
    assert message["result"] == {"stopReason": "end_turn"}
    updates = [update_of(one) for one in agent.messages]
    return "".join(one["content"]["text"] for one in updates if one.get("sessionUpdate") == "agent_message_chunk")


def test_commands_and_skills_are_announced(work: Path) -> None:
    skill(Path.home(), "review")
    skill(Path.home(), "inner", SKILL.replace("---\nRead", "user-invocable: false\n---\nRead"))
    skill(Path.home(), "undo")
    with Lines("--engine", write_script(work.parent, DONE)) as agent:
        agent.opened(work)
        listed = agent.update("available_commands_update")["params"]["update"]["availableCommands"]
    assert {one["name"]: one.get("input") for one in listed} == {
        "review": {"hint": "[file]"},
        "undo": {"hint": "list, force or skip"},
        "context": None,
        "tools": None,
        "mcp": {"hint": "accept NAME"},
        "skills": None,
    }
    assert all(one["description"] for one in listed)


def test_commands_are_answered_without_the_model(work: Path) -> None:
    with Lines("--engine", write_script(work.parent, writes("a.md"), DONE)) as agent:
        session = agent.opened(work)
        assert "- `repo_browser.open_file`: built-in, can read, runs without asking" in said(agent, session, "/tools")
        assert said(agent, session, "/undo") == "Nothing to undo."
        assert said(agent, session, "Write it.") == "Done."
        assert (work / "a.md").exists()
        assert said(agent, session, "/undo list") == "What can be undone, latest first:\n\n- 1 file: Write it."
        assert said(agent, session, "/undo") == "Undone: Write it.\n\n- removed `a.md`"
        assert not (work / "a.md").exists()
        assert said(agent, session, "/context").startswith("Context: ")
        assert said(agent, session, "/skills") == "There are no skills.\n"
        assert said(agent, session, "/mcp").startswith("No MCP server is connected.")
        assert said(agent, session, "/mcp accept x").endswith("(none is connected), not 'accept x'")
        assert said(agent, session, "/tools off") == "/tools: takes no argument"
        assert said(agent, session, "/undo all").startswith("/undo: must be list, force, skip or nothing, not 'all'")


def test_a_skill_is_called_and_anything_else_is_a_text(work: Path) -> None:
    skill(Path.home(), "review")
    with Lines("--engine", write_script(work.parent, DONE, DONE, DONE)) as agent:
        session = agent.opened(work)
        for text in ("/review a.md", "/nothing here", "/home/me/a.md is broken"):
            assert said(agent, session, text) == "Done."
        agent.request("session/close", sessionId=session)
        agent.messages.clear()
        agent.request("session/load", sessionId=session, cwd=str(work), mcpServers=[])
    asked = [update_of(one) for one in agent.messages]
    typed = [one["content"]["text"] for one in asked if one.get("sessionUpdate") == "user_message_chunk"]
    assert typed == ["/review a.md", "/nothing here", "/home/me/a.md is broken"]


def test_the_model_reads_the_text_of_a_called_skill(work: Path) -> None:
    skill(Path.home(), "review")
    with Lines("--engine", write_script(work.parent, DONE)) as agent:
        session = agent.opened(work)
        said(agent, session, "/review a.md")
        store = SessionStore(paths.sessions_file(), now=lambda: 0.0)
        first = store.load(session).entries[0]
        store.close()
    assert first.typed == "/review a.md" and "Read a.md with care." in first.message.text
    assert "private" in first.taints
