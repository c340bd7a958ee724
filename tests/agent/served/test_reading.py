"""Whatever a server sends, reading it raises nothing, and what it becomes can be stored and sent back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ossia.agent.request import Request
from ossia.agent.served.api import Kind
from ossia.agent.served.respond import Writing
from ossia.agent.served.wire import Called, Names, Reasoning, Said, conversation
from ossia.harmony.messages import Message
from ossia.tools.spec import ToolSpec
from tests.support.served import APIS

SPECS = (
    ToolSpec("python", "Runs code.", input="text", trained=True, provenance="built-in"),
    ToolSpec("functions.f", "", provenance="user"),
)
_TEXTS = st.sampled_from(
    ["", "python", "f", "functions.f", "browser.search", '{"code": "x"}', "{", "<|end|>", "\ud83d", "a", "stop"]
) | st.text(max_size=4)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2),
    max_leaves=3,
)


def _like(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object with these fields, each as it should be, or now and then anything else."""
    chance = st.integers(0, 5)
    return st.fixed_dictionaries(
        {key: chance.flatmap(lambda n, value=value: value if n else _VALUES) for key, value in fields.items()}
    )


_TYPES = st.sampled_from(
    [
        *(f"response.{what}.delta" for what in ("reasoning_text", "reasoning", "reasoning_summary_text")),
        *(f"response.{what}.delta" for what in ("output_text", "refusal")),
        *("response.function_call_arguments.delta", "response.output_item.added", "response.output_item.done"),
        *("response.completed", "response.incomplete", "response.failed", "error", "response.created"),
    ]
)
_ITEMS = _like(
    type=st.sampled_from(["function_call", "reasoning", "message"]),
    id=_TEXTS,
    name=_TEXTS,
    arguments=_TEXTS,
    encrypted_content=_TEXTS,
    summary=st.lists(_like(text=_TEXTS), min_size=1, max_size=2),
)
_USAGE = _like(prompt_tokens=st.integers(), input_tokens=st.integers(), prompt_tokens_details=_like())
_CALLS = _like(index=st.integers(0, 1), id=_TEXTS, function=_like(name=_TEXTS, arguments=_TEXTS))
_DELTAS = _like(
    content=_TEXTS, reasoning=_TEXTS, reasoning_content=_TEXTS, tool_calls=st.lists(_CALLS, min_size=1, max_size=2)
)
EVENTS: dict[Kind, st.SearchStrategy[dict[str, Any]]] = {
    "responses": _like(
        type=_TYPES,
        item=_ITEMS,
        item_id=_TEXTS,
        output_index=st.integers(0, 2),
        delta=_TEXTS,
        response=_like(usage=_USAGE, error=_like(message=_TEXTS)),
        message=_TEXTS,
    ),
    "chat": _like(
        choices=st.lists(_like(delta=_DELTAS, finish_reason=_TEXTS), min_size=1, max_size=2), usage=_USAGE, error=_TEXTS
    ),
}


@pytest.mark.parametrize("kind", list(EVENTS))
def test_any_events(kind: Kind) -> None:
    names = Names(SPECS)

    @settings(max_examples=50, deadline=None, derandomize=True)
    @given(st.lists(EVENTS[kind], min_size=1, max_size=6))
    def check(events: list[dict[str, Any]]) -> None:
        api, writing, told = APIS[kind](), Writing(names), []
        for piece in api.read(events):
            if isinstance(piece, Reasoning | Said | Called):
                told += writing.take(piece)
        told += writing.close()
        messages = writing.messages(cut=False)
        for index, message in enumerate(messages):
            assert "".join(delta.text for delta in told if delta.index == index) == message.text
            message.text.encode()
        request = Request((Message("user", ("hi",)), *messages), SPECS)
        assert api.body(request, conversation(request, names), "m")["model"] == "m"

    check()


def test_a_name_that_grows_after_its_arguments() -> None:
    """`python` takes raw text, which is held back until its end; `pythonf`, once it is called that, doesn't."""
    writing = Writing(Names(SPECS))
    shown = [*writing.take(Called("0", "python", "[]")), *writing.take(Called("0", "f", "")), *writing.close()]
    assert "".join(delta.text for delta in shown) == writing.messages(cut=False)[0].text == "[]"
