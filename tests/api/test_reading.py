"""The reading of a turn."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from ossia.agent.control import Control
from ossia.agent.events import Decision, Event, ToolFinished
from ossia.agent.stream.account import Account
from ossia.agent.stream.publish import Publisher
from ossia.agent.turn import Turn
from ossia.agent.worker import Worker
from ossia.api.reading import Approver, events_of
from ossia.tools.spec import ToolCall, ToolResult


def test_what_the_user_must_see_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def turn() -> Generator[Event, Decision | None, None]:
        result = ToolResult("done", notices=("git ignores build/, which can't be undone",))
        yield ToolFinished(ToolCall("call_1", "container.exec", '{"cmd": ["make"]}'), result, 1)

    worker, nobody = Worker(), Approver(None, for_a_person=False)
    assert list(events_of(Turn(worker, turn(), Control()), Publisher(Account("script")), nobody))
    worker.close()
    assert "git ignores build/" in caplog.text
