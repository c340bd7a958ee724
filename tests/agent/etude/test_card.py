"""The built-in model's card tells of the file beside it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from agent.models.catalog import ETUDE_PATH
from tests.etude import card

CARD = ETUDE_PATH.with_name(card.NAME)


def test_the_card_is_that_of_the_file() -> None:
    data = ETUDE_PATH.read_bytes()
    told = CARD.read_text(encoding="utf-8")
    assert f"{len(data):,} bytes, sha256 `{hashlib.sha256(data).hexdigest()}`" in told
    assert len(data) <= 6_000_000


def test_figures_of_another_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"settings": {"sha256": "a" * 64}}))
    with pytest.raises(ValueError, match=r"expected figures of bbbbbbbbbbbb…, they are of aaaaaaaaaaaa…: eval"):
        card.read_figures(path, "b" * 64)


def test_the_last_line_of_a_log_counts() -> None:
    line = "{} min, step {}, loss 0.0123, {} M tokens, 3012 a second, {} dialogues of mine, load 2.2\n"
    log = line.format("0.35", 12, "0.06", 600) + "EXAM 6.0 min: exact 0.5\n" + line.format("95.00", 2900, "21.40", 9000)
    assert card.read_log(log) == {"minutes": 95.0, "steps": 2900.0, "millions": 21.4, "dialogues": 18_000.0}
    with pytest.raises(ValueError, match=r"expected a line as '95\.00 min"):
        card.read_log("nothing\n")
