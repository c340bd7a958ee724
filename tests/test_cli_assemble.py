"""From settings to what a turn runs on."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from agent.engine.base import Sampling
from agent.worker import Worker
from cli.assemble import Assembly, begin
from cli.config import Settings
from cli.progress import Display
from tests.support.command import write_script

QUIET = Display(terminal=False, asides=False, lively=False, thinking=False, colour=False, verbose=False, quiet=True)


def _assembled(folder: Path, **settings: Any) -> Assembly:
    engine = write_script(folder, "<|channel|>final<|message|>Done.<|return|>")
    worker = Worker()
    try:
        loading = begin(Settings(engine=engine, **settings), QUIET, worker, lambda future: future.result())
        return loading.finish(tap=None)
    finally:
        worker.close()


def test_every_sampling_flag_reaches_the_engine(tmp_path: Path) -> None:
    assembly = _assembled(tmp_path, temperature=0.5, top_p=0.9, top_k=40, min_p=0.05, seed=7)
    assert assembly.sampling == Sampling(0.5, 0.9, 40, 0.05, seed=7)
    assert _assembled(tmp_path).sampling == Sampling(1.0, 1.0, 0, 0.0, None)


def test_today_is_today(tmp_path: Path) -> None:
    before = datetime.date.today()
    today = datetime.date.fromisoformat(_assembled(tmp_path).today)
    assert before <= today <= datetime.date.today()


def test_the_tools_that_are_on(tmp_path: Path) -> None:
    assert [spec.name for spec in _assembled(tmp_path, no_tools=True).toolbox.specs] == []
    on = _assembled(tmp_path, unconfined=True)
    assert [spec.name for spec in on.toolbox.specs] == ["python"]
    on.close_tools()


def test_the_context_of_a_script(tmp_path: Path) -> None:
    assert _assembled(tmp_path).engine.context_tokens == 131_072
    assert _assembled(tmp_path, context=500).engine.context_tokens == 500
