"""The client's MCP servers, under the same rules as the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ossia.tools.build import ToolsSpec


def with_servers(spec: ToolsSpec, servers: object) -> ToolsSpec:
    """The tools with those of the servers (`mcpServers` of `session/new`). Raises RpcError."""
    return spec
