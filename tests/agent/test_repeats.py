"""A model that goes round in a circle of digits or letters; data that only looks like one."""

from __future__ import annotations

import base64
import random

import pytest

from ossia.agent.events import TurnEnded
from ossia.agent.sessions.session import Options, Session
from ossia.harmony.messages import ResponseFormat
from ossia.harmony.tokenizer import Tokenizer
from tests.support.turns import GREEDY, Stage, end_of

FINAL = "<|channel|>final<|message|>Done.<|return|>"



def _in_pieces(unit: str, times: int, tokenizer: Tokenizer) -> tuple[int, ...]:
    """`unit` again and again, in ids of one, two or three of it, as a model samples them."""
    rng, ids = random.Random(1), list[int]()
    while times > 0:
        size = rng.choice((1, 2, 3, 3, 3))
        ids += tokenizer.encode(unit * size)
        times -= size
    return tuple(ids)


@pytest.mark.parametrize("unit", ["1", "ab", "abc", "no "])
def test_a_circle_of_digits_or_letters_is_seen_however_it_is_cut_into_ids(
    unit: str, wheel_tokenizer: Tokenizer
) -> None:
    control = wheel_tokenizer.control
    head = (control.channel, *wheel_tokenizer.encode("final"), control.message)
    ids = _in_pieces(unit, 9_000, wheel_tokenizer)
    prose = Stage(wheel_tokenizer, ((*head, *ids, control.return_),), context_tokens=60_000)
    assert end_of(prose.play()) == TurnEnded("loop")
    session = Session(Options(date="2025-06-28", response_format=ResponseFormat("answer", {}), sampling=GREEDY))
    value = (*wheel_tokenizer.encode('{"name": "'), *ids)
    stage = Stage(wheel_tokenizer, ((*head, *value, control.return_),), context_tokens=60_000, session=session)
    assert end_of(stage.play()) == TurnEnded("loop")
    assert len(stage.session.messages[-1].text) < 7_000


def test_a_number_without_an_end_is_stopped(etude_tokenizer: Tokenizer) -> None:
    """The étude wrote such a one to the end of the context."""
    number = "7" * 290 + "66666777" + "7" * 180 + "6" * 140 + "55775777" + "7" * 90 + "6" * 490 + "5" * 3_000
    session = Session(Options(date="2025-06-28", response_format=ResponseFormat("answer", {"type": "array"})))
    steps = (f"<|channel|>final<|message|>[462 , 44 , 53{number}<|return|>",)
    stage = Stage(etude_tokenizer, steps, context_tokens=60_000, session=session)
    assert end_of(stage.play()) == TurnEnded("loop")
    assert len(stage.session.messages[-1].text) < 2_400


def test_a_circle_with_small_changes_is_named_at_the_end_of_the_context(etude_tokenizer: Tokenizer) -> None:
    """The context was said to be full, and a larger one to help."""
    value = "4.165032, " * 30 + "".join("4.082207, " * 40 + f"4.0822{n}, " for n in range(20))
    session = Session(Options(date="2025-06-28", response_format=ResponseFormat("answer", {"type": "array"})))
    steps = (f"<|channel|>final<|message|>[7, {value}",)
    stage = Stage(etude_tokenizer, steps, session=session)
    assert end_of(stage.play()) == TurnEnded("loop")


_RANDOM = random.Random(7)
LEGIT = {
    "count": ", ".join(map(str, range(1_800))),
    "digits": "".join(_RANDOM.choice("0123456789") for _ in range(5_000)),
    "bits": "".join(_RANDOM.choice("01") for _ in range(5_000)),
    "letters": "".join(_RANDOM.choice("ACGT") for _ in range(5_000)),
    "base64": base64.b64encode(_RANDOM.randbytes(4_000)).decode(),
    "hex": _RANDOM.randbytes(2_500).hex(),
    "zero padded": "\n".join(f"{n:08d},{n % 10:010d},0.00" for n in range(240)),
    "hex dump": "\n".join(f"{n:08x}: 0000 0000 0000 0000  ........" for n in range(0, 3_200, 16)),
    "grid": "\n".join(", ".join("01"[abs(x * x + y * y - 120) < 25] for x in range(-16, 17)) for y in range(-16, 17)),
    "box": f"+{'-' * 78}+\n" + f"|{' ' * 78}|\n" * 25 + f"+{'-' * 78}+\n",
    "statements": "\n".join(f"assert square({n}) == {n * n}" for n in range(180)),
    "rows": "".join(f"t[{n}] = [{'0, ' * 40}]\n" for n in range(40)),
}


@pytest.mark.parametrize("text", LEGIT.values(), ids=LEGIT)
@pytest.mark.parametrize("how", ["prose", "call", "schema"])
def test_data_with_much_alike_is_no_circle(how: str, text: str, etude_tokenizer: Tokenizer) -> None:
    answer = ResponseFormat("answer", {}) if how == "schema" else None
    session = Session(Options(date="2025-06-28", response_format=answer, sampling=GREEDY))
    said = f"<|channel|>final<|message|>{text}<|return|>"
    steps = (f"<|channel|>analysis to=python code<|message|>{text}<|call|>", FINAL) if how == "call" else (said,)
    stage = Stage(etude_tokenizer, steps, context_tokens=60_000, session=session)
    assert end_of(stage.play()) == TurnEnded("answered")
