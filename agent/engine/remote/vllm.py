"""vLLM: ids through `/v1/completions`, as its documentation describes it (`return_token_ids`, since 0.10.2).

https://docs.vllm.ai/en/stable/serving/openai_compatible_server/
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Sampling, Task
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.engine.remote.server import (
    Answer,
    Came,
    Ended,
    Figures,
    context_of,
    first,
    ids_of,
    seed_of,
    table,
    whole,
)
from ossia.agent.errors import EngineFailed


class Vllm:
    """A vLLM as an `IdServer`.

    None of its structured outputs are used: they hold the whole answer to one grammar from its first id on, and can't
    step aside, as our guide does, when the model gives hardly any probability to what is valid.
    """

    def __init__(self, client: Client, version: str, model: str, context_tokens: int) -> None:
        self.client = client
        self.kind = f"vLLM {client.said(version, 40)}".strip()
        self.model = model
        self.context_tokens = context_of(context_tokens)

    def complete(self, task: Task, most: int, control: Control, *, retry: bool = True) -> Answer:
        body: dict[str, Any] = {
            "model": self.model,
            "prompt": list(task.prompt.ids),
            "max_tokens": most,
            "stream": True,
            "stream_options": {"include_usage": True},
            "add_special_tokens": False,
            "return_token_ids": True,
            "stop_token_ids": sorted(task.stops),
            "include_stop_str_in_output": True,
            "skip_special_tokens": False,
            "spaces_between_special_tokens": False,
            **_sampling(task.sampling, salt=len(task.prompt.ids)),
        }
        ended: Ended | None = None
        with closing(self.client.stream("/v1/completions", body, control, retry=retry)) as events:
            for event in events:
                choice = first(event.get("choices"))
                if choice and "token_ids" not in choice:
                    name = self.client.address.name
                    raise EngineFailed(f"{name}: {self.kind} sends no token_ids: it must be vLLM 0.10.2 or newer")
                ids = ids_of(choice.get("token_ids") or [], self.client)
                if ids:
                    yield Came(ids)
                if choice.get("finish_reason"):
                    ended = self._ended(choice)
                if event.get("usage"):  # its own event, after the last ids
                    yield Came((), _figures(table(event["usage"])))
        if ended is not None:
            yield ended

    def read(self, ids: Sequence[int], control: Control) -> Answer:
        one = 1  # it refuses to answer with none
        return self.complete(Task(Prompt(tuple(ids)), sampling=Sampling(temperature=0)), one, control, retry=False)

    def tokenize(self, text: str, control: Control) -> list[int]:
        asked = {"model": self.model, "prompt": text, "add_special_tokens": False}
        return list(ids_of(self.client.post("/tokenize", asked, control).get("tokens"), self.client))

    def detokenize(self, ids: Sequence[int], control: Control) -> str:
        asked = {"model": self.model, "tokens": list(ids)}
        return str(self.client.post("/detokenize", asked, control).get("prompt"))

    def _ended(self, choice: Json) -> Ended:
        why = choice["finish_reason"]
        if why not in ("stop", "length"):  # "abort", "error", "repetition": vllm/v1/engine/__init__.py
            said = self.client.said(str(why), 40)
            raise EngineFailed(f"{self.client.address.name} broke off in mid-answer ({said}): see its log")
        return Ended("stop" if why == "stop" else "tokens", whole(choice.get("stop_reason")))


def _sampling(sampling: Sampling, *, salt: int) -> Json:
    """All of it is sent: what is left out vLLM takes from the model's `generation_config.json`."""
    asked = {
        "temperature": 1.0 if sampling.temperature is None else sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    seed = seed_of(sampling, salt=salt)
    return asked if seed is None else {**asked, "seed": seed}


def _figures(usage: Json) -> Figures:
    """`cached_tokens` comes with `--enable-prompt-tokens-details`."""
    read = whole(usage.get("prompt_tokens"))
    reused = whole(table(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return Figures(reused, None if read is None or reused is None else max(read - reused, 0))
