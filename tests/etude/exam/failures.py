"""What is wrong with a completion, in a few words: the kinds of failures that an evaluation counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from ossia.harmony.messages import NOT_TOOLS, Message

MALFORMED = "malformed"
ONLY_WORDS = "only the thought or the spelling"
EDGES = ("begins too early", "begins too late", "ends too early", "ends too late", "is another")
FAILURES = (
    MALFORMED, "answers instead of calling", "calls instead of answering", "another tool", "no such function",
    "another function", "argument names", *(f"argument {edge}" for edge in EDGES),
    "answer's keys", *(f"answer {edge}" for edge in EDGES), ONLY_WORDS,
)  # fmt: skip
"""All of them, in the order in which they are told."""

_PRINTED = re.compile(r"print\((?:round\((?P<rounded>.*), 4\)|(?P<whole>.*))\)", re.DOTALL)


def failure(prompt: str, wanted: Sequence[Message], got: Sequence[Message] | None) -> str:
    """Which of `FAILURES` it is, "" if `got` says the same. `prompt` declares the functions; no `got`: it is malformed.

    failure(prompt, [call of f {"city": "New York"}], [call of f {"city": "New"}])    # "argument ends too early"
    """
    if not got:
        return MALFORMED
    want, have = wanted[-1], got[-1]
    if same(meaning(want), meaning(have)):
        return ""
    if calls(want) != calls(have):
        return "answers instead of calling" if calls(want) else "calls instead of answering"
    if want.recipient != have.recipient:
        return _other_name(prompt, want.recipient or "", have.recipient or "")
    what, keys = ("argument", "argument names") if calls(want) else ("answer", "answer's keys")
    (_, wanted_value), (_, got_value) = meaning(want), meaning(have)
    if not isinstance(wanted_value, dict) or not isinstance(got_value, dict):
        return f"{what} {_edge(_plain(wanted_value), _plain(got_value))}"
    if wanted_value.keys() != got_value.keys():
        return keys
    pairs = ((wanted_value[name], got_value[name]) for name in wanted_value)
    return f"{what} {_edge(*_first(map(_first_different, pairs)))}"


def calls(message: Message) -> bool:
    """Is it for a tool?"""
    return message.recipient not in NOT_TOOLS


def meaning(message: Message) -> tuple[str | None, object]:
    """Whom it is for, and what it says: arguments and JSON answers by their value."""
    value = parsed(message.text) if message.recipient != "python" else None
    return message.recipient, value if isinstance(value, dict) else message.text


def same(want: object, have: object) -> bool:
    """Are they the same JSON, the order of keys aside? 1 is neither true nor 1.0."""
    return json.dumps(want, sort_keys=True) == json.dumps(have, sort_keys=True)


def parsed(text: str) -> object:
    """The value of a JSON text; None if it is none, or if an object has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_without_twins)
    except ValueError:
        return None


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key stands there twice")
    return made


def _other_name(prompt: str, want: str, have: str) -> str:
    (family, _, _), (other, _, name) = want.partition("."), have.partition(".")
    if family != other or family != "functions":
        return "another tool"
    return "another function" if f"type {name} = (" in prompt else "no such function"


def _first_different(pair: tuple[object, object]) -> tuple[str, str]:
    """Of two values that may hold values: the first two within them that differ, as text."""
    want, have = pair
    if isinstance(want, Mapping) and isinstance(have, Mapping) and list(want) == list(have):
        want, have = list(want.values()), list(have.values())
    if isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        return _first(map(_first_different, zip(want, have, strict=True)))
    return _plain(want), _plain(have)


def _first(pairs: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """The first two that differ; none do where they are the same as text, as 40 and "40" are."""
    return next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))


def _plain(value: object) -> str:
    """A value as text. Of code only the sum, of an answer not its last mark: else no answer would ever be cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    printed = _PRINTED.fullmatch(text)
    return (printed["rounded"] or printed["whole"] or "") if printed else text.rstrip(".!")


def _edge(want: str, have: str) -> str:
    if want == have:
        return "is another"
    if have.endswith(want):
        return "begins too early"
    if want.endswith(have) and have:
        return "begins too late"
    if want.startswith(have):
        return "ends too early"
    return "ends too late" if have.startswith(want) else "is another"
