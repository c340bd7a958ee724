"""The stand-in for an engine when a server's model takes no ids."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from ossia.agent.control import Control
from ossia.agent.engine.base import Generation, Progress, Prompt, Task
from ossia.agent.engine.remote.client import Client
from ossia.agent.errors import EngineFailed, ServerRefused
from ossia.agent.request import Request
from ossia.agent.served.api import Api
from ossia.agent.served.wire import Json, Names, conversation, plain
from ossia.harmony.tokenizer import Vocabulary

LESS: Final = "fewer guarantees: see docs/servers.md"
"""Told once, when such a server is chosen."""
NOT_HAD: Final = (
    "it writes the prompts: no replayed ids, no constrained decoding, no kept KV cache, nothing read ahead, "
    "tokens counted roughly"
)
"""The reason for that."""
_OPTIONAL: Final = (
    "stream_options", "reasoning_effort", "reasoning", "parallel_tool_calls", "response_format", "store", "seed",
    "top_k", "min_p", "top_p", "temperature",
)  # fmt: skip
_UNWANTED: Final = re.compile(r"unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted", re.I)


class ServedEngine:
    """A server that takes no ids, in an engine's place: it has a name and a size, and generates nothing itself.

    `model` is the server's name for the model, `name` the user's. `vocabulary` is the one that prompts are measured
    with, since the server's own isn't known. `context_assumed`: neither the server nor the user said how much room
    there is. `notice` gets a line when the server doesn't take a part of the requests.
    """

    capabilities: frozenset[str] = frozenset()

    def __init__(
        self,
        client: Client,
        api: Api,
        *,
        model: str,
        context_tokens: int,
        context_assumed: bool = False,
        vocabulary: Vocabulary,
        notice: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.client, self.api = client, api
        self._notice = notice
        self._left_out: set[str] = set()
        self.name = self.model = model
        self.context_tokens, self.context_assumed = context_tokens, context_assumed
        self.vocabulary = vocabulary

    def body(self, request: Request, names: Names) -> Json:
        """The body of a step's request, all of it plain, without the fields that this server has refused."""
        body = plain(self.api.body(request, conversation(request, names), self.model))
        return {key: value for key, value in body.items() if key not in self._left_out}

    def can_do_without(self, refused: ServerRefused, sent: Json) -> bool:
        """Leave out the optional fields named by a refusal: an old transformers takes few. False: it names none."""
        said = str(refused).partition(f" {refused.status}: ")[2]
        if refused.status not in (400, 422) or not _UNWANTED.search(said):
            return False
        fields = [name for name in _OPTIONAL if name in sent and re.search(rf"\b{name}\b", said)]
        if fields:
            self._notice(f"{self.client.address.name} takes no {', '.join(fields)}: left out")
            self._left_out.update(fields)
        return bool(fields)

    def generate(self, task: Task, *, control: Control) -> Generation:
        raise EngineFailed(f"{self.client.address.name} takes messages, no ids: use a llama-server or vLLM for that")

    def prefill(
        self, prompt: Prompt, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Does nothing: the server reads a prompt when it answers it."""

    def close(self) -> None:
        self.client.close()
