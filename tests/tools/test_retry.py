"""A call that failed for want of something: a person is asked once, and it runs once more."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.spec import (
    ApprovalAsked,
    Decision,
    Need,
    NoStop,
    Preview,
    ToolCall,
    ToolContext,
    ToolEvent,
    ToolFinished,
    ToolOutput,
    ToolResult,
    ToolSpec,
)
from ossia.tools.toolbox import Toolbox

CONTEXT = ToolContext(stop=NoStop(), workspace=None, data_dir=Path("nowhere"), count_tokens=len)
CALL = ToolCall("c", "container.exec", "make")
NETWORK: frozenset[Need] = frozenset({"network"})
RAN_ONCE = (
    "it has already run once, and failed; it needs network: private text could leave, and this machine's own services "
    "are reachable"
)


@dataclass
class Make:
    """Fails until it has `wants`; notes with what it ran."""

    wants: frozenset[Need] = NETWORK
    ran: list[frozenset[Need]] = field(default_factory=list)
    spec: ToolSpec = field(
        default_factory=lambda: ToolSpec(
            "container.exec", "", input="text", effects=frozenset({"run"}), provenance="built-in"
        )
    )

    def _preview(self, args: object, needs: frozenset[Need]) -> Preview:
        return Preview("make it", subjects=(str(args),), command=True, needs=needs)

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        return self._preview(args, context.given(str(args)))

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        assert context.preview is not None
        needs = context.preview.needs
        self.ran.append(needs)
        yield ToolOutput(call_id, "…")
        lacks = self.wants - needs
        notices = (f"run {len(self.ran)}",)
        if not lacks:
            return ToolResult("made", notices=notices)
        retry = self._preview(args, needs | frozenset(sorted(lacks)[:1]))
        return ToolResult("failed", error=True, notices=notices, retry=retry)

    def close(self) -> None: ...


def _run(
    box: Toolbox, *decisions: Decision | None, control: Control | None = None
) -> tuple[list[ToolEvent], ToolResult]:
    running, left = box.run(CALL, stop=control or NoStop()), list(decisions)
    events: list[ToolEvent] = []
    decision: Decision | None = None
    while True:
        try:
            events.append(running.send(decision))
        except StopIteration as stop:
            assert not left
            return events, stop.value
        decision = left.pop(0) if isinstance(events[-1], ApprovalAsked) else None


def _asked(events: list[ToolEvent]) -> list[tuple[str, bool, tuple[str, ...], bool]]:
    return [(one.reason, one.firm, one.rules, one.lasting) for one in events if isinstance(one, ApprovalAsked)]


def _box(tool: Make, *rules: Rule) -> Toolbox:
    return Toolbox([tool], policy=Policy(rules or [Rule("*", "allow")]), context=CONTEXT)


def test_it_is_asked_and_runs_again_with_that() -> None:
    tool = Make()
    events, result = _run(_box(tool), Decision("c", True))
    assert [type(event).__name__ for event in events] == [
        *("ApprovalDecided", "ToolStarted", "ToolOutput"),
        *("ApprovalAsked", "ApprovalDecided", "ToolStarted", "ToolOutput", "ToolFinished"),
    ]
    assert _asked(events) == [(RAN_ONCE, True, ("container.exec[network]:make",), True)]
    assert tool.ran == [frozenset(), NETWORK]
    assert result == ToolResult("made\n[it had failed without network]\n[run 1]", notices=("run 1", "run 2"))
    assert isinstance(events[-1], ToolFinished) and events[-1].result == result


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (Decision("c", False), "the user said no: do without, or ask them"),
        (None, "the user said no: do without, or ask them"),
        (Decision("c", False, unasked=True), "only the user can give that, and nobody can be asked: do without"),
        (Decision("another", True), "the user said no: do without, or ask them"),
        (Decision("another", False, reason="x"), "the user said no: do without, or ask them"),
        (Decision("c", False, reason="work offline"), "the user refused: work offline"),
    ],
)
def test_without_a_yes_the_first_result_stands(decision: Decision | None, why: str) -> None:
    tool = Make()
    box = _box(tool)
    _, result = _run(box, decision)
    text = f"failed\n[not given: network; {why}]"
    assert (result, tool.ran) == (ToolResult(text, error=True, notices=("run 1",)), [frozenset()])
    events, again = _run(box)
    assert (_asked(events), again.error, len(tool.ran)) == ([], True, 2), "asked once, run as before"
    assert "not given: network" in again.text


def test_there_is_no_second_question() -> None:
    tool = Make(frozenset({"git", "network"}))
    events, result = _run(_box(tool), Decision("c", True))
    assert (len(_asked(events)), tool.ran) == (1, [frozenset(), frozenset({"git"})])
    assert (result.text, result.retry) == ("failed\n[it had failed without a writable .git]\n[run 1]", None)


def test_no_rule_answers_it_for_what_ran_already() -> None:
    class Late(Policy):
        def given(self, command: str) -> frozenset[Need]:
            return frozenset()

    tool = Make()
    rule = Rule("container.exec", "allow", "make", gives=NETWORK)
    box = Toolbox([tool], policy=Late([rule]), context=CONTEXT)
    events, _ = _run(box, Decision("c", False))
    assert [(firm, reason[:39]) for reason, firm, _, _ in _asked(events)] == [
        (True, "it has already run once, and failed; th")
    ]


def test_a_rule_that_gives_it_does_so_from_the_start() -> None:
    tool = Make()
    events, result = _run(_box(tool, Rule("container.exec", "allow", "make", gives=NETWORK)))
    assert (_asked(events), tool.ran, result.text) == ([], [NETWORK], "made")


def test_an_answer_for_the_session_does_so_from_then_on() -> None:
    tool = Make()
    box = _box(tool)
    _run(box, Decision("c", True, "session"))
    events, result = _run(box)
    assert (_asked(events), tool.ran, result.text) == ([], [frozenset(), NETWORK, NETWORK], "made")


def test_a_rule_that_denies_asks_nothing() -> None:
    """The command may only be denied once it says what it does."""
    policy = Policy([Rule("*", "allow")])

    @dataclass
    class Denying(Make):
        def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
            policy.rules = (Rule("container.exec", "deny"),)
            return (yield from super().run(args, call_id=call_id, context=context))

    tool = Denying()
    events, result = _run(Toolbox([tool], policy=policy, context=CONTEXT))
    assert (_asked(events), len(tool.ran)) == ([], 1)
    assert result.text == "failed\n[not given: network; that is not allowed here]"


def test_a_stop_asks_nothing_more() -> None:
    tool, control = Make(), Control()
    running = _box(tool).run(CALL, stop=control)
    for event in running:
        assert not isinstance(event, ApprovalAsked)
        if isinstance(event, ToolOutput):
            control.stop()
    assert len(tool.ran) == 1


def test_a_changed_call_is_asked_about_and_named() -> None:
    tool = Make()
    events, result = _run(_box(tool), Decision("c", True, arguments="make -n"), Decision("c", True))
    assert [one.preview.subjects for one in events if isinstance(one, ApprovalAsked)] == [("make",), ("make -n",)]
    assert result.text.startswith('The user changed this call to: container.exec "make -n"\nfailed')
    assert replace(result, text="", notices=()) == ToolResult("", error=True)
