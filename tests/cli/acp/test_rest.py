"""A session between prompts: how full its context is, its title by the model, its cache for the next process."""

from __future__ import annotations

from pathlib import Path

from ossia.cli import paths
from ossia.harmony.tokenizer import Tokenizer
from tests.support.acp_lines import Lines, Message, update_of
from tests.support.command import write_script
from tests.support.remote import serve
from tests.support.site import Site

DONE = "<|channel|>final<|message|>Done.<|return|>"


def titled(message: Message) -> object:
    """The title in a message; None without one."""
    update = update_of(message)
    return update["title"] if update.get("sessionUpdate") == "session_info_update" else None


def test_the_model_gives_a_title_after_the_first_question_was_one(
    tmp_path: Path, site: Site, etude_tokenizer: Tokenizer
) -> None:
    serve(site, etude_tokenizer, [DONE, "Multiplying two numbers<|return|>", DONE])
    with Lines("--engine", site.url(), env={"OSSIA_PREFILL_AHEAD": "on"}) as agent:
        session = agent.opened(tmp_path)
        agent.answer(agent.prompt(session, "What is 48*17?"))
        agent.until(lambda message: titled(message) == "Multiplying two numbers")
        agent.answer(agent.prompt(session, "And 6*7?"))
    titles = [title for message in agent.messages if (title := titled(message))]
    assert titles == ["What is 48*17?", "Multiplying two numbers", "Multiplying two numbers"]


def test_the_use_of_the_context_is_known_before_the_first_prompt_and_after_loading(tmp_path: Path) -> None:
    with Lines("--engine", write_script(tmp_path, DONE)) as agent:
        session = agent.opened(tmp_path)
        empty = update_of(agent.update("usage_update"))
        assert 0 < empty["used"] < empty["size"]
        agent.answer(agent.prompt(session, "Say it."))
        agent.request("session/close", sessionId=session)
        agent.messages.clear()
        agent.request("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        assert update_of(agent.update("usage_update"))["used"] > empty["used"]


def test_the_cache_of_a_conversation_is_stored_for_the_next_process_and_deleted_with_it(tmp_path: Path) -> None:
    with Lines("--model", "etude") as agent:
        session = agent.opened(tmp_path)
        agent.answer(agent.prompt(session, "What is 48*17?"))
    cache = paths.host().kv / session
    assert cache.exists()
    with Lines("--model", "etude") as agent:
        agent.request("initialize", protocolVersion=1)
        agent.request("session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        agent.update("usage_update")
        agent.request("session/delete", sessionId=session)
    assert not cache.exists()
