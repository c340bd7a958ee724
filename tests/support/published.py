"""A turn over the script engine, as its published events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ossia.agent.build import model
from ossia.agent.conversation import Conversation, OpenSession
from ossia.agent.events import Decision
from ossia.agent.limits import Limits
from ossia.agent.models.spec import ModelSpec
from ossia.agent.sessions.session import Options, Session
from ossia.agent.stream import events as stream
from ossia.agent.stream.account import Account
from ossia.agent.stream.publish import Publisher
from ossia.agent.vocabulary import TokenCounter
from ossia.tools.approval.rules import Rule
from ossia.tools.build import ToolsSpec, toolset
from ossia.tools.host import Host, silent
from ossia.tools.spec import Tool
from tests.support.command import write_script
from tests.support.host import host_in
from tests.support.turns import Double

Answer = Callable[[str], Decision | None]


def published(
    folder: Path,
    *steps: str,
    rules: tuple[Rule, ...] = (),
    options: Options | None = None,
    answer: Answer = lambda call: Decision(call, True),
    extra: tuple[Tool, ...] = (),
    limits: Limits | None = None,
) -> list[stream.Event]:
    """All events of one turn, with its result; `answer` gets the call's id at each question."""
    host: Host = host_in(folder)
    script = write_script(folder, *steps).removeprefix("script:")
    built = model(ModelSpec(script=Path(script)), host)
    counter = TokenCounter(built.tokenizer, host)
    tools = toolset(ToolsSpec(trained=(), rules=rules), host, silent, counter, extra=extra or (Double(),))
    conversation = Conversation(OpenSession(Session(options or Options())), built.worker, host)
    conversation.use(built, tools)
    form = conversation.options.response_format
    seen = list[stream.Event]()
    turn = conversation.say("What is twice 21?", limits=limits)
    account = Account(built.name, form.schema if form else None, stopped=lambda: turn.control.stopped)
    publisher = Publisher(account, lambda: tools.toolbox.by_name)
    for event in turn:
        seen += publisher.see(event)
        for asked in tuple(publisher.asked.values()):
            if isinstance(seen[-1], stream.Approval):
                turn.answer(answer(asked.call.id))
    turn.result()
    assert not publisher.asked
    conversation.close()
    built.close().result(10)
    built.worker.close()
    return [*seen, account.result()]
