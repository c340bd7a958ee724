"""Conversations as JSON, in the shape of openai_harmony's `Conversation.to_json()`: each reads the other's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ossia.harmony.messages import (
    ROLES,
    ChannelConfig,
    Content,
    DeveloperPrompt,
    Effort,
    FunctionDecl,
    Message,
    Namespace,
    ResponseFormat,
    SystemPrompt,
)
from ossia.harmony.reader import Json, messages_of
from ossia.harmony.render import developer_text

_FORMATS = "# Response Formats"
_EFFORTS: dict[str, Effort] = {"Low": "low", "Medium": "medium", "High": "high"}


# -- writing -----------------------------------------------------------------------------------------------------------


def conversation_to_json(messages: Iterable[Message]) -> dict[str, object]:
    """The conversation as a value for `json.dumps`: `{"messages": [{"role": "user", "name": None, "content": …}, …]}`.

    Response formats, which openai_harmony lacks, are written twice: as its text, in a content item of its own that
    everybody renders, and as data, which only `conversation_from_json` reads. `Message.sampled` isn't written.
    """
    return {"messages": [message_to_json(message) for message in messages]}


def message_to_json(message: Message) -> dict[str, object]:
    """One message in openai_harmony's shape.

    message_to_json(Message("assistant", ("4",), channel="final"))
    # {"role": "assistant", "name": None, "content": [{"type": "text", "text": "4"}], "channel": "final"}
    """
    content: list[dict[str, object]] = []
    for item in message.content:
        if isinstance(item, str):
            content.append({"type": "text", "text": item})
        else:
            content += [_system_to_json(item)] if isinstance(item, SystemPrompt) else _developer_to_json(item)
    out: dict[str, object] = {"role": message.role, "name": message.name, "content": content}
    return out | _present(channel=message.channel, recipient=message.recipient, content_type=message.content_type)


def _system_to_json(prompt: SystemPrompt) -> dict[str, object]:
    """None is written as null where openai_harmony would take its own default for a missing field."""
    channels = prompt.channels
    return {
        "type": "system_content",
        "model_identity": prompt.identity,
        "reasoning_effort": prompt.effort and prompt.effort.capitalize(),
        "knowledge_cutoff": prompt.knowledge_cutoff,
        "channel_config": channels and {"valid_channels": [*channels.valid], "channel_required": channels.required},
    } | _present(conversation_start_date=prompt.date, tools=_tools_to_json(prompt.tools))


def _developer_to_json(prompt: DeveloperPrompt) -> list[dict[str, object]]:
    out: dict[str, object] = {"type": "developer_content"}
    out |= _present(instructions=prompt.instructions, tools=_tools_to_json(prompt.tools))
    if not prompt.response_formats:
        return [out]
    out["response_formats"] = [
        {"name": answer.name, **_present(description=answer.description), "schema": answer.schema}
        for answer in prompt.response_formats
    ]
    return [out, {"type": "text", "text": _formats_text(prompt)}]


def _formats_text(prompt: DeveloperPrompt) -> str:
    """The developer text from the response formats on."""
    without = developer_text(DeveloperPrompt(prompt.instructions, prompt.tools))
    return developer_text(prompt).removeprefix(without)


def _tools_to_json(tools: Mapping[str, Namespace] | None) -> dict[str, object] | None:
    if tools is None:
        return None
    return {
        key: {
            "name": namespace.name,
            **_present(description=namespace.description),
            "tools": [
                {"name": tool.name, "description": tool.description, **_present(parameters=tool.parameters)}
                for tool in namespace.functions
            ],
        }
        for key, namespace in tools.items()
    }


def _present(**fields: object) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value is not None}


# -- reading -----------------------------------------------------------------------------------------------------------


def conversation_from_json(data: object) -> tuple[Message, ...]:
    """The messages of `{"messages": […]}` or of a bare list, from `json.loads`; also what openai_harmony wrote.

    A field of a prompt that is absent or null leaves its line out, as when openai_harmony renders. Raises
    `ConversationError`, one line that names the place: `messages[2].role: must be one of …, not 'bot'`.
    """
    return tuple(_message(item) for item in messages_of(data))


def _message(json: Json) -> Message:
    role = ROLES.get(json.field("role").text())
    if role is None:
        raise json.field("role").wrong(f"one of {', '.join(ROLES)}")
    return Message(
        role,
        _contents(json.field("content")),
        name=json.field("name").text_or_none(),
        recipient=json.field("recipient").text_or_none(),
        channel=json.field("channel").text_or_none(),
        content_type=json.field("content_type").text_or_none(),
    )


def _contents(json: Json) -> tuple[Content, ...]:
    if isinstance(json.value, str):
        return (json.value,)
    out: list[Content] = []
    for item in json.items():
        kind = item.field("type").value
        if kind == "text":
            out.append(item.field("text").text())
        elif kind == "system_content":
            out.append(_system(item))
        elif kind == "developer_content":
            out.append(_developer(item))
        else:
            raise item.field("type").wrong("text, system_content or developer_content")
    return _without_twice(out)


def _without_twice(items: list[Content]) -> tuple[Content, ...]:
    """Response formats that are there both as data and as text count once: as data, unless the text was edited."""
    out: list[Content] = []
    formats = ""  # the text that the prompt just before stands for
    for item in items:
        if formats and item == formats:
            formats = ""
            continue
        last = out[-1] if out else None
        if formats and isinstance(last, DeveloperPrompt) and isinstance(item, str) and _FORMATS in item:
            out[-1] = DeveloperPrompt(last.instructions, last.tools)
        out.append(item)
        formats = _formats_text(item) if isinstance(item, DeveloperPrompt) and item.response_formats else ""
    return tuple(out)


def _system(json: Json) -> SystemPrompt:
    channels = json.field("channel_config")
    valid = tuple(one.text() for one in channels.field("valid_channels").items()) if channels.there else ()
    return SystemPrompt(
        identity=json.field("model_identity").text_or_none(),
        effort=_effort(json.field("reasoning_effort")),
        knowledge_cutoff=json.field("knowledge_cutoff").text_or_none(),
        date=json.field("conversation_start_date").text_or_none(),
        tools=_tools(json.field("tools")),
        channels=ChannelConfig(valid, channels.field("channel_required").flag()) if channels.there else None,
    )


def _effort(json: Json) -> Effort | None:
    if not json.there:
        return None
    effort = _EFFORTS.get(json.text().capitalize())
    if effort is None:
        raise json.wrong("Low, Medium or High")
    return effort


def _developer(json: Json) -> DeveloperPrompt:
    formats = json.field("response_formats")
    answers = tuple(
        ResponseFormat(one.field("name").text(), one.field("schema").value, one.field("description").text_or_none())
        for one in (formats.items() if formats.there else ())
    )
    return DeveloperPrompt(json.field("instructions").text_or_none(), _tools(json.field("tools")), answers)


def _tools(json: Json) -> dict[str, Namespace] | None:
    return {key: _namespace(entry) for key, entry in json.entries()} if json.there else None


def _namespace(json: Json) -> Namespace:
    functions = tuple(function_from_json(item) for item in json.field("tools").items())
    return Namespace(json.field("name").text(), json.field("description").text_or_none(), functions)


def function_from_json(json: Json) -> FunctionDecl:
    """A function's `name`, `description` and `parameters`, as both forms of JSON write them."""
    description = json.field("description").text_or_none() or ""
    return FunctionDecl(json.field("name").text(), description, json.field("parameters").value)
