"""A question as the client shows it, and what its answer means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ossia.agent.events import ApprovalAsked, Decision
from ossia.cli.acp.turn import answer_of, can_ask, question_of
from ossia.tools.approval.policy import FROM_OUTSIDE
from ossia.tools.spec import Preview, ToolCall

ASKED = ApprovalAsked(
    ToolCall("call_1", "container.exec", "{}"),
    Preview("Run pytest\u202e -q", "pytest\u202e -q", "bash", ("pytest -q",), command=True, conditions="confined"),
    "it can run code",
    rules=("container.exec:pytest -q",),
    wider=("container.exec:pytest *",),
)


def _options(asked: ApprovalAsked) -> list[tuple[object, object]]:
    options = question_of(asked, ())["options"]
    assert isinstance(options, list)
    return [(one["kind"], one["name"]) for one in options]


def _selected(key: object) -> object:
    return {"outcome": {"outcome": "selected", "optionId": key}}


def test_the_question_shows_what_runs_and_why_it_is_asked() -> None:
    call = question_of(ASKED, ())["toolCall"]
    assert call == {
        "toolCallId": "call_1",
        "title": "Run pytest⟨U+202E⟩ -q",
        "content": [
            {"type": "content", "content": {"type": "text", "text": "```bash\npytest⟨U+202E⟩ -q\n```"}},
            {
                "type": "content",
                "content": {
                    "type": "text",
                    "text": "Asked because: it can run code; confined; it holds invisible characters (2)",
                },
            },
        ],
    }


def test_where_trust_helps_the_question_says_how() -> None:
    firm = replace(ASKED, firm=True, reason=FROM_OUTSIDE)
    assert "Your own files? ossia trust /work in a terminal" in str(question_of(firm, (), trust="ossia trust /work"))
    assert "ossia trust" not in str(question_of(ASKED, (), trust="ossia trust /work"))


def test_what_lasts_says_which_rule_it_stores() -> None:
    assert _options(ASKED) == [
        ("allow_once", "Allow"),
        ("allow_always", "Allow in this session: exactly `pytest -q`"),
        ("allow_always", "Always allow container.exec:pytest *"),
        ("allow_always", "Always allow container.exec:pytest -q"),
        ("reject_once", "Reject"),
    ]


@pytest.mark.parametrize("firm", [replace(ASKED, firm=True, edits=True), replace(ASKED, firm=True, lasting=True)])
def test_a_firm_question_offers_nothing_that_lasts(firm: ApprovalAsked) -> None:
    assert [kind for kind, _ in _options(firm)] == ["allow_once", "reject_once"]
    assert answer_of(firm, _selected("a"), lambda rules: pytest.fail("stored")) == Decision(
        "call_1", False, unasked=True
    )


def test_an_answer_is_a_decision_and_always_stores_its_rules() -> None:
    stored: list[object] = []
    assert answer_of(ASKED, _selected("y"), stored.append) == Decision("call_1", True)
    assert answer_of(ASKED, _selected("n"), stored.append) == Decision("call_1", False)
    assert answer_of(ASKED, _selected("s"), stored.append) == Decision("call_1", True, "session")
    assert stored == []
    assert answer_of(ASKED, _selected("p"), stored.append) == Decision("call_1", True, "session")
    assert stored == [("container.exec:pytest *",)]
    assert answer_of(ASKED, {"outcome": {"outcome": "cancelled"}}, stored.append) is None


@pytest.mark.parametrize(
    "answer",
    [None, 7, {}, {"outcome": "selected"}, {"outcome": {}}, {"outcome": {"outcome": "allowed", "optionId": "y"}},
     _selected("w"), _selected(None), _selected(["y"]), _selected("yes")],
    ids=str,
)  # fmt: skip
def test_anything_else_is_a_refusal(answer: object) -> None:
    assert answer_of(ASKED, answer, lambda rules: None) == Decision("call_1", False, unasked=True)


def test_a_servers_form_is_shown_with_its_values_and_only_whole_ones_can_be_allowed() -> None:
    form = replace(ASKED, form={"city": "a text"}, arguments={"city": "Oslo"})
    assert can_ask(form) and '"city": "Oslo"' in str(question_of(form, ())["toolCall"])
    assert answer_of(form, _selected("y"), lambda rules: None) == Decision("call_1", True, arguments='{"city": "Oslo"}')
    assert not can_ask(replace(form, arguments={"city": None}))
