"""Calls as most people ask for them, in everyday words: `"Use set_lamp with room bedroom and level 12"`.

The generated exams have such among many others, so that a model may do well there and fail here: one that had learnt
from words between every name and value was right in 92 % of an exam's calls, and in 56 % of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from ossia.agent.prompt import compose
from ossia.agent.request import Request
from ossia.tools.spec import ToolSpec
from tests.etude.dialogues import Dialogue
from tests.etude.exam.examination import Case, make_case
from tests.etude.prompts import rendered
from tests.etude.said import answers, calls, user

_FUNCTIONS = (
    ("set_lamp", {"room": "string", "level": "integer"},
     (("kitchen", 40), ("bedroom", 12), ("hall", 7), ("office", 70), ("garage", 25))),
    ("add_event", {"title": "string", "day": "string"},
     (("lunch", "monday"), ("meeting", "friday"), ("party", "sunday"))),
    ("send_note", {"to": "string", "text": "string"}, (("anna", "hello"), ("bob", "thanks"), ("mum", "dinner"))),
    ("set_timer", {"minutes": "integer", "label": "string"}, ((5, "tea"), (30, "pasta"), (12, "eggs"))),
    ("play", {"title": "string"}, (("sunrise",), ("waterfall",), ("thunder",))),
    ("rate_film", {"film": "string", "stars": "integer"}, (("alien", 5), ("vertigo", 4), ("amelie", 3))),
)  # fmt: skip
_PHRASINGS = ("Call {0} with {1}.", "Use {0} with {1}", "Please call {0} with {1}", "Run {0} with {1}")


def plain_cases() -> list[Case]:
    """80 of them, each with its function alone in the prompt."""
    return [_case(name, kinds, arguments, asked) for name, kinds, arguments, asked in _asked()]


def plain_turns() -> Iterator[str]:
    """What they ask."""
    return (asked for *_, asked in _asked())


def _asked() -> Iterator[tuple[str, dict[str, str], dict[str, object], str]]:
    for name, kinds, values in _FUNCTIONS:
        for given in values:
            arguments = dict(zip(kinds, given, strict=True))
            said = " and ".join(f"{key} {value}" for key, value in arguments.items())
            yield from ((name, kinds, arguments, phrasing.format(name, said)) for phrasing in _PHRASINGS)


def _case(name: str, kinds: dict[str, str], arguments: dict[str, object], asked: str) -> Case:
    properties = {key: {"type": kind} for key, kind in kinds.items()}
    schema = {"type": "object", "properties": properties, "required": list(kinds)}
    spec = ToolSpec(f"functions.{name}", "Does it.", schema, provenance="user")
    called = calls("Call the tool.", name, arguments, "done")
    told = answers("The tool has answered.", "The tool says: done")
    prompt = rendered(compose(Request((), (spec,), "medium", None, "2026-11-27", None)))
    return make_case(prompt, Dialogue("functions", "plain", (*user(asked), *called, *told)))
