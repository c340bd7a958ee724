"""`ossia models`, and what a bad model file does to the command: run as users run it."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from ossia.agent.models.catalog import ETUDE_PATH
from tests.support.command import ossia, ossia_here, start
from tests.support.gguf_edit import STRING, GgufEdit, text
from tests.support.hub import Hub
from tests.support.toy_gguf import write_toy_gguf

REPO = "ggml-org/gpt-oss-20b-GGUF"
FILE = "gpt-oss-20b-mxfp4.gguf"
TIMEOUT_S = 60
_T = TypeVar("_T")


def _models(home: Path) -> Path:
    """ossia's own models folder in a clean home."""
    folder = {"darwin": "Library/Application Support/ossia", "win32": "AppData/Local/ossia"}
    return home / folder.get(sys.platform, ".local/share/ossia") / "models"


def test_without_a_command_the_help() -> None:
    done = ossia("models")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"pull" in done.stdout


def test_list_with_nothing_but_the_built_in_one() -> None:
    done = ossia("models", "list")
    assert done.returncode == 0
    assert done.stdout.decode().splitlines() == [
        f"{'NAME':5}  {'SIZE':6}  FITS  {'FROM':8}  PATH",
        f"etude  5.1 MB  yes   built-in  {ETUDE_PATH}",
    ]
    assert done.stderr.decode() == "ossia: no gpt-oss model yet; get one: ossia models pull gpt-oss-20b\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no file has such a name there")
def test_list_cleans_the_name_of_a_left_over_part(home: Path) -> None:
    _models(home).mkdir(parents=True)
    (_models(home) / "a\x1b]0;EVIL\x07.gguf.part").write_bytes(b"half")
    told = ossia("models", "list").stderr.decode()
    assert "left over from a download" in told and "EVIL" in told
    assert "\x1b" not in told and "\x07" not in told


def test_list_names_what_it_finds_and_what_is_wrong_with_it(home: Path, toy: Path, tmp_path: Path) -> None:
    studio = home / ".lmstudio" / "models" / "someone" / "gpt-oss-tuned-GGUF" / "gpt-oss-tuned.gguf"
    cut = tmp_path / "llama" / "gpt-oss-20b.gguf"
    studio.parent.mkdir(parents=True)
    cut.parent.mkdir()
    shutil.copy(toy, studio)
    cut.write_bytes(toy.read_bytes()[:-100])
    done = ossia("models", "list", env={"LLAMA_CACHE": str(cut.parent)})
    rows = [line.split(None, 5) for line in done.stdout.decode().splitlines()[1:]]
    assert (done.returncode, done.stderr) == (0, b"")
    assert [(row[0], *row[3:5]) for row in rows] == [
        ("gpt-oss-20b", "unusable", "llama.cpp"),
        ("gpt-oss-tuned", "yes", "lm-studio"),
        ("etude", "yes", "built-in"),
    ]
    assert rows[0][5].startswith(f"{cut}: cut off in its tensors")
    assert rows[1][5] == str(studio)


def test_pull_then_list_then_run(home: Path, toy: Path) -> None:
    with Hub({FILE: toy.read_bytes()}, repo=REPO) as hub:
        env = {"HF_ENDPOINT": hub.endpoint}
        done = ossia("models", "pull", "gpt-oss-20b", env=env)
        path = _models(home) / FILE
        assert (done.returncode, done.stderr) == (0, b""), "no progress into a pipe"
        assert done.stdout.decode() == f"{path}\n"
        assert path.read_bytes() == toy.read_bytes()
        again = ossia("models", "pull", "gpt-oss-20b", env=env)
        assert (again.returncode, again.stdout, len(hub.transfers())) == (0, done.stdout, 1)
    listed = ossia("models", "list")
    assert [line.split()[0] for line in listed.stdout.decode().splitlines()[1:]] == ["gpt-oss-20b", "etude"]
    assert listed.stderr == b""
    ran = ossia("run", "--no-tools", "--max-tokens", "3", "hello")
    assert ran.returncode in (0, 6), ran.stderr
    assert f"using gpt-oss-20b ({path})" in ran.stderr.decode()


def test_pull_of_the_built_in_one() -> None:
    done = ossia("models", "pull", "etude")
    assert (done.returncode, done.stdout.decode(), done.stderr) == (0, f"{ETUDE_PATH}\n", b"")


def test_pull_of_a_name_that_is_none() -> None:
    done = ossia("models", "pull", "gpt-oss-21b")
    assert (done.returncode, done.stdout) == (2, b"")
    said = done.stderr.decode()
    assert "must be gpt-oss-20b, gpt-oss-120b or ORG/REPO[:FILE], not 'gpt-oss-21b'" in said


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"/api": 404}, "ossia: error: ggml-org/gpt-oss-20b-GGUF isn't on the hub"),
        ({"/api": 403}, "ossia: error: ggml-org/gpt-oss-20b-GGUF: the hub answered 403"),
    ],
)
def test_pull_that_fails_is_one_line_and_exit_7(status: dict[str, int], message: str) -> None:
    with Hub({FILE: b"x"}, repo="other/repo" if status == {"/api": 404} else REPO, status=status) as hub:
        if status == {"/api": 404}:
            hub.status = {}
        done = ossia("models", "pull", "gpt-oss-20b", env={"HF_ENDPOINT": hub.endpoint})
    assert (done.returncode, done.stdout) == (7, b"")
    assert done.stderr.decode().startswith(message)
    assert done.stderr.count(b"\n") == 1


def test_pull_offline() -> None:
    done = ossia("models", "pull", "gpt-oss-20b", env={"HF_HUB_OFFLINE": "1"})
    assert (done.returncode, done.stdout) == (7, b"")
    said = "ossia: error: ggml-org/gpt-oss-20b-GGUF can't be reached: HF_HUB_OFFLINE is set; unset it to download\n"
    assert done.stderr.decode() == said


def test_pull_without_a_connection_claims_nothing() -> None:
    done = ossia("models", "pull", "gpt-oss-20b", env={"HF_ENDPOINT": "http://127.0.0.1:9"})
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (7, b"", 1)
    assert done.stderr.endswith(b"; nothing was downloaded, `ossia models pull gpt-oss-20b` tries again\n")


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
def test_an_interrupted_pull_keeps_what_came_and_says_how_to_go_on(home: Path, toy: Path) -> None:
    content = toy.read_bytes()
    hold = threading.Event()
    with Hub({FILE: content}, repo=REPO, cut_after=[100_000], hold=hold) as hub:
        env = {"HF_ENDPOINT": hub.endpoint, "HF_TOKEN": "hf_a_secret_of_the_user"}
        process = start("models", "pull", "gpt-oss-20b", env=env)
        partial = _wait_for(lambda: next(_models(home).glob("*.part"), None))
        _wait_for(lambda: partial.stat().st_size or None)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        hold.set()
        assert (process.returncode, out) == (130, b"")
        said = "ossia: stopped; partial download kept, `ossia models pull gpt-oss-20b` resumes it\n"
        assert err.decode() == said
        kept = partial.read_bytes()
        assert kept
        assert content.startswith(kept)
        hub.requests.clear()
        assert ossia("models", "pull", "gpt-oss-20b", env=env).returncode == 0
        assert [request.headers["range"] for request in hub.transfers()] == [f"bytes={len(kept)}-"]
    assert (_models(home) / FILE).read_bytes() == content


def _wait_for(get: Callable[[], _T | None]) -> _T:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        value = get()
        if value is not None:
            return value
        time.sleep(0.02)
    raise AssertionError("it did not come")


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_is_drawn_on_a_terminal(home: Path, toy: Path) -> None:
    import pty

    ours, theirs = pty.openpty()
    with Hub({FILE: toy.read_bytes()}, repo=REPO) as hub:
        command = [sys.executable, "-P", "-m", "ossia", "models", "pull", "gpt-oss-20b"]
        process = subprocess.Popen(
            command,
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=os.environ | {"HF_ENDPOINT": hub.endpoint},
        )
        out, _ = process.communicate(timeout=TIMEOUT_S)
    os.close(theirs)
    drawn = os.read(ours, 65_536).decode()
    os.close(ours)
    assert (process.returncode, out.decode()) == (0, f"{_models(home) / FILE}\n")
    assert "gpt-oss-20b: 0 %, 0 bytes of " in drawn
    assert drawn.endswith("\r\x1b[K"), "the line is gone at the end"


# --- bad input: one line that names the file, exit 3, never a traceback, never a crash ---


def _cut_header(toy: Path) -> bytes:
    return toy.read_bytes()[:200]


def _cut_tensors(toy: Path) -> bytes:
    return toy.read_bytes()[:-1000]


def _other_architecture(toy: Path) -> bytes:
    edit = GgufEdit.of(toy)
    edit.entries["general.architecture"] = (STRING, text("llama"))
    return edit.write(toy.with_name("changed.gguf")).read_bytes()


def _no_harmony(toy: Path) -> bytes:
    return toy.read_bytes().replace(b"<|channel|>", b"<|chamber|>")


def _no_experts(toy: Path) -> bytes:
    edit = GgufEdit.of(toy)
    del edit.entries["gpt-oss.expert_count"]
    return edit.write(toy.with_name("changed.gguf")).read_bytes()


def _lying_count(toy: Path) -> bytes:
    raw = toy.read_bytes()
    return raw[:16] + struct.pack("<Q", 1 << 62) + raw[24:]


_BAD: dict[str, tuple[Callable[[Path], bytes], str]] = {
    "empty": (lambda toy: b"", "is empty"),
    "not a GGUF": (lambda toy: b"#!/bin/sh\n", "not a GGUF file (it begins with b'#!/b')"),
    "cut in the header": (_cut_header, "cut off in its header"),
    "cut in the tensors": (_cut_tensors, "cut off in its tensors"),
    "another architecture": (_other_architecture, "its architecture is 'llama', ossia runs only gpt-oss"),
    "no Harmony tokens": (_no_harmony, "the vocabulary has no <|channel|>"),
    "what aborts llama.cpp": (_no_experts, "gpt-oss.expert_count is missing"),
    "a lying count": (_lying_count, "it claims 4611686018427387904 metadata entries"),
}


def _fails(path: Path, message: str, *, run: Callable[..., subprocess.CompletedProcess[bytes]] = ossia_here) -> None:
    done = run("run", "--model", str(path), "hello")
    said = done.stderr.decode()
    assert (done.returncode, done.stdout) == (3, b""), said
    assert said.startswith(f"ossia: error: {path}: ")
    assert message in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("case", _BAD)
def test_a_bad_file(case: str, toy: Path, tmp_path: Path) -> None:
    make, message = _BAD[case]
    (tmp_path / "bad.gguf").write_bytes(make(Path(shutil.copy(toy, tmp_path))))
    _fails(tmp_path / "bad.gguf", message)


def test_no_file_and_a_directory(tmp_path: Path) -> None:
    _fails(tmp_path / "none.gguf", "no such file", run=ossia)
    _fails(tmp_path, "is a directory, not a GGUF file")


def test_a_name_that_is_not_here() -> None:
    done = ossia("run", "--model", "gpt-oss-20b", "hello")
    assert (done.returncode, done.stdout) == (3, b"")
    said = "ossia: error: gpt-oss-20b isn't on this machine; get it (12.1 GB): ossia models pull gpt-oss-20b\n"
    assert done.stderr.decode() == said


def test_a_context_larger_than_memory(tmp_path: Path) -> None:
    edit = GgufEdit.of(write_toy_gguf(tmp_path / "toy.gguf", context=16_000_000, heads=64, layers=64))
    done = ossia("run", "--model", str(edit.write(tmp_path / "big.gguf")), "--context", "max", "hello")
    assert (done.returncode, done.stdout) == (4, b"")
    said = done.stderr.decode()
    assert said.startswith("ossia: error: a context of 16000000 tokens needs ")
    assert "use a smaller --context" in said
    assert said.count("\n") == 1
