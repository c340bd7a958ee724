"""Our values in the JSON of the reference library (`openai_harmony`), and its renders of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import openai_harmony

from ossia.harmony.messages import Content, DeveloperPrompt, Message, Namespace, SystemPrompt


class Reference:
    """The wheel behind its own Python wrapper: that one drops nulls inside schemas, and takes only objects as such."""

    def __init__(self, wheel: openai_harmony.HarmonyEncoding) -> None:
        self._inner = wheel._inner

    def render(self, message: Message, *, has_functions: bool = False) -> list[int]:
        options = {"conversation_has_function_tools": has_functions}
        return list(self._inner.render(json.dumps(as_json(message)), options))

    def conversation(self, messages: Sequence[Message], *, purpose: str | None, drop: bool, role: str) -> list[int]:
        text = json.dumps({"messages": [as_json(message) for message in messages]})
        config = {"auto_drop_analysis": drop}
        if purpose == "completion":
            return list(self._inner.render_conversation_for_completion(text, role, config))
        if purpose == "training":
            return list(self._inner.render_conversation_for_training(text, config))
        return list(self._inner.render_conversation(text, config))


def as_json(message: Message) -> dict[str, Any]:
    """The wheel's `Message.to_dict()` of the same message."""
    header = {name: getattr(message, name) for name in ("name", "recipient", "channel", "content_type")}
    return {"role": message.role, **header, "content": [_content(item) for item in message.content]}


def _content(item: Content) -> dict[str, Any]:
    if isinstance(item, SystemPrompt):
        return {
            "type": "system_content",
            "model_identity": item.identity,
            "reasoning_effort": item.effort and item.effort.capitalize(),
            "conversation_start_date": item.date,
            "knowledge_cutoff": item.knowledge_cutoff,
            "tools": _tools(item.tools),
            "channel_config": item.channels
            and {"valid_channels": list(item.channels.valid), "channel_required": item.channels.required},
        }
    if isinstance(item, DeveloperPrompt):
        return {"type": "developer_content", "instructions": item.instructions, "tools": _tools(item.tools)}
    return {"type": "text", "text": item}


def _tools(tools: Mapping[str, Namespace] | None) -> dict[str, Any] | None:
    return tools and {
        key: {
            "name": namespace.name,
            "description": namespace.description,
            "tools": [
                {"name": function.name, "description": function.description, "parameters": function.parameters}
                for function in namespace.functions
            ],
        }
        for key, namespace in tools.items()
    }
