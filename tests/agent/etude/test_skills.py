"""The built-in model has the skills that its card tells of: a seeded part of the evaluation, on dialogues it never saw.

The whole of it: `python -m tests.etude.evaluate agent/models/etude.gguf`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from ossia.agent.engine.base import Sampling
from ossia.cli.settings.table import Settings
from tests.etude.dialogues import SKILLS
from tests.etude.evaluate import make_cases
from tests.etude.exam import others
from tests.etude.exam.examination import Examiner, Outcome
from tests.etude.exam.plain import plain_cases
from tests.etude.outside import prompter
from tests.etude.skills.chat import UNKNOWN
from tests.support.command import ossia
from tests.support.engines import ETUDE, load_engine

pytestmark = pytest.mark.own_job

_OF_EACH = 7


@pytest.fixture(scope="module")
def outcomes() -> Iterator[list[Outcome]]:
    with closing(load_engine(ETUDE, context_tokens=4096)) as engine:
        examiner = Examiner(engine)
        cases = make_cases(SKILLS, _OF_EACH, "values", 4242)
        yield [examiner.examine(case, Sampling(temperature=0)) for case in cases]


@pytest.mark.parametrize("skill", SKILLS)
def test_nearly_all_of_a_skill_is_exact(skill: str, outcomes: list[Outcome]) -> None:
    wrong = [one.verdicts[-1].got for one in outcomes if one.case.skill == skill and not one.exact]
    assert len(wrong) <= 1, wrong


def test_calls_are_well_formed(outcomes: list[Outcome]) -> None:
    calls = [verdict for one in outcomes for verdict in one.verdicts if verdict.calls]
    assert len(calls) > 30 and sum(not verdict.well_formed for verdict in calls) <= 1


def test_calls_in_everyday_words_are_right() -> None:
    """80 of 80 of the model that is shipped."""
    with closing(load_engine(ETUDE, context_tokens=4096)) as engine:
        examiner = Examiner(engine)
        outcomes = [examiner.examine(case, Sampling(temperature=0)) for case in plain_cases()]
    assert sum(one.exact for one in outcomes) >= 76


def test_what_it_does_not_know_gets_an_honest_no() -> None:
    """21 of these 25 of the model that is shipped."""
    with closing(load_engine(ETUDE, context_tokens=4096)) as engine:
        examiner = Examiner(engine)
        prompt = prompter(Settings(no_tools=True), examiner.tokenizer)
        said = [examiner.complete(prompt(one), Sampling(temperature=0), 200) for one in others.outside()[:25]]
        honest = [one for one in said if UNKNOWN in examiner.tokenizer.decode(one)]
    assert len(honest) >= 17, len(honest)


def test_it_greets_back() -> None:
    """What most people say first, under the prompt that they get. It is trained on these."""
    said = [ossia("run", greeting, "--quiet").stdout.decode().strip() for greeting in ("hello", "Hello", "hi", "Hi!")]
    assert said == ["Hello! How can I help you?"] * 4
