"""An MCP server's answer as the model reads it, with its pictures as files."""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.tools.functions._inspect import bounded
from ossia.tools.spec import Attachment, ToolResult
from ossia.tools.text import one_line

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

_PICTURES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_MAX_PICTURE_BYTES = 16 << 20
_MAX_PICTURES = 16  # of one call
_MAX_FOLDER_BYTES = 256 << 20
_MAX_PARTS = 1_000
_MAX_BASE64_CHARS = 1_000  # keys and hashes are shorter, pictures longer
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")


def as_result(answer: CallToolResult, *, name: str, folder: Path) -> ToolResult:
    """The result of a call: its texts, joined, and its structured content as JSON if a text doesn't say the same.

    A picture becomes a file in `folder` (which is kept under 256 MB) and a placeholder. Anything else that isn't text
    becomes a placeholder.
    """
    attachments: list[Attachment] = []
    parts = [_part(block, folder, attachments) for block in answer.content[:_MAX_PARTS]]
    if len(answer.content) > _MAX_PARTS:
        parts.append(f"[{len(answer.content) - _MAX_PARTS} parts left out]")
    if answer.structured_content is not None and not _is_said(answer.structured_content, answer.content):
        parts.append(_json(_without_data(answer.structured_content)))
    text = bounded("\n".join(part for part in parts if part)) or "[no content]"
    if answer.is_error:
        text = f"Error: {name}: {text}"
    return ToolResult(text, answer.is_error, tuple(attachments))


def _part(block: ContentBlock, folder: Path, attachments: list[Attachment]) -> str:
    if block.type == "text":
        return block.text
    if block.type == "image":
        return _picture(block.data, block.mime_type, folder, attachments)
    if block.type == "audio":
        return f"[sound, {_kind_and_size(block.mime_type, block.data)}: left out]"
    if block.type == "resource_link":
        return f"[link to a resource: {one_line(block.title or block.name, 100)} {one_line(block.uri, 300)}]"
    resource, uri = block.resource, one_line(block.resource.uri, 300)
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return f"[resource {uri}]\n{text}"
    blob = getattr(resource, "blob", "")
    if resource.mime_type in _PICTURES:
        return f"[resource {uri}]\n{_picture(blob, resource.mime_type, folder, attachments)}"
    return f"[resource {uri}, {_kind_and_size(resource.mime_type or 'bytes', blob)}: left out]"


def _picture(data: str, media_type: str, folder: Path, attachments: list[Attachment]) -> str:
    suffix = _PICTURES.get(media_type)
    what = f"picture, {one_line(media_type, 40)}"
    if suffix is None or len(data) > _MAX_PICTURE_BYTES * 4 // 3 or len(attachments) >= _MAX_PICTURES:
        return f"[{what}: left out]"
    try:
        content = base64.b64decode(data, validate=True)
        folder.mkdir(parents=True, exist_ok=True)
        if sum(kept.stat().st_size for kept in folder.iterdir()) + len(content) > _MAX_FOLDER_BYTES:
            return f"[{what}: left out, the folder of pictures is full]"
        path = folder / f"{secrets.token_hex(8)}{suffix}"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    except (binascii.Error, ValueError, OSError):
        return f"[{what}: can't be kept]"
    attachments.append(Attachment(path, media_type))
    return f"[{what}, {len(content):,} bytes: you can't see it; it is kept for the user]"


def _kind_and_size(media_type: str, data: str) -> str:
    """`audio/wav, 3,000 bytes`."""
    return f"{one_line(media_type, 40)}, {len(data.rstrip('=')) * 3 // 4:,} bytes"


def _is_said(value: object, blocks: Sequence[ContentBlock]) -> bool:
    """True if the texts say the same. Servers wrap a result that is no object as `{"result": …}`."""
    texts = [block.text for block in blocks if block.type == "text"]
    values = [_value(text) for text in texts]
    said = [*texts, "\n".join(texts), *values, values]
    return value in said or (isinstance(value, dict) and list(value) == ["result"] and value["result"] in said)


def _value(text: str) -> object:
    """The value of a JSON text; the text itself if it isn't JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _without_data(value: object) -> object:
    """A value of JSON with sizes for the data of pictures, sounds and files: a model can't read base64."""
    if isinstance(value, list):
        return [_without_data(item) for item in value]
    if isinstance(value, dict):
        kind = value.get("mimeType")
        named = {key: _without_data(item) for key, item in value.items()}
        for key in ("data", "blob"):
            if isinstance(value.get(key), str) and (kind is not None or _is_base64(value[key])):
                named[key] = f"[{_kind_and_size(kind if isinstance(kind, str) else 'bytes', value[key])}: left out]"
        return named
    if isinstance(value, str) and (value.startswith("data:") or _is_base64(value)):
        return f"[{len(value) * 3 // 4:,} bytes of data: left out]"
    return value


def _is_base64(text: str) -> bool:
    return len(text) > _MAX_BASE64_CHARS and _BASE64.fullmatch(text) is not None


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return "[structured content that can't be written as JSON]"
