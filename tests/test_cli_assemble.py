"""From settings to what a turn runs on."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from agent.engine.base import Sampling
from agent.worker import Worker
from cli.assemble import Assembly, begin
from cli.config import Resolved, Settings
from cli.progress import Display
from tests.support.command import write_script

QUIET = Display(terminal=False, asides=False, lively=False, thinking=False, colour=False, verbose=False, quiet=True)


def _assembled(folder: Path, **settings: Any) -> Assembly:
    engine = write_script(folder, "<|channel|>final<|message|>Done.<|return|>")
    worker = Worker()
    try:
        resolved = Resolved(Settings(engine=engine, **settings), {})
        loading = begin(resolved, None, QUIET, worker, lambda future: future.result())
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
    def on(**settings: Any) -> list[str]:
        assembly = _assembled(tmp_path, **settings)
        assembly.close_tools()
        return [spec.name for spec in assembly.tools.toolbox.specs]

    browser = ["browser.search", "browser.open", "browser.find"]
    (tmp_path / "own.py").write_text("def double(n: int) -> int:\n    return 2 * n\n")
    own = str(tmp_path / "own.py")
    assert on(no_tools=True) == []
    assert on(unconfined=True) == [*browser, "python"]
    assert on(tools=("browser",)) == browser
    assert on(tools=("python",), unconfined=True) == ["python"]
    assert on(tools=(own,), unconfined=True) == [*browser, "python", "functions.double"]
    assert on(tools=("browser", own)) == [*browser, "functions.double"]
    assert on(no_tools=True, tools=(own,)) == []


def test_the_context_of_a_script(tmp_path: Path) -> None:
    assert _assembled(tmp_path).engine.context_tokens == 131_072
    assert _assembled(tmp_path, context=500).engine.context_tokens == 500
