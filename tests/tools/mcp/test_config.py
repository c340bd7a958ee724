"""How MCP servers are configured: what is read, what is refused, what a server's process is given."""

from __future__ import annotations

import pytest

from ossia.tools.functions import McpConfigInvalid
from ossia.tools.mcp.config import McpConfig, child_environment, expanded, parse_servers, variables_in


def _one(**entry: object) -> McpConfig:
    (config,) = parse_servers({"s": entry}, "mcp.json")
    return config


def test_what_the_ecosystem_writes_is_read() -> None:
    configs = parse_servers(
        {
            "files": {
                "command": "npx",
                "args": ["-y", "server", "/data"],
                "env": {"DEBUG": "1"},
                "cwd": "/work",
                "read_only": ["search"],
            },
            "tickets": {
                "type": "http",
                "url": "https://tickets.example/mcp?team=${TEAM}",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
                "timeout_s": 5,
                "autoApprove": ["*"],  # another program's: it means nothing here
            },
            "off": {"type": "stdio", "command": "x", "disabled": True},
        },
        "mcp.json",
    )
    assert configs[0] == McpConfig(
        "files",
        command="npx",
        args=("-y", "server", "/data"),
        env={"DEBUG": "1"},
        cwd="/work",
        read_only=("search",),
        file="mcp.json",
        where="mcp.json: mcpServers.files",
    )
    assert configs[0].target == "npx -y server /data"
    assert (configs[1].timeout_s, configs[1].enabled, configs[2].enabled) == (5.0, True, False)
    filled = expanded(configs[1], {"TEAM": "a", "TOKEN": "t0ps3cret"})
    assert (filled.url, filled.headers) == (
        "https://tickets.example/mcp?team=a",
        {"Authorization": "Bearer t0ps3cret"},
    )
    assert filled.target.endswith("team=a") and configs[1].target.endswith("team=${TEAM}")


def test_a_client_that_was_registered_by_hand() -> None:
    config = _one(url="https://h/mcp", client_id="${ID}", client_secret="${S}", callback_port=3118)
    assert variables_in(config) == {"ID", "S"}
    filled = expanded(config, {"ID": "me", "S": "t0ps3cret"})
    assert (filled.client_id, filled.client_secret, "t0ps3cret" in filled.secrets) == ("me", "t0ps3cret", True)
    assert expanded(filled, {}).secrets == filled.secrets
    theirs = _one(url="https://h/mcp", oauth={"clientId": "a", "clientSecret": "${S}", "callbackPort": 1, "cwd": "/"})
    assert theirs == _one(url="https://h/mcp", client_id="a", client_secret="${S}", callback_port=1)
    for wrong, why in (
        ({"client_secret": "hunter2"}, r"client_secret: this looks like a secret: .*\$\{VAR\}"),
        ({"oauth": {"clientSecret": "${S:-hunter2}"}}, "client_secret: this looks like a secret"),
        ({"callback_port": True}, "callback_port: must be a port, 1 to 65535, not True"),
        ({"oauth": {"callbackPort": 70_000}}, "callback_port: must be a port, 1 to 65535, not 70000"),
        ({"client_id": 5}, "client_id: must be a text, not 5"),
    ):
        with pytest.raises(McpConfigInvalid, match=why):
            _one(url="https://h/mcp", **wrong)  # type: ignore[arg-type]


def test_variables_in_every_form() -> None:
    config = _one(
        command="${HOME}/bin/x", args=["${env:A}", "${B:-other}", "$A", "${not a name}"], env={"K": "${A}-${A}"}
    )
    filled = expanded(config, {"HOME": "/h", "A": "1", "B": ""})
    assert (filled.command, filled.args, filled.env) == (
        "/h/bin/x",
        ("1", "other", "$A", "${not a name}"),
        {"K": "1-1"},
    )
    with pytest.raises(McpConfigInvalid, match=r"mcpServers\.s\.args: the environment variable A is not set"):
        expanded(config, {"HOME": "/h"})


def test_a_servers_process_is_given_little() -> None:
    environ = {
        "PATH": "/bin", "HOME": "/h", "LANG": "C", "LC_ALL": "C", "TMPDIR": "/t", "BASH_FUNC_x": "() { evil; }",

            "OPENAI_API_KEY": "k",
            "AWS_SECRET_ACCESS_KEY": "k",
            "SSH_AUTH_SOCK": "/s",
            "LD_PRELOAD": "x",
            "PYTHONPATH": "x"
        ,
    }
    config = expanded(_one(command="x", env={"MINE": "${OPENAI_API_KEY}"}), environ)
    assert child_environment(config, environ) == {
        "PATH": "/bin", "HOME": "/h", "LANG": "C", "LC_ALL": "C", "TMPDIR": "/t",
        "MINE": "k",
    }


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({}, 'mcpServers.s: needs "command" or "url"'),
        ({"command": "x", "url": "http://h"}, 'mcpServers.s: needs "command" or "url", not both'),
        ({"command": ["x"]}, "mcpServers.s.command: must be a text, not ['x']"),
        ({"command": ""}, "mcpServers.s.command: must be a text, not ''"),
        ({"command": "x\0"}, "mcpServers.s.command: must be a text"),
        ({"command": "x", "args": "y"}, "mcpServers.s.args: must be a list of texts, not 'y'"),
        ({"command": "x", "env": {"A": 1}}, "mcpServers.s.env.A: must be a name and a text, not 1"),
        ({"command": "x", "env": {"A=B": "1"}}, "mcpServers.s.env.A=B: must be a name and a text"),
        ({"command": "x", "enabled": "yes"}, "mcpServers.s.enabled: must be true or false, not 'yes'"),
        ({"command": "x", "read_only": True}, "mcpServers.s.read_only: must be a list of texts, not True"),
        ({"command": "x", "timeout_s": 0}, "mcpServers.s.timeout_s: must be a number of seconds above 0, not 0"),
        ({"command": "x", "type": "http"}, "mcpServers.s.type: must be 'stdio', not 'http'"),
        ({"url": "http://h/sse", "type": "sse"}, "mcpServers.s.type: sse is not supported"),
        ({"url": "file:///etc/passwd"}, "mcpServers.s.url: must be http://… or https://…, not 'file:///etc/passwd'"),
        ({"url": "http://[::1/x"}, "mcpServers.s.url: must be http://"),
        ({"url": "http://h/a\r\nb"}, "mcpServers.s.url: must be http://"),
    ],
)
def test_what_cannot_be_used_is_one_line_with_the_key(entry: dict[str, object], problem: str) -> None:
    with pytest.raises(McpConfigInvalid) as caught:
        parse_servers({"s": entry}, "mcp.json")
    assert str(caught.value).startswith("mcp.json: ") and problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("table", [[], "x", {"s": "x"}, {"bad name": {"command": "x"}}, {"a/b": {"command": "x"}}])
def test_tables_that_are_none(table: object) -> None:
    with pytest.raises(McpConfigInvalid, match=r"^mcp\.json: mcpServers"):
        parse_servers(table, "mcp.json")


def test_values_are_checked_again_when_they_are_known() -> None:
    with pytest.raises(McpConfigInvalid, match="must be http"):
        expanded(_one(url="${WHERE}"), {"WHERE": "file:///x"})
    with pytest.raises(McpConfigInvalid, match=r"headers\.X-Y: a header must be printable ASCII"):
        expanded(_one(url="http://h", headers={"X-Y": "${V}"}), {"V": "a\r\nHost: evil"})


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"command": "x", "env": {"GITHUB_TOKEN": "abcdefgh"}}, "env.GITHUB_TOKEN"),
        ({"command": "x", "env": {"OPENAI_API_KEY": "${A:-realkey}"}}, "env.OPENAI_API_KEY"),
        ({"command": "x", "env": {"DB_PASSWORD": "hunter2"}}, "env.DB_PASSWORD"),
        ({"command": "x", "env": {"OTHER": "ghp_" + "a" * 36}}, "env.OTHER"),
        ({"command": "x", "args": ["--api-key", "abcdefgh"]}, "args"),
        ({"command": "x", "args": ["--token=abcdefgh"]}, "args"),
        ({"command": "x", "args": ["sk-" + "a" * 40]}, "args"),
        ({"url": "http://h", "headers": {"Authorization": "Bearer abcdefgh"}}, "headers.Authorization"),
        ({"url": "http://h", "headers": {"X-Api-Key": "abcdefgh"}}, "headers.X-Api-Key"),
        ({"url": "http://h", "headers": {"Cookie": "sid=abcdefgh"}}, "headers.Cookie"),
        ({"url": "http://h/?api_key=abcdefgh"}, "url"),
        ({"url": "http://me:abcdefgh@h/"}, "url"),
    ],
)
def test_a_secret_in_the_file_is_refused(entry: dict[str, object], key: str) -> None:
    with pytest.raises(McpConfigInvalid) as caught:
        _one(**entry)
    expected = "this looks like a secret: put it into an environment variable and write ${VAR}"
    assert str(caught.value) == f"mcp.json: mcpServers.s.{key}: {expected}"


def test_what_is_no_secret_is_not_refused() -> None:
    _one(
        command="x",
        args=["--token", "${T}", "--max-tokens", "100", "--key-file", "/etc/key.pem", "--author", "me"],
        env={
            "GITHUB_TOKEN": "${GITHUB_TOKEN}", "API_KEY": "${env:KEY:-}", "MAX_TOKENS": "4096", "AUTH": "false",
            "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json", "KEYBOARD": "dvorak", "LANG": "de_DE",
        },
    )
    _one(url="http://127.0.0.1:8000/?q=x&token=${T}")
