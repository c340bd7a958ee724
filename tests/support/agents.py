"""Steps of scripted models for agents from Python, and functions of a program."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from ossia import Approval, Model

Scripted = Callable[..., Model]
"""The fixture `model` of tests/api."""
DONE = "<|channel|>final<|message|>Done.<|return|>"
LONG = f"<|channel|>final<|message|>{' '.join(map(str, range(400)))}<|return|>"


def called(name: str, **arguments: object) -> str:
    return f"<|channel|>commentary to={name}<|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"


def patch(line: str) -> str:
    return f"*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+{line}\n*** End Patch"


PATCH = called("repo_browser.apply_patch", patch=patch("two"))


def weather(city: str) -> str:
    """The weather in a city now."""
    return f"18 degrees in {city}"


def rest(resting: threading.Event) -> Callable[[], str]:
    """A function: it sets this, then rests until it is stopped."""

    def rest() -> str:
        """Rest."""
        resting.set()
        for _ in range(6_000):
            time.sleep(0.01)
        return "rested"

    return rest


def never(call: Approval) -> bool:
    """An `approve` for tests without questions."""
    raise AssertionError(call)
