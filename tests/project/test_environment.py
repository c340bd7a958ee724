"""What tests/conftest.py promises to every test."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path

import pytest

from tests.conftest import OutsideNetwork
from tests.support.fork_server import IMPORTED


def test_the_users_own_settings_are_not_here(home: Path) -> None:
    prefixes = ("OSSIA_", "HF_", "XDG_", "LLAMA_", "TIKTOKEN_")
    assert [name for name in os.environ if name.startswith(prefixes)] == []
    assert Path.home() == home
    assert list(home.iterdir()) == []


def test_what_is_left_in_one_home_is_not_in_the_next(home: Path) -> None:
    assert list(home.iterdir()) == []
    (home / "left").touch()


test_and_again = test_what_is_left_in_one_home_is_not_in_the_next


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("8.8.8.8", 53), ("0.0.0.0", 80)])
def test_other_machines_are_out_of_reach(address: tuple[str, int]) -> None:
    with socket.socket() as tcp, pytest.raises(OutsideNetwork):
        tcp.connect(address)
    with socket.socket(type=socket.SOCK_DGRAM) as udp, pytest.raises(OutsideNetwork):
        udp.sendto(b"x", address)


def test_so_are_names() -> None:
    with pytest.raises(OutsideNetwork):
        socket.create_connection(("example.com", 80))


@pytest.mark.parametrize("host", ["", "0.0.0.0", "192.0.2.1"])
def test_nobody_else_can_reach_a_test(host: str) -> None:
    with socket.socket() as listening, pytest.raises(OutsideNetwork):
        listening.bind((host, 0))


def test_loopback_is_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(("localhost", address[1])) as client:
            assert client.getpeername() == address


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="needs Unix sockets")
def test_unix_sockets_are_open_and_fit_into_the_home(home: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        path = home / ("long" * 10)
        server.bind(str(path))
        server.listen()
        client.connect(str(path))


def test_what_commands_are_forked_with_is_there() -> None:
    """A module that got another name would be imported by each command instead."""
    assert [name for name in IMPORTED if importlib.util.find_spec(name) is None] == []
