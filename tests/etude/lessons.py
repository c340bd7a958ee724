"""What training reads: dialogues made on the way, as sheets of token slots."""

from __future__ import annotations

import random
from typing import Any

from tests.etude import tokenizer
from tests.etude.dialogues import Dialogue, make_dialogue
from tests.etude.prompts import Prefix, make_prefix
from tests.etude.sheet import Sheet, lay_out
from tests.etude.words.values import Values


class Lessons:
    """An endless source of sheets. Both processes draw the same kinds of prompts, so that they take equally long."""

    def __init__(self, seed: int, rank: int, tokens: int, *, begun: bool = False) -> None:
        """`tokens`: about how many of dialogues there shall be under a prompt. `begun`: the pupil can copy already."""
        self._tokens, self._begun = tokens, begun
        self._values = Values(1000 + seed + 7919 * rank, "nothing", tokenizer.pieces())
        self._kinds = random.Random(55 + seed)

    def next(self, progress: float) -> Sheet:
        """A prompt with as many dialogues as make up the tokens; at first mostly short prompts and bare copying.

        In the last third JSON answers come more often, a few to a prompt: each has one schema, and it takes many of
        them to learn to read one.
        """
        draw, late = self._kinds.random(), progress > 0.65
        early = progress < 0.03 and not self._begun and self._kinds.random() < 0.5
        structured = draw < (0.25 if late else 0.12)
        self._values.narrow(self._values.one((40, 120, 400)) if self._values.chance(0.5) else 0)
        prefix = make_prefix(self._values, "bare" if early else "structured" if structured else None)
        dialogues: list[Dialogue] = []
        tokens, most = 0, self._tokens // 3 if structured and late else self._tokens
        while tokens < most:
            dialogue = make_dialogue(self._values, prefix, "copying" if early else None)
            dialogues.append(dialogue)
            tokens += sum(len(text) for text, _ in dialogue.segments) // 4
        return sheet_of(prefix, dialogues)

    @property
    def state(self) -> tuple[Any, Any]:
        """Where the two sources of chance are: a run that goes on sets it, and reads on where it stopped."""
        return self._values.random.getstate(), self._kinds.getstate()

    @state.setter
    def state(self, state: tuple[Any, Any]) -> None:
        self._values.random.setstate(state[0])
        self._kinds.setstate(state[1])


def sheet_of(prefix: Prefix, dialogues: list[Dialogue]) -> Sheet:
    """The ids of a prompt and its dialogues, segment by segment as they were written."""
    texts = [text for dialogue in dialogues for text, _ in dialogue.segments]
    encoded = iter(tokenizer.load().encode_batch([prefix.text, *texts]))
    prompt = next(encoded).ids
    rows: list[tuple[list[int], list[bool]]] = []
    for dialogue in dialogues:
        ids: list[int] = []
        trained: list[bool] = []
        for _, said in dialogue.segments:
            part = next(encoded).ids
            ids += part
            trained += [said] * len(part)
        rows.append((ids, trained))
    return lay_out(prompt, rows)
