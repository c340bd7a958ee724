"""The processes of a bench: those that are measured, each fresh, and those that keep the machine busy beside them."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from tests.support.command import OSSIA, ROOT

_OPENING = b"<|start|>assistant"  # what `--raw` prints before the prompt is read
_CHUNK = bytes(range(256)) * 256


def measure(module: str, how: Mapping[str, Any], *, terminal: bool = False) -> dict[str, Any]:
    """What a fresh process of `python -m module --child …` wrote with `answer`.

    Its home is an empty folder, so that no settings or caches of the user's are in it. What it prints goes into a pipe,
    or to a pseudo-terminal if `terminal`, and is dropped here. Raises CalledProcessError when it fails.
    """
    output = _terminal() if terminal else nullcontext(subprocess.PIPE)
    with tempfile.TemporaryDirectory() as folder, output as stdout:
        out = Path(folder, "answer.json")
        asked = json.dumps({**how, "out": str(out)})
        subprocess.run(
            [sys.executable, "-m", module, "--child", asked],
            env={**os.environ, **own_home(Path(folder)), "TERM": "xterm-256color"},
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            check=True,
        )
        found = json.loads(out.read_text())
    assert isinstance(found, dict)
    return found


def answer(how: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Give figures back to the process that called `measure`."""
    Path(how["out"]).write_text(json.dumps(figures))


def own_home(folder: Path) -> dict[str, str]:
    """The variables that make `folder` a process's home and the place of all that it stores."""
    names = ("HOME", "USERPROFILE", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
    return dict.fromkeys(names, str(folder))


def first_byte_s(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[float, float]:
    """Seconds until the first token of `ossia run --raw …` is in our pipe, and until the process has ended.

    A token that is only a part of a character comes with the rest of it. Raises RuntimeError when nothing comes.
    """
    begin = time.perf_counter()
    process = subprocess.Popen(
        [OSSIA, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, **environ}
    )
    assert process.stdout is not None
    come = b""
    while len(come) <= len(_OPENING):
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            raise RuntimeError(f"expected {_OPENING!r} and a token, got {come!r}")
        come += piece
    first = time.perf_counter() - begin
    process.stdout.read()
    process.wait()
    process.stdout.close()
    return first, time.perf_counter() - begin


@contextmanager
def _terminal() -> Iterator[int]:
    """A pseudo-terminal to write to; what is written is read, by a thread of this process, and dropped."""
    import pty

    ours, theirs = pty.openpty()

    def read() -> None:
        with suppress(OSError):  # its end, on Linux
            while os.read(ours, 65536):
                pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        reader.join()
        os.close(ours)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Inside the block `count` processes compute as fast as they can; each has begun before the block does.

    They are ended by their own ids, after Ctrl-C too; and end by themselves when this process is gone.
    """
    running: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            command = [sys.executable, "-m", __name__, str(os.getpid())]
            running.append(
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    start_new_session=True,  # a terminal's Ctrl-C is for us: we end them
                )
            )
        for process in running:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()
            if process.stdout:
                process.stdout.close()


def work(parent: int) -> None:
    """Hash without an end, as fast as one processor can. Ends when `parent` isn't our parent any more."""
    print("busy", flush=True)
    digest = hashlib.sha256()
    while os.getppid() == parent:
        for _ in range(256):  # a tenth of a second
            digest.update(_CHUNK)


if __name__ == "__main__":
    work(int(sys.argv[1]))
