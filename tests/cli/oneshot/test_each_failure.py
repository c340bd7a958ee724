"""Each flag of `ossia run` in each failure (`tests.support.failures`): a quarter; `tests.oracle.failures` has all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.command import ossia_here, write_script
from tests.support.failures import FAILURES, FINAL, FLAGS, OLDER, answer_of, cells, fault, prepare, text_of

pytestmark = pytest.mark.skipif(os.name != "posix" or not Path("/dev/full").exists(), reason="needs /dev/full")


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_under_flags(name: str, home: Path) -> None:
    here = prepare(home)
    titles = [title for title, failure in cells(4) if failure == name]
    found = {title: fault(here, FLAGS[title], FAILURES[name]) for title in titles}
    assert found == dict.fromkeys(titles, "")


def test_each_flag_and_each_failure_have_their_turn() -> None:
    chosen = cells(4)
    assert ({flag for flag, _ in chosen}, {failure for _, failure in chosen}) == ({*FLAGS}, {*FAILURES})
    assert sorted(cell for shift in range(4) for cell in cells(4, shift)) == sorted(cells(1))


@pytest.mark.parametrize("title", [title for title in FLAGS if title != "--control"])  # it reads the descriptor
def test_run_may_be_left_out(title: str, home: Path) -> None:
    """`ossia "…"`, the flags behind the question or before it."""
    here, flags = prepare(home), FLAGS[title]
    own = ("--no-tools", "--engine", write_script(home, *answer_of(flags)), *flags)
    for command in (("run", "hi", *own), ("hi", *own), (*own, "hi")):
        (here / "out.txt").write_text(OLDER)
        done = ossia_here(*command, cwd=here)
        out, file = done.stdout.decode(), (here / "out.txt").read_text()
        written, other = (file, out) if "out.txt" in flags else (out, file)
        assert (done.returncode, other) == (0, "" if "out.txt" in flags else OLDER), command
        if {"--json", "--jsonl"} & {*flags}:
            last = json.loads(written.splitlines()[-1])
            assert last["exit"] == 0 and last.get("answer", last.get("text")), command
        else:
            assert text_of(flags) in (written, written.partition(FINAL)[2].removesuffix("<|return|>\n")), command
