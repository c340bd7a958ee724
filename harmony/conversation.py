from __future__ import annotations
from harmony.messages import Message
def message_to_json(message: Message) -> dict[str, object]:
    out: dict[str, object] = {"role": message.role, "name": message.name, "content": [{"type": "text", "text": t} for t in message.content]}
    for key in ("channel", "recipient", "content_type"):
        if getattr(message, key) is not None:
            out[key] = getattr(message, key)
    return out
