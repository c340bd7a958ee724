"""Addresses of servers: what is taken, and what is refused in one line without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from ossia.agent.engine.remote.address import Address, parse_engine, parse_url
from ossia.agent.errors import AddressUnusable

WHERE = "config.toml: engines.team"


@pytest.mark.parametrize(
    ("text", "url", "name", "host", "is_local"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", True),
        ("http://localhost:8080/", "http://127.0.0.1:8080", "localhost:8080", "127.0.0.1", True),
        ("https://localhost/", "https://localhost", "localhost", "localhost", True),
        ("http://[::1]:8080/v1", "http://[::1]:8080", "[::1]:8080", "::1", True),
        ("http://10.0.0.7/v1/chat/completions", "http://10.0.0.7", "10.0.0.7", "10.0.0.7", False),
        ("http://10.0.0.7/x/v1/responses/", "http://10.0.0.7/x", "10.0.0.7", "10.0.0.7", False),
        ("https://GPU.example/llm/v1/", "https://gpu.example/llm", "gpu.example", "gpu.example", False),
        (
            "http://127.0.0.1.evil.test",
            "http://127.0.0.1.evil.test",
            "127.0.0.1.evil.test",
            "127.0.0.1.evil.test",
            False,
        ),
        ("http://10.0.0.7:8000", "http://10.0.0.7:8000", "10.0.0.7:8000", "10.0.0.7", False),
    ],
)
def test_an_address_by_its_url(text: str, url: str, name: str, host: str, is_local: bool) -> None:
    address = parse_url(text)
    assert (address, address.host, address.is_local) == (Address(url, name), host, is_local)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ftp://gpu.example", "must be like http://HOST:PORT or https://HOST, not 'ftp://gpu.example'"),
        ("http://", "must be like"),
        ("http://gpu.example:99999", "must be like http://HOST:PORT: Port out of range"),
        ("http://[::1", "must be like"),
        ("http://gpu.example/?key=sesame", "must be like http://HOST:PORT or https://HOST, not 'http://gpu.example/'"),
        ("http://gpu.example/#sesame", "must be like http://HOST:PORT or https://HOST, not 'http://gpu.example/'"),
        ("http://gpu.example\r\nX: y", "must be like"),
        ("http://999.1.1.1", "must be like http://HOST:PORT: Invalid IPv4 address"),
        ("http://[::1]8080", "must be like"),
        (f"http://{'a' * 70_000}", "must be like http://HOST:PORT: URL too long"),
        ("https://me:sesame@gpu.example", "no name or password may stand in the address"),
        ("https://me:sesame@gpu.example:port", "no name or password may stand in the address"),
        ("https://sesame@gpu.example", "no name or password may stand in the address"),
    ],
)
def test_what_is_no_address_is_refused(text: str, says: str) -> None:
    with pytest.raises(AddressUnusable) as caught:
        parse_url(text)
    message = str(caught.value)
    assert message.startswith(f"--engine: {says}") and "\n" not in message and "sesame" not in message


def test_an_engine_of_the_config_brings_its_key_and_never_shows_it() -> None:
    entry = {"url": "https://gpu.example/v1", "key_env": "TEAM_KEY", "ca": "/team.pem", "context": 65_536, "model": "m"}
    address = parse_engine("team", entry, WHERE, {"TEAM_KEY": "sesame"})
    whole = Address("https://gpu.example", "team", "sesame", "TEAM_KEY", Path("/team.pem"), 65_536, "m")
    assert address == whole
    assert "sesame" not in repr(address)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("https://gpu.example", 'must be a table with url = "http://HOST:PORT"'),
        ({}, 'needs url = "http://HOST:PORT"'),
        ({"url": 7}, "url must be a string in quotes"),
        ({"url": "https://gpu.example", "key": "sesame"}, "'key' isn't known there, only url, key_env"),
        ({"url": "https://gpu.example", "key_env": "OTHER_KEY"}, "OTHER_KEY, which key_env names, isn't set"),
        ({"url": "https://gpu.example", "key_env": "sesame"}, "the variable that key_env names isn't set: export it"),
        ({"url": "http://gpu.example", "key_env": "TEAM_KEY"}, "a key isn't sent to gpu.example unencrypted"),
        ({"url": "https://gpu.example", "key_env": "BROKEN"}, "the key in BROKEN must be one line of ASCII"),
        ({"url": "https://gpu.example", "context": True}, "context must be a number of tokens"),
    ],
)
def test_what_is_wrong_in_the_config_is_said(entry: object, says: str) -> None:
    with pytest.raises(AddressUnusable) as caught:
        parse_engine("team", entry, WHERE, {"TEAM_KEY": "sesame", "BROKEN": "sesame\n2"})
    message = str(caught.value)
    assert message.startswith(f"{WHERE}: {says}") and "\n" not in message and "sesame" not in message


def test_a_key_goes_unencrypted_to_this_machine_only() -> None:
    assert parse_engine("own", {"url": "http://[::1]:8080", "key_env": "K"}, WHERE, {"K": "sesame"}).key == "sesame"
