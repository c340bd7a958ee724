"""From settings to what a turn runs on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ossia.agent.engine.base import Sampling
from ossia.agent.engine.llama import gpu_memory, processor_features
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.memory import Memory, read_memory
from ossia.agent.models.model import open_model
from ossia.agent.models.needs import reason_against
from ossia.agent.models.plan import LoadOptions, plan
from ossia.agent.worker import Worker
from ossia.cli.runtime.assemble import Assembly, begin
from ossia.cli.runtime.options import fresh_options
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import Settings
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


def test_every_sampling_flag_reaches_the_session() -> None:
    def sampling(**settings: Any) -> Sampling:
        return fresh_options(Resolved(Settings(**settings), {}), None).sampling

    drawn = sampling(temperature=0.5, top_p=0.9, top_k=40, min_p=0.05, seed=7)
    assert drawn == Sampling(0.5, 0.9, 40, 0.05, seed=7)
    assert sampling() == Sampling(None, 1.0, 0, 0.0, None)


def _repacked(*, stays: bool, **settings: Any) -> int:
    """The bytes of the second copy that the étude is loaded with."""
    worker = Worker()
    try:
        resolved = Resolved(Settings(model="etude", no_tools=True, **settings), {})
        loading = begin(resolved, None, QUIET, worker, lambda future: future.result(), stays=stays)
        assembly = loading.finish(tap=None)
        worker.submit(assembly.engine.close).result()
        assert assembly.plan is not None
        return assembly.plan.needs.repacked
    finally:
        worker.close()


@pytest.mark.skipif(reason_against(processor_features()) is not None, reason="this build can't repack")
def test_weights_are_repacked_for_a_chat_that_need_not_be_had_again() -> None:
    model = open_model(ETUDE_PATH)
    copy = plan(
        model, memory=Memory(None), options=LoadOptions(repack="on"), processor=processor_features()
    ).needs.repacked
    free = read_memory().ram_free or 0
    assert _repacked(stays=True, temperature=1.0) == (copy if free > 2.2e9 and not gpu_memory().free else 0)
    assert _repacked(stays=True, repack="on") == _repacked(stays=False, repack="on", seed=1) == copy
    off = [
        _repacked(stays=False),
        _repacked(stays=True, repack="off"),
        _repacked(stays=True, seed=1, temperature=1.0),
        _repacked(stays=True),  # the étude's own temperature is 0
        _repacked(stays=True, temperature=0.0),
    ]
    assert off == [0, 0, 0, 0, 0]


def test_the_tools_that_are_on(tmp_path: Path) -> None:
    def on(**settings: Any) -> list[str]:
        assembly = _assembled(tmp_path, **settings)
        assembly.close_tools()
        return [spec.name for spec in assembly.tools.toolbox.specs]

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


def test_the_context_of_a_script(tmp_path: Path) -> None:
    assert _assembled(tmp_path).engine.context_tokens == 131_072
    assert _assembled(tmp_path, context=500).engine.context_tokens == 500
