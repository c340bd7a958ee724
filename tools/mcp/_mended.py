"""A server's output made fit for the library, which would refuse a whole answer for one unreadable thing in it."""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from ossia.tools.text import one_line

_MAX_LINE_BYTES = 32 << 20
_LINES = "ossia_mcp_lines"
_MAX_LEVELS = 100  # the library gives up a line of more than 200
_NESTING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[{}\]]', re.DOTALL)
_ESCAPE = re.compile(
    rb"\\(?:[^u]|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|u)"
)


def well_formed(line: bytes) -> bytes:
    r"""The line as UTF-8, with U+FFFD for other bytes and for halves of a character (`\ud83d` alone).

    Whatever lies deeper than 100 levels of JSON becomes a text that says so.
    """
    line = _shallow(line.decode("utf-8", "replace").encode())
    if b"\\ud" not in line and b"\\uD" not in line:
        return line
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], line)


def _shallow(line: bytes) -> bytes:
    if line.count(b"{") + line.count(b"[") <= _MAX_LEVELS:
        return line
    level = begin = done = 0
    kept: list[bytes] = []
    for token in _NESTING.finditer(line):
        if token[0] in (b"{", b"["):
            level += 1
            begin = token.start() if level == _MAX_LEVELS + 1 else begin
        elif token[0] in (b"}", b"]"):
            if level == _MAX_LEVELS + 1:
                kept += [line[done:begin], b'"[deeper than %d levels: left out]"' % _MAX_LEVELS]
                done = token.end()
            level -= 1
    return b"".join([*kept, line[done:]])


class _LineDecoder(codecs.IncrementalDecoder):
    """Returns whole lines only, since the rest is no message. A line too long becomes a note."""

    def __init__(self, errors: str = "strict") -> None:
        super().__init__(errors)
        self._line = bytearray()
        self._too_long = False

    def decode(self, data: Any, final: bool = False) -> str:
        *ends, rest = bytes(data).split(b"\n")
        lines = []
        for end in ends:
            self._add(end)
            note = f"[a line of more than {_MAX_LINE_BYTES} bytes]"
            lines.append(note if self._too_long else well_formed(bytes(self._line)).decode())
            self._line, self._too_long = bytearray(), False
        self._add(rest)
        return "".join(f"{line}\n" for line in lines)

    def _add(self, piece: bytes) -> None:
        self._too_long = self._too_long or len(self._line) + len(piece) > _MAX_LINE_BYTES
        if self._too_long:
            self._line.clear()
        else:
            self._line += piece


@cache
def line_encoding() -> str:
    """The name of an encoding: UTF-8 without the lines of more than 32 MB.

    The encoding is the only thing that we can set about how the library reads a program's stdout. The library keeps a
    line until its end comes, and copies it with each piece: one of 60 MB took all of a call's minute, and 100 MB.
    """
    utf8 = codecs.lookup("utf-8")
    lines = codecs.CodecInfo(utf8.encode, utf8.decode, incrementaldecoder=_LineDecoder, name=_LINES)
    codecs.register(lambda name: lines if name == _LINES else None)
    return _LINES


class Mended:
    """Mends the results of one connection. `left_out`: the unusable tools, each with the reason."""

    def __init__(self, version: Callable[[], str]) -> None:
        self._version = version
        self.left_out: dict[str, str] = {}

    @asynccontextmanager
    async def around(self, transport: Any) -> AsyncIterator[Any]:
        """The streams of a transport, the reading one mended."""
        import anyio

        async with transport as (read, write), anyio.create_task_group() as tasks:
            send, receive = anyio.create_memory_object_stream[Any](0)

            async def pump() -> None:
                async with send:
                    async for item in read:
                        self._mend(item)
                        await send.send(item)

            tasks.start_soon(pump)
            try:
                yield receive, write
            finally:
                receive.close()
                tasks.cancel_scope.cancel()

    def _mend(self, item: Any) -> None:
        result = getattr(getattr(item, "message", None), "result", None)
        if not isinstance(result, dict):
            return
        if isinstance(result.get("tools"), list):
            result.setdefault("resultType", "complete")
            result["tools"] = [tool for tool in result["tools"] if self._is_usable(tool)]
        elif isinstance(result.get("content"), list):
            result.setdefault("resultType", "complete")
            result["content"] = [self._block(block) for block in result["content"]]

    def _is_usable(self, tool: object) -> bool:
        if isinstance(tool, dict):  # the library would check results by it: its `pattern` can block us for ever
            tool.pop("outputSchema", None)
        why = self._fault("tools/list", {"tools": [tool], "ttlMs": 0, "cacheScope": "private"})
        if not why and isinstance(tool, Mapping):
            why = _unusable(tool, modern=self._version() >= "2026")
        if why:
            name = tool.get("name") if isinstance(tool, Mapping) else None
            self.left_out[one_line(name if isinstance(name, str) else "a tool without a name", 100)] = why
        return not why

    def _block(self, block: object) -> object:
        if not self._fault("tools/call", {"content": [block]}):
            return block
        kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
        return {"type": "text", "text": f"[a part that MCP doesn't have, {one_line(str(kind), 40)}: left out]"}

    def _fault(self, method: str, result: dict[str, Any]) -> str:
        """The fault of a result, in short; "" if it has none."""
        from mcp_types import methods
        from pydantic import ValidationError

        try:
            methods.validate_server_result(method, self._version(), {"resultType": "complete", **result})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = [str(part) for part in first["loc"] if not isinstance(part, int) and part != "tools"]
            what = "Input should be an object" if "valid dictionary" in first["msg"] else first["msg"]
            return one_line(": ".join(filter(None, (".".join(where), what))), 200)
        return ""


def _unusable(tool: Mapping[str, Any], *, modern: bool) -> str:
    """Why a tool that MCP allows can't be used by us; "" if it can."""
    from mcp.shared.inbound import find_invalid_x_mcp_header

    execution = tool.get("execution")
    if isinstance(execution, Mapping) and execution.get("taskSupport") == "required":
        return "it runs only as a task, which ossia doesn't do"
    reason = find_invalid_x_mcp_header(tool["inputSchema"]) if modern else None
    return one_line(f"its x-mcp-header is invalid: {reason}", 200) if reason else ""
