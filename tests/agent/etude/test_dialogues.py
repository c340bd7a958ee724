"""The dialogues that the étude is trained and examined on."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from ossia.harmony.codec import Codec
from ossia.harmony.messages import Message
from ossia.harmony.render import drop_past_analysis
from ossia.harmony.tokenizer import Tokenizer
from tests.etude.dialogues import SKILLS, Dialogue, make_dialogue, unseen_dialogue
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.reserved import normalise
from tests.etude.said import past
from tests.etude.words.phrasings import PHRASINGS
from tests.etude.words.values import Unseen, Values
from tests.etude.words.wording import chosen, unknown

pytestmark = pytest.mark.own_job

_MESSAGE = re.compile(
    r"<\|start\|>([\w.]+)( to=assistant)?(?:<\|channel\|>(\w+)(?: to=([\w.]+))?( code| <\|constrain\|>json)?)?"
    r"<\|message\|>(.*?)<\|(?:end|call|return)\|>",
    re.DOTALL,
)


def _messages(text: str) -> list[Message]:
    """A dialogue as the program would hold it."""
    messages = []
    for author, back, channel, recipient, kind, content in _MESSAGE.findall(text):
        tool = back != ""
        role = "tool" if tool else author
        messages.append(
            Message(
                role,
                (content,),
                name=author if tool else None,
                recipient="assistant" if tool else recipient or None,
                channel=channel or None,
                content_type=kind.strip() or None,
            )
        )
    return messages


def _rendered(messages: Sequence[Message], tokenizer: Tokenizer) -> str:
    codec = Codec(tokenizer, recipient_position="channel")
    return tokenizer.decode(codec.render(messages, purpose="training", drop=drop_past_analysis).ids)


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


@pytest.mark.parametrize("key", PHRASINGS)
def test_of_each_thing_there_are_phrasings_for_the_exam(key: str) -> None:
    """No frame and no part of them is one that training has."""

    def said(unseen: Unseen, count: int) -> set[str]:
        values = Values(5, unseen)
        return {normalise(chosen(values, PHRASINGS[key])) for _ in range(count)}

    assert len(PHRASINGS[key]) >= 7
    exam = said("phrasing", 400)
    assert len(exam) >= 5
    assert not exam & said("nothing", 3000)


def test_what_it_cannot_do_is_asked_in_many_words() -> None:
    values = Values(5)
    assert len({unknown(values) for _ in range(2000)}) > 1900


def test_what_is_learnt_is_what_the_program_writes(etude_tokenizer: Tokenizer) -> None:
    seen = set()
    for _, dialogue in _training(400):
        text = "".join(text for text, _ in dialogue.segments)
        assert _rendered(_messages(text), etude_tokenizer) == text
        seen.add(dialogue.skill)
    assert len(seen) == 11


def test_a_past_turn_is_what_the_program_keeps_of_it(etude_tokenizer: Tokenizer) -> None:
    last = "<|start|>user<|message|>And?<|end|>"
    dropped = 0
    for _, dialogue in _training(200):
        text = "".join(text for text, _ in dialogue.segments)
        kept = "".join(text for text, _ in past(list(dialogue.segments)))
        assert _rendered(_messages(text + last), etude_tokenizer) == kept + last
        dropped += len(kept) < len(text) - 40
    assert dropped == 200


def test_words_meet_again_where_there_are_few() -> None:
    values = Values(31)
    counts: dict[int, list[int]] = {}
    for few in (0, 40, 0):
        values.narrow(few)
        counts.setdefault(few, []).append(len({values.word() for _ in range(300)}))
    assert min(counts[0]) > 250 > 140 > counts[40][0]


def test_a_word_comes_again_in_some_texts_of_training() -> None:
    def again(values: Values) -> int:
        texts = [values.text(6, 9).split() for _ in range(400)]
        return sum(len(set(words)) < len(words) for words in texts)

    assert again(Values(32)) > 2 * again(Values(32, "values")) > 0
