"""A tenth of `tests.oracle.lanes`, over lanes that are all in use."""

from __future__ import annotations

import random
from contextlib import ExitStack, closing
from pathlib import Path

from tests.oracle.lanes import KINDS, Player, compare, questions
from tests.support.engines import ETUDE, load_lanes


def test_lanes_answer_as_one_does(tmp_path: Path) -> None:
    asked = random.Random(11).sample(questions(200), 20)
    with ExitStack() as after:
        engines = [*load_lanes(ETUDE, 1, guided=True), *load_lanes(ETUDE, 4, guided=True)]
        for engine in engines:
            after.callback(engine.close)
        alone, *lanes = [after.enter_context(closing(Player(engine, tmp_path))) for engine in engines]
        tally = compare(asked, alone, lanes)
    assert tally.passed, [*tally.faults, *tally.moved, *tally.ties]
    assert set(tally.kinds) == set(KINDS)
