"""How the étude is examined: what counts as right, what as well-formed."""

from __future__ import annotations

import json

import pytest

from ossia.agent.engine.base import Sampling
from ossia.agent.engine.scripted import Script, ScriptedEngine
from ossia.harmony.tokenizer import Tokenizer
from tests.bench.report import Report
from tests.etude import evaluate
from tests.etude.dialogues import Dialogue
from tests.etude.exam.examination import Examiner, Outcome, Step, make_case
from tests.support.engines import ETUDE
from tests.support.streams import harmony_ids

pytestmark = pytest.mark.own_job

THOUGHT = "<|channel|>analysis<|message|>Use it.<|end|><|start|>assistant"
CALL = THOUGHT + '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>'
RESULT = "<|start|>functions.f to=assistant<|channel|>commentary<|message|>2<|end|>"
FINAL = "<|channel|>final<|message|>It is 2.<|return|>"
DIALOGUE = Dialogue(
    "functions",
    "one",
    (
        ("<|start|>user<|message|>f of 1?<|end|>", False),
        ("<|start|>assistant", False),
        (THOUGHT, True),
        (CALL.removeprefix(THOUGHT), True),
        (RESULT, False),
        ("<|start|>assistant", False),
        (FINAL, True),
    ),
)


def _examined(tokenizer: Tokenizer, *said: str | tuple[int, ...]) -> Outcome:
    engine = ScriptedEngine(Script(said), tokenizer, context_tokens=4096)
    return Examiner(engine).examine(make_case("<|start|>system<|message|>x<|end|>", DIALOGUE), Sampling(temperature=0))


def test_a_dialogue_becomes_what_is_given_and_what_is_wanted() -> None:
    start = "<|start|>system<|message|>x<|end|><|start|>user<|message|>f of 1?<|end|><|start|>assistant"
    case = make_case("<|start|>system<|message|>x<|end|>", DIALOGUE)
    assert case.steps == (Step(start, CALL), Step(RESULT + "<|start|>assistant", FINAL))
    assert [step.wants_call for step in case.steps] == [True, False]


@pytest.mark.parametrize(
    ("said", "exact", "same", "well_formed"),
    [
        ((CALL, FINAL), True, True, [True, True]),
        ((CALL.replace("Use it", "Call it"), FINAL), False, True, [True, True]),  # other thoughts
        ((CALL.replace('{"a":1}', '{"a": 1}'), FINAL), False, True, [True, True]),  # the same arguments
        ((CALL, FINAL.replace("2", "3")), False, False, [True, True]),
        ((CALL.replace('{"a":1}', '{"a":2}'),), False, False, [True]),
        ((CALL.replace("functions.f", "functions.g"),), False, False, [True]),
        ((CALL.replace('{"a":1}', '{"a":1'),), False, False, [False]),  # no JSON
        ((CALL.replace("<|call|>", "<|return|>"),), False, False, [False]),
        ((CALL.removesuffix("<|call|>"),), False, False, [False]),  # it doesn't end
        ((THOUGHT.removesuffix("<|end|><|start|>assistant") + "<|return|>",), False, False, [False]),  # no answer
        (("<|channel|>final<|message|>It is 2.<|return|>",), False, False, [True]),  # an answer in place of a call
        (("<|channel|>final<|start|>",), False, False, [False]),
    ],
)
def test_what_counts(
    said: tuple[str, ...], exact: bool, same: bool, well_formed: list[bool], etude_tokenizer: Tokenizer
) -> None:
    outcome = _examined(etude_tokenizer, *said)
    assert (outcome.exact, outcome.same) == (exact, same)
    assert [verdict.well_formed for verdict in outcome.verdicts] == well_formed


def test_the_same_text_in_other_tokens_is_not_exact(etude_tokenizer: Tokenizer) -> None:
    whole, bytes_of = harmony_ids(etude_tokenizer, FINAL), etude_tokenizer.vocabulary.tokens
    at, bytes_of_it = next((at, bytes_of[one]) for at, one in enumerate(whole) if bytes_of[one] == b" is")
    spelled = (*whole[:at], *(bytes_of.index(bytes([byte])) for byte in bytes_of_it), *whole[at + 1 :])
    assert etude_tokenizer.decode(spelled) == FINAL

    outcome = _examined(etude_tokenizer, CALL, spelled)

    assert (outcome.exact, outcome.same) == (False, True)


def test_the_first_wrong_completion_tells_how_a_dialogue_failed(etude_tokenizer: Tokenizer) -> None:
    thought = CALL.replace("Use it", "Call it")
    said = [(CALL, FINAL), (thought, FINAL), (thought, FINAL.replace("2", "23")), (FINAL,), ("<|channel|>final",)]
    outcomes = [_examined(etude_tokenizer, *one) for one in said]
    report = Report("etude")

    evaluate.count_up(report, outcomes, ["chat", "functions"])

    tables = report.to_json()["tables"]
    assert isinstance(tables, dict)
    assert tables["by failure"] == [
        {"failure": failure, "dialogues": 1, "chat": 0, "functions": 1}
        for failure in (
            "malformed",
            "answers instead of calling",
            "answer ends too late",
            "only the thought or the spelling",
        )
    ]


def test_the_command_tells_what_it_was_asked_for_and_found(capsys: pytest.CaptureFixture[str]) -> None:
    evaluate.main([str(ETUDE), "--count", "2", "--skill", "chat", "--skill", "refusal", "--jobs", "1", "--json"])
    told = json.loads(capsys.readouterr().out)
    settings = told["settings"]
    assert (settings["bytes"], settings["count"], settings["unseen"]) == (ETUDE.stat().st_size, 2, "values")
    rows = told["tables"]["by skill"]
    assert [(row["skill"], row["dialogues"]) for row in rows] == [("chat", 2), ("refusal", 2), ("all", 4)]
    assert rows[2]["exact"] == rows[0]["exact"] + rows[1]["exact"] <= rows[2]["same"] <= 4
    assert sum(row["dialogues"] for row in told["tables"]["by kind"]) == 4
