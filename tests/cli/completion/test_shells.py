"""Completion in real shells: what stands on the line after TAB reaches the program as it is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ossia.cli import paths
from tests.cli.completion.test_answer import stored
from tests.support.command import OSSIA, ossia_here
from tests.support.pty import PtyChat
from tests.support.skills import write_skill

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(ossia completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "bindkey -e; autoload -Uz compinit; compinit -u; source <(ossia completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "ossia completion fish | source"),
}
HOSTILE = "odd $(touch made) `touch made` 'q' \"d\" %F{red}%n {a,b}:x=y;&!*\\z"


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder. Its home has a model with a hostile name, and a skill and a session of whose words so."""
    models = paths.data_dir() / "models"
    models.mkdir(parents=True)
    for name in (HOSTILE, "odd\nline", "x:one", "tuned"):
        (models / f"{name}.gguf").write_bytes(b"GGUF")
    write_skill(home / ".agents" / "skills", "review", f"'{HOSTILE}'".replace("'q'", "q"))
    write_skill(home / ".agents" / "skills", "release", "Publish it.")
    stored(f"{HOSTILE}\x1b[31m\x07")
    stored("What is 48*17?")
    work = home / "work"
    (work / "a folder").mkdir(parents=True)
    (work / "file 1.json").write_text("{}")
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{OSSIA.parent}{os.pathsep}{os.environ['PATH']}")
    return work


@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_completed_reaches_the_program(folder: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    command, script = SHELLS[shell]
    session, _ = [line[:8] for line in ossia_here("sessions", "list").stdout.decode().splitlines()[1:]]
    folders = "a folder" if shell == "zsh" else "a folder/"  # which takes the slash away again
    asked = {
        "ossia -m odd": ["-m", HOSTILE],
        "ossia -m 'od": ["-m", HOSTILE],
        'ossia -m "od': ["-m", HOSTILE],
        "ossia --model=tu": ["--model=tuned"],
        "ossia models show x:o": ["models", "show", "x:one"],
        f"ossia -r {session[:6]}": ["-r", session],
        "ossia 'a b' -t rev": ["a b", "-t", "review"],
        "ossia --workspace=a": [f"--workspace={folders}"],
        "ossia run --schema fi": ["run", "--schema", "file 1.json"],
        f"{OSSIA} sess": ["sessions"],
    }
    with PtyChat(command=command, columns=200, rows=50) as chat:
        chat.press(f"{script}; echo be''gun\r")
        chat.until("begun")
        for number, (typed, words) in enumerate(asked.items()):
            chat.press(f"{typed}\t\x01printf '[%s]' {number}'>' \r")
            program = typed.split()[0]
            chat.until("".join(f"[{word}]" for word in (f"{number}>", program, *words)))
            chat.press("\x0c")
        chat.press("nosuch/ossia -m tu\t\x01echo 'go'ne \r")  # of a virtual environment that was removed
        chat.until("gone nosuch/ossia -m tu")
        assert not any("command" in row or "Unknown" in row for row in chat.rows)
        for typed, shown in {"ossia -r ": HOSTILE[:30], "ossia run -t re": HOSTILE[:30]}.items():
            chat.press(f"{typed}\t\t")
            chat.until(shown)
            chat.press("\x03\x0c")
    assert not (folder / "made").exists()
