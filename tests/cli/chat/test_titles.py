"""The model gives a conversation its title while the chat is at rest, and the conversation doesn't notice."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.llama import LlamaEngine
from ossia.agent.request import Request, StepEvent
from ossia.agent.respond import LocalResponder
from ossia.agent.sessions.store import SessionStore
from ossia.cli import paths
from ossia.cli.chat.commands.sessions import private
from ossia.cli.runtime.session import Resume
from ossia.cli.terminal.input.typed import Typed
from ossia.harmony.messages import Completion, Delta, Message
from tests.support.command import write_script
from tests.support.screen import ChatScreen, chatting

TODAY = datetime.date.today()  # as the settings have it
WAITED_S = 0.3
"""Long enough for a title to come, if one were to."""


@pytest.fixture(autouse=True)
def a_short_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ossia.cli.chat.ahead._REST_S", 0.05)


class Entitling(LocalResponder):
    """The étude, but what it answers beside the conversation becomes `says`. `waits`: it stays in the middle of it."""

    says = "A study model of ossia"
    waits = midway = False
    asked = 0
    then: Callable[[], object] = staticmethod(lambda: None)
    """Called at its end."""

    def respond(self, request: Request, *, control: Control) -> Generator[StepEvent, None, Completion]:
        step = super().respond(request, control=control)
        if not request.side_question:
            return (yield from step)
        self.asked += 1
        while True:
            try:
                event = next(step)
            except StopIteration as done:
                completion: Completion = done.value
                self.then()
                return replace(completion, messages=(Message("assistant", (self.says,), channel="final"),))
            yield event
            self.midway = isinstance(event, Delta)
            while self.midway and self.waits and not control.stopped:
                time.sleep(0.002)


def _chat(**flags: Any) -> ChatScreen:
    flags = {"prefill_ahead": "on", "temperature": 0.0, "threads": 1, **flags}
    return ChatScreen(today=lambda: TODAY, **flags)


def _entitling(stage: ChatScreen, **how: Any) -> Entitling:
    assembly = stage.talk.loaded
    assert assembly is not None
    assembly.model.responder = responder = Entitling(assembly.model.codec, assembly.model.engine)
    for name, value in how.items():
        setattr(responder, name, value)
    return responder


def _engine(stage: ChatScreen) -> LlamaEngine:
    assert stage.talk.loaded is not None and isinstance(stage.talk.loaded.model.engine, LlamaEngine)
    return stage.talk.loaded.model.engine


def _held(stage: ChatScreen) -> str:
    """What the model has read."""
    assert stage.talk.loaded is not None
    return stage.talk.loaded.model.tokenizer.decode(_engine(stage).lane.cache.ids)


async def _send(stage: ChatScreen, text: str) -> None:
    turns = stage.talk.tally.chat.turns
    await stage.type(f"{text}\r")
    await stage.until(lambda: stage.talk.tally.chat.turns > turns and stage.talk.control is None)
    await stage.settle()


async def _wait(stage: ChatScreen) -> None:
    until = time.monotonic() + WAITED_S
    await stage.until(lambda: time.monotonic() > until)


def _title(stage: ChatScreen) -> str:
    assert stage.talk.store is not None and stage.talk.opened.session_id is not None
    return stage.talk.store.find(stage.talk.opened.session_id).title


def _stored() -> list[str]:
    store = SessionStore(paths.sessions_file(), now=time.time)
    found = [info.title for info in store.list()]
    store.close()
    return found


def test_a_chat_at_rest_gets_its_title_once_and_no_token_is_read_twice() -> None:
    async def case() -> None:
        async with _chat() as stage:
            responder = _entitling(stage)
            await _send(stage, "Who are you?")
            await stage.until(lambda: _title(stage) == "A study model of ossia")
            assert _held(stage).endswith("<|end|><|start|>user<|message|>")
            held = len(_engine(stage).lane.cache)
            await _send(stage, "What is 48*17?")
            assert stage.talk.tally.turn.reused == held
            await _wait(stage)
            assert (responder.asked, _title(stage)) == (1, "A study model of ossia")
            assert "A study model" not in "\n".join(stage.rows)

    chatting(case)


def test_it_waits_until_the_machine_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine:
        idle = True

        def __init__(self, threads: int) -> None:
            assert threads == 1

        def now(self) -> bool:
            return Machine.idle

    monkeypatch.setattr("ossia.cli.runtime.idleness._idleness", Machine)
    monkeypatch.setattr("ossia.agent.ahead._LOOK_AGAIN_S", 0.05)

    async def case() -> None:
        async with _chat(prefill_ahead="auto") as stage:
            responder = _entitling(stage)
            await stage.type("x")  # no rest yet, though all of it is read
            stage.talk.outbox.send(Typed("Who are you?", "Who are you?"))
            await stage.until(lambda: stage.talk.tally.chat.turns and stage.talk.control is None)
            await stage.until(lambda: stage.talk.conversation.ahead.done)
            Machine.idle = False
            await stage.type("\x7f")
            await _wait(stage)
            assert responder.asked == 0
            Machine.idle = True
            await stage.until(lambda: _title(stage) == "A study model of ossia")

    chatting(case)


def _played(**flags: Any) -> tuple[list[str], list[int]]:
    """What is said, and how much of each prompt was reused."""
    said: list[str] = []
    reused: list[int] = []

    async def case() -> None:
        async with _chat(**flags) as stage:
            responder = _entitling(stage)
            for line in ("Who are you?", "What is 48*17?", "/retry", "Hello"):
                await stage.until(lambda: stage.talk.conversation.ahead.done)
                await stage.until(lambda: responder.asked or flags or not stage.talk.session.entries)
                await _send(stage, line)
                said.append(stage.talk.session.messages[-1].text)
                reused.append(stage.talk.tally.turn.reused)

    chatting(case)
    return said, reused


def test_the_next_turns_are_the_same_with_and_without() -> None:
    assert _played() == _played(titles="question")


def test_a_key_stops_it_at_once_and_it_comes_at_the_next_rest() -> None:
    async def case() -> None:
        async with _chat() as stage:
            responder = _entitling(stage, waits=True)
            await _send(stage, "Who are you?")
            await stage.until(lambda: responder.midway)
            assert "the title alone." in _held(stage)
            await stage.type("x")
            await stage.until(lambda: _held(stage).endswith("<|end|><|start|>user<|message|>"))
            await _wait(stage)
            assert (responder.asked, _title(stage)) == (1, "Who are you?")  # something stands in the input
            responder.waits = False
            await stage.type("\x7f")
            await stage.until(lambda: _title(stage) == "A study model of ossia")
            assert responder.asked == 2

    chatting(case)


def test_a_line_that_is_sent_does_not_wait_for_it() -> None:
    async def case() -> None:
        async with _chat() as stage:
            responder = _entitling(stage, waits=True)
            await _send(stage, "Who are you?")
            await stage.until(lambda: responder.midway)
            settled = stage.talk.tally.turn.prompt
            await _send(stage, "Hello")
            assert stage.talk.tally.turn.reused > settled and _title(stage) == "Who are you?"

    chatting(case)


def test_leaving_does_not_wait_for_it() -> None:
    async def case() -> None:
        async with _chat() as stage:
            responder = _entitling(stage, waits=True)
            await _send(stage, "Who are you?")
            await stage.until(lambda: responder.midway)

    chatting(case)
    assert _stored() == ["Who are you?"]


def test_a_title_of_the_users_own_stays() -> None:
    async def case() -> None:
        async with _chat() as stage:
            responder = _entitling(stage, waits=True)
            await _send(stage, "Who are you?")
            await stage.type("/title Mine\r")
            await stage.settle()
            responder.waits = False
            asked = responder.asked
            await _wait(stage)
            await _send(stage, "Hello")
            await _wait(stage)
            assert (responder.asked - asked, _title(stage)) == (0, "Mine")

    chatting(case)


def test_a_private_chat_has_none() -> None:
    async def case() -> None:
        async with _chat(private=True) as stage:
            responder = _entitling(stage)
            await _send(stage, "Who are you?")
            await _wait(stage)
            assert responder.asked == 0

    async def later() -> None:
        async with _chat() as stage:
            responder = _entitling(stage, waits=True)
            await _send(stage, "Who are you?")
            await stage.until(lambda: responder.midway)
            await stage.type("/private\r")
            await stage.settle()
            responder.waits = False
            asked = responder.asked
            await _send(stage, "Hello")
            await _wait(stage)
            assert responder.asked == asked

    chatting(case)
    assert not paths.sessions_file().exists()
    chatting(later)
    assert _stored() == ["Who are you?"]


def test_a_title_that_comes_too_late_for_a_chat_gone_private_is_dropped() -> None:
    async def case() -> None:
        async with _chat() as stage:
            goes_private = [lambda: private(stage.talk, stage.face, "")]
            responder = _entitling(stage, then=lambda: stage.talk.background.on_loop(goes_private.pop()))
            await _send(stage, "Who are you?")
            await stage.until(lambda: stage.talk.settings.private)
            await _wait(stage)
            assert responder.asked == 1

    chatting(case)
    assert _stored() == ["Who are you?"]


@pytest.mark.parametrize("flags", [{"titles": "question"}, {"prefill_ahead": "off"}])
def test_it_can_be_turned_off(flags: dict[str, str]) -> None:
    async def case() -> None:
        async with _chat(**flags) as stage:
            responder = _entitling(stage)
            await _send(stage, "Who are you?")
            await _wait(stage)
            assert (responder.asked, _title(stage)) == (0, "Who are you?")

    chatting(case)


@pytest.mark.parametrize("line", ["hi", "Who are you?"])
def test_what_is_no_title_leaves_the_question(line: str) -> None:
    """The étude itself, which doesn't know the task; and a greeting says nothing yet."""

    async def case() -> None:
        async with _chat() as stage:
            await _send(stage, line)
            await _wait(stage)
            assert _title(stage) == line

    chatting(case)


def test_what_is_no_title_is_asked_for_once() -> None:
    async def case() -> None:
        async with _chat() as stage:
            responder = _entitling(stage, says="I can't help with that.")
            for line in ("Who are you?", "What is 48*17?"):
                await _send(stage, line)
                await _wait(stage)
            assert (responder.asked, _title(stage)) == (1, "Who are you?")

    chatting(case)


def test_a_resumed_conversation_without_a_title_gets_one() -> None:
    async def first() -> None:
        async with _chat(titles="question") as stage:
            await _send(stage, "Who are you?")

    async def second() -> None:
        async with _chat(titles="question", resume=Resume(latest=True)) as stage:
            _entitling(stage)
            stage.talk.change_settings(titles="model")
            stage.talk.measure()
            await stage.until(lambda: _title(stage) == "A study model of ossia")

    chatting(first)
    chatting(second)


def test_a_script_is_not_used_up(tmp_path: Path) -> None:
    script = write_script(tmp_path, *(f"<|channel|>final<|message|>{word}.<|return|>" for word in ("One", "Two")))

    async def case() -> None:
        async with _chat(engine=script) as stage:
            await _send(stage, "Who are you?")
            await _wait(stage)
            await _send(stage, "Hello")
            assert [message.text for message in stage.talk.session.messages[1::2]] == ["One.", "Two."]

    chatting(case)
