"""Sampling a step a second time: nothing of it was shown, and another draw may come out better.

The model's headers are malformed now and then (11 of 1,422 first ones in traces of gpt-oss-20b), and some turns end
with an empty answer. A step is drawn again at most once, and only if something else can come out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ossia.agent.engine.base import Sampling
from ossia.agent.kinds import is_answer, model_kind, says_nothing
from ossia.harmony.messages import Completion, Delta, Repaired

_HEADER_CHARS = 400


def can_resample(sampling: Sampling) -> bool:
    """True for a first draw, if another one would be different."""
    return sampling.attempt == 0 and sampling.temperature != 0


def is_unreadable(events: Sequence[Delta | Repaired]) -> bool:
    """True if the parser came to the end of a header without a message. A long one is an answer without a header.

    Reasoning without one is read as reasoning.
    """
    said = [one.text for one in events if isinstance(one, Delta) and model_kind(one) != "thinking"]
    mended = any(isinstance(one, Repaired) and one.code == "missing-message" for one in events)
    return mended and bool(said) and sum(map(len, said)) <= _HEADER_CHARS


def reason_to_resample(completion: Completion, sampling: Sampling) -> str | None:
    """The reason to draw a step again, in words; None: it isn't. Its other messages stay."""
    if completion.end == "unreadable":
        return "its message could not be read"
    if completion.end != "stop" or not can_resample(sampling):
        return None
    answers = [message for message in completion.messages if is_answer(message)]
    empty = bool(answers) and answers[-1] is completion.messages[-1] and all(map(says_nothing, answers))
    return "its answer was empty" if empty else None


def without_empty_answer(completion: Completion) -> Completion:
    """The same without an empty answer: in the prompt it would only be a bad example."""
    return replace(completion, messages=tuple(one for one in completion.messages if not says_nothing(one)))
