"""A Harmony conversation written in the chat form: what its reader gets back, and what is lost."""

from __future__ import annotations

import json

from hypothesis import example, given
from hypothesis import strategies as st

from ossia.harmony.chat_form import conversation_from_chat, conversation_to_chat
from ossia.harmony.messages import DeveloperPrompt, FunctionDecl, Message, Namespace, SystemPrompt

JSON = "<|constrain|>json"
_FUNCTIONS = (FunctionDecl("f", "F.", {"type": "object"}), FunctionDecl("g", ""))


def called(recipient: str, arguments: str = "{}") -> Message:
    return Message("assistant", (arguments,), recipient=recipient, channel="commentary", content_type=JSON)


def result(name: str, text: str) -> Message:
    return Message("tool", (text,), name=name, recipient="assistant", channel="commentary")


WHOLE = (
    Message("developer", (DeveloperPrompt("Be kind.", {"functions": Namespace("functions", None, _FUNCTIONS)}),)),
    Message("user", ("Hi!",), name="ann"),
    Message("assistant", ("Both.",), channel="analysis"),
    Message("assistant", ("Let me see.",), channel="commentary"),
    called("functions.f"),
    result("functions.f", "one"),
    Message("assistant", ("The other.",), channel="analysis"),
    called("functions.g", '{"a": "ä"}'),
    result("functions.g", "two"),
    Message("assistant", ("Done.",), channel="analysis"),
    Message("assistant", ("There.",), channel="final"),
    Message("user", ("",)),
    Message("assistant", ("Here.",), channel="final"),
)


def test_what_the_reader_reads_is_written() -> None:
    assert conversation_from_chat(conversation_to_chat(WHOLE, thinking=True)) == WHOLE


def test_thinking_stays_out_unless_it_is_asked_for() -> None:
    data = conversation_to_chat(WHOLE)
    assert conversation_from_chat(data) == tuple(message for message in WHOLE if message.channel != "analysis")
    assert not any(word in json.dumps(data) for word in ("Both", "The other", "Done", "thinking"))


def test_the_form_itself() -> None:
    messages = [WHOLE[1], *WHOLE[3:6], Message("assistant", ("print(1)",), recipient="python", channel="analysis")]
    assert conversation_to_chat([Message("system", (SystemPrompt(),)), *messages]) == {
        "messages": [
            {"role": "user", "name": "ann", "content": "Hi!"},
            {
                "role": "assistant",
                "content": "Let me see.",
                "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "one"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_2",
                        "type": "function",
                        "function": {"name": "python", "arguments": '{"input": "print(1)"}'},
                    }
                ],
            },
        ]
    }


_TEXT = st.text(max_size=5)
_MESSAGES = st.lists(
    st.one_of(
        st.builds(lambda text: Message("user", (text,)), _TEXT),
        st.builds(lambda text: Message("developer", (text,)), _TEXT),
        st.builds(
            lambda text, channel: Message("assistant", (text,), channel=channel),
            _TEXT,
            st.sampled_from(["analysis", "commentary", "final", None]),
        ),
        st.builds(called, st.sampled_from(["functions.f", "python"]), _TEXT),
        st.builds(result, st.just("functions.f"), _TEXT),
    ),
    max_size=8,
)


@given(_MESSAGES, st.booleans())
@example([Message("assistant", ("",), channel="analysis")], True)
@example([Message("assistant", ("",), channel="commentary")], True)
def test_whatever_comes_the_reader_takes_it(messages: list[Message], thinking: bool) -> None:
    """Also what the form has no place for: two preambles, a result without its call, a call without a result."""
    data = conversation_to_chat(messages, thinking=thinking)
    back = conversation_from_chat(json.loads(json.dumps(data)))

    def texts(role: str, of: tuple[Message, ...]) -> list[str]:
        return [message.text for message in of if message.role == role]

    assert texts("user", back) == texts("user", tuple(messages))
    assert sorted(texts("tool", back)) == sorted(texts("tool", tuple(messages)))
    if not thinking:
        assert all(message.channel != "analysis" for message in back)
