"""`ossia serve` as a command: its start, its token, the settings it prints, its end."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import pytest

from tests.support.command import ossia, ossia_here, start, write_script
from tests.support.serving import FINAL

_TOKEN_FILE = Path(".local/share/ossia/serve/token")
_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and modes of files")


def _serve(
    folder: Path, *arguments: str, steps: int = 1, tokens_per_s: float = 0
) -> tuple[subprocess.Popen[bytes], str]:
    """A server under way, and the lines that it begins with: the last one says where it is."""
    script = write_script(folder, *[FINAL.format("Hello " * 40)] * steps, tokens_per_s=tokens_per_s)
    process = start("serve", "--port", "0", "--engine", script, *arguments)
    assert process.stderr is not None
    said = ""
    while " answers at http://" not in said:
        line = process.stderr.readline().decode()
        assert line, said
        said += line
    return process, said


def _ask(line: str, *, token: str | None = None) -> bytes:
    url = re.findall(r"http://\S+/v1", line)[0]
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"{url}/responses", b'{"input": "Hi"}', headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def _line(done: subprocess.CompletedProcess[bytes]) -> str:
    assert (done.stdout, done.stderr.count(b"\n")) == (b"", 1)
    return done.stderr.decode().removeprefix("ossia: error: ").rstrip()


@_POSIX
def test_it_says_where_it_is_answers_and_ends_cleanly(tmp_path: Path) -> None:
    process, line = _serve(tmp_path)
    assert re.fullmatch(r"ossia: script answers at http://127\.0\.0\.1:\d+/v1; to try it: curl http://.*\n", line)
    assert json.loads(_ask(line))["output"][-1]["content"][0]["text"].startswith("Hello Hello")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 0


@_POSIX
@pytest.mark.parametrize(("variable", "titles"), [("OSSIA_STORE", ["Hi"]), ("OSSIA_PRIVATE", [])])
def test_the_setting_stores_what_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, titles: list[str]
) -> None:
    monkeypatch.setenv("OSSIA_STORE", "always")
    monkeypatch.setenv(variable, {"OSSIA_STORE": "always"}.get(variable, "1"))
    process, line = _serve(tmp_path)
    _ask(line)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert [one["title"] for one in json.loads(ossia("sessions", "list", "--json").stdout)["sessions"]] == titles


@_POSIX
def test_verbose_says_each_time_what_a_turn_costs_and_when_the_model_goes(tmp_path: Path) -> None:
    """Not how tools are confined that nobody is offered without a token."""
    process, line = _serve(tmp_path, "--verbose", "--idle", "0.3s", steps=2)
    health = re.findall(r"http://[\d.:]+", line)[0] + "/health"
    for _ in range(2):
        _ask(line)
        give_up_at = time.monotonic() + 60
        while b'"unloaded"' not in urllib.request.urlopen(health).read() and time.monotonic() < give_up_at:
            time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    said = line + process.communicate(timeout=60)[1].decode()
    cost = r"POST /v1/responses: 200 after \d+\.\d s, [\d,]+ of [\d,]+ tokens read, \d+ written\n"
    assert (len(re.findall(cost, said)), said.count("script is unloaded"), "confined" in said) == (2, 2, False)


@_POSIX
def test_ctrl_c_waits_for_what_is_under_way_and_the_second_one_doesnt(tmp_path: Path) -> None:
    process, line = _serve(tmp_path, tokens_per_s=2)
    address = re.findall(r"http://([\d.]+):(\d+)/v1", line)[0]
    with socket.create_connection((address[0], int(address[1])), timeout=60) as connection:
        body = b'{"input": "Hi", "stream": true}'
        head = "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline() == b"ossia: ending once 1 request is answered (Ctrl-C: end now)\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    process.communicate()


def test_what_cant_be_served_is_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = ossia_here("serve", "--port", str(port), "--engine", write_script(tmp_path, "x"))
        assert (done.returncode, _line(done)) == (
            2, f"port {port} of 127.0.0.1 is taken: choose another (--port 0: any free one)"
        )  # fmt: skip
    for arguments, code, begin in (
        (("--model", "nope"), 3, "no model 'nope'"),
        (("--idle", "soon"), 2, "--idle: must be a time"),
        *(((("--token", token)), 2, "--token: must be visible ASCII") for token in ("a b", "", "\u00e4")),
        (("--print", "emacs"), 2, "--print: must be one of codex, openai, llm, curl, not 'emacs'"),
        (("--print", "curl", "--port", "0"), 2, "--print: needs the port"),
        (("--host", "nowhere.invalid"), 2, "--host nowhere.invalid: can't be listened on"),
        (("--tools", "gone.py"), 2, "--tools: file gone.py"),
    ):
        done = ossia_here("serve", *arguments)
        assert (done.returncode, _line(done)[: len(begin)]) == (code, begin)


@_POSIX
def test_the_owners_tools_are_looked_at_before_the_first_request(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise ValueError('broken')\n")
    done = ossia_here("serve", "--port", "0", "--engine", write_script(tmp_path, "x"), "--tools", str(broken))
    assert done.returncode == 2 and "broken.py" in _line(done)
    loud = tmp_path / "loud.py"
    loud.write_text("print('loud')\ndef shout(text: str) -> str:\n    'Shout.'\n    return text.upper()\n")
    process, said = _serve(tmp_path, "--tools", str(loud), "--deny", "shuot")
    assert "loud\n" in said and "--deny 'shuot': no tool of that name is on" in said
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert out == b"" and process.returncode == 0


# -- the token ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        ((), False),
        (("--host", "::1"), False),
        (("--tools", "browser"), False),
        (("--deny", "python"), False),
        (("--yes",), True),
        (("--allow", "python"), True),
        (("--allow-git",), True),
        (("--tools", "python"), True),
        (("--host", "0.0.0.0"), True),
    ],
)
def test_a_token_is_made_where_more_than_looking_is_allowed(
    home: Path, arguments: tuple[str, ...], needed: bool
) -> None:
    shown = ossia_here("serve", "--print", "curl", "--model", "etude", *arguments).stdout.decode()
    assert (home / _TOKEN_FILE).exists() is ("Bearer " in shown) is needed
    if needed:
        token = (home / _TOKEN_FILE).read_text().strip()
        assert len(token) > 40 and f"Authorization: Bearer {token}'" in shown
        again = ossia_here("serve", "--print", "curl", "--model", "etude", *arguments).stdout.decode()
        assert again == shown
        if sys.platform != "win32":
            assert (home / _TOKEN_FILE).stat().st_mode & 0o777 == 0o600
            assert (home / _TOKEN_FILE).parent.stat().st_mode & 0o777 == 0o700


def test_rules_of_the_config_that_allow_more_need_the_token(home: Path, tmp_path: Path) -> None:
    for action, needed in (("ask", False), ("auto", True)):
        config = tmp_path / "config.toml"
        config.write_text(f'[approvals]\npython = "{action}"\n')
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OSSIA_CONFIG", str(config))
            ossia_here("serve", "--print", "curl", "--model", "etude")
        assert (home / _TOKEN_FILE).exists() is needed


@_POSIX
def test_a_stored_token_that_others_can_read_is_not_used(home: Path) -> None:
    ossia_here("serve", "--print", "curl", "--yes", "--model", "etude")
    (home / _TOKEN_FILE).chmod(0o644)
    done = ossia_here("serve", "--print", "curl", "--yes", "--model", "etude")
    assert (done.returncode, "other users can read it" in _line(done)) == (2, True)


@_POSIX
def test_the_token_of_the_environment_is_needed_and_never_printed(tmp_path: Path, home: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OSSIA_SERVE_TOKEN", "from-the-environment")
        process, line = _serve(tmp_path, "--verbose", steps=2)
    assert '-H "Authorization: Bearer $TOKEN"' in line
    for token, status in (("from-the-environment", None), ("wrong-token", 401), (None, 401)):
        try:
            _ask(line, token=token)
            found = None
        except urllib.error.HTTPError as error:
            found = error.code
        assert found == status
    process.send_signal(signal.SIGTERM)
    out, error = process.communicate(timeout=60)
    assert out == b"" and b"from-the-environment" not in error and b"wrong-token" not in error
    assert error.count(b"POST /v1/responses: 401 after") == 2
    assert not (home / _TOKEN_FILE).exists()


# -- the settings of clients -------------------------------------------------------------------------------------------


def test_the_settings_of_clients_name_the_address_the_model_and_the_token(home: Path) -> None:
    flags = ("--model", "etude", "--port", "9000", "--token", "a-token")
    shown = {name: ossia_here("serve", "--print", name, *flags).stdout.decode() for name in ("codex", "openai", "llm")}
    codex = tomllib.loads(shown["codex"])
    assert (codex["model"], codex["model_provider"]) == ("etude", "ossia")
    assert codex["model_providers"]["ossia"] == {
        "name": "ossia",
        "base_url": "http://127.0.0.1:9000/v1",
        "wire_api": "responses",
        "auth": {"command": "echo", "args": ["a-token"]},
    }
    compile(shown["openai"], "openai", "exec")
    assert 'base_url="http://127.0.0.1:9000/v1", api_key="a-token"' in shown["openai"]
    assert 'api_base: "http://127.0.0.1:9000/v1"' in shown["llm"] and "--value a-token" in shown["llm"]
    assert not (home / _TOKEN_FILE).exists()
    made = tomllib.loads(ossia_here("serve", "--print", "codex", "--model", "etude", "--yes").stdout.decode())
    assert made["model_providers"]["ossia"]["auth"]["args"][-1] == str(home / _TOKEN_FILE)  # in no command line
