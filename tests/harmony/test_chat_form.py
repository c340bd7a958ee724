"""The chat form, read as a Harmony conversation."""

from __future__ import annotations

import pytest

from ossia.harmony.chat_form import conversation_from_chat
from ossia.harmony.errors import ConversationError
from ossia.harmony.messages import DeveloperPrompt, FunctionDecl, Message, Namespace

JSON = "<|constrain|>json"


def call(call_id: str | None, name: str = "f", arguments: object = "{}") -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def called(recipient: str, arguments: str = "{}") -> Message:
    return Message("assistant", (arguments,), recipient=recipient, channel="commentary", content_type=JSON)


def result(name: str, text: str) -> Message:
    return Message("tool", (text,), name=name, recipient="assistant", channel="commentary")


def test_a_whole_conversation() -> None:
    data = {
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "!"}]},
            {"role": "developer", "content": "Be brief."},
            {
                "role": "assistant",
                "thinking": "Both.",
                "content": "Let me see.",
                "tool_calls": [call("1"), call("2", "functions.g", '{"a": 1}')],
            },
            {"role": "tool", "tool_call_id": "2", "content": "two"},
            {"role": "tool", "tool_call_id": "1", "content": "one"},
            {"role": "assistant", "reasoning_content": "Done.", "content": "There."},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
            {"name": "g", "description": "G"},
        ],
    }
    functions = (FunctionDecl("f", "", {"type": "object"}), FunctionDecl("g", "G"))
    assert conversation_from_chat(data) == (
        Message(
            "developer",
            (DeveloperPrompt("Be kind.\n\nBe brief.", {"functions": Namespace("functions", None, functions)}),),
        ),
        Message("user", ("Hi", "!")),
        Message("assistant", ("Both.",), channel="analysis"),
        Message("assistant", ("Let me see.",), channel="commentary"),
        called("functions.f"),
        result("functions.f", "one"),
        called("functions.g", '{"a": 1}'),
        result("functions.g", "two"),
        Message("assistant", ("Done.",), channel="analysis"),
        Message("assistant", ("There.",), channel="final"),
    )


def test_nothing_is_added() -> None:
    assert conversation_from_chat([]) == ()
    assert conversation_from_chat({"messages": [], "tools": []}) == ()
    assert conversation_from_chat([{"role": "user", "content": "q", "name": "ann"}]) == (
        Message("user", ("q",), name="ann"),
    )


def test_functions_alone_make_a_developer_message() -> None:
    data = {"messages": [{"role": "user", "content": "q"}], "tools": [{"type": "function", "function": {"name": "f"}}]}
    functions = {"functions": Namespace("functions", None, (FunctionDecl("f", ""),))}
    assert conversation_from_chat(data)[0] == Message("developer", (DeveloperPrompt(None, functions),))


def test_the_developer_message_stands_where_the_first_one_stood() -> None:
    messages = conversation_from_chat([{"role": "user", "content": "q"}, {"role": "system", "content": "s"}])
    assert messages == (Message("user", ("q",)), Message("developer", (DeveloperPrompt("s"),)))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"content": "a"}, [("a", "final")]),
        ({"content": ""}, [("", "final")]),
        ({"contents": ["a", {"type": "text", "text": "b"}]}, [("ab", "final")]),
        ({"content": None, "reasoning": "t"}, [("t", "analysis")]),
        ({"content": "", "thinking": "t"}, [("t", "analysis")]),
        ({"content": "a", "thinking": "", "reasoning": None}, [("a", "final")]),
        ({"content": None, "tool_calls": [call(None, arguments={"a": "é"})]}, [('{"a": "é"}', "commentary")]),
        ({"content": "", "tool_calls": [call("1")]}, [("{}", "commentary")]),
    ],
)
def test_what_an_assistant_says(message: dict[str, object], expected: list[tuple[str, str]]) -> None:
    read = conversation_from_chat([{"role": "assistant", **message}])
    assert [(one.text, one.channel) for one in read] == expected


def test_an_id_may_come_again_once_it_was_answered() -> None:
    turn = [{"role": "assistant", "tool_calls": [call("0")]}, {"role": "tool", "tool_call_id": "0", "content": "r"}]
    assert conversation_from_chat(turn * 2) == (called("functions.f"), result("functions.f", "r")) * 2


BAD: list[tuple[list[dict[str, object]], str]] = [
    (
        [{"role": "function", "content": ""}],
        "messages[0].role: must be one of system, developer, user, assistant, tool, not 'function'",
    ),
    ([{"role": "user"}], "messages[0].content: is missing, must be an array"),
    (
        [{"role": "user", "content": [{"type": "image_url"}]}],
        "messages[0].content[0].type: must be text (nothing else can be read), not 'image_url'",
    ),
    ([{"role": "assistant"}], "messages[0]: has no content, thinking or tool_calls"),
    (
        [{"role": "assistant", "tool_calls": [{"id": "1"}]}],
        "messages[0].tool_calls[0].function: is missing, must be an object",
    ),
    (
        [{"role": "assistant", "tool_calls": [call("1", arguments=5)]}],
        "messages[0].tool_calls[0].function.arguments: must be a string of JSON, or an object, not 5",
    ),
    (
        [{"role": "assistant", "tool_calls": [call("1"), call("1")]}],
        "messages[0].tool_calls[1].id: must be an id that no other call has, not '1'",
    ),
    ([{"role": "tool", "content": ""}], "messages[0].tool_call_id: is missing, must be a string"),
    (
        [{"role": "tool", "tool_call_id": "9", "content": ""}],
        "messages[0].tool_call_id: must be the id of an earlier tool call that has no result yet, not '9'",
    ),
    (
        [
            {"role": "assistant", "tool_calls": [call("1")]},
            {"role": "tool", "tool_call_id": "1", "content": ""},
            {"role": "tool", "tool_call_id": "1", "content": ""},
        ],
        "messages[2].tool_call_id: must be the id of an earlier tool call that has no result yet, not '1'",
    ),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_bad_input_names_the_place(data: list[dict[str, object]], message: str) -> None:
    with pytest.raises(ConversationError) as caught:
        conversation_from_chat(data)
    assert str(caught.value) == message
