"""The tasks themselves, looked at in another way than their solutions: is what is asked for fair, and right?"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

from ossia.agent.events import MessageAdded
from ossia.agent.prompt import tool_texts
from ossia.agent.stream.account import Account
from ossia.cli.eval.evaluation import chosen
from ossia.cli.eval.sums import is_number
from ossia.harmony.messages import Message
from ossia.tools.approval.policy import Policy, Rule
from ossia.tools.spec import NoStop, ToolCall, ToolContext, ToolFinished
from ossia.tools.toolbox import Toolbox
from tests.cli.eval.test_eval import some
from tests.oracle.eval_answers import misses


def test_the_prompt_says_what_each_argument_is() -> None:
    """A replayed solution calls a function whatever the prompt says of it; a model reads `any`, and has to guess."""
    tools = [tool for task in chosen((), (), seed=0, aime=None) for tool in task.functions()]
    functions = [tool.spec for tool in tools if tool.spec.name.startswith("functions.")]
    texts = [text for spec in functions for _, text in tool_texts([spec])]
    assert len(texts) > 20
    assert [text for text in texts if re.search(r"\w\??: any", text)] == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("Answer: 1,234", ""), (f"Answer: 1234{'0' * 9000}", "isn't 1234"), ("Answer: 7", "the answer 7 isn't 1234"),
     ("none", "there is no number in the answer")],
)  # fmt: skip
def test_a_number_is_judged_however_long(answer: str, reason: str) -> None:
    report = Account("m")
    report.see(MessageAdded(Message("assistant", (answer,), channel="final")))
    verdict = is_number(1234)(report)
    assert (verdict.passed, reason in verdict.reason) == (not reason, True) and len(verdict.reason) < 200


def test_the_riddle_has_one_answer() -> None:
    (task,) = some("harmony/effort-high")
    assert "Ann isn't next to Eli; Ben sits right of Cal, next to him; Dee is at the left end; Eli is at" in task.prompt
    seats = [{name: at for at, name in enumerate(order, 1)} for order in itertools.permutations("ABCDE")]
    fit = [s["A"] for s in seats if s["D"] == 1 and s["E"] == 5 and s["B"] == s["C"] + 1 and abs(s["A"] - s["E"]) > 1]
    assert fit == [int(task.answer)]


def test_the_lines_that_count_as_cited_are_those_that_the_browser_shows() -> None:
    for task in some("harmony/cites-ferry", "harmony/cites-tower", "harmony/cites-bees"):
        context = ToolContext(NoStop(), None, Path(), len)
        toolbox = Toolbox(task.functions(), policy=Policy([Rule("browser", "allow")]), context=context)
        shown = ""
        for name, arguments in task.calls:
            for event in toolbox.run(ToolCall("call_1", name, json.dumps(arguments)), stop=NoStop()):
                shown = event.result.text if isinstance(event, ToolFinished) else shown
        word, line = re.findall(r"It is (.+)【1†L(\d+)】", task.answer)[0]
        assert [row for row in shown.splitlines() if word in row and row.startswith(f"L{line}:")], shown


def test_the_sums_have_the_answers_that_another_way_gives() -> None:
    """`python -m tests.oracle.eval_answers` looks at more seeds."""
    assert misses(0) == []
