"""What stands in an engine's place when the model is a server's that takes no ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agent.control import Control
from agent.engine.base import Constraint, Generation, Progress, Prompt, Sampling
from agent.engine.remote.client import Client
from agent.errors import EngineFailed
from agent.served.api import Api
from harmony.tokenizer import Vocabulary

NOT_HAD: Final = (
    "it writes the prompts itself: sampled ids aren't replayed, nothing guides calls or schemas, no KV cache is kept, "
    "nothing is read ahead, and the tokens of a prompt are estimates"
)
"""What can't be had with such a server: told once, when it is chosen."""


class ServedEngine:
    """A server that takes no ids, in an engine's place: it has a name and a size, and generates nothing itself.

    `model` is the server's name for the model, `name` the user's. `vocabulary` is the one that prompts are measured
    with, since the server's own isn't known.
    """

    capabilities: frozenset[str] = frozenset()

    def __init__(self, client: Client, api: Api, *, model: str, context_tokens: int, vocabulary: Vocabulary) -> None:
        self.client, self.api = client, api
        self.name = self.model = model
        self.context_tokens = context_tokens
        self.vocabulary = vocabulary

    def generate(
        self,
        prompt: Prompt,
        *,
        stops: frozenset[int],
        max_tokens: int | None,
        sampling: Sampling,
        constraint: Constraint | None,
        control: Control,
    ) -> Generation:
        raise EngineFailed(f"{self.client.address.name} takes messages, no ids: use a llama-server or vLLM for that")

    def prefill(
        self, prompt: Prompt, *, control: Control, told: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Does nothing: the server reads a prompt when it answers it."""

    def close(self) -> None:
        self.client.close()
