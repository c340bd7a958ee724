"""The dialogues that the étude is trained and examined on."""

from __future__ import annotations

import pytest

from agent.models.gguf import read_header
from agent.models.gpt_oss import read_vocabulary
from harmony.codec import Codec
from harmony.tokenizer import Tokenizer
from tests.etude.dialogues import SKILLS, Dialogue, make_dialogue, unseen_dialogue
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.values import Unseen, Values
from tests.etude.wording import PHRASINGS


def _training(count: int) -> list[tuple[Prefix, Dialogue]]:
    values = Values(1234)
    made = []
    for number in range(count // 10):
        prefix = make_prefix(values, "structured" if number % 8 == 0 else None)
        made += [(prefix, make_dialogue(values, prefix)) for _ in range(10)]
    return made


def _exam(unseen: Unseen, count: int) -> list[tuple[Prefix, Dialogue]]:
    values = Values(77, unseen)
    return [unseen_dialogue(values, skill) for skill in SKILLS for _ in range(count)]


@pytest.mark.parametrize("unseen", ["values", "phrasing"])
def test_no_turn_of_the_exam_is_trained(unseen: Unseen) -> None:
    trained = {turn for _, dialogue in _training(2000) for turn in dialogue.user_turns}
    asked = {turn for _, dialogue in _exam(unseen, 40) for turn in dialogue.user_turns}
    assert len(trained) > 1500 and len(asked) > 250
    assert not trained & asked


def test_a_fifth_of_the_phrasings_is_kept_for_the_exam() -> None:
    kept = sum(len(choices[3::4]) for choices in PHRASINGS.values())
    assert kept / sum(map(len, PHRASINGS.values())) >= 0.2
    assert all(len(choices) >= 4 for choices in PHRASINGS.values())
