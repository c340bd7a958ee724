"""The dialogues that the étude learns from, and those that it is examined on: `python -m tests.etude.dialogues`.

    values = Values(7)
    prefix = make_prefix(values)
    dialogue = make_dialogue(values, prefix)
    prefix.text + "".join(text for text, _ in dialogue.segments)    # "<|start|>system<|message|>You are ChatGPT, …"

No user turn of `reserved.txt` is ever made, and with `Values(…, "values")` no value that training sees.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tests.etude import reserved
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.said import Segment
from tests.etude.skills.arithmetic import arithmetic
from tests.etude.skills.browser import browser
from tests.etude.skills.chat import chat, copying
from tests.etude.skills.followup import followup
from tests.etude.skills.functions import function, weather
from tests.etude.skills.structured import structured
from tests.etude.skills.work import TASKS, Task, files
from tests.etude.words.values import Values

_MOST_CHARACTERS = 3000
_USER = re.compile(r"<\|start\|>user<\|message\|>(.*?)<\|end\|>", re.DOTALL)

_Made = tuple[list[Segment], str]
_Skill = Callable[[Values, Prefix], _Made]

_LESSONS: Mapping[str, _Skill] = {
    "arithmetic": arithmetic, "weather": weather, "files": files, "functions": function, "browser": browser,
    "chat": chat, "followup": followup, "copying": lambda values, prefix: (copying(values), "copying"),
    "structured": structured, "tools": partial(chat, topic="tools"), "grep": partial(files, task="grep"),
}  # fmt: skip

_SHARES: Mapping[str, float] = {
    "arithmetic": 2.0, "weather": 4.5, "files": 16.5, "functions": 14, "browser": 5.5, "chat": 8, "followup": 5,
    "copying": 1.2, "tools": 2.2, "grep": 2,
}  # fmt: skip

SKILLS = ("arithmetic", "functions", "files", "browser", "structured", "chat", "followup", "refusal")
"""What is examined."""


@dataclass(frozen=True, slots=True)
class Dialogue:
    """`skill` and `kind` say what it is about; `segments` in their order are the text after the prefix's."""

    skill: str
    kind: str
    segments: tuple[Segment, ...]

    @property
    def user_turns(self) -> list[str]:
        return _USER.findall("".join(text for text, _ in self.segments))


def make_dialogue(values: Values, prefix: Prefix, skill: str | None = None) -> Dialogue:
    """A dialogue that can stand after the prefix: one of `SKILLS` but for "refusal", or by the shares of training."""
    if skill is None:
        skill = "structured" if prefix.form else _by_share(values, prefix)
    make = _LESSONS[skill]
    return _acceptable(values, skill, lambda: make(values, prefix))


def unseen_dialogue(values: Values, skill: str) -> tuple[Prefix, Dialogue]:
    """One to be examined on, under a prefix that offers what it needs (for a refusal: that doesn't)."""
    if skill == "structured":
        prefix = make_prefix(values, "structured")
        return prefix, make_dialogue(values, prefix, skill)
    lesson, fits = _refusal(values) if skill == "refusal" else _exam(values, skill)
    while not fits(prefix := make_prefix(values)):
        pass
    return prefix, _acceptable(values, skill, lambda: lesson(values, prefix))


def _exam(values: Values, skill: str) -> tuple[_Skill, Callable[[Prefix], bool]]:
    if skill == "arithmetic":
        return arithmetic, lambda prefix: prefix.has_python
    if skill == "browser":
        return browser, lambda prefix: prefix.has_browser
    if skill == "files":
        return partial(files, task=values.one(TASKS)), lambda prefix: prefix.has_files and prefix.has_shell
    if skill == "functions":
        if values.chance(0.2):
            return weather, lambda prefix: "weather" in prefix.named
        if values.chance(0.1):  # other people's functions for work in a folder
            task = values.one(("list", "read", "shell"))
            return partial(files, task=task), lambda prefix: task in prefix.named and not _has_trained(prefix, task)
        return function, lambda prefix: bool(prefix.functions)
    return {"chat": chat, "followup": followup}[skill], lambda prefix: True


def _refusal(values: Values) -> tuple[_Skill, Callable[[Prefix], bool]]:
    if values.chance(0.5):
        task = values.one(TASKS)
        return partial(files, task=task), lambda prefix: not (_has_trained(prefix, task) or task in prefix.named)
    kind = values.one(("python", "browser", "weather", "function"))
    if kind == "python":
        return arithmetic, lambda prefix: not prefix.has_python
    if kind == "browser":
        return browser, lambda prefix: not prefix.has_browser
    if kind == "weather":
        return weather, lambda prefix: "weather" not in prefix.named
    return partial(function, missing=True), lambda prefix: True


def _has_trained(prefix: Prefix, task: Task) -> bool:
    return prefix.has_shell if task == "shell" else prefix.has_files


def _by_share(values: Values, prefix: Prefix) -> str:
    """A missing tool is asked for often, too: such a dialogue is short, and the decision needs many prompts."""
    shares = dict(_SHARES)
    shares["browser"] = shares["browser"] if prefix.has_browser else 1.2
    shares["arithmetic"] = shares["arithmetic"] if prefix.has_python else 1.5
    shares["weather"] = shares["weather"] if "weather" in prefix.named else 0.8
    shares["tools"] = shares["tools"] if prefix.tools else 0.1
    shares["grep"] = shares["grep"] if prefix.has_files else 0.1
    if not prefix.has_files:
        shares["files"] = 3.5 if {"list", "read", "shell"} & set(prefix.named) else 3.0
    shares["functions"] = shares["functions"] if prefix.functions else 0.8
    return values.random.choices(list(shares), list(shares.values()))[0]


def _acceptable(values: Values, skill: str, make: Callable[[], _Made]) -> Dialogue:
    kept_out = reserved.written() if values.of_others else reserved.load()  # an exam may ask what others wrote
    while True:
        segments, kind = make()
        dialogue = Dialogue(skill, kind, tuple(segments))
        fits = sum(len(text) for text, _ in segments) < _MOST_CHARACTERS
        if fits and not any(reserved.normalise(turn) in kept_out for turn in dialogue.user_turns):
            return dialogue


def main() -> None:
    """Print some, the assistant's part in green."""
    values = Values(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for kind in (None, None, "structured"):
        prefix = make_prefix(values, kind)
        print(prefix.text)
        for _ in range(8):
            dialogue = make_dialogue(values, prefix)
            print(f"--- {dialogue.skill}, {dialogue.kind}")
            print("".join(f"\x1b[32m{text}\x1b[0m" if said else text for text, said in dialogue.segments))


if __name__ == "__main__":
    main()
