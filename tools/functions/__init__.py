"""The user's own functions as tools. Begin with `user`.

FunctionsError
├── FunctionsInvalid      a file or a package of functions can't be used
├── McpConfigInvalid      an MCP server is configured in a way that can't be used
└── ToolSettingUnusable   a setting of the tools can't be used
"""

from __future__ import annotations

from contextvars import ContextVar

from ossia.errors import OssiaError

CALLED_BY: ContextVar[int] = ContextVar("ossia_called_by", default=0)
"""The thread whose turn waits for the function that runs now; 0: none does."""


class FunctionsError(OssiaError):
    """The user's own tools can't be used. One line: where, what was expected, what to do. The command line exits 2."""


class FunctionsInvalid(FunctionsError):
    """`weather.py: get_weather: the parameter 'city' has no type hint: write e.g. city: str`."""


class McpConfigInvalid(FunctionsError):
    """`mcp.json: mcpServers.files: needs "command" or "url"`."""


class ToolSettingUnusable(FunctionsError):
    """`--web foo: must be a SearXNG's address (http://…) or one of brave, exa, …`."""
