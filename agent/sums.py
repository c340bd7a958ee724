"""The figures of the model's steps, added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ossia.agent.engine.base import StepStats


@dataclass(slots=True)
class Sums:
    """What some steps took. Seconds of monotonic time; `prompt`, `reused`, `evaluated` and `lost` are
    tokens, summed over the steps: see `agent.engine.base.StepStats`. `untold` of the `prompt` are in neither `reused`
    nor `evaluated`: a server didn't tell how much of them its cache held. They took `untold_s` of `prefill_s`.

    Sums(steps=2, calls=1, prompt=812, reused=640, evaluated=172, completion=97, prefill_s=0.4, …)
    """

    turns: int = 0
    steps: int = 0
    calls: int = 0
    prompt: int = 0
    reused: int = 0
    evaluated: int = 0
    untold: int = 0
    lost: int = 0
    completion: int = 0
    prefill_s: float = 0.0
    untold_s: float = 0.0
    decode_s: float = 0.0
    tools_s: float = 0.0
    trimmed: int = 0

    def add(self, step: StepStats) -> None:
        """Add one step."""
        self.steps += 1
        self.prompt += step.prompt_tokens
        if step.cache_reported:
            self.reused += step.reused_tokens
            self.evaluated += step.evaluated_tokens
        else:
            self.untold += step.prompt_tokens
            self.untold_s += step.prefill_s
        self.lost += step.lost_tokens
        self.completion += step.completion_tokens
        self.prefill_s += step.prefill_s
        self.decode_s += step.decode_s

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed; None when nothing was decoded."""
        return self.completion / self.decode_s if self.decode_s > 0 and self.completion else None

    @property
    def prefill_per_s(self) -> float | None:
        """Prompt tokens read a second, without those that the cache held; None when there were none."""
        seconds = self.prefill_s - self.untold_s
        return self.evaluated / seconds if seconds > 0 and self.evaluated else None

    @property
    def reused_share(self) -> float | None:
        """Which part of the prompts the cache held already, from 0 to 1; None where that isn't known."""
        told = self.prompt - self.untold
        return self.reused / told if told else None
