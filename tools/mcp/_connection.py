"""A connected server, started again if it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ossia.tools.mcp._input import Questions
from ossia.tools.mcp._pins import fingerprint
from ossia.tools.mcp._server import RemoteTool, Server, ServerFailed
from ossia.tools.mcp.config import McpConfig

if TYPE_CHECKING:
    from mcp.types import CallToolResult

_MAX_RECONNECTIONS = 3


class Connection:
    """A connected server, which is reconnected when needed. `is_new`: none of its tools was ever accepted.

    `ms` is how long connecting took; `offered` are the names under which the model knows its tools, in their order.
    """

    def __init__(self, config: McpConfig, server: Server, ms: int, offered: tuple[str, ...]) -> None:
        self.config, self.server, self.ms, self.offered = config, server, ms, offered
        self.accepted: dict[str, str] = {}
        self.is_new = True
        self._failures = 0
        self._turn = asyncio.Lock()

    async def call(
        self, tool: RemoteTool, args: Mapping[str, object], connect_timeout_s: float, questions: Questions
    ) -> CallToolResult:
        """Call a tool; if the server has ended, start it again first, once. Raises `ServerFailed`.

        A call during which the server ends is not sent again: it may have done what it was asked. One that a server
        refused since it has forgotten the session is.
        """
        for again_if_undone in (True, False):
            async with self._turn:
                if self.server.is_lost:
                    await self._reconnect(connect_timeout_s)
            now = next((other for other in self.server.tools if other.name == tool.name), None)
            if now is None or fingerprint(now) != fingerprint(tool):
                raise ServerFailed("started again, it describes the tool differently now: off until you accept it")
            try:
                return await self.server.call(tool.name, args, self.config.timeout_s, questions)
            except ServerFailed as error:
                if error.undone and again_if_undone:
                    continue
                if error.undone or not error.lost:
                    raise
                again = "it may have done what it was asked; it is started again with the next call"
                raise ServerFailed(f"{error} during the call: {again}", lost=True) from None
        raise AssertionError("unreachable")

    async def _reconnect(self, connect_timeout_s: float) -> None:
        if self._failures >= _MAX_RECONNECTIONS:
            raise ServerFailed(f"it ended, and could not be started again {self._failures} times")
        await self.server.close()
        try:
            await self.server.open(connect_timeout_s)
        except ServerFailed as error:
            self._failures += 1
            raise ServerFailed(f"it had ended, and starting it again failed: {error}", lost=True) from None
        self._failures = 0
