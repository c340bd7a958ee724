"""The kinds of messages for readers of a conversation."""

from __future__ import annotations

from typing import Literal

from ossia.harmony.messages import ANALYSIS, COMMENTARY, FINAL, Delta, Header, Message, is_call

ModelKind = Literal["thinking", "preamble", "call", "answer"]
"""preamble: the model's words to the user before it calls tools."""
Kind = Literal["user", "result", "other"] | ModelKind
"""other: instructions, or an unknown channel."""


def kind_of(message: Message) -> Kind:
    """`kind_of(Message("assistant", ("Hm.",), channel="analysis"))` is `"thinking"`."""
    if message.role == "user":
        return "user"
    if message.role == "tool":
        return "result"
    if message.role != "assistant":
        return "other"
    kind = model_kind(message)
    return "other" if kind == "preamble" and message.channel not in (COMMENTARY, None) else kind


def model_kind(message: Message | Delta) -> ModelKind:
    """The kind of a model's message, by its recipient, then by its channel. On an unknown channel it is a preamble."""
    if is_call(message):
        return "call"
    if message.channel == ANALYSIS:
        return "thinking"
    return "answer" if message.channel == FINAL else "preamble"


def is_answer(message: Message | Delta | Header) -> bool:
    """True for the model's answer to the user: its `final`, not addressed to a tool."""
    return message.role == "assistant" and message.channel == FINAL and not is_call(message)


def says_nothing(message: Message) -> bool:
    """True for an answer that is empty or only blanks."""
    return is_answer(message) and not message.text.strip()
