"""Shortening older text: notes for results, heads and tails, a transcript made by rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ossia.agent.request import Request, Responder, part_of
from ossia.harmony.messages import Message
from ossia.tools.text import fair_limit

_NOTE = "[Made room: "
_QUOTED_CHARS = 80
_LEAST_CHARS = 60  # of a message in a transcript: with fewer it says nothing
_LEAST_TOKENS = 40  # of a message that is cut: the mark in its middle alone has about twenty
_TRIES = 6


def note_on(result: Message, tokens: int) -> str:
    """The note that replaces a tool's result in the prompt.

    `[Made room: a result of repo_browser.open_file with 1240 tokens, "import os…", is no longer here. Call it again
    if you need it.]`
    """
    begins = " ".join(result.text[: 4 * _QUOTED_CHARS].split())[:_QUOTED_CHARS]
    return (
        f'{_NOTE}a result of {result.name} with {tokens} tokens, "{begins}…", is no longer here. '
        "Call it again if you need it.]"
    )


def is_note(text: str | None) -> bool:
    """True for a text of `note_on`."""
    return text is not None and text.startswith(_NOTE)


def worth_noting(message: Message) -> bool:
    """Would a note on it be clearly shorter than the message itself?"""
    return len(message.text) > 2 * len(note_on(message, 1000))


def head_and_tail(text: str, chars: int) -> str:
    """So many characters of the text, three quarters of them from its head, and a line that says what is missing."""
    head, tail = text[: chars * 3 // 4], text[len(text) - chars // 4 :]
    return f"{head}\n[... {len(text) - len(head) - len(tail)} characters omitted: no room]\n{tail}"


def cut_to_fit(request: Request, responder: Responder, room: int) -> Request | None:
    """The same request in at most `room` tokens: the longest messages of its history keep their heads and tails.

    The last message is left as it is. None when that isn't enough.
    """
    for _ in range(_TRIES):
        use = responder.measure(request)
        if use.used_tokens <= room:
            return request
        *old, _ = use.messages
        limit = fair_limit(old, sum(old) - (use.used_tokens - room)) - _LEAST_TOKENS // 2
        if limit < _LEAST_TOKENS:
            return None
        cut = tuple(
            _cut(message, int(len(message.text) * limit / count * 0.95)) if count > limit else message
            for message, count in zip(request.history, old, strict=False)
        )
        request = replace(request, history=(*cut, request.history[-1]))
    return None


def transcript(messages: Sequence[Message], chars: int) -> str:
    """A transcript of at most about `chars` characters: the beginning of each message, one line each.

    If even that is too much, the oldest messages are left out, and a line says how many.
    """
    said = [(part_of(message), " ".join(message.text.split())) for message in messages]
    lines = [("user" if part == "user" else "assistant", text) for part, text in said if part in ("user", "answers")]
    kept, room = 0, chars
    while kept < len(lines) and (room := room - min(_LEAST_CHARS, len(lines[-1 - kept][1]))) >= 0:
        kept += 1
    lines, left_out = lines[len(lines) - kept :], len(lines) - kept
    each = fair_limit([len(text) for _, text in lines], chars)
    shown = [f"{who}: {text if len(text) <= each else text[: max(0, each - 1)] + '…'}" for who, text in lines]
    return "\n".join([f"({left_out} messages are left out here.)", *shown] if left_out else shown)


def _cut(message: Message, chars: int) -> Message:
    return replace(message, content=(head_and_tail(message.text, chars),), sampled=None)
