"""Interrupts held off: a block is whole, and KeyboardInterrupt comes at its end. Each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")

START = """
import os, signal, time
from ossia.cli import interrupts
from ossia.cli.interrupts import hold, settle

def interrupt(number=signal.SIGINT):
    os.kill(os.getpid(), number)
    time.sleep(0.01)

def say(text):
    print(text, end=" ", flush=True)

interrupts.take()
try:
    {}
    say("over")
except KeyboardInterrupt:
    say("interrupted")
"""


@pytest.mark.parametrize(
    ("lines", "said", "code"),
    [
        ("interrupt()", "interrupted", 0),
        ("interrupt(signal.SIGTERM)", "interrupted", 0),
        ("with hold():\n  interrupt(); interrupt(signal.SIGHUP); say('whole')", "whole interrupted", 0),
        ("with hold():\n  with hold():\n    interrupt()\n  say('whole')", "whole interrupted", 0),
        ("with hold():\n  with hold(False):\n    interrupt()\n  say('never')", "interrupted", 0),
        ("with hold():\n  interrupt()\n  with hold(False):\n    say('never')", "interrupted", 0),
        (
            "with hold():\n  interrupt()\n  try:\n    with hold(False):\n      pass\n"
            "  except KeyboardInterrupt:\n    interrupt(); say('whole')",
            "whole interrupted",
            0,
        ),
        ("with hold():\n  interrupt(); settle(6); say('never')", "", 6),
        ("settle(0)\ninterrupt()\nsay('never')", "", 0),
        ("with hold():\n  interrupt(); time.sleep(1.2); interrupt(); say('never')", "", 130),  # it is stuck
    ],
)
def test_an_interrupt(lines: str, said: str, code: int) -> None:
    script = START.format(lines.replace("\n", "\n    "))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr, done.returncode) == (said, "", code)
