"""Calls through a toolbox, each question answered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ossia.tools.approval.policy import Policy
from ossia.tools.spec import (
    ApprovalAsked,
    Decision,
    NoStop,
    Stop,
    Taint,
    Tool,
    ToolCall,
    ToolContext,
    ToolOutput,
    ToolResult,
)
from ossia.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call: its result, what was shown meanwhile, and the questions."""

    result: ToolResult
    shown: str
    asked: tuple[ApprovalAsked, ...]

    @property
    def text(self) -> str:
        return self.result.text


def call(
    tools: Iterable[Tool] | Toolbox,
    name: str,
    arguments: object = None,
    *,
    folder: Path,
    stop: Stop | None = None,
    taint: frozenset[Taint] = frozenset(),
    answers: Iterable[Decision | None] = (),
) -> Called:
    """Run one call, allowing it where that is asked. `arguments` that aren't a text become JSON.

    `answers`: to the questions of a server meanwhile; then they are accepted with their defaults.
    """
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
    toolbox = tools if isinstance(tools, Toolbox) else toolbox_of(tools, folder)
    running = toolbox.run(ToolCall("call_1", name, text), stop=stop or NoStop(), taint=taint)
    shown: list[str] = []
    asked: list[ApprovalAsked] = []
    answer: Decision | None = None
    given = iter(answers)
    while True:
        try:
            event = running.send(answer)
        except StopIteration as stopped:
            return Called(stopped.value, "".join(shown), tuple(asked))
        answer = None
        if isinstance(event, ApprovalAsked):
            asked.append(event)
            answer = Decision("call_1", True) if event.form is None else next(given, Decision("call_1", True))
        elif isinstance(event, ToolOutput):
            shown.append(event.text)


def toolbox_of(tools: Iterable[Tool], folder: Path) -> Toolbox:
    """A toolbox without rules, that counts a token for four characters."""
    context = ToolContext(stop=NoStop(), workspace=None, data_dir=folder, count_tokens=lambda text: len(text) // 4)
    return Toolbox(tools, policy=Policy(), context=context)
