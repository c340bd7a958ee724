"""Plays the recorded turn: the model's words from a script, everything else as in any chat, in a temporary folder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.chat.app import talk_with
from ossia.cli.chat.screen_face import ScreenFace
from ossia.cli.eval.task import Task
from ossia.cli.eval.workbench import missing, write
from ossia.cli.runtime.progress import Display, make_display
from ossia.cli.runtime.session import Resume
from ossia.cli.settings.table import Settings
from ossia.cli.terminal.input.typed import Typed

if TYPE_CHECKING:
    from ossia.cli.chat.chat import Chat
    from ossia.cli.chat.face import Face
    from ossia.tools.spec import ToolFinished

_TOKENS_PER_S, _PAUSE_S = 60, 0.9
"""Of étude's short tokens; as many letters as 30 tokens of gpt-oss."""
BEGIN = (
    "A recording: no model is loaded, the model's words were written beforehand.",
    "Tools, question and tests are real, in a temporary folder. Ctrl-C leaves.",
)
END = (
    "That was the recording. Ctrl-O shows it all, the thinking too; Ctrl-D leaves.",
    "The real model, 12.1 GB:  ossia models pull gpt-oss-20b",
    "Then a chat:  ossia",
    "Work in a folder:  ossia .",
)
_MUTE = "a recording can't answer: Ctrl-D leaves, then `ossia` starts a chat"
_BROKEN = "the recording ends here: a model would read this, and go on"


def play(speed: float) -> int:
    """Play it to its end, `speed` times as fast; returns the exit code. Without a screen it is printed at once."""
    for name in [name for name in os.environ if name.startswith("OSSIA_")]:
        del os.environ[name]  # the user's rules could answer the question
    screen = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    with tempfile.TemporaryDirectory(prefix="ossia-demo-", ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        paths.use(place / "home")
        write(place / "shop", {name: text.encode() for name, text in FILES.items()})
        display = make_display(settings := Settings())
        untested = missing([Task("demo", "", files={})], settings, display).get("commands", "")
        script = {"version": 1, "steps": steps(tested=not untested)}
        if screen:
            script |= {"tokens_per_s": _TOKENS_PER_S * speed, "pause_s": _PAUSE_S / speed}
        (place / "script.json").write_text(json.dumps(script), encoding="utf-8")
        flags: dict[str, object] = {
            "engine": f"script:{place / 'script.json'}",
            "workspace": str(place / "shop"),
            "trust": True,
            "private": True,
            "allow": [f"container.exec:{TESTS}"],
            "readable": [sys.base_prefix],
            "think": "peek",
        }
        return _in_chat(flags, untested) if screen else _printed(flags, untested, display)


def _printed(flags: dict[str, object], untested: str, display: Display) -> int:
    from ossia.cli.oneshot.once import Wanted, run_once

    for line in (BEGIN[0], f"the question: {QUESTION}", *_about(untested)):
        display.note(f"ossia: {line}")
    return run_once(Wanted(QUESTION), {**flags, "yes": True})


def _in_chat(flags: dict[str, object], untested: str) -> int:
    def begin(talk: Chat, face: Face) -> None:
        face.note("\n".join((*BEGIN, *_about(untested))))
        talk.between_turns(lambda: ask(talk, face))

    def ask(talk: Chat, face: Face) -> None:
        talk.outbox.send(Typed(QUESTION, QUESTION))
        talk.between_turns(lambda: face.note("\n".join(END)))

    return talk_with(flags, Resume(), DemoFace, greet=begin)


def _about(untested: str) -> list[str]:
    return [f"the test run is left out: {untested}"] if untested else []


class DemoFace(ScreenFace):
    """A screen to watch; its user only answers the question. Ctrl-C leaves."""

    def __init__(self, talk: Chat) -> None:
        super().__init__(talk)
        self.view.calls.fix = self._end_if_failed

    def submit(self, typed: Typed) -> None:
        self.note(_MUTE)

    def interrupt(self) -> None:
        self.talk.leave()

    def _end_if_failed(self, done: ToolFinished) -> str:
        """A refused or failed call has no sequel in the recording."""
        if not done.result.error:
            return ""
        self.talk.stop()
        return _BROKEN


FILES = {
    "docs/shipping.md": """\
# Shipping

- An order ships for €4.90.
- From €50 on, it ships free.
- A parcel over 20 kg costs €10 more.
""",
    "shipping.py": """\
def shipping(cents, kg=1):
    fee = 0 if cents > 50_00 else 4_90
    return fee + (10_00 if kg > 20 else 0)
""",
    "test_shipping.py": """\
import unittest

from shipping import shipping


class Shipping(unittest.TestCase):
    def test_small_orders_pay(self):
        self.assertEqual(shipping(12_00), 4_90)

    def test_heavy_parcels_pay_more(self):
        self.assertEqual(shipping(80_00, kg=25), 10_00)
""",
}
QUESTION = "A customer paid shipping for an order of exactly €50. Is that a bug? Fix it, with a test."
TESTS = "python3 -m unittest"

_PATCH = """\
*** Begin Patch
*** Update File: shipping.py
@@ def shipping(cents, kg=1):
-    fee = 0 if cents > 50_00 else 4_90
+    fee = 0 if cents >= 50_00 else 4_90
*** Update File: test_shipping.py
@@
     def test_heavy_parcels_pay_more(self):
         self.assertEqual(shipping(80_00, kg=25), 10_00)
+
+    def test_fifty_euros_ship_free(self):
+        self.assertEqual(shipping(50_00), 0)
*** End Patch"""
_ANSWER = """\
Yes, it was a bug. `docs/shipping.md` says “from €50 on”, but `shipping.py` compared with `>`, so exactly €50 paid:

| order | before | now |
|---|--:|--:|
| €49.99 | €4.90 | €4.90 |
| **€50.00** | **€4.90** | **free** |
| €50.01 | free | free |

The comparison is `>=` now, and a new test tries exactly €50."""


def steps(*, tested: bool) -> list[str]:
    """The model's completions, as Harmony text; `tested`: it runs the tests, else it says so."""
    look = "The user says that an order of exactly €50 paid for shipping. The rules may be in the docs: search them."
    read = "“From €50 on, it ships free”: so exactly €50 must be free. Now the code that decides it, and its tests."
    fix = (
        "`cents > 50_00` is strict: 5000 > 5000 is false, so exactly €50 pays €4.90. The docs say “from €50 on”, so it "
        "must be `>=`. The tests never try the boundary; I'll add one that does."
    )
    end = "All tests pass." if tested else "I did not run the tests."
    return [
        _call("repo_browser.search", look, path="docs", query="€50|free"),
        _call("repo_browser.open_file", read, path="shipping.py"),
        _call("repo_browser.open_file", "", path="test_shipping.py"),
        _call("repo_browser.apply_patch", fix, patch=_PATCH),
        *([_call("container.exec", "Run the tests.", command=TESTS.split())] if tested else []),
        f"<|channel|>final<|message|>{_ANSWER} {end}<|return|>",
    ]


def _call(name: str, thinking: str, **arguments: object) -> str:
    thought = f"<|channel|>analysis<|message|>{thinking}<|end|><|start|>assistant" if thinking else ""
    body = json.dumps(arguments, ensure_ascii=False)
    return f"{thought}<|channel|>commentary to={name} <|constrain|>json<|message|>{body}<|call|>"
