"""The one model of the process: changed between turns, and the one before again where that fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.control import Control
from ossia.agent.errors import ModelError
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.cli.acp.models import Models
from ossia.cli.acp.rpc import RpcError
from ossia.cli.runtime.progress import make_display
from ossia.cli.settings.config import Resolved, resolve


@pytest.fixture
def etude() -> Resolved:
    return resolve({"model": "etude", "quiet": True, "threads": 1}, environ={})


@pytest.fixture
def models(etude: Resolved) -> Iterator[Models]:
    made = Models(make_display(etude.settings))
    yield made
    if model := made.loaded:
        model.close().result()
    made.worker.close()


def named(resolved: Resolved, model: Path) -> Resolved:
    return replace(resolved, settings=replace(resolved.settings, model=str(model)))


def test_where_another_model_fails_the_one_before_is_loaded_again(
    models: Models, etude: Resolved, tmp_path: Path
) -> None:
    (tmp_path / "cut.gguf").write_bytes(ETUDE_PATH.read_bytes()[:1000])
    with models.turn(lambda: etude, Control()) as first:
        with pytest.raises(RpcError, match="a turn is under way"):
            models.change(named(etude, tmp_path / "cut.gguf"), back=etude, use=pytest.fail)
        assert models.loaded is first
    with pytest.raises(ModelError, match="cut off"):
        models.change(named(etude, tmp_path / "cut.gguf"), back=etude, use=pytest.fail)
    with models.turn(lambda: etude, Control()) as again:
        assert (again.name, again is first) == ("etude", False)


def test_a_prompt_that_waits_for_a_change_gets_the_new_model(models: Models, etude: Resolved, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(ETUDE_PATH.read_bytes())
    used, names = [etude], list[str]()

    def prompt() -> None:
        with models.turn(lambda: used[-1], Control()) as model:
            names.append(model.name)

    waiting = threading.Thread(target=prompt)
    with models.turn(lambda: etude, Control()):
        waiting.start()
        used.append(named(etude, other))
    waiting.join()
    assert names == ["other"]


def test_a_session_at_rest_waits_for_no_other_model_than_the_one_in_use(models: Models, etude: Resolved) -> None:
    assert not models.wait(etude, Control())
    models.begin(etude)
    assert models.wait(etude, Control()) and not models.wait(named(etude, ETUDE_PATH), Control())
