"""How long the command takes to start: `python -m tests.bench.start`. Best of twenty, and the load of the machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.command import OSSIA

_RUNS = 20
_QUESTION = ("run", "What is 48*17?", "--model", "etude", "--raw", "--seed", "1")
_OPENING = b"<|start|>assistant"


def main() -> None:
    """Print the best and the median wall time of commands that load no model, then of a whole run, in milliseconds."""
    for args in (["--version"], ["--help"], ["run", "--help"], ["config", "show"]):
        _show(f"ossia {' '.join(args)}", [_wall_s(args) for _ in range(_RUNS)])
    with tempfile.TemporaryDirectory() as home:
        runs = [_run_s(Path(home)) for _ in range(_RUNS // 2)]
        chats = [_chat_s(Path(home)) for _ in range(_RUNS // 2)] if os.name == "posix" else []
    _show("ossia run: first token", [first for first, _ in runs])
    _show("ossia run: with python, to the end", [end for _, end in runs])
    if chats:
        _show("ossia: prompt that takes a key", [prompt for prompt, _ in chats])
        _show("ossia: étude ready", [ready for _, ready in chats])
    if hasattr(os, "getloadavg"):
        print(f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")


def _show(what: str, walls_s: list[float]) -> None:
    print(f"{what:<34} best {min(walls_s) * 1e3:5.0f} ms, median {statistics.median(walls_s) * 1e3:5.0f} ms")


def _wall_s(args: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run([OSSIA, *args], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def _run_s(home: Path) -> tuple[float, float]:
    """Seconds until the étude's first token is in our pipe, and until the process has ended."""
    begin = time.perf_counter()
    env = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home)}
    process = subprocess.Popen([OSSIA, *_QUESTION], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=env)
    assert process.stdout is not None
    come = b""
    while len(come) <= len(_OPENING):
        piece = os.read(process.stdout.fileno(), 4096)
        if not piece:
            raise RuntimeError(f"expected an answer from the étude, got {come!r}")
        come += piece
    first = time.perf_counter() - begin
    process.stdout.read()
    process.wait()
    return first, time.perf_counter() - begin


def _chat_s(home: Path) -> tuple[float, float]:
    """Seconds until the chat shows a key that was pressed, and until its title says that the étude is there."""
    import pexpect

    env = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home), "TERM": "xterm-256color"}
    begin = time.perf_counter()
    chat = pexpect.spawn(str(OSSIA), ["--model", "etude"], env=env, dimensions=(24, 80), timeout=30, encoding="utf-8")
    chat.delaybeforesend = None
    chat.expect_exact("›")
    chat.send("q")
    chat.expect_exact("q")
    prompt = time.perf_counter() - begin
    chat.expect_exact("ossia: idle")
    ready = time.perf_counter() - begin
    chat.send("\x7f\x04")
    chat.expect(pexpect.EOF)
    chat.close()
    return prompt, ready


if __name__ == "__main__":
    main()
