"""`ossia doctor`, run as users run it: on a machine where all is well, and where as much as possible is not."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ossia.cli import paths
from tests.support.command import OSSIA, ossia, ossia_here, ossia_text
from tests.support.pty import PtyChat

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="files and processes as POSIX has them")

AREAS = {
    "ossia",
    "config",
    "llama.cpp",
    "devices",
    "models",
    "sandbox",
    "terminal",
    "sessions",
    "disk",
    "caches",
    "network",
}
CANNOT_LOAD = "void __attribute__((constructor)) load(void) { __builtin_trap(); }"
READ_ONLY = 'mount -t tmpfs -o ro tmpfs "$HOME" && exec "$@"'
FULL = """
mount -t tmpfs -o size=64k tmpfs "$HOME"
dd if=/dev/zero of="$HOME/fill" bs=4k 2> /dev/null
exec "$@"
"""


def _can_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return bool(shutil.which("unshare")) and subprocess.run(command, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="needs unshare -rm, to mount a small tmpfs")


def _said(done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    """What `--json` printed; the exit status is 1 if and only if something is a fault."""
    (line,) = done.stdout.decode().splitlines()
    said: dict[str, Any] = json.loads(line)
    states = [one["state"] for one in said["findings"]]
    assert (done.returncode, done.stderr) == (int("fault" in states), b""), done
    assert said["version"] == 1 and said["state"] == states[0]
    assert states == sorted(states, key=["fault", "warning", "ok"].index)
    assert all(set(one) == {"area", "state", "text", "fix", "command"} for one in said["findings"])
    assert {one["area"] for one in said["findings"]} <= AREAS
    return said


def _of(said: dict[str, Any], area: str, *states: str) -> list[tuple[str, str, str]]:
    """Text, fix and command of an area's findings that are in one of these states."""
    found = [
        one for one in said["findings"] if one["area"] == area and one["state"] in (states or ("fault", "warning"))
    ]
    return [(one["text"], one["fix"], one["command"]) for one in found]


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(one): (one.lstat().st_mtime_ns, one.lstat().st_size) for one in folder.rglob("*")}


def _store_session(folder: Path) -> Path:
    path = folder / "conversation.json"
    path.write_text('[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]')
    assert ossia_here("sessions", "import", str(path)).returncode == 0
    return paths.sessions_file()


def test_it_looks_everywhere_and_changes_nothing(home: Path, tmp_path: Path) -> None:
    _store_session(tmp_path)
    before = _files(home)
    said = _said(ossia("doctor", "--json"))
    assert _files(home) == before
    assert {one["area"] for one in said["findings"]} == AREAS
    assert [one for one in said["findings"] if one["state"] == "fault"] == []
    (stored,) = _of(said, "sessions", "ok")
    assert stored[0].startswith("1 session, ") and stored[0].endswith(" kB, the file is whole")


def test_the_toolchains_that_commands_would_see(home: Path, tmp_path: Path) -> None:
    for folder in (home / ".nvm/versions/node/v20.11.1/bin", home / "data", tmp_path / ".venv"):
        folder.mkdir(parents=True)
    (tmp_path / ".venv/pyvenv.cfg").write_text(f"home = {home}/private\nversion = 3.11.7\n")
    environ = {"PATH": f"{home}/.nvm/versions/node/v20.11.1/bin", "OSSIA_READABLE": "~/data\n~"}
    found = _of(_said(ossia("doctor", "--json", env=environ, cwd=tmp_path)), "sandbox", "warning", "ok")
    assert [text for text, _, _ in found if "for PATH" in text or "--readable" in text] == [
        f"--readable {home}: never shown, for it is the home, or holds it",
        "commands may read, for PATH: ~/.nvm/versions/node/v20.11.1; for --readable: ~/data",
        f".venv/pyvenv.cfg names {home}/private, which commands can't see: --readable DIR shows it to them",
    ]
    (fix,) = (line for text, line, _ in found if "for PATH" in text)
    assert fix.startswith("the model reads: commands can use python 3.11 (.venv)")


def test_to_read_it_has_80_columns_and_the_worst_comes_first() -> None:
    done = ossia_text("doctor", env={"OSSIA_GPU_LAYER": "3"})
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0].startswith("warning config    OSSIA_GPU_LAYER is not a setting: did you mean")
    wide = [line for line in lines if len(line) > 80 and " " in line.strip()[20:] and not line.startswith("    ossia ")]
    assert wide == []
    assert done.stderr.startswith("ossia: 0 faults, ") and done.stderr.count("\n") == 1


def test_whatever_is_broken_is_told_at_once_and_no_secret(home: Path, tmp_path: Path) -> None:
    """A config with unknown keys, a database that is none, a damaged model, an unused GPU, servers that can't be."""
    config = paths.config_file()
    config.parent.mkdir(parents=True)
    config.write_text('efort = "high"\nsecret_key = "hunter2"\n')
    config.with_name("mcp.json").write_text('{"mcpServers": {"x": {"url": "https://me:hunter2@host.example/"}}}')
    stored = paths.sessions_file()
    stored.parent.mkdir(parents=True)
    stored.write_bytes(b"hello" * 100)
    model = paths.data_dir() / "models" / "gpt-oss-20b-mxfp4.gguf"
    model.parent.mkdir()
    model.write_bytes(b"GGUF" + bytes(99))
    programs = tmp_path / "bin"
    programs.mkdir()
    smi = programs / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf 'NVIDIA \\033[31mRTX\\n'\n")
    smi.chmod(0o755)
    env = {"PATH": f"{programs}:/usr/bin:/bin", "https_proxy": "http://me:hunter2@proxy.example:3128"}
    done = ossia("doctor", "--json", env=env)
    said = _said(done)
    assert b"hunter2" not in done.stdout
    assert [text for text, _, _ in _of(said, "config")] == [
        f"{config}: 'efort' is not a setting: did you mean 'effort'?",
        f"{config}: 'secret_key' is not a setting: `ossia config show` lists them all",
    ]
    (database,) = _of(said, "sessions")
    assert database[0] == f"{stored}: not a whole database" and database[2].startswith(f"sqlite3 {stored} ")
    (damaged,) = _of(said, "models")
    assert damaged[0].startswith(f"{model}: ") and damaged[2] == "ossia models pull gpt-oss-20b"
    if not Path("/proc/driver/nvidia").exists():  # else that is asked
        ((unused, _, command),) = [one for one in _of(said, "devices") if one[0].startswith("NVIDIA")]
        assert unused == "NVIDIA \x1b[31mRTX isn't used: llama.cpp was compiled without CUDA or Vulkan"
        assert 'CMAKE_ARGS="-DGGML_CUDA=on" ' in command
    secret, proxy = [text for text, _, _ in _of(said, "network")]
    assert "mcp.json: mcpServers.x.url: " in secret
    assert proxy.startswith("https_proxy is set (proxy.example:3128): ")


def test_a_proxy_that_the_browser_can_not_use_is_no_command() -> None:
    for proxy, command in (
        ("socks5h://127.0.0.1:1080", ""),
        ("127.0.0.1:8", "ossia config set proxy http://127.0.0.1:8"),
    ):
        (told,) = _of(_said(ossia("doctor", "--json", env={"ALL_PROXY": proxy})), "network", "warning")
        assert told[2] == command


def test_engines_on_servers() -> None:
    """Those that can be used, those that can't be, and one that nobody agreed to; a name that isn't there."""
    config = paths.config_file()
    config.parent.mkdir(parents=True)
    config.write_text(
        '[approvals]\npython = "ask"\n[mcpServers.x]\ncommand = "x"\n'
        '[engines.here]\nurl = "http://127.0.0.1:9"\n[engines.far]\nurl = "https://gpu.test"\n'
        '[engines.keyless]\nurl = "https://gpu.test"\nkey_env = "NO_KEY"\n'
        '[engines.odd]\nurl = "https://gpu.test"\nca = "no.pem"\n'
    )
    said = _said(ossia("doctor", "--json", env={"OSSIA_ENGINE": "tame"}))
    (fault,) = _of(said, "config", "fault")
    assert fault[0].startswith(f"--engine: no [engines.tame] in {config} (there: here, far, keyless, odd)")
    keyless = f"{config}: engines.keyless: NO_KEY, which key_env names, isn't set: export it with the key in it"
    assert _of(said, "config", "warning") == [
        (keyless, "set it where ossia is started: until then the engine can't be used", ""),
        (f"engine odd: ca: {config.parent / 'no.pem'} is no file", "correct it", "ossia config edit"),
    ]
    fine = [text for text, _, _ in _of(said, "config", "ok")][1:]
    assert fine == [
        "engine here: prompts may go to 127.0.0.1:9",
        "engine far: nobody has agreed yet that prompts go to gpu.test",
    ]
    said = _said(ossia("doctor", "--json", env={"OSSIA_ENGINE": "far", "OSSIA_MODEL": "openai/gpt-oss-20b"}))
    assert _of(said, "config", "warning")[0][0] == fine[1]
    assert _of(said, "models") == [], "its model isn't looked for here"


def test_what_the_settings_ask_for_and_is_not_there() -> None:
    env = {"OSSIA_MODEL": "gpt-oss-120b", "OSSIA_WEB": "exa", "OSSIA_GPU_LAYER": "3", "OSSIA_UNCONFINED": "1"}
    said = _said(ossia("doctor", "--json", env=env))
    (model,) = _of(said, "models", "fault")
    assert "gpt-oss-120b isn't on this machine" in model[0] and model[2] == "ossia models pull gpt-oss-120b"
    (web,) = _of(said, "network", "fault")
    assert web[0].startswith("--web exa: ") and "EXA_API_KEY is not set" in web[0]
    assert [(text, command) for text, _, command in _of(said, "sandbox")] == [
        ("python runs unconfined: it can do whatever you can", "unset OSSIA_UNCONFINED"),
        ("container.exec runs unconfined: it can do whatever you can", "unset OSSIA_UNCONFINED"),
    ]


@needs_mounts
def test_a_bare_machine(home: Path, tmp_path: Path) -> None:
    """No programs at all, a home that can't be written, no terminal."""
    mount = ("unshare", "-rm", "/bin/sh", "-c", READ_ONLY, "sh", "/usr/bin/env", "-i", f"HOME={home}")
    command = [*mount, f"PATH={tmp_path}", str(OSSIA), "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL)
    said = _said(done)
    assert [one for one in said["findings"] if one["state"] == "fault"] == []
    ways = [text for text, _, _ in _of(said, "sandbox")]
    assert len(ways) == 2 and all("bubblewrap isn't installed" in text for text in ways)
    assert any(text.startswith("no C++ compiler") for text, _, _ in _of(said, "llama.cpp", "ok"))
    assert [text.partition(":")[0] for text, _, _ in _of(said, "disk", "warning")][:3] == [
        "the data folder can't be written", "the folder of models can't be written", "the cache folder can't be written"
    ]  # fmt: skip
    assert _of(said, "terminal", "ok")[0][0].startswith("stdin or stdout isn't a terminal")


@needs_mounts
def test_a_full_disk(home: Path) -> None:
    mount = ("unshare", "-rm", "/bin/sh", "-c", FULL, "sh")
    done = subprocess.run([*mount, str(OSSIA), "doctor", "--json"], capture_output=True, check=False, timeout=60)
    (full,) = _of(_said(done), "disk", "fault")
    assert full[0].startswith("the disk is full: 0 bytes are free for the data folder")


@pytest.mark.parametrize("place", ["/nonexistent", "/dev/null", "/proc"])
def test_a_home_that_is_none(place: str) -> None:
    said = _said(ossia("doctor", "--json", env={"HOME": place}))
    assert [text for text, _, _ in _of(said, "disk", "fault")] == []
    assert _of(said, "sessions", "ok") == [("none are stored yet", "", "")]


@pytest.mark.needs_bwrap
def test_a_user_without_any_home() -> None:
    user = ("bwrap", "--dev-bind", "/", "/", "--unshare-user", "--uid", "4242", "--unsetenv", "HOME", "--")
    told = "this user has no home folder: set HOME to a folder of yours"
    config, doctor = (
        subprocess.run([*user, str(OSSIA), *words], capture_output=True, check=False, timeout=60, cwd="/")
        for words in (("config", "show"), ("doctor", "--json"))
    )
    assert (config.returncode, config.stdout, config.stderr.decode()) == (2, b"", f"ossia: error: {told}\n")
    assert [one["text"] for one in _said(doctor)["findings"] if one["state"] == "fault"] == [told]


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_llama_cpp_that_was_compiled_for_another_processor(tmp_path: Path) -> None:
    """It ends the process that loads it, but not this one."""
    (tmp_path / "llama.c").write_text(CANNOT_LOAD)
    build = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libllama.so"), str(tmp_path / "llama.c")]
    subprocess.run(build, check=True, timeout=60)
    for folder, why in (
        (tmp_path, "loading it crashes (SIG"),
        (tmp_path / "none", "FileNotFoundError: "),
    ):
        said = _said(ossia("doctor", "--json", env={"LLAMA_CPP_LIB_PATH": str(folder)}))
        (fault,) = _of(said, "llama.cpp", "fault")
        assert fault[0].startswith(f"llama-cpp-python can't be used: {why}")
        assert "llama-cpp-python" in fault[2]


def test_sessions_that_are_in_use_and_damaged_ones(tmp_path: Path) -> None:
    path = _store_session(tmp_path)
    db = sqlite3.connect(path)
    db.execute("UPDATE sessions SET title='open'")  # a transaction that isn't done, with a log beside the file
    path.with_name("k7m2v9xq.lock").write_text(str(os.getpid()))
    said = _said(ossia_here("doctor", "--json"))
    assert _of(said, "sessions", "ok")[0][0].endswith(f"the file is whole; open in process {os.getpid()}")
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    (fault,) = _of(_said(ossia_here("doctor", "--json")), "sessions")
    assert fault[0].startswith(f"{path}: not a whole database (")


def test_on_a_terminal_nothing_is_obeyed(home: Path) -> None:
    name = "gpt-oss-\x1b]0;owned\x07.gguf"
    folder = paths.data_dir() / "models"
    folder.mkdir(parents=True)
    (folder / name).write_bytes(b"x")
    with PtyChat("doctor", columns=80, rows=60) as shown:
        shown.until("ossia: 0 faults")
        text = "\n".join(shown.rows)
        title = shown.title
    assert "gpt-oss-␛]0;owned␇.gguf" in text.replace("\n", "") and title != "owned"
    assert "xterm-256color, 80 by 60; colours; links only if the terminal says so itself;" in " ".join(text.split())
