"""What the lessons have about functions: how arguments are said, weather without a unit, several functions at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tests.etude.dialogues import make_dialogue
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.words.values import Values

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
