"""Titles of conversations by the model, asked beside them."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Final

from ossia.agent.control import Control
from ossia.agent.engine.base import Sampling
from ossia.agent.kinds import is_answer
from ossia.agent.request import Request, Responder
from ossia.harmony.messages import FINAL, Completion, Message

_PROMPT: Final = (
    "Give this conversation a title of at most six words, in its own language. Answer with the title alone."
)
_MAX_TOKENS: Final = 32
_MOST_WORDS: Final = 8
_MOST_CHARS: Final = 60
_MARKUP: Final = str.maketrans("", "", '*`"“”„«»')
_BLANK: Final = str.maketrans(dict.fromkeys("\u115f\u1160\u2800\u3164\uffa0", " "))
"""Letters and signs that look like nothing: Hangul fillers, the empty Braille pattern."""
_NO_TITLE: Final = ("<", ">", "[", "]", "{", "}", "|", "\\", "://")
"""The characters of tags, links, JSON and tables."""


def written_title(request: Request, responder: Responder, *, control: Control) -> str:
    """The model's title for the conversation that `request` has (`Session.request_ahead`); "" if it wrote none.

    Nothing of the conversation is read again for it, and nothing of it stays. It doesn't think: with another effort
    the prompt would begin differently. Raises `AgentError` as the responder does.
    """
    asked = (*request.history, Message("user", (_PROMPT,)))
    greedy = Sampling(temperature=0)
    request = replace(
        request, history=asked, side_question=True, open_with=FINAL, max_tokens=_MAX_TOKENS, sampling=greedy
    )
    step = responder.respond(request, control=control)
    while True:
        try:
            next(step)
        except StopIteration as done:
            completion: Completion = done.value
            break
    said = [message.text for message in completion.messages if is_answer(message)]
    return as_title("".join(said)) if completion.end == "stop" else ""


def as_title(said: str) -> str:
    """The model's text as a title, on one line without markup; "" if it can't be one.

    It has 2 to 8 words (or as much in a script without spaces) and isn't a sentence, which a refusal is.

        as_title('**"Multiplying 48 by 17"**\\n')        # 'Multiplying 48 by 17'
        as_title("I can't help with that.")             # ''
    """
    said = said.translate(_BLANK).strip()
    title = " ".join(said.translate(_MARKUP).lstrip("#-_ ").split())
    words = title.split()
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in title)
    fits = max(len(words), wide // 2) >= 2 and len(words) <= _MOST_WORDS and len(title) <= _MOST_CHARS
    whole = len(said.splitlines()) == 1 and title.isprintable() and any(map(str.isalpha, title))
    sentence = title.endswith((".", "!", "?", "…", ":", ",", "。", "！", "？"))
    return title if fits and whole and not sentence and not any(one in title for one in _NO_TITLE) else ""
