"""From settings to what a turn runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ossia.agent.engine.base import Sampling
from ossia.agent.worker import Worker
from ossia.cli.runtime.assembly import begin_model, finish, tools_spec
from ossia.cli.runtime.progress import Display
from ossia.cli.runtime.session import fresh_options
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import Settings
from ossia.tools.build import Toolset
from tests.support.command import write_script

QUIET = Display(quiet=True)


def _tools(folder: Path, **settings: Any) -> Toolset:
    engine = write_script(folder, "<|channel|>final<|message|>Done.<|return|>")
    worker = Worker()
    try:
        resolved = Resolved(Settings(engine=engine, **settings), {})
        return finish(begin_model(resolved, QUIET, worker), tools_spec(resolved, None), resolved, QUIET)[1]
    finally:
        worker.close()


def test_every_sampling_flag_reaches_the_session() -> None:
    def sampling(**settings: Any) -> Sampling:
        return fresh_options(Resolved(Settings(**settings), {}), None).sampling

    drawn = sampling(temperature=0.5, top_p=0.9, top_k=40, min_p=0.05, seed=7)
    assert drawn == Sampling(0.5, 0.9, 40, 0.05, seed=7)
    assert sampling() == Sampling(None, 1.0, 0, 0.0, None)


def test_the_tools_that_are_on(tmp_path: Path) -> None:
    def on(**settings: Any) -> list[str]:
        tools = _tools(tmp_path, **settings)
        tools.close()
        return [spec.name for spec in tools.toolbox.specs]

    browser = ["browser.search", "browser.open", "browser.find"]
    (tmp_path / "own.py").write_text("def double(n: int) -> int:\n    return 2 * n\n")
    own = str(tmp_path / "own.py")
    assert on(no_tools=True) == []
    assert on(unconfined=True) == ["python"]
    assert on(tools=("browser",)) == browser
    assert on(tools=("python",), unconfined=True) == ["python"]
    assert on(tools=(own,), unconfined=True) == ["python", "functions.double"]
    assert on(tools=("browser", own)) == [*browser, "functions.double"]
    assert on(no_tools=True, tools=(own,)) == []
