"""A real MCP server, made with the library's own: `python mcp_server.py stdio`, or `… http PORT` on loopback."""

from __future__ import annotations

import base64
import os
import sys
import time
from typing import Annotated, Literal

from mcp.server.mcpserver import Elicit, ElicitationResult, MCPServer, Resolve
from mcp.types import ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

server = MCPServer("Study server", version="1.2.3", log_level="ERROR")


class Weather(BaseModel):
    temperature: int
    unit: str


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(
    city: Annotated[str, Field(description="The city's name")],
    unit: Literal["celsius", "fahrenheit"] = "celsius",
    days: int | None = None,
) -> str:
    """The weather of a city now."""
    return f"10 degrees {unit} in {city}"


@server.tool()
def structured(temperature: int) -> Weather:
    """Structured content."""
    return Weather(temperature=temperature, unit="celsius")


@server.tool()
def picture() -> list[TextContent | ImageContent]:
    """A picture, and a word on it."""
    image = ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")
    return [TextContent(type="text", text="Here it is:"), image]


@server.tool()
def long(megabytes: float) -> str:
    """A long text."""
    return "x" * int(megabytes * 1_000_000)


@server.tool()
def boom() -> str:
    """It fails."""
    raise ValueError("the inside is broken")


@server.tool()
def slow(seconds: float) -> str:
    """It takes its time."""
    time.sleep(seconds)
    return "slept"


@server.tool()
def environment() -> list[str]:
    """The names of the variables that the server has, and where it is."""
    return [*sorted(os.environ), os.getcwd()]  # noqa: PTH109


@server.tool(name="weird.name 1")
def weird() -> str:
    """A name that no recipient can hold."""
    return "called by another name"


class Table(BaseModel):
    day: Annotated[str, Field(description="When it begins", json_schema_extra={"format": "date"})]
    people: Annotated[int, Field(ge=1, le=9)] = 2
    where: Literal["in", "out"] = "in"
    quiet: bool = False


def which() -> Elicit[Table]:
    return Elicit("Which table\x1b[2J?", Table)


@server.tool()
def book(given: Annotated[ElicitationResult[Table], Resolve(which)]) -> str:
    """It asks in the middle of the call."""
    return f"accept {given.data.model_dump_json()}" if given.action == "accept" else given.action


@server.tool()
def quit() -> str:
    """It ends the server in the middle of the call."""
    print("a last word", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
