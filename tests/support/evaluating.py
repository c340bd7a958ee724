"""Scripts for `ossia eval`, made from the tasks themselves: what a right solver writes, or one who gives up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ossia.cli.eval.task import Call, Task
from tests.support.command import write_script
from tests.support.documents import answer

WRONG = "<|channel|>final<|message|>I don't know.<|return|>"


def solving(task: Task) -> list[str]:
    """The completions that solve a task."""
    thought = "<|channel|>analysis<|message|>" + "so it is then " * (40 if task.effort == "high" else 1) + "<|end|>"
    first = f"{thought}<|start|>assistant"
    return [first + text if n == 0 else text for n, text in enumerate([*map(_call, task.calls), answer(task.answer)])]


def script(folder: Path, tasks: Sequence[Task], *, wrong: bool = False, tokens_per_s: float = 0) -> str:
    """The `--engine` value for a run of these tasks."""
    steps = [step for task in tasks for step in ([WRONG] if wrong else solving(task))]
    return write_script(folder, *steps, tokens_per_s=tokens_per_s)


def _call(call: Call) -> str:
    name, arguments = call
    if isinstance(arguments, str):
        return f"<|channel|>analysis to={name} code<|message|>{arguments}<|call|>"
    kind = "commentary" if name.startswith("functions.") else "analysis"
    constrain = "<|constrain|>json" if kind == "commentary" else "code"
    return f"<|channel|>{kind} to={name} {constrain}<|message|>{json.dumps(arguments)}<|call|>"
