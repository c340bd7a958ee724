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
from ossia.cli.demo.recording import FILES, QUESTION, TESTS, steps
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
    from ossia.cli.oneshot.once import run_once

    for line in (BEGIN[0], f"the question: {QUESTION}", *_about(untested)):
        display.note(f"ossia: {line}")
    return run_once(QUESTION, {**flags, "yes": True}, resume=Resume())


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
