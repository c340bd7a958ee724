"""What the lessons have about functions: how arguments are said, weather without a unit, several functions at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.etude.declared import PURPOSES, make_usual
from tests.etude.dialogues import make_dialogue
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.words.values import Values

pytestmark = pytest.mark.own_job

_CALL = re.compile(r"to=functions\.\S+ <\|constrain\|>json<\|message\|>(.*?)<\|call\|>", re.DOTALL)


def _asked(skill: str, prompts: int) -> Iterator[tuple[Prefix, str, dict[str, object], str]]:
    """Prompt, question, the call's arguments, and all that follows."""
    values = Values(23)
    for _ in range(prompts):
        prefix = make_prefix(values)
        for _ in range(4):
            dialogue = make_dialogue(values, prefix, skill)
            text = "".join(part for part, _ in dialogue.segments)
            if called := _CALL.search(text):
                yield prefix, dialogue.user_turns[-1], json.loads(called[1]), text


def test_an_argument_of_several_words_stands_in_quotes() -> None:
    found = 0
    for _, question, arguments, text in _asked("functions", 500):
        for value in arguments.values():
            if isinstance(value, str) and " " in value and "Error: " not in text:
                assert re.search(f"[\"'`]{re.escape(value)}[\"'`]", question), question
                found += 1
    assert found > 20


def test_a_list_is_never_in_quotes() -> None:
    said = [question for _, question, arguments, _ in _asked("functions", 500) if list in map(type, arguments.values())]
    assert len(said) > 100
    assert [one for one in said if re.search(r"[\"'`]\[|\][\"'`]", one.replace('["', "[").replace('"]', "]"))] == []


def test_a_unit_is_said_where_somebody_told_it() -> None:
    seen = set()
    for prefix, question, arguments, text in _asked("weather", 600):
        if "The weather in " not in text:
            continue
        told = "fahrenheit" in arguments.values() or '"unit"' in text
        assert (re.search(r"degrees (celsius|fahrenheit)\.", text) is not None) is told, text
        asked = "fahrenheit" in question
        has_format = prefix.named["weather"].format is not None
        assert ("fahrenheit" in arguments.values()) is (asked and has_format)
        seen.add((told, has_format))
    assert len(seen) == 4


def test_there_are_up_to_six_functions() -> None:
    values = Values(24)
    counts = {len(make_prefix(values).functions) for _ in range(300)}
    assert counts == {0, 1, 2, 3, 4, 6}


def test_the_folder_itself_is_never_the_one_above() -> None:
    values = Values(25)
    turns = []
    for _ in range(400):
        prefix = make_prefix(values)
        turns += make_dialogue(values, prefix, "files").user_turns
    assert len(turns) == 400 and not [one for one in turns if one.endswith(" ..")]


def test_a_question_has_each_argument_s_name_and_value() -> None:
    for prefix, question, arguments, text in _asked("functions", 500):
        if "Error: " in text:
            continue  # one may be left out
        names = {key for one in (*prefix.functions, *prefix.named.values()) for key in one.arguments}
        for name, value in arguments.items():
            assert name in names and name in question, question
            for part in value if isinstance(value, list) else [value]:
                plain = str(part).lower() if isinstance(part, bool) else str(part)
                assert plain in question, (plain, question)


def test_a_function_that_is_not_there_is_asked_for_beside_others() -> None:
    values = Values(28)
    asked = [(prefix, make_dialogue(values, prefix, "functions")) for prefix in map(make_prefix, [values] * 500)]
    beside = [(prefix, dialogue) for prefix, dialogue in asked if prefix.functions]
    missing = [(prefix, dialogue) for prefix, dialogue in beside if dialogue.kind == "missing"]
    assert 0.05 < len(missing) / len(beside) < 0.25
    for prefix, dialogue in missing:
        assert not set(prefix.tools) & set(re.findall(r"\w+", dialogue.user_turns[-1])), dialogue.user_turns


def test_no_value_is_an_argument_s_name() -> None:
    values = Values(26)
    values.narrow(8)  # so few that they would meet
    seen = 0
    for _ in range(200):
        prefix = make_prefix(values)
        names = {one.name: set(one.arguments) for one in prefix.functions}
        text = "".join(part for part, _ in make_dialogue(values, prefix, "functions").segments)
        called = re.search(r"to=functions\.(\S+) ", text)
        if called and called[1] in names and (said := _CALL.search(text)) and "Error: " not in text:
            given = json.loads(said[1])
            assert not names[called[1]] & {value for value in given.values() if isinstance(value, str)}, text
            seen += len(given) > 1
    assert seen > 10


def test_a_function_s_purpose_is_described_in_many_ways() -> None:
    values = Values(27, "values")  # training adds words of its own
    for purpose in PURPOSES:
        told = {make_usual(values, purpose).spec.description for _ in range(1500)}
        assert len(told) > 40 and not [one for one in told if re.search(r"[\[\]|{}]|  ", one)]


def test_the_weather_comes_as_json_or_as_a_sentence() -> None:
    told = [text for _, _, _, text in _asked("weather", 600) if "The tool failed" not in text]
    in_words = [text for text in told if "The tool says: " in text]
    assert 0.04 < len(in_words) / len(told) < 0.2
    for text in in_words:
        assert (said := re.search(r"to=assistant<\|channel\|>commentary<\|message\|>(.*?)<\|end\|>", text))
        assert text.endswith(f"The tool says: {said[1]}<|return|>")
