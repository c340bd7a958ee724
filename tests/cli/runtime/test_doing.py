"""What the live line says of a turn, in `ossia run` and `ossia eval`."""

from __future__ import annotations

from ossia.agent.events import Delta, MessageAdded, Progress, ToolStarted
from ossia.cli.runtime.doing import Doing
from ossia.harmony.messages import Message
from ossia.tools.spec import Preview, ToolCall


def test_each_thing_is_said_until_the_next_one() -> None:
    doing = Doing()
    assert doing.text() == "waiting"
    assert doing.see(Progress(212, 633))
    assert doing.text() == "reading the prompt · 212 of 633"
    doing.see(Progress(1, 90, phase="summary"))
    assert doing.text() == "summing up older turns · 1 token"
    doing.see(Delta(0, "Hm", channel="analysis"))
    assert doing.text() == "thinking · 1 token"
    assert not doing.see(MessageAdded(Message("assistant", ("Hm",), channel="analysis")))
    doing.see(Delta(1, "Yes", channel="final"))
    assert doing.text() == "writing · 2 tokens"
    doing.see(ToolStarted(ToolCall("1", "python", "1"), Preview("run")))
    assert doing.text() == "running python"
    doing.see(Progress(40, 100, reused=40))
    assert doing.text() == "reading the prompt · 0 of 60"
