"""What is said in a dialogue, as the tokens of Harmony have it, and what later turns see of it."""

from __future__ import annotations

import json
import re

from ossia.tools.calls.results import REFUSED, REFUSED_AGAIN, UNASKED
from tests.etude.words.values import Values
from tests.etude.words.wording import phrased

Segment = tuple[str, bool]
"""A piece of the stream, and whether the assistant says it (and training is on it)."""

_START = "<|start|>assistant"
_TRAINED_RESULT = re.compile(r"<\|start\|>\S+ to=assistant<\|channel\|>analysis<")
_DENIED = (REFUSED, UNASKED, REFUSED_AGAIN)


def user(text: str) -> list[Segment]:
    return [(f"<|start|>user<|message|>{text}<|end|>", False)]


def asks(values: Values, phrasing: str, *parts: object) -> list[Segment]:
    return user(phrased(values, phrasing, *parts))


def answers(thought: str, answer: str) -> list[Segment]:
    return [(_START, False), _thinks(thought), (f"<|channel|>final<|message|>{answer}<|return|>", True)]


def calls(thought: str, function: str, arguments: object, result: str) -> list[Segment]:
    """A call of a function, on commentary, and what comes back."""
    call = f"<|channel|>commentary to=functions.{function} <|constrain|>json<|message|>{compact(arguments)}<|call|>"
    back = f"<|start|>functions.{function} to=assistant<|channel|>commentary<|message|>{result}<|end|>"
    return [(_START, False), _thinks(thought), (call, True), (back, False)]


def runs(thought: str, tool: str, text: str, result: str) -> list[Segment]:
    """A call of a trained tool, on analysis, and what comes back."""
    call = f"<|channel|>analysis to={tool} code<|message|>{text}<|call|>"
    back = f"<|start|>{tool} to=assistant<|channel|>analysis<|message|>{result}<|end|>"
    return [(_START, False), _thinks(thought), (call, True), (back, False)]


def denied(values: Values) -> str:
    """What comes back where the user, or nobody, agreed to a call."""
    return values.one(_DENIED)


def failed(error: str) -> list[Segment]:
    """What is answered whatever tool failed: the first sentence of what it gave back, without its "Error: "."""
    line = error.removeprefix("Error: ").partition("\n")[0]
    sentence, end, _ = line.partition(". ")
    return answers("The tool failed.", f"The tool failed: {sentence}{end.strip()}")


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def question(segments: list[Segment]) -> str:
    """The first user message."""
    return segments[0][0].removeprefix("<|start|>user<|message|>").removesuffix("<|end|>")


def answer(segments: list[Segment]) -> str:
    """The last final message."""
    return segments[-1][0].removeprefix("<|channel|>final<|message|>").removesuffix("<|return|>")


def past(segments: list[Segment]) -> list[Segment]:
    """A finished turn as later turns see it: no analysis, so none of the trained tools' calls, nothing to learn."""
    kept: list[Segment] = []
    for text, _ in segments:
        if _TRAINED_RESULT.match(text) or text.startswith("<|channel|>analysis to="):
            continue
        if text == _START or text.startswith("<|channel|>analysis<"):
            continue
        if text.startswith("<|channel|>"):
            text = _START + text.replace("<|return|>", "<|end|>")
        kept.append((text, False))
    return kept


def _thinks(thought: str) -> Segment:
    return f"<|channel|>analysis<|message|>{thought}<|end|>{_START}", True
