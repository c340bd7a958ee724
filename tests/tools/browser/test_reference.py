"""The browser's tools against what the reference tool gave, on pages of ours (see `tests/oracle/browser_tools.py`)."""

from __future__ import annotations

import json

import tiktoken

from tests.oracle.browser_tools import GOLDEN, Ours, Task, compare


def test_what_the_reference_gave(o200k_encoding: tiktoken.Encoding) -> None:
    kept = json.loads(GOLDEN.read_text(encoding="utf-8"))
    task = Task(kept["pages"], kept["hits"], [[tuple(call) for call in run] for run in kept["runs"]])
    equal, meant, wrong = compare(Ours(task, o200k_encoding), task.runs, kept["answers"])
    assert wrong == []
    assert (equal, meant.total()) == (119, 27)
