"""`ossia run --think-tokens`: the answer is opened after so much thinking, and that is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ossia.cli.settings.kinds import thinking_limit
from tests.support.command import ossia, ossia_here, write_script

THOUGHT = "<|channel|>analysis<|message|>" + "on and on it goes in thoughts without any end " * 3
TOLD = b"ossia: the thinking was cut at 20 tokens (think-tokens): it answers now\n"


def test_it_is_told_and_the_answer_comes(tmp_path: Path) -> None:
    script = write_script(tmp_path, THOUGHT, "It goes on.<|return|>")
    done = ossia("run", "Where does it go?", "--engine", script, "--think-tokens", "20")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"It goes on.\n", TOLD)
    whole = json.loads(ossia("run", "And now?", "--engine", script, "--think-tokens", "20", "--json").stdout)
    assert [step["end"] for step in whole["steps"]] == ["thinking", "stop"] and whole["end"] == "answered"


def test_it_can_be_set_for_an_effort(tmp_path: Path) -> None:
    script = write_script(tmp_path, THOUGHT + "<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>")
    done = ossia("run", "Go", "--engine", script, "--think-tokens", "high=20")  # the effort is medium
    assert (done.stdout, done.stderr) == (b"Done.\n", b"")
    assert [thinking_limit("low=5,high=20", effort) for effort in ("low", "medium", "high")] == [5, None, 20]
    assert (thinking_limit(7, "low"), thinking_limit(None, "low")) == (7, None)


@pytest.mark.parametrize("value", ["0", "-1", "much", "low", "low=0", "max=5", "low=5;high=6", ""])
def test_a_wrong_value_is_refused(value: str) -> None:
    done = ossia_here("run", "x", "--think-tokens", value)
    assert done.returncode == 2 and b"e.g. low=500,high=8000" in done.stderr, done.stderr
