"""What the commands say on a terminal, at two widths: all of it, one after the other, on one screen."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import write_script
from tests.support.documents import answer
from tests.support.looks import Looks
from tests.support.pty import PtyChat

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the paths that are shown have Linux's lengths")

COMMANDS = r"""
--engine script:script.json "why is the sky blue?"
config set effort low
config set efort low
tools call python "print('no newline', end='')" --quiet
tools call functions.nope '{}'
tools call apply_patch --workspace . '{"patch": "*** Begin Patch\n*** Add File: x.txt\n+a\n*** End Patch"}'
docs add llamas.md noise.bin broken.pdf
docs ls
harmony tokens Hi
sessions ls
mcp remove x
list
config edit
"""
@pytest.fixture
def folder() -> Iterator[Path]:
    """Its path is shown: it is as long everywhere."""
    folder = Path(tempfile.mkdtemp(prefix="ossia-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("columns", [50, 120])
def test_the_commands(
    folder: Path, columns: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(f"commands-{columns}", write=request.config.getoption("--write-screens"))
    (folder / "config.toml").touch()
    write_script(folder, answer("Because of the air."))
    (folder / "llamas.md").write_text("Llamas spit.\n")
    (folder / "noise.bin").write_bytes(b"\0\1")
    (folder / "broken.pdf").write_text("%PDF-1.4 broken")
    (folder / "edit").write_text('#!/bin/sh\necho "effort = 3" > "$1"\n')
    (folder / "edit").chmod(0o700)
    environ = {
        "OSSIA_CONFIG": "config.toml",
        "EDITOR": "./edit",
        "TIKTOKEN_CACHE_DIR": str(folder),
        "https_proxy": "http://127.0.0.1:9",
    }
    monkeypatch.chdir(folder)
    first, *others = [shlex.split(line) for line in COMMANDS.strip().split("\n")]
    with PtyChat(*first, columns=columns, rows=120, environ=environ) as terminal:
        for command in (first, *others):
            if command is not first:
                terminal.then(*command)
            terminal.show(f"$ ossia {' '.join(command)}")
            if "apply_patch" in command:
                terminal.until("Allow?")
                terminal.press("n\r")
            if code := terminal.wait():
                terminal.show(f"exit code {code}")
            assert terminal.cooked
        terminal.show("That is all.")
        looks.at("each command", terminal)
    looks.done()
