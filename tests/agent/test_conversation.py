"""A conversation without a face: several in one process, on one model."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from ossia.agent.adapt import result_message
from ossia.agent.build import Model, model
from ossia.agent.control import Control
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.engine.base import Engine, Prompt
from ossia.agent.events import ApprovalAsked, Decision, TurnEnded
from ossia.agent.models.spec import ModelSpec
from ossia.agent.respond import LocalResponder
from ossia.agent.sessions.session import Options, Session
from ossia.agent.sessions.store import SessionStore
from ossia.agent.stream.account import Account
from ossia.agent.turn import Tapped
from ossia.agent.vocabulary import TokenCounter
from ossia.tools.approval.rules import Rule
from ossia.tools.build import Toolset, ToolsSpec, toolset
from ossia.tools.functions.returned import ReturnedFunction
from ossia.tools.host import Host, silent
from ossia.tools.spec import ToolResult
from tests.support.command import write_script
from tests.support.turns import NUMBER, Double, Echo

CALL = '<|channel|>commentary to=functions.double<|constrain|>json<|message|>{"n": 21}<|call|>'
DONE = "<|channel|>final<|message|>It is 42.<|return|>"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    folders = (tmp_path / name for name in ("data", "cache", "log/ossia.log", "home"))
    return Host(*folders, environ={}, now=lambda: datetime.datetime(2025, 6, 28))


@pytest.fixture
def scripted(tmp_path: Path, host: Host) -> Iterator[Model]:
    steps = write_script(tmp_path, CALL, DONE, CALL, DONE, DONE)
    built = model(ModelSpec(script=Path(steps.removeprefix("script:"))), host)
    yield built
    built.close().result(10)
    built.worker.close()


def _tools(scripted: Model, host: Host, *rules: Rule, extra: Sequence[Double | Echo] = (Double(),)) -> Toolset:
    counter = TokenCounter(scripted.tokenizer, host)
    return toolset(ToolsSpec(trained=(), rules=rules), host, silent, counter, extra=extra)


def test_without_a_terminal(scripted: Model, host: Host) -> None:
    conversation = Conversation(OpenSession(Session()), scripted.worker, host)
    conversation.use(scripted, _tools(scripted, host))
    turn = conversation.say("What is twice 21?")
    for event in turn:
        if isinstance(event, ApprovalAsked):
            turn.answer(Decision(event.call.id, allow=True))
    assert turn.result() == TurnEnded("answered")
    assert conversation.session.messages[-1].text == "It is 42."
    conversation.close()


def test_two_of_them_share_a_model(scripted: Model, host: Host) -> None:
    """Each has its own session, tools, rules and store; their turns run one after another."""
    store = SessionStore(host.sessions, now=lambda: 0.0)
    stored = Session(Options(date="2025-06-27"))
    opened = OpenSession(stored, store, store.keep(stored))
    first = Conversation(opened, scripted.worker, host)
    second = Conversation(OpenSession(Session()), scripted.worker, host, private=True)
    first.use(scripted, _tools(scripted, host, Rule("functions.double", "allow")))
    second.use(scripted, _tools(scripted, host, Rule("functions.double", "deny")))
    turns = [first.say("What is twice 21?"), second.say("And you?")]
    for turn in turns:
        assert not any(isinstance(event, ApprovalAsked) for event in turn)
        assert turn.result() == TurnEnded("answered")
    texts = [[message.text for message in one.session.messages] for one in (first, second)]
    assert [text[0] for text in texts] == ["What is twice 21?", "And you?"]
    assert texts[0][2] == "42" and "not allowed here" in texts[1][2]
    assert first.options.date == "2025-06-28"  # nothing had been said in it
    assert first.save_cache().result(10) == second.save_cache().result(10) == 0  # the cache holds the private one's
    second.close()
    assert [message.text for message in store.load(opened.session_id or "").messages] == texts[0]
    first.close()


@dataclass
class Caching:
    """The scripted engine, with caches on disk as llama.cpp's has them."""

    engine: Engine
    stored: list[str] = field(default_factory=list)
    prompts: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(writes=True))
    ahead: threading.Event = field(default_factory=threading.Event)
    capabilities: frozenset[str] = frozenset({"save"})

    def __getattr__(self, name: str) -> object:
        return getattr(self.engine, name)

    def save_cache(self, folder: Path, *, max_bytes: int) -> int:
        self.stored.append(folder.name)
        return 1

    def load_cache(self, folder: Path) -> int:
        return 0

    def save_prompts(self) -> int:
        return 0

    def prefill(self, prompt: Prompt, *, control: Control, on_progress: object) -> None:
        self.ahead.set()


def test_nothing_private_is_stored_on_behalf_of_another_conversation(scripted: Model, host: Host) -> None:
    """The worker runs one after another what two ask of it: what the cache holds counts when it is stored."""
    scripted.engine = engine = Caching(scripted.engine)  # type: ignore[assignment]
    store = SessionStore(host.sessions, now=lambda: 0.0)
    stored, gate = Session(), threading.Event()
    opened = OpenSession(stored, store, store.keep(stored))
    first = Conversation(opened, scripted.worker, host)
    second = Conversation(OpenSession(Session()), scripted.worker, host, private=True)
    first.use(scripted, _tools(scripted, host, Rule("functions.double", "allow")))
    second.use(scripted, _tools(scripted, host))
    list(first.say("What is twice 21?"))
    assert first.save_cache().result(10) == 1 and engine.stored == [opened.session_id]
    scripted.worker.submit(lambda: gate.wait(10))
    turn = second.say("And you?")
    saved = first.save_cache()
    gate.set()
    asked = next(event for event in turn if isinstance(event, ApprovalAsked))
    first.use(scripted, _tools(scripted, host))
    assert not engine.prompts.writes
    turn.answer(Decision(asked.call.id, allow=True))
    list(turn)
    assert saved.result(10) == 0
    list(first.say("Once more?"))
    assert engine.prompts.writes and first.save_cache().result(10) == 1
    assert isinstance(scripted.responder, LocalResponder)
    scripted.responder.engine = scripted.engine
    second.ahead.begin(second.session.request_ahead(()), scripted.responder)
    assert engine.ahead.wait(10) and not engine.prompts.writes
    assert first.save_cache().result(10) == 0
    second.close()
    first.close()


def test_planning_and_turned_off_tools_hold_for_the_tools_in_use(scripted: Model, host: Host) -> None:
    conversation = Conversation(OpenSession(Session()), scripted.worker, host)
    conversation.plan(True)
    conversation.tools_off = frozenset({"python"})
    conversation.use(scripted, _tools(scripted, host, extra=(Double(), Echo())))
    assert conversation.tools is not None and conversation.tools.policy.read_only
    assert list(conversation.tools.toolbox.by_name) == ["functions.double"]
    turn = conversation.say("What is twice 21?")
    list(turn)
    assert "plan" in conversation.session.messages[2].text
    conversation.plan(False)
    assert not conversation.tools.policy.read_only
    conversation.cut_back(0)
    assert conversation.session.messages == ()
    conversation.close()


def test_a_call_for_a_client_ends_the_turn_and_its_result_goes_on(tmp_path: Path, host: Host) -> None:
    """The reasoning before the call is in the prompt again, since the turn goes on."""
    think = "<|channel|>analysis<|message|>Twice.<|end|><|start|>assistant"
    wrong = '<|channel|>commentary to=functions.double<|constrain|>json<|message|>{"n": "x"}<|call|>'
    steps = write_script(tmp_path, wrong, think + CALL, DONE)
    built = model(ModelSpec(script=Path(steps.removeprefix("script:"))), host)
    counter = TokenCounter(built.tokenizer, host)
    returned = ReturnedFunction.of("double", "Doubles n.", NUMBER)
    conversation = Conversation(OpenSession(Session()), built.worker, host)
    conversation.use(built, toolset(ToolsSpec(trained=()), host, silent, counter, extra=(returned,)))
    turn = conversation.say("What is twice 21?")
    account = Account("etude")
    for event in turn:
        assert not isinstance(event, Tapped)
        account.see(event)
    assert turn.result() == TurnEnded("called")
    assert [call.status for call in account.result().calls] == ["failed", "returned"]  # held to the schema first
    assert conversation.session.messages[-1].text == '{"n": 21}'
    session = conversation.session
    session.add_result(result_message(session.messages[-1], "42"), ToolResult("42"))
    turn = conversation.say(None)
    assert [type(event) for event in turn][-1] is TurnEnded
    assert turn.result() == TurnEnded("answered")
    request = conversation.session.request(())
    assert [message.text for message in request.history][-4:] == ["Twice.", '{"n": 21}', "42", "It is 42."]
    assert conversation.session.ends == ("answered",)
    conversation.close()
    built.close().result(10)
    built.worker.close()
