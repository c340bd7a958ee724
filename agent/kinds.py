"""What a message is to a person who reads the conversation."""

from __future__ import annotations

from typing import Literal

from agent.adapt import is_answer, is_call
from harmony.messages import ANALYSIS, COMMENTARY, Message

Kind = Literal["user", "thinking", "preamble", "call", "result", "answer", "other"]
"""preamble: what the model says to the user before it calls tools; other: instructions, or an unknown channel."""


def kind_of(message: Message) -> Kind:
    """`kind_of(Message("assistant", ("Hm.",), channel="analysis"))` is `"thinking"`."""
    if message.role == "user":
        return "user"
    if message.role == "tool":
        return "result"
    if is_call(message):
        return "call"
    if is_answer(message):
        return "answer"
    if message.role == "assistant" and message.channel == ANALYSIS:
        return "thinking"
    return "preamble" if message.role == "assistant" and message.channel in (COMMENTARY, None) else "other"
