"""Conversations as JSON: openai_harmony reads what we write, and we read what it writes."""

from __future__ import annotations

import json
import random
from typing import Any

import openai_harmony as reference
import pytest

from ossia.harmony.codec import Codec
from ossia.harmony.conversation import conversation_from_json, conversation_to_json, message_to_json
from ossia.harmony.errors import ConversationError
from ossia.harmony.messages import (
    ChannelConfig,
    DeveloperPrompt,
    FunctionDecl,
    Message,
    Namespace,
    ResponseFormat,
    Sampled,
    SystemPrompt,
)
from ossia.harmony.tokenizer import Tokenizer
from tests.support.hostile import Hostile

WEATHER = {"type": "object", "properties": {"city": {"type": "string", "default": None}}}


def theirs() -> reference.Conversation:
    """A conversation with every kind of message, built with the reference library."""
    system = (
        reference.SystemContent.new()
        .with_reasoning_effort(reference.ReasoningEffort.HIGH)
        .with_conversation_start_date("2025-06-28")
        .with_browser_tool()
        .with_python_tool()
    )
    functions = [
        reference.ToolDescription.new("get_weather", "Weather of a city.", WEATHER),
        reference.ToolDescription.new("now", "The time."),
    ]
    developer = reference.DeveloperContent.new().with_instructions("Be brief.").with_function_tools(functions)
    make = reference.Message.from_role_and_content
    return reference.Conversation.from_messages(
        [
            make(reference.Role.SYSTEM, system),
            make(reference.Role.DEVELOPER, developer),
            make(reference.Role.USER, "Weather?").adding_content(" In Rome?"),
            make(reference.Role.ASSISTANT, "Hm.").with_channel("analysis"),
            make(reference.Role.ASSISTANT, "{}")
            .with_channel("commentary")
            .with_recipient("functions.get_weather")
            .with_content_type("<|constrain|>json"),
            reference.Message.from_author_and_content(
                reference.Author.new(reference.Role.TOOL, "functions.get_weather"), "sunny"
            )
            .with_recipient("assistant")
            .with_channel("commentary"),
        ]
    )


OURS = (
    Message(
        "system",
        (
            SystemPrompt(
                effort="high",
                date="2025-06-28",
                tools={"python": Namespace("python", "Runs."), "x": Namespace("y", None, (FunctionDecl("f", "d"),))},
                channels=ChannelConfig(("final",), required=False),
            ),
        ),
    ),
    Message(
        "developer",
        (DeveloperPrompt("Be brief.", {"functions": Namespace("functions", None, (FunctionDecl("g", "", WEATHER),))}),),
    ),
    Message("user", ("Hi", "!")),
    Message("assistant", ("{}",), recipient="functions.g", channel="commentary", content_type="json"),
    Message("tool", ("",), name="functions.g", recipient="assistant", channel="commentary"),
    Message("assistant", (), channel="final"),
)


def test_what_the_reference_wrote_comes_back_as_it_was() -> None:
    data = json.loads(theirs().to_json())
    assert conversation_to_json(conversation_from_json(data)) == data
    assert conversation_from_json(data["messages"]) == conversation_from_json(data)


def test_the_reference_reads_ours_and_writes_the_same() -> None:
    data = conversation_to_json(OURS)
    assert json.loads(reference.Conversation.from_json(json.dumps(data)).to_json()) == data
    assert conversation_from_json(data) == OURS


def test_both_render_alike_what_either_wrote(wheel: reference.HarmonyEncoding, wheel_tokenizer: Tokenizer) -> None:
    for conversation in (theirs(), reference.Conversation.from_json(json.dumps(conversation_to_json(OURS)))):
        messages = conversation_from_json(json.loads(conversation.to_json()))
        expected = wheel.render_conversation_for_completion(conversation, reference.Role.ASSISTANT)
        assert list(Codec(wheel_tokenizer).render(messages, purpose="completion").ids) == expected


def test_random_conversations_survive_both_ways() -> None:
    for seed in range(300):
        messages = tuple(Hostile(random.Random(seed)).conversation())
        text = json.dumps(conversation_to_json(messages))
        assert conversation_from_json(json.loads(text)) == messages, seed
        if readable_there(messages):
            back = reference.Conversation.from_json(text).to_json()
            assert json.loads(back) == json.loads(text) | {"messages": without_nulls(json.loads(text)["messages"])}, (
                seed
            )


def readable_there(messages: tuple[Message, ...]) -> bool:
    """The reference takes only objects as a function's parameters."""
    prompts = [item for message in messages for item in message.content if not isinstance(item, str)]
    functions = [f for prompt in prompts for namespace in (prompt.tools or {}).values() for f in namespace.functions]
    return all(isinstance(function.parameters, dict | None) for function in functions)


def without_nulls(messages: Any) -> Any:
    """A prompt's lines that are left out are null in ours, and absent in what the reference writes."""
    for message in messages:
        message["content"] = [{k: v for k, v in item.items() if v is not None} for item in message["content"]]
    return messages


def test_no_line_comes_back_that_was_left_out(wheel: reference.HarmonyEncoding, wheel_tokenizer: Tokenizer) -> None:
    bare = (Message("system", (SystemPrompt(None, None, None, None, None, None),)),)
    conversation = reference.Conversation.from_json(json.dumps(conversation_to_json(bare)))
    assert wheel.render_conversation(conversation) == list(Codec(wheel_tokenizer).render(bare).ids)
    absent = {"messages": [{"role": "system", "content": [{"type": "system_content"}]}]}
    assert conversation_from_json(absent) == bare


@pytest.mark.parametrize("instructions", [None, "Be brief."])
def test_response_formats_are_text_for_the_reference_and_data_for_us(
    instructions: str | None, wheel: reference.HarmonyEncoding, wheel_tokenizer: Tokenizer
) -> None:
    formats = (ResponseFormat("answer", {"type": "object"}, "One\nanswer."), ResponseFormat("other", {}))
    messages = (Message("developer", (DeveloperPrompt(instructions, None, formats), "more")),)
    data: Any = conversation_to_json(messages)
    assert conversation_from_json(data) == messages
    there = wheel.decode(wheel.render_conversation(reference.Conversation.from_json(json.dumps(data))))
    assert there == wheel_tokenizer.decode(Codec(wheel_tokenizer).render(messages).ids)
    data["messages"][0]["content"][1]["text"] += "edited"
    (edited,) = conversation_from_json(data)
    assert edited.content == (DeveloperPrompt(instructions), data["messages"][0]["content"][1]["text"], "more")


def test_a_message_as_json() -> None:
    message = Message("assistant", ("4",), channel="final", sampled=Sampled((1, 2), "end"))
    content = [{"type": "text", "text": "4"}]
    assert message_to_json(message) == {"role": "assistant", "name": None, "content": content, "channel": "final"}


def content(item: object) -> dict[str, object]:
    return {"role": "system", "content": [item]}


SYSTEM, DEVELOPER = {"type": "system_content"}, {"type": "developer_content"}
BAD: list[tuple[object, str]] = [
    (5, 'the conversation: must be an object with "messages", or an array of messages, not 5'),
    ({}, "messages: is missing, must be an array"),
    ([5], "messages[0]: must be an object, not 5"),
    ([{}], "messages[0].role: is missing, must be a string"),
    (
        [{"role": "bot", "content": ""}],
        "messages[0].role: must be one of system, developer, user, assistant, tool, not 'bot'",
    ),
    ([{"role": "user"}], "messages[0].content: is missing, must be an array"),
    ([{"role": "user", "content": "", "channel": 1}], "messages[0].channel: must be a string, not 1"),
    ([content("x")], "messages[0].content[0]: must be an object, not 'x'"),
    (
        [content({"type": "image"})],
        "messages[0].content[0].type: must be text, system_content or developer_content, not 'image'",
    ),
    ([content({"type": "text"})], "messages[0].content[0].text: is missing, must be a string"),
    (
        [content(SYSTEM | {"reasoning_effort": "max"})],
        "messages[0].content[0].reasoning_effort: must be Low, Medium or High, not 'max'",
    ),
    (
        [content(SYSTEM | {"channel_config": {"valid_channels": [], "channel_required": 1}})],
        "messages[0].content[0].channel_config.channel_required: must be true or false, not 1",
    ),
    ([content(DEVELOPER | {"tools": []})], "messages[0].content[0].tools: must be an object, not []"),
    (
        [content(DEVELOPER | {"tools": {"f": {"name": "f", "tools": [{}]}}})],
        "messages[0].content[0].tools.f.tools[0].name: is missing, must be a string",
    ),
    (
        [content(DEVELOPER | {"instructions": ["x" * 99]})],
        "messages[0].content[0].instructions: must be a string, not ['" + "x" * 58 + "…",
    ),
]


@pytest.mark.parametrize(("data", "message"), BAD)
def test_bad_input_names_the_place(data: object, message: str) -> None:
    with pytest.raises(ConversationError) as caught:
        conversation_from_json(data)
    assert str(caught.value) == message


def test_response_formats_written_by_hand_need_no_text() -> None:
    item = {"type": "developer_content", "response_formats": [{"name": "a", "schema": {}}]}
    prompt = DeveloperPrompt(response_formats=(ResponseFormat("a", {}),))
    alone = [{"role": "developer", "content": [item]}]
    assert conversation_from_json(alone) == (Message("developer", (prompt,)),)
    followed = [{"role": "developer", "content": [item, {"type": "text", "text": "more"}]}]
    assert conversation_from_json(followed) == (Message("developer", (prompt, "more")),)
