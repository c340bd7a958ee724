"""Words that several views share."""

from __future__ import annotations

from typing import get_args

import pytest

from ossia.agent.events import TurnEnd
from ossia.agent.models.memory import size_text
from ossia.cli.words import ENDS


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (3_140, "3.14 kB"), (999_499, "999 kB"), (1_200_000, "1.2 MB")],
)
def test_bytes(count: int, words: str) -> None:
    assert size_text(count) == words


def test_every_end_of_a_turn_has_words() -> None:
    assert set(ENDS) == {*get_args(TurnEnd), None} - {"answered"}
