"""A prompt recalled from disk answers like one that was read: `python -m tests.oracle.recalled [MODEL.gguf]`.

Engines, one after the other: one reads a prompt of 633 ids and keeps its static part; one recalls that; one recalls
what another kept that read ahead; one reads all of it in the same batches; one reads it in other batches. But for the
last one they must give the same greedy ids as the first, and the same logits after the prompt, to the bit. For that it
prints how far the logits lie apart, and at the first id that differs how far those of both ids do: that is rounding.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Static, Task
from ossia.agent.engine.prompts import StoredPrompts
from tests.support.engines import ETUDE, GREEDY, Logits, load_engine, prefill

_STATIC, _OWN = 621, 12
_STEP_TOKENS, _OTHER_STEP_TOKENS = 64, 48


def main(argv: Sequence[str] | None = None) -> int:
    """Read it in each way; 1 if what is recalled differs from what was read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", default=ETUDE, metavar="MODEL.gguf")
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="of the answer (16)")
    given = parser.parse_args(argv)
    draw = random.Random(12)
    ids = tuple(draw.randrange(1000) for _ in range(_STATIC + _OWN))
    prompt = Prompt(ids, (_STATIC, len(ids)), (Static(_STATIC),))
    wrong = 0
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as ahead:
        logits, answer, _ = _ask(given, prompt, Path(kept))
        _read_ahead(given, prompt, Path(ahead))
        for what, folder, step, reused in (
            ("recalled", Path(kept), _STEP_TOKENS, _STATIC),
            ("recalled, from a chat that read ahead", Path(ahead), _STEP_TOKENS, _STATIC),
            ("read in the same batches", None, _STEP_TOKENS, 0),
            ("read in other batches", None, _OTHER_STEP_TOKENS, 0),
        ):
            others, other, held = _ask(given, prompt, folder, step)
            same = other == answer and bool(np.array_equal(others, logits))
            wrong += held != reused or not (same or step != _STEP_TOKENS)
            apart, difference = float(np.abs(others - logits).max()), _difference(given, prompt, answer, other)
            print(f"{what}: {held} of {len(ids)} ids recalled, logits at most {apart:.4f} apart, {difference}")
    return 1 if wrong else 0


def _ask(
    given: argparse.Namespace, prompt: Prompt, folder: Path | None, step: int = _STEP_TOKENS
) -> tuple[Logits, list[int], int]:
    """The logits after the prompt, the greedy answer, and how many ids needed no reading."""
    engine = load_engine(given.model, step_tokens=step)
    try:
        if folder:
            engine.prompts = StoredPrompts(folder, max_bytes=1 << 30)
        answer = engine.generate(Task(prompt, max_tokens=given.tokens, sampling=GREEDY), control=Control())
        ids = [item for item in answer if isinstance(item, int)]
        logits, _ = prefill(engine, prompt)  # of the checkpoint at its end
        engine.save_prompts()
        return logits, ids, answer.stats.reused_tokens
    finally:
        engine.close()


def _read_ahead(given: argparse.Namespace, prompt: Prompt, folder: Path) -> None:
    """As a chat does before anything is said."""
    engine = load_engine(given.model, step_tokens=_STEP_TOKENS)
    engine.prompts = StoredPrompts(folder, max_bytes=1 << 30)
    opened = (*prompt.ids[:_STATIC], 1, 2, 3)
    engine.prefill(Prompt(opened, prompt.marks[:1], prompt.static), control=Control())
    engine.close()


def _difference(given: argparse.Namespace, prompt: Prompt, one: list[int], other: list[int]) -> str:
    """Where the answers part, and how near both ids lie there."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), None)
    if at is None:
        return f"the same {len(one)} greedy ids"
    logits = prefill(engine := load_engine(given.model), Prompt((*prompt.ids, *one[:at])))[0]
    engine.close()
    gap = abs(logits[one[at]] - logits[other[at]])
    return f"id {at} of the answer differs first, and the logits of both ids lie {gap:.4f} apart"


if __name__ == "__main__":
    sys.exit(main())
