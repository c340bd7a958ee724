"""Scripted models, and a workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ossia import Model
from tests.support.command import write_script


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Callable[..., Model]]:
    """Models that write these steps."""
    made: list[Model] = []

    def scripted(*steps: str, tokens_per_s: float = 0, parallel: int = 1) -> Model:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Model(engine=write_script(folder, *steps, tokens_per_s=tokens_per_s), parallel=parallel))
        return made[-1]

    yield scripted
    for one in made:
        one.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder
