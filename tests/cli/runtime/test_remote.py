"""Engines on servers, from the settings to an answer: which one, whether prompts may go there, and what breaks."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ossia.agent.models.catalog import ETUDE_PATH
from ossia.cli import paths
from ossia.cli.exits import ExitCode, ExitError
from ossia.cli.runtime.assembly import own_files
from ossia.cli.runtime.consent import must_be_agreed
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.config import ConfigError, resolve
from ossia.cli.settings.engines import address_of, engine_names
from ossia.cli.settings.mcp import configured_servers
from ossia.cli.settings.table import Settings
from ossia.harmony.tokenizer import Tokenizer
from ossia.tools.approval.grants import Hosts
from ossia.tools.approval.trust import look
from ossia.tools.functions import McpConfigInvalid
from ossia.tools.own import own_parts
from tests.oracle.engine import LlamaServer
from tests.support.command import OSSIA, ossia, ossia_here, start
from tests.support.remote import EVENTS, answer, serve
from tests.support.site import Reply, Site, wait_until

QUIET = Display(quiet=True)
FINAL = "<|channel|>final<|message|>Done.<|return|>"
_SERVER = os.environ.get("OSSIA_LLAMA_SERVER")  # asked for before: a test's environment has nothing of the caller's
TEAM = '[engines.team]\nurl = "https://gpu.example/v1"\nkey_env = "TEAM_KEY"\nca = "team.pem"\ncontext = 2048\n'


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("OSSIA_CONFIG", str(path))
    path.write_text(TEAM)
    return path


# -- which one ---------------------------------------------------------------------------------------------------------


def test_a_name_of_the_users_own_config(config: Path) -> None:
    environ = {"OSSIA_CONFIG": str(config), "TEAM_KEY": "sesame"}
    address = address_of("team", environ)
    assert (address.url, address.name, address.key) == ("https://gpu.example", "team", "sesame")
    assert (address.ca, address.context) == (config.parent / "team.pem", 2048)
    assert engine_names(environ) == ("team",)
    assert resolve({}, environ={**environ, "OSSIA_ENGINE": "team"}).settings.engine == "team"


def test_a_name_that_is_not_there(config: Path) -> None:
    done = ossia_here("run", "hi", "--engine", "tame")
    said = f"--engine: no [engines.tame] in {config} (there: team); or give http://HOST:PORT"
    assert (done.returncode, done.stderr.decode()) == (2, f"ossia: error: {said}\n")


@pytest.mark.parametrize("line", ['engine = "http://127.0.0.1:9"', TEAM, 'allow_engine = ["gpu.example"]'])
def test_a_folder_brings_no_engine_though_it_is_trusted(line: str, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    (folder / ".ossia").mkdir(parents=True)
    (folder / ".ossia" / "config.toml").write_text(line)
    with pytest.raises(ConfigError, match="can't be set by a workspace"):
        resolve({}, environ={}, path=config, folder=look(folder))


@pytest.mark.parametrize(
    "name", ["llama", "my team", "script:x", "http://127.0.0.1:9", "127.0.0.1:9", "-x", "", "équipe"]
)
def test_what_the_name_of_an_engine_can_not_be(name: str, config: Path) -> None:
    """What --engine doesn't take, or means otherwise."""
    config.write_text(f'[engines."{name}"]\nurl = "http://127.0.0.1:9"\n')
    allowed = "a-z, A-Z, 0-9 and, after its first character, '.', '_', '-'; it isn't 'llama'"
    with pytest.raises(ConfigError) as caught:
        engine_names({"OSSIA_CONFIG": str(config)})
    assert str(caught.value) == f"{config}: engines: a name has {allowed}: rename {name!r}"


def test_no_call_may_change_whose_certificates_are_trusted(config: Path) -> None:
    files = own_files({"OSSIA_CONFIG": str(config)})
    own = own_parts(config.parent, paths.host(), files=files, servers=())
    assert own.holds(config.parent / "team.pem") and not own.holds(config.parent / "tame.pem")
    (config.parent / "team.pem").write_text("")
    own = own_parts(config.parent, paths.host(), files=files, servers=())
    assert config.parent / "team.pem" in own.places


@pytest.mark.parametrize("line", ['headers = { X-A = "a ${TEAM_KEY}" }', 'env = { A = "${env:TEAM_KEY:-x}" }'])
def test_an_engines_key_goes_to_no_server_of_a_folder(line: str, config: Path, tmp_path: Path) -> None:
    target = 'url = "http://127.0.0.1:9/mcp"' if "headers" in line else 'command = "x"'
    servers = f"[mcpServers.x]\n{target}\n{line}\n"
    folder = tmp_path / "work"
    (folder / ".ossia").mkdir(parents=True)
    (folder / ".ossia" / "config.toml").write_text(servers)
    environ = {"OSSIA_CONFIG": str(config), "TEAM_KEY": "sesame"}
    with pytest.raises(McpConfigInvalid, match=r"mcpServers\.x: TEAM_KEY is an engine's key") as caught:
        configured_servers(environ, folder=look(folder))
    assert "sesame" not in str(caught.value)
    config.write_text(TEAM + servers)  # what the user writes there is the user's own
    (folder / ".ossia" / "config.toml").unlink()
    assert [one.name for one in configured_servers(environ, folder=look(folder))] == ["x"]


def test_a_password_in_an_address_is_not_repeated() -> None:
    done = ossia_here("run", "hi", "--engine", "https://me:sesame@gpu.example")
    assert done.returncode == 2 and b"sesame" not in done.stderr and b"--engine: must be llama" in done.stderr


# -- may prompts go there? ---------------------------------------------------------------------------------------------


def test_another_machine_is_refused_without_a_terminal() -> None:
    done = ossia_here("run", "hi", "--engine", "http://gpu.test:99")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == (
        "ossia: error: nothing was sent to gpu.test:99 (unencrypted), since nobody was asked: start `ossia --engine …` "
        "in a terminal once, or give --allow-engine gpu.test\n"
    )


@pytest.mark.parametrize(
    ("engine", "allowed", "fine"),
    [
        ("http://127.0.0.1:99", (), True),
        ("http://gpu.test:99", ("gpu.test",), True),
        ("http://gpu.test:99", ("GPU.test:99",), True),
        ("http://gpu.test:99", ("http://gpu.test:99/v1/",), True),  # as --engine has it
        ("http://gpu.test:99", ("gpu.test:98", "test", "pu.test", "https://gpu.test:99", "http://gpu.test"), False),
        ("http://[fe80::1]:99", ("[fe80::1]",), True),
        ("http://[fe80::1]:99", ("fe80", "[fe80::1]:98"), False),
        ("http://other.test:99", (), True),  # stored
        ("https://other.test:99", (), False),
    ],
)
def test_what_was_agreed_to(engine: str, allowed: tuple[str, ...], fine: bool) -> None:
    Hosts(paths.data_dir()).add("http://other.test:99")
    settings = Settings(engine=engine, allow_engine=allowed)
    if fine:
        must_be_agreed(address_of(engine, {}), settings)
    else:
        with pytest.raises(ExitError, match="nothing was sent to"):
            must_be_agreed(address_of(engine, {}), settings)


def test_a_host_is_forgotten_by_each_of_its_names() -> None:
    hosts = Hosts(paths.data_dir())
    stored = ["http://gpu.test:99", "https://gpu.test", "https://other.test:99"]
    for host in stored:
        hosts.add(host)
    done = ossia_here("trust", "--forget", "gpu.test")
    said = "--forget: 'gpu.test' may be http://gpu.test:99 or https://gpu.test: name one of these"
    assert (done.returncode, done.stderr.decode()) == (2, f"ossia: error: {said}\n")
    for said in ("http://other.test:99", "other.test:98"):
        assert ossia_here("trust", "--forget", said).returncode == 2
    assert list(hosts.listed()) == stored
    for said in ("gpu.test:99", "other.test", "https://gpu.test/"):
        assert ossia_here("trust", "--forget", said).returncode == 0
    assert not hosts.listed()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pty")
@pytest.mark.parametrize("yes", [True, False])
def test_it_is_asked_once_and_kept(yes: bool) -> None:
    """The name isn't known anywhere, so nothing is sent. What was typed before the question is no answer to it."""
    ours, theirs = pty.openpty()
    os.write(ours, b"n\n" if yes else b"y\n")
    asked = [str(OSSIA), "run", "hi", "--engine", "https://nowhere.invalid"]
    with subprocess.Popen(asked, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 1024)
        assert b"prompts, files and results will be sent to nowhere.invalid. Send them there?" in said
        os.write(ours, b"y\n" if yes else b"\n")
        if yes:
            wait_until(lambda: Hosts(paths.data_dir()).holds("https://nowhere.invalid"))
            process.terminate()
        process.wait(30)
        assert (process.returncode == 2) == (not yes)
    os.close(ours)
    listed = ossia_here("trust", "--list").stdout.decode()
    assert listed == ("host     https://nowhere.invalid   (prompts may be sent there)\n" if yes else "")
    done = ossia_here("trust", "--forget", "https://nowhere.invalid")
    assert (done.returncode, Hosts(paths.data_dir()).listed()) == (0 if yes else 2, ())


# -- what is there -----------------------------------------------------------------------------------------------------


def test_flags_that_a_server_has_no_use_for_are_named(site: Site, etude_tokenizer: Tokenizer, config: Path) -> None:
    serve(site, etude_tokenizer, [FINAL] * 2)
    config.write_text('kv_type = "q8_0"\nn_cpu_moe = 3\n')  # for the model in this process
    asked = ["run", "hi", "--engine", site.url(), "--no-tools", "--seed", "1"]
    quiet = ossia(*asked, "--context", "512")
    assert quiet.returncode == 0 and b"warning" not in quiet.stderr
    told = ossia(*asked, "--context", "9999", "--repack", "on", "--gpu-layers", "3")
    said = "--gpu-layers, --repack, --context (it has 4,096 tokens): ignored, since the server decides this"
    assert told.returncode == 0 and f"ossia: warning: {said}\n" in told.stderr.decode()


def test_a_model_in_the_command_line_that_the_server_does_not_have_is_told(
    site: Site, etude_tokenizer: Tokenizer
) -> None:
    serve(site, etude_tokenizer, [FINAL] * 3)
    asked = ["run", "hi", "--engine", site.url(), "--no-tools"]
    said = "ossia: warning: --model gpt-oss-20b: ignored, since the server decides this\n"
    told = ossia(*asked, "--model", "gpt-oss-20b")
    assert (told.returncode, told.stdout) == (0, b"Done.\n") and said in told.stderr.decode()
    for heard in (ossia(*asked, "--model", "etude"), ossia(*asked, env={"OSSIA_MODEL": "gpt-oss-20b"})):
        assert heard.returncode == 0 and b"warning" not in heard.stderr


def test_a_server_that_says_nothing_has_the_seconds_of_a_turn(site: Site) -> None:
    site.silent("/props")
    done = ossia("run", "hi", "--engine", site.url(), "--no-tools", "--timeout", "0.5")
    assert done.returncode == ExitCode.CUT
    assert done.stderr.decode() == "ossia: error: the server wasn't ready within --timeout (0.5 s)\n"


def test_a_turn_with_a_call(site: Site, etude_tokenizer: Tokenizer, tmp_path: Path) -> None:
    """What is sent are ids: the call comes back in the second prompt as it was drawn, with its result after it."""
    functions = tmp_path / "own.py"
    functions.write_text('def double(n: int) -> int:\n    """Twice as much."""\n    return 2 * n\n')
    call = '<|channel|>commentary to=functions.double <|constrain|>json<|message|>{"n": 21}<|call|>'
    serve(site, etude_tokenizer, [call, "<|channel|>final<|message|>It is 42.<|return|>"])
    done = ossia("run", "Twice 21?", "--engine", site.url(), "--tools", str(functions), "--allow", "functions.double")
    assert (done.returncode, done.stdout) == (0, b"It is 42.\n"), done.stderr
    prompts = [json.loads(one.body)["prompt"] for one in site.requests if one.path == "/completion"]
    assert [json.loads(one.body).get("id_slot") for one in site.requests if one.path == "/completion"] == [None, 0]
    second = etude_tokenizer.decode(prompts[1])
    assert second.startswith(etude_tokenizer.decode(prompts[0])) and call in second
    assert second.endswith("<|message|>42<|end|><|start|>assistant")


def test_a_server_that_dies_in_mid_answer_leaves_the_session_whole(site: Site, etude_tokenizer: Tokenizer) -> None:
    half = Reply(answer(etude_tokenizer, "<|channel|>final<|message|>It is fo", whole=False), headers=EVENTS)
    busy = Reply(b"{}", 429, {"Retry-After": "0"})
    serve(site, etude_tokenizer, [half, busy, "<|channel|>final<|message|>It is 42.<|return|>"])
    done = ossia("run", "Twice 21?", "--engine", site.url(), "--no-tools", "--save")
    assert (done.returncode, done.stdout) == (7, b"It is fo\n"), done.stderr
    assert b"broke off in mid-answer: it ended without saying why; see its log" in done.stderr
    again = ossia("run", "Once more.", "--engine", site.url(), "--no-tools", "--continue")
    assert (again.returncode, again.stdout) == (0, b"It is 42.\n"), again.stderr
    assert b"is busy (429): asking again in" in again.stderr
    last = json.loads(site.requests[-1].body)["prompt"]
    assert "It is fo<|end|><|start|>user<|message|>Once more.<|end|>" in etude_tokenizer.decode(last)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGINT for a process group")
def test_ctrl_c_closes_the_stream(site: Site, etude_tokenizer: Tokenizer) -> None:
    began, closed = threading.Event(), threading.Event()

    def slowly() -> Iterator[bytes]:
        try:
            for piece in answer(etude_tokenizer, "<|channel|>final<|message|>" + "and on " * 400, whole=False):
                yield piece
                began.set()
                time.sleep(0.02)
        finally:
            closed.set()

    serve(site, etude_tokenizer)
    site.route("/completion", lambda _: Reply(slowly(), headers=EVENTS))
    with start("run", "Go on.", "--engine", site.url(), "--no-tools") as process:
        assert began.wait(30)
        os.killpg(process.pid, signal.SIGINT)
        process.wait(30)
        assert closed.wait(5)
        assert process.returncode == 130


@pytest.mark.skipif(_SERVER is None, reason="OSSIA_LLAMA_SERVER names no llama-server")
def test_the_readmes_question_through_a_real_server(tmp_path: Path) -> None:
    with LlamaServer(Path(str(_SERVER)), ETUDE_PATH, log=tmp_path / "log", checkpoints=8) as server:
        done = ossia("run", "What is 48*17?", "--engine", server.url, "--seed", "1")
    assert (done.returncode, done.stdout) == (0, b"The result is 816.\n"), done.stderr
