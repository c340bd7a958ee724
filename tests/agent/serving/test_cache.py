"""A conversation finds its KV again; nobody else's is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ossia.agent.engine.base import Sampling
from ossia.agent.kv_cache import save_prompt_cache
from ossia.agent.serving.asked import Asked, Item
from ossia.agent.serving.fields import said
from ossia.agent.sessions.session import Options
from ossia.harmony.messages import Message
from tests.support.serving import Serving, serving

LONG = "What is 48*17? " * 40
GREEDY = Options(effort="low", sampling=Sampling(temperature=0.0))


def _asked(*texts: str, **rest: Any) -> Asked:
    """The user's words and the model's, in turn."""
    messages = (said(text) if place % 2 else Message("user", (text,)) for place, text in enumerate(texts))
    return Asked("chat", None, tuple(map(Item, messages)), store=False, max_tokens=40, **rest)


def _ask(served: Serving, asked: Asked) -> tuple[str, int, int]:
    """The answer, and the tokens that were reused and evaluated for it."""
    _, result = served.answer(asked)
    return result.text or "", result.usage.reused, result.usage.evaluated


def test_what_is_new_is_read(tmp_path: Path) -> None:
    """Of a chat client's conversation, although it has no name: its history ends with the model's own answer."""
    with serving(tmp_path, etude=True, options=GREEDY) as served:
        answer, reused, first = _ask(served, _asked(LONG))
        assert answer and reused == 0 and first > 200
        _, reused, evaluated = _ask(served, _asked(LONG, answer, "And 2+2?"))
        assert reused > 200 and evaluated < 80
        _, reused, evaluated = _ask(served, _asked(LONG, "Another answer.", "And 2+2?"))  # nobody said that
        assert evaluated > 200


def test_another_clients_text_is_not_reused(tmp_path: Path) -> None:
    """It would show in the time and in the count of cached tokens. What is the same for all is reused."""
    with serving(tmp_path, etude=True, options=GREEDY) as served:
        _ask(served, _asked(LONG, instructions="Be short.", key="a"))
        _, reused, _ = _ask(served, _asked(LONG, instructions="Be short.", key="b"))
        static = served.prompts[0].static[-1].length
        assert 0 < reused <= static
        _, reused, evaluated = _ask(served, _asked(LONG, instructions="Be short.", key="b"))
        assert reused > 200 and evaluated < 50
        _, reused, evaluated = _ask(served, _asked(LONG, instructions="Be short.", key="a"))
        assert reused > 200 and evaluated < 50, "it lost its lane to another, and nothing is read again"


def test_another_clients_instructions_are_not_guessed_piece_by_piece(tmp_path: Path) -> None:
    """A whole static part is reused or none of it: otherwise each right word of a guess would show."""
    with serving(tmp_path, etude=True, options=GREEDY) as served:
        _ask(served, _asked("Hi", instructions="The code of the safe is 4921. " * 8, key="a"))
        first = served.prompts[0].static[0].length
        _, reused, _ = _ask(served, _asked("Hi", instructions="The code of the safe is 4921. The", key="b"))
        assert reused <= first < served.prompts[0].static[-1].length
        engine = served.models[0].engine
        served.models[0].worker.submit(lambda: save_prompt_cache(engine)).result()
    stored = {int(one.name.split("-")[1]) for one in served.host.kv.glob("prompt-*")}
    assert stored <= {first}, "without --save no text of a client's is on disk"
