"""The text of a `session/prompt`, from its blocks."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ossia.agent.sessions.session import UserText
from ossia.cli.acp.rpc import INVALID_PARAMS, RpcError
from ossia.cli.exits import MAX_TEXT_BYTES
from ossia.tools.spec import Taint


def text_of(blocks: object, folder: Path, taints: frozenset[Taint]) -> UserText:
    """The text of the blocks; a linked file becomes a mention (`@src/app.py`), an embedded text stands behind it.

    Text blocks are the user's typed words. `taints`: those of the folder's files, also where the client embeds them; a
    text from elsewhere counts as the user's private one, or as somebody else's if it isn't a file. Raises RpcError.

        text_of([{"type": "text", "text": "Explain this"}], Path("/work"), frozenset()).typed    # "Explain this"
    """
    from ossia.cli.attach.content import block as block_of
    from ossia.cli.attach.content import in_heading

    if not isinstance(blocks, list) or not blocks:
        raise RpcError(INVALID_PARAMS, "prompt: expected a list of content blocks")
    typed, attached, tainted = "", list[str](), frozenset[Taint]()
    for block in blocks:
        if not isinstance(block, dict):
            raise RpcError(INVALID_PARAMS, "prompt: expected content blocks")
        match block:
            case {"type": "text", "text": str(text)}:
                typed += text
            case {"type": "resource_link", "uri": str(uri)}:
                typed += f"{'' if not typed or typed[-1].isspace() else ' '}{_mention(uri, folder)}"
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                name, kinds = _source(uri, folder, taints)
                attached.append(block_of(f"Attached file {in_heading(name)}:", text))
                tainted |= kinds
            case {"type": kind}:
                raise RpcError(INVALID_PARAMS, f"prompt: can't read this block of type {kind!r}: send text or links")
            case _:
                raise RpcError(INVALID_PARAMS, "prompt: a content block needs a type")
    text = "\n\n".join([typed, *attached])
    if not text.strip():
        raise RpcError(INVALID_PARAMS, "prompt: it says nothing")
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise RpcError(INVALID_PARAMS, f"prompt: at most {MAX_TEXT_BYTES / 1e6:.0f} MB are read")
    return UserText(text, typed, tainted)


def _mention(uri: str, folder: Path) -> str:
    """A mention of the file behind a URI; any other URI as it is."""
    from ossia.cli.mentions import written

    path = _path(uri)
    if path is None:
        return uri
    return written(str(path.relative_to(folder) if path.is_relative_to(folder) else path))


def _source(uri: str, folder: Path, taints: frozenset[Taint]) -> tuple[str, frozenset[Taint]]:
    """The name of an embedded text, and its kinds."""
    path = _path(uri)
    if path is None:
        return uri, frozenset({"outside"})
    if path.is_relative_to(folder):
        return str(path.relative_to(folder)), taints
    return str(path), frozenset({"private"})


def _path(uri: str) -> Path | None:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    here = parts.scheme == "file" and parts.netloc in ("", "localhost")
    return Path(os.path.normpath(unquote(parts.path))) if here else None
