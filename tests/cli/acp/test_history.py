"""Stored sessions in an editor: listed, loaded with their messages, resumed without, deleted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError

from ossia.agent.sessions.session import Options, Session, UserText
from ossia.agent.sessions.store import SessionStore
from ossia.agent.stream.events import Reasoning, Text, ToolCall, ToolResult
from ossia.cli import paths
from ossia.cli.acp.history import listed, opened
from ossia.cli.acp.replay import replayed
from ossia.cli.acp.rpc import RpcError
from ossia.cli.settings.config import resolve
from ossia.harmony.messages import Message, ResponseFormat
from tests.cli.acp.editor import Editor
from tests.support.acp_lines import Lines, update_of
from tests.support.command import write_script
from tests.support.work_calls import writes

FINAL = "<|channel|>final<|message|>Done.<|return|>"
THINKING = "<|channel|>analysis<|message|>I write.<|end|><|start|>assistant"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="asyncio reads no such pipes there")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder.resolve()


@pytest.fixture
def store() -> Iterator[SessionStore]:
    opened = SessionStore(paths.sessions_file(), now=lambda: 1e9)
    yield opened
    opened.close()


def kept(store: SessionStore, said: str, **where: str | None) -> str:
    """The id of a stored session with one question and its answer."""
    session = Session()
    session_id = store.keep(session, **where)
    session.open_turn(said)
    session.add(Message("assistant", ("Yes.",), channel="final"))
    session.close_turn("answered")
    return session_id


def refused(editor: Editor, request: Any) -> str:
    """The message of the error that a request gets."""
    with pytest.raises(RequestError) as caught:
        editor.run(request)
    return str(caught.value)


def test_the_list_has_pages_by_folder(store: SessionStore, work: Path) -> None:
    here = [kept(store, f"Question {number}?", workspace=str(work)) for number in range(3)]
    begun = kept(store, "Begun here?", folder=str(work))
    other = kept(store, "Elsewhere?", workspace="/w/other", folder=str(work))
    kept(store, "From a file?")
    first = listed({"cwd": str(work)}, page=3)
    titles = {begun: "Begun here?", here[2]: "Question 2?", here[1]: "Question 1?"}
    assert first == {
        "sessions": [
            {"sessionId": one, "cwd": str(work), "title": title, "updatedAt": "2001-09-09T01:46:40+00:00"}
            for one, title in titles.items()
        ],
        "nextCursor": here[1],
    }
    rest = listed({"cwd": str(work), "cursor": first["nextCursor"]}, page=3)
    assert [one["sessionId"] for one in rest["sessions"]] == [here[0]] and "nextCursor" not in rest
    link = work.parent / "link"
    link.symlink_to(work)
    assert [one["cwd"] for one in listed({"cwd": str(link)})["sessions"]] == [str(link)] * 4
    every = listed({})["sessions"]
    assert (every[0]["sessionId"], every[0]["cwd"]) == (other, "/w/other") and len(every) == 5
    for wrong in ({"cursor": "nope"}, {"cursor": ["x"]}, {"cwd": "work"}, {"cwd": 1}, {"cwd": "/\0"}):
        with pytest.raises(RpcError):
            listed(wrong)


def test_a_replay_is_what_the_turns_published() -> None:
    session = Session()
    session.open_turn(UserText("Look.\n\nAttached file a.md:\n…", "Look."))
    session.add(Message("assistant", ("I look.",), channel="analysis"))
    call = Message("assistant", ('{"path": "a.md"}',), recipient="repo_browser.open_file", channel="commentary")
    session.add(call)
    session.answer_open_call()
    session.steer("Hurry!")
    session.add(Message("assistant", ("Words first.",), channel="commentary"))
    session.add(call)
    session.close_turn("stopped")
    said = [*replayed(session)]
    assert said[:2] == ["Look.", Reasoning("I look.", 0)]
    assert said[2] == ToolCall(call.recipient or "", {"path": "a.md"}, "call_1", "Read a.md")
    assert isinstance(said[3], ToolResult) and (said[3].id, said[3].status) == ("call_1", "done")
    assert said[4:6] == ["Hurry!", Text("Words first.", 1, preamble=True)]
    assert [type(one) for one in said[6:]] == [ToolCall, ToolResult] and said[7].id == "call_2"
    assert said[7].status == "failed"


def test_a_session_is_loaded_with_its_messages_and_resumed_without(work: Path) -> None:
    script = write_script(work.parent, THINKING + writes("a.md", "A\n"), FINAL, FINAL)
    with Editor("--engine", script) as editor:
        assert editor.greeting.agent_capabilities.load_session
        session = editor.new(work).session_id
        editor.client.answer = "allow_once"
        editor.ask(session, "Write a.md.")
        (info,) = editor.of(session, "session_info_update")
        assert info.title == "Write a.md."
        (found,) = editor.run(editor.connection.list_sessions(cwd=str(work))).sessions
        assert (found.session_id, found.title, found.updated_at) == (session, info.title, info.updated_at)
        live = editor.text(session), editor.text(session, "agent_thought_chunk")
    with Editor("--engine", script) as editor:
        editor.run(editor.connection.resume_session(session_id=session, cwd=str(work), mcp_servers=[]))
        editor.until(lambda: editor.kinds(session))
        assert "user_message_chunk" not in editor.kinds(session)
        editor.run(editor.connection.close_session(session_id=session))
        loaded = editor.run(editor.connection.load_session(session_id=session, cwd=str(work), mcp_servers=[]))
        assert [one.id for one in loaded.config_options] == ["mode", "model", "effort"]
        assert (editor.text(session), editor.text(session, "agent_thought_chunk")) == live
        assert editor.text(session, "user_message_chunk") == "Write a.md."
        (call,), (done,) = editor.of(session, "tool_call"), editor.of(session, "tool_call_update")
        assert (call.tool_call_id, done.status) == ("call_1", "completed") and "+A" in str(done.content)
        assert editor.ask(session, "And now?") == "end_turn"


def test_what_cannot_be_opened_is_refused_in_one_line(store: SessionStore, work: Path) -> None:
    (work.parent / "other").mkdir()
    held = kept(store, "Mine?", workspace=str(work))
    with Editor("--engine", write_script(work.parent, FINAL, FINAL)) as editor:
        load, cwd = editor.connection.load_session, str(work)
        assert "no session is called 'nope'" in refused(editor, load(session_id="nope", cwd=cwd, mcp_servers=[]))
        assert "no session is called 'Mine?'" in refused(editor, load(session_id="Mine?", cwd=cwd, mcp_servers=[]))
        mine, other = editor.new(work).session_id, str(work.parent / "other")
        editor.ask(mine, "It is stored now.")
        for session in (held, mine):
            elsewhere = refused(editor, load(session_id=session, cwd=other, mcp_servers=[]))
            assert f"was begun in {work}" in elsewhere
        wrong = {"sessionId": mine, "cwd": cwd, "mcpServers": [{"name": 5}]}
        assert "mcpServers" in refused(editor, editor.connection._conn.send_request("session/load", wrong))
        assert editor.ask(mine, "Still open?") == "end_turn"
        assert "is open in another ossia" in refused(editor, load(session_id=held, cwd=cwd, mcp_servers=[]))
        delete = editor.connection._conn.send_request("session/delete", {"sessionId": held})
        assert "is open in another ossia" in refused(editor, delete)


def test_a_session_of_answers_by_a_schema_goes_on_in_words(store: SessionStore, work: Path) -> None:
    session = Session(Options(response_format=ResponseFormat("answer", {"type": "integer"})))
    session_id = store.keep(session, workspace=str(work))
    session.open_turn("How many?")
    session.close_turn("answered")
    store.close()
    found = opened(resolve({}, environ={}), None, work, session_id)
    assert found.store is not None
    found.store.close()
    assert (found.session.messages[0].text, found.session.options.response_format) == ("How many?", None)


def test_a_session_that_is_loaded_again_during_its_turn_ends_that_first(work: Path) -> None:
    with Lines("--engine", write_script(work.parent, writes("a.md"), FINAL)) as agent:
        session = agent.opened(work)
        prompt = agent.prompt(session, "Write a.md.")
        agent.until(lambda message: message.get("method") == "session/request_permission")
        assert "result" in agent.request("session/load", sessionId=session, cwd=str(work), mcpServers=[])
        assert agent.answer(prompt)["result"] == {"stopReason": "cancelled"}
        (said,) = (one for one in map(update_of, agent.messages) if one.get("sessionUpdate") == "user_message_chunk")
        assert said["content"]["text"] == "Write a.md."
        assert agent.answer(agent.prompt(session, "Never mind."))["result"] == {"stopReason": "end_turn"}


def test_a_session_is_opened_and_closed_in_the_order_of_the_requests(work: Path) -> None:
    with Lines("--engine", write_script(work.parent, writes("a.md"), FINAL)) as agent:
        session = agent.opened(work)
        prompt = agent.prompt(session, "Write a.md.")
        agent.until(lambda message: message.get("method") == "session/request_permission")
        methods = ("session/close", "session/load", "session/resume", "session/delete", "session/load")
        asked = [agent.ask(method, sessionId=session, cwd=str(work), mcpServers=[]) for method in methods]
        answers = [agent.answer(number) for number in asked]
        assert ["result" in answer for answer in answers] == [True, True, True, True, False]
        assert "no session is called" in answers[-1]["error"]["message"]
        assert agent.answer(prompt)["result"] == {"stopReason": "cancelled"}


def test_a_private_session_is_stored_nowhere(work: Path) -> None:
    with Editor("--engine", write_script(work.parent, FINAL), "--private") as editor:
        session = editor.new(work).session_id
        assert editor.ask(session, "A secret.") == "end_turn"
        assert editor.kinds(session).count("session_info_update") == 0
        assert editor.run(editor.connection.list_sessions()).sessions == []
    assert not paths.sessions_file().exists()


def test_two_sessions_of_one_client_stay_apart(work: Path) -> None:
    with Editor("--engine", write_script(work.parent, FINAL, FINAL)) as editor:
        first, second = (editor.new(work).session_id for _ in range(2))
        editor.request("session/set_mode", sessionId=second, modeId="plan")
        for session, said in ((first, "One?"), (second, "Two?")):
            editor.ask(session, said)
        found = editor.run(editor.connection.list_sessions(cwd=str(work))).sessions
        assert {one.session_id: one.title for one in found} == {first: "One?", second: "Two?"}
        assert "current_mode_update" not in editor.kinds(first)
        editor.run(editor.connection.close_session(session_id=first))
        assert editor.text(second) == "Done."


def test_a_deleted_session_is_gone_and_another_deletion_is_no_error(work: Path) -> None:
    with Editor("--engine", write_script(work.parent, FINAL, FINAL)) as editor:
        session = editor.new(work).session_id
        editor.ask(session, "Hello?")
        for _ in range(2):
            editor.request("session/delete", sessionId=session)
        assert editor.run(editor.connection.list_sessions()).sessions == []
        assert "is open" in refused(editor, editor.connection.close_session(session_id=session))
