"""What floods of the Linux kernel's memory take: `python -m tests.oracle.memory_floods [--room 1] [--only sockets]`.

Each flood of `tests.support.floods` runs as the python tool's code and as a shell command, under bubblewrap and under
Landlock, with the limits that users have, but for one: the call ends when it has taken `--room` GB of what the machine
has available, instead of nearly all of it. The table says how much of the machine's memory was gone at the most, after
how many seconds the call was over, and what the model reads. A flood that took `--most` GB is ended by hand ("not
held"), and the command ends with 1. What other programs take is in the figures: run it where nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil

from ossia.tools import sandbox
from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import Rule
from ossia.tools.python.tool import PythonTool
from ossia.tools.sandbox import PYTHON_LIMITS, SHELL_LIMITS
from ossia.tools.sandbox.job import Limits
from ossia.tools.spec import NoStop, ToolCall, ToolContext
from ossia.tools.toolbox import Toolbox
from ossia.tools.work.exec import Exec
from ossia.tools.work.result import for_people
from ossia.tools.workspace import Workspace
from tests.support.floods import FLOODS, flood
from tests.support.kernels import NO_BWRAP, StopByHand, count_tokens, run

GIB = 1 << 30
_CALL_S = 30


class Taken(threading.Thread):
    """How much memory has gone since its start, at the most. At `most_bytes` it stops the call."""

    def __init__(self, stop: StopByHand, most_bytes: int) -> None:
        super().__init__(daemon=True)
        self._stop_call, self._most = stop, most_bytes
        self._before, self.highest = in_use(), 0
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.02):
            self.highest = max(self.highest, in_use() - self._before)
            if self.highest > self._most and not self._stop_call.stopped:
                self._stop_call.stop()

    def close(self) -> None:
        self._over.set()
        self.join()


def in_use() -> int:
    """Bytes of the machine's memory that aren't available."""
    memory = psutil.virtual_memory()
    return int(memory.total - memory.available)


def settle() -> None:
    """Wait until what the flood before took is given back, which goes on after its end."""
    before, now = 1 << 62, in_use()
    while before - now > 20 << 20:
        time.sleep(1)
        before, now = now, in_use()


def leaving(limits: Limits, room_bytes: int) -> Limits:
    """The limits, with `room_bytes` to take of what is available now."""
    return replace(limits, available_bytes=psutil.virtual_memory().available - room_bytes)


def by_python(program: str, folder: Path, bwrap: str | None, stop: StopByHand, room_bytes: int) -> str:
    confinement, limits = sandbox.choose(sandbox.inspect(), bwrap=bwrap), leaving(PYTHON_LIMITS, room_bytes)
    tool = PythonTool(data_dir=folder, confinement=confinement, timeout_s=_CALL_S, limits=limits)
    with closing(tool):
        run(tool, "1")
        return run(tool, program, stop).text


def by_shell(program: str, folder: Path, bwrap: str | None, stop: StopByHand, room_bytes: int) -> str:
    root = folder / "workspace"
    root.mkdir()
    (root / "flood.py").write_text(program)
    tool = Exec(confinement=sandbox.choose(bwrap=bwrap), home=None, limits=leaving(SHELL_LIMITS, room_bytes))
    context = ToolContext(NoStop(), Workspace(root.resolve(), True, None), folder, count_tokens)
    box = Toolbox([tool], policy=Policy([Rule("*", "allow")]), context=context)
    arguments = json.dumps({"command": ["/usr/bin/python3", "flood.py"], "timeout": 1000 * _CALL_S})
    call = box.run(ToolCall("call_1", "container.exec", arguments), stop=stop)
    while True:
        try:
            next(call)
        except StopIteration as end:
            return for_people(end.value.text, "container.exec")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=4, help="GB after which a flood is ended by hand")
    parser.add_argument("--room", type=float, default=1, help="GB that a call may take")
    parser.add_argument("--only", choices=list(FLOODS))
    options = parser.parse_args(arguments)
    most, room = int(options.most * GIB), int(options.room * GIB)
    tools: dict[str, Callable[[str, Path, str | None, StopByHand, int], str]] = {"python": by_python, "shell": by_shell}
    print("| flood | tool | confinement | taken | ended after | the model reads |\n|---|---|---|---|---|---|")
    held = True
    for name in [options.only] if options.only else FLOODS:
        for tool, play in tools.items():
            for confinement, bwrap in (("bwrap", None), ("landlock", NO_BWRAP)):
                settle()
                with tempfile.TemporaryDirectory(prefix="ossia-flood-") as folder:
                    stop, started = StopByHand(), time.monotonic()
                    taken = Taken(stop, most)
                    taken.start()
                    text = play(flood(name, most), Path(folder), bwrap, stop, room)
                    seconds = time.monotonic() - started
                    taken.close()
                held = held and not stop.stopped
                said = "**not held**" if stop.stopped else text.strip().splitlines()[-1].replace("|", "/")
                print(f"| {name} | {tool} | {confinement} | {taken.highest / GIB:.2f} GB | {seconds:.1f} s | {said} |",
                      flush=True)  # fmt: skip
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
