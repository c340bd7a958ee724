"""The conversation of a stored session, sent to the client as its turns sent it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ossia.agent.events import Delta, MessageAdded, ToolFinished
from ossia.agent.kinds import kind_of
from ossia.agent.stream import events as stream
from ossia.agent.stream.account import Account
from ossia.agent.stream.publish import Publisher
from ossia.cli.acp.updates import Updates, said
from ossia.cli.words import ENDS
from ossia.tools.calls.names import work_tool
from ossia.tools.spec import ToolCall, ToolResult

if TYPE_CHECKING:
    from ossia.agent.sessions.session import Session as Stored
    from ossia.cli.acp.session import Session


def replay(session: Session) -> None:
    """Send the messages of a session as updates."""
    shown = Updates(session.update, session.cwd, 0)
    for one in replayed(session.talk.session):
        if isinstance(one, str):
            shown = Updates(session.update, session.cwd, 0)
            session.update(said(one))
        else:
            shown.see(one)


def replayed(session: Stored) -> Iterator[str | stream.Event]:
    """A stored conversation as its turns published it; a text is the user's. Calls are numbered as they were.

    What isn't stored is missing: notes, questions, figures, how long a call took.

        [*replayed(session)]    # ["What is 48*17?", Reasoning("They want …"), Text("816")]
    """
    publisher = Publisher(Account(""))
    waiting: list[ToolCall] = []
    calls = 0
    for index, entry in enumerate(session.entries):
        message, kind = entry.message, kind_of(entry.message)
        if message.sampled and message.role != "assistant":
            continue  # written by the model in another role: nobody with that role said it
        if kind == "user":
            yield entry.typed or message.text
        elif kind == "call":
            calls += 1
            name = message.recipient or ""
            waiting.append(ToolCall(f"call_{calls}", work_tool(name) or name, message.text))
        elif kind == "result":
            call = waiting.pop(0) if waiting else ToolCall(f"result_{index}", message.name or "", "")
            result = ToolResult(message.text, entry.error, entry.attachments, entry.state)
            yield from publisher.see(ToolFinished(call, result, 0))
        elif message.role == "assistant":
            yield from publisher.see(Delta(index, message.text, channel=message.channel))
            yield from publisher.see(MessageAdded(message, entry.cut))
    for call in waiting:
        yield from publisher.see(ToolFinished(call, ToolResult(f"[{ENDS[None]}]", error=True), 0))
