"""The built-in model through the whole path: real tools, a web site and a search service on loopback, an MCP server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import line_of, ossia
from tests.support.site import Site

SERVER = """\
from mcp.server.mcpserver import MCPServer

server = MCPServer("Lamps", log_level="ERROR")

@server.tool()
def set_lamp(room: str, level: int) -> str:
    \"\"\"Sets a lamp.\"\"\"
    return "bright copper wheel"

server.run("stdio")
"""
WEATHER = '''\
from typing import Literal

def get_current_weather(location: str, format: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, object]:
    """Gets the current weather in the provided location."""
    return {"temperature": 21, "condition": "sunny", "unit": format}
'''


def _asked(question: str, *flags: str) -> dict[str, Any]:
    done = ossia("run", question, "--model", "etude", "--temperature", "0", "--json", *flags)
    assert done.returncode == 0, done.stderr
    return line_of(done)


def _calls(line: dict[str, Any]) -> list[tuple[str, object]]:
    return [(call["name"], json.loads(call["arguments"])) for call in line["calls"]]


@pytest.fixture
def web() -> Iterator[tuple[Site, tuple[str, ...]]]:
    """A search service that knows one page, the page, and the flags that let it be used."""
    with Site() as site:
        site.page("/green-harbor", "\ngreen harbor was built in winter.\n", type="text/plain")
        result = {"title": "green harbor", "url": site.url("/green-harbor"), "content": "a page about it"}
        site.json("/search", {"query": "green harbor", "results": [result]})
        yield site, ("--web", site.url("/"), "--allow-host", str(site.at()))


def test_search_open_cite(web: tuple[Site, tuple[str, ...]]) -> None:
    site, flags = web
    line = _asked("Search the web for green harbor.", *flags)
    assert _calls(line) == [("browser.search", {"query": "green harbor"}), ("browser.open", {"id": 0})]
    assert line["answer"] == "green harbor was built in winter. [1]"
    cited = {"title": "green-harbor", "url": site.url("/green-harbor"), "first_line": 3, "last_line": 3}
    assert line["citations"] == [{"number": 1, "cursor": 1, **cited, "verified": True}]
    assert line["messages"][-1]["content"][0]["text"] == "green harbor was built in winter. 【1†L3】"


def test_the_footnote_stands_under_the_answer(web: tuple[Site, tuple[str, ...]]) -> None:
    site, flags = web
    done = ossia("run", "Search the web for green harbor.", "--model", "etude", "--temperature", "0", "--quiet", *flags)
    told = f"green harbor was built in winter. [1]\n\n[1] green-harbor — {site.url('/green-harbor')} (line 3)\n"
    assert (done.returncode, done.stdout.decode()) == (0, told)


def test_a_function_of_the_users_file(tmp_path: Path) -> None:
    (tmp_path / "weather.py").write_text(WEATHER)
    line = _asked("What is the weather in Zanzibar?", "--tools", str(tmp_path / "weather.py"))
    assert _calls(line) == [("functions.get_current_weather", {"location": "Zanzibar"})]
    assert line["answer"] == "The weather in Zanzibar is sunny at 21 degrees celsius."


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "todo_list.txt").write_text("buy oranges and water the ferns\n")
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("question", "name", "arguments", "output", "answer"),
    [
        (
            "What files are in this workspace?", "repo_browser.list_dir", {"path": "."}, "todo_list.txt",
            "The files are:\ntodo_list.txt",
        ),
        (
            "Read the file todo_list.txt.", "repo_browser.open_file", {"path": "todo_list.txt"},
            "buy oranges and water the ferns", "The file says:\nbuy oranges and water the ferns\n",
        ),
        (
            "Search the files for ferns.", "repo_browser.search", {"path": ".", "query": "ferns"},
            "todo_list.txt:1:buy oranges and water the ferns",
            "Found:\ntodo_list.txt:1:buy oranges and water the ferns",
        ),
    ],
)  # fmt: skip
def test_a_look_into_a_workspace(
    question: str, name: str, arguments: dict[str, object], output: str, answer: str, work: Path
) -> None:
    line = _asked(question, "--workspace", str(work))
    assert (_calls(line), line["answer"]) == ([(name, arguments)], answer)
    told = next(message for message in line["messages"] if message["role"] == "tool")
    assert (told["channel"], told["name"]) == ("analysis", name)
    assert line["calls"][0]["result"] == f"<returncode>0</returncode>\n<output>\n{output}\n</output>\ncwd: {work}"


@pytest.mark.needs_bwrap
def test_a_command_in_a_workspace(work: Path) -> None:
    line = _asked("Run the command `ls`.", "--workspace", str(work), "--allow", "container.exec:ls")
    assert _calls(line) == [("container.exec", {"command": ["bash", "-lc", "ls"]})]
    assert line["answer"] == "The output is:\ntodo_list.txt"


def test_a_new_file_in_a_workspace(work: Path) -> None:
    line = _asked("Write a file plants.md with the text black ferns", "--workspace", str(work), "--yes")
    assert [name for name, _ in _calls(line)] == ["repo_browser.apply_patch"]
    assert line["answer"] == "plants.md is written."
    assert (work / "plants.md").read_text() == "black ferns\n"


def test_an_mcp_server(tmp_path: Path) -> None:
    lamp = tmp_path / "lamp.py"
    lamp.write_text(SERVER)
    for command in (("add", "home", "--", sys.executable, str(lamp)), ("test", "home", "--accept")):
        done = ossia("mcp", *command)
        assert done.returncode == 0, done.stderr
    line = _asked("Call home__set_lamp with room kitchen and level 40.", "--tools", "python", "--yes")
    assert _calls(line) == [("functions.home__set_lamp", {"room": "kitchen", "level": 40})]
    assert line["answer"] == "The tool says: bright copper wheel"
