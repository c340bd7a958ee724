"""llama.cpp's server: ids through `/completion`, one slot for the whole conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Prompt, Sampling, Task
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.engine.remote.server import (
    Answer,
    Came,
    Ended,
    Figures,
    context_of,
    ids_of,
    seconds,
    seed_of,
    table,
    whole,
)
from ossia.agent.errors import EngineFailed
from ossia.harmony.tokenizer import Vocabulary

_MOST_MISSING: Final = 3  # a character has at most four bytes
_MOST_MISSING_BYTES: Final = 64  # they may begin with whole characters; each way to cut them is tried
_PATH_CHARS: Final = 4096


class LlamaServer:
    """A llama-server as an `IdServer`.

    No grammar is sent to it. Its GBNF matches ids exactly (`<[200005]>`), but its text rules, such as a JSON string,
    see a control token as the characters of its name, and a grammar can't step aside, as our guide does, when the
    model gives hardly any probability to what is valid.
    """

    kind = "llama-server"

    def __init__(self, client: Client, props: Json, vocabulary: Vocabulary) -> None:
        self.client = client
        self.model = client.said(str(props.get("model_alias") or props.get("model_path") or "a model"), _PATH_CHARS)
        self.context_tokens = context_of(table(props.get("default_generation_settings")).get("n_ctx"))
        self._slot: int | None = None  # which one has our conversation: known once it has answered
        self._vocabulary = vocabulary
        self._ids_of_bytes: dict[bytes, int] | None = None

    def complete(self, task: Task, most: int, control: Control, *, retry: bool = True) -> Answer:
        body: dict[str, Any] = {
            "prompt": list(task.prompt.ids),
            "n_predict": most,
            "cache_prompt": True,
            "return_tokens": True,
            "stream": True,
            "return_progress": True,
            "timings_per_token": True,  # so that its figures are there if the answer is broken off
            **samplers(task.sampling, salt=len(task.prompt.ids)),
        }
        if self._slot is not None:
            body["id_slot"] = self._slot
        count = 0
        with closing(self.client.stream("/completion", body, control, retry=retry)) as events:
            for event in events:
                progress = event.get("prompt_progress")
                if progress is not None:  # its `tokens` mean nothing
                    yield _progress(table(progress), len(task.prompt.ids))
                    continue
                figures = _figures(table(event.get("timings")))
                ids = ids_of(event.get("tokens"), self.client)
                predicted = whole(event.get("tokens_predicted"))
                if ids and predicted is not None and 0 < predicted - count - len(ids) <= _MOST_MISSING:
                    ids = (*self._missing(event, ids, predicted - count - len(ids)), *ids)
                count += len(ids)
                if ids:
                    yield Came(ids, figures)
                if event.get("stop"):
                    slot = whole(event.get("id_slot"))
                    self._slot = self._slot if slot is None else slot
                    yield Came((), figures)
                    stop_id = self._vocabulary.control.get(str(event.get("stopping_word")))
                    yield Ended(_why(event, self.client), stop_id)
                    return

    def read(self, ids: Sequence[int], control: Control) -> Answer:
        return self.complete(Task(Prompt(tuple(ids)), sampling=Sampling(temperature=0)), 0, control, retry=False)

    def tokenize(self, text: str, control: Control) -> list[int]:
        asked = {"content": text, "add_special": False, "parse_special": True}
        return list(ids_of(self.client.post("/tokenize", asked, control).get("tokens"), self.client))

    def detokenize(self, ids: Sequence[int], control: Control) -> str:
        return str(self.client.post("/detokenize", {"tokens": list(ids)}, control).get("content"))

    def _missing(self, event: Json, ids: Sequence[int], count: int) -> Sequence[int]:
        """The ids that a streaming llama-server swallows: those before the last one of a character.

        It sends an event when a character is whole, with the text of all of it and the last id only
        (`server_context::process_token`). Their bytes are known from that text, and how many they are from its count.
        Where several such rows of ids have these bytes, the one of the earliest merges is taken. () if the text doesn't
        fit: no valid character comes of them.
        """
        content = str(event.get("content")).encode("utf-8", "surrogatepass")
        last = b"".join(self._vocabulary.tokens[one] for one in ids if one < len(self._vocabulary.tokens))
        if not last or not content.endswith(last) or len(content) - len(last) > _MOST_MISSING_BYTES:
            return ()
        if self._ids_of_bytes is None:
            self._ids_of_bytes = {piece: number for number, piece in enumerate(self._vocabulary.tokens) if piece}
        rows = list(_rows(content[: len(content) - len(last)], count, self._ids_of_bytes))
        return min(rows, key=max) if rows else ()


def samplers(sampling: Sampling, *, salt: int) -> Json:
    """The samplers in our order, with everything else of llama.cpp's off."""
    temperature = 1.0 if sampling.temperature is None else sampling.temperature
    if temperature == 0:
        return {"temperature": 0, "samplers": ["temperature"]}
    cuts = {"top_k": sampling.top_k > 0, "min_p": sampling.min_p > 0, "top_p": sampling.top_p < 1}
    asked = {
        "samplers": ["temperature", *(name for name, on in cuts.items() if on)],
        "temperature": temperature,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "top_p": sampling.top_p,
    }
    seed = seed_of(sampling, salt=salt)
    return asked if seed is None else {**asked, "seed": seed}


def _rows(text: bytes, count: int, ids: dict[bytes, int]) -> Iterator[tuple[int, ...]]:
    """Every way to write `text` in `count` tokens."""
    if count == 1:
        if text in ids:
            yield (ids[text],)
        return
    for end in range(1, len(text) - count + 2):
        if text[:end] in ids:
            for rest in _rows(text[end:], count - 1, ids):
                yield (ids[text[:end]], *rest)


def _progress(progress: Json, total: int) -> Progress:
    reused = min(whole(progress.get("cache")) or 0, total)
    return Progress(min(max(whole(progress.get("processed")) or 0, reused), total), total, reused)


def _figures(timings: Json) -> Figures:
    reused, evaluated = whole(timings.get("cache_n")), whole(timings.get("prompt_n"))
    return Figures(reused, evaluated, seconds(timings.get("prompt_ms")), seconds(timings.get("predicted_ms")))


def _why(event: Json, client: Client) -> Any:
    kind = event.get("stop_type")
    if kind in ("eos", "word"):
        return "stop"
    if kind == "limit":
        return "context" if event.get("truncated") else "tokens"
    why = client.said(repr(kind), 40)
    raise EngineFailed(f"llama-server ended the answer without a reason that is known ({why}): update it")
