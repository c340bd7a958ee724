"""Logging in to a server over HTTP, with a real server, browser and redirect on loopback."""

from __future__ import annotations

import json
import socket
import stat
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import mcp  # noqa: F401  # so that the time to connect is not the time to import
import pytest

from ossia.tools.mcp._stored import Logins
from ossia.tools.mcp.config import parse_servers
from ossia.tools.mcp.servers import McpServers
from tests.support.calls import call
from tests.support.mcp_guarded import guarded


def _servers(
    folder: Path, url: str, entry: Mapping[str, object] | None = None, *, log_in: bool = False, secret: str = ""
) -> McpServers:
    def browse(address: str) -> None:
        urllib.request.urlopen(address).close()

    return McpServers(
        parse_servers({"g": {"url": url, **(entry or {})}}, "mcp.json"),
        data_dir=folder, log_dir=folder / "log", environ={"SECRET": secret},
        connect_timeout_s=60.0, show=browse if log_in else None,
    )  # fmt: skip


def test_a_login_is_kept_refreshed_and_forgotten(tmp_path: Path) -> None:
    with guarded() as (url, site):
        before = _servers(tmp_path, url)
        (status,) = before.connect()
        before.close()
        assert status.error is not None and "run `ossia mcp login g`" in status.error and site.requests == []

        made = _servers(tmp_path, url, log_in=True)
        (status,) = made.connect()
        made.close()
        assert status.error is None and site.requests[:2] == ["authorize S256", "authorization_code"]
        kept = tmp_path / "mcp" / "logins.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600

        kept.write_text(json.dumps({"g": {**json.loads(kept.read_text())["g"], "expires_at": 1}}))
        site.valid.clear()  # the key has ended, and without a browser only refreshing it helps
        site.requests.clear()
        again = _servers(tmp_path, url)
        (status,) = again.connect()
        assert status.error is None and site.requests == ["refresh_token"]
        assert call(again.tools, "functions.g__get", folder=tmp_path).text == "in"
        site.valid.clear()  # revoked before its time
        revoked = call(again.tools, "functions.g__get", folder=tmp_path).text
        assert "run `ossia mcp login g`" in revoked
        again.close()

        assert "key-" not in "".join(path.read_text() for path in (tmp_path / "log").iterdir())
        assert again.logins.forget("g") and not again.logins.forget("g")
        (status,) = (gone := _servers(tmp_path, url)).connect()
        gone.close()
        assert status.error is not None and "needs a login" in status.error


def test_a_login_that_others_could_have_written_isnt_used(tmp_path: Path) -> None:
    (config,) = parse_servers({"s": {"url": "https://a.example/mcp"}}, "mcp.json")
    logins = Logins(tmp_path / "logins.json")
    logins.keep(config, {"tokens": {"access_token": "x"}})
    assert logins.of(config)
    (tmp_path / "logins.json").chmod(0o666)
    assert logins.of(config) == {}


def test_a_login_isnt_sent_to_another_address(tmp_path: Path) -> None:
    with guarded() as (url, _), guarded() as (other, site):
        made = _servers(tmp_path, url, log_in=True)
        made.connect()
        made.close()
        site.valid |= {"key-1", "key-2"}
        (status,) = (moved := _servers(tmp_path, other)).connect()
        moved.close()
        assert status.error is not None and "needs a login" in status.error


def _everything(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_client_that_was_registered_by_hand(tmp_path: Path, method: str) -> None:
    """Its secret comes from the environment with each start, and isn't written anywhere."""
    entry = {"client_id": "a client", "client_secret": "${SECRET}"}
    with guarded(("a client", "s3cr:t %/", method)) as (url, site):
        made = _servers(tmp_path, url, entry, log_in=True, secret="s3cr:t %/")
        (status,) = made.connect()
        made.close()
        assert status.error is None
        assert site.requests[0].startswith("authorize S256 a client http://127.0.0.1:")
        kept = tmp_path / "mcp" / "logins.json"
        kept.write_text(json.dumps({"g": {**json.loads(kept.read_text())["g"], "expires_at": 1}}))
        site.valid.clear()
        (status,) = (again := _servers(tmp_path, url, entry, secret="s3cr:t %/")).connect()
        again.close()
        assert status.error is None and site.requests[-1] == "refresh_token"
        assert "s3cr" not in _everything(tmp_path)

        (status,) = (other := _servers(tmp_path, url, {"client_id": "another"})).connect()
        other.close()
        assert status.error is not None and "needs a login" in status.error  # keys belong to a client


def test_a_secret_that_is_wrong_or_missing_is_never_shown(tmp_path: Path) -> None:
    with guarded(("me", "right", "client_secret_post")) as (url, _):
        none = _servers(tmp_path, url, log_in=True)
        (status,) = none.connect()
        none.close()
        assert status.error is not None and "registers no clients by itself (HTTP 404)" in status.error
        entry = {"client_id": "me", "client_secret": "${SECRET}"}
        made = _servers(tmp_path, url, entry, log_in=True, secret="a-wrong-one")
        (status,) = made.connect()
        made.close()
        assert status.error is not None and "invalid_client" in status.error
        assert "a-wrong-one" not in status.error + _everything(tmp_path)


def test_other_programs_table_and_a_fixed_port(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    entry = {"oauth": {"clientId": "https://me.example/ossia.json", "callbackPort": port, "command": "x"}}
    with guarded(("https://me.example/ossia.json", "", "client_secret_post")) as (url, site):
        made = _servers(tmp_path, url, entry, log_in=True)
        (status,) = made.connect()
        made.close()
        assert status.error is None
        assert site.requests[0].endswith(f" https://me.example/ossia.json http://localhost:{port}/callback")


def test_an_answer_with_a_key_that_cant_be_read_is_never_shown(tmp_path: Path) -> None:
    with guarded() as (url, site):
        site.cut_off = 5
        made = _servers(tmp_path, url, log_in=True)
        (status,) = made.connect()
        made.close()
        assert status.error is not None and "Invalid JSON: EOF" in status.error
        assert "access_token" not in status.error and "key-" not in status.error + _everything(tmp_path)
