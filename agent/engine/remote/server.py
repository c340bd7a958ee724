"""The servers that take ids, llama-server and vLLM, and the values that pass between them and the engine."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Prompt, Sampling, Task
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.errors import EngineFailed
from ossia.harmony.tokenizer import Vocabulary

_MOST: Final = 1 << 31
"""Every count and every id is below this."""
_MOST_CONTEXT: Final = 131_072
"""gpt-oss's own. If a server claimed more, an endless answer would never be cut."""
_MOST_MISSING: Final = 3  # a character has at most four bytes
_MOST_MISSING_BYTES: Final = 64  # they may begin with whole characters; each way to cut them is tried
_PATH_CHARS: Final = 4096


@dataclass(frozen=True, slots=True)
class Figures:
    """The server's own: how much of the prompt it had and how much it read, and the seconds of both phases.

    None: it doesn't say.
    """

    reused: int | None = None
    evaluated: int | None = None
    prefill_s: float | None = None
    decode_s: float | None = None


@dataclass(frozen=True, slots=True)
class Came:
    """Ids that were generated, and what the server says of its work up to now."""

    ids: tuple[int, ...]
    figures: Figures = Figures()


@dataclass(frozen=True, slots=True)
class Ended:
    """The answer is whole. `stop_id` is the one that ended it, if the server names it beside the ids.

    "stop": a stop id came, "tokens": as many as were asked for, "context": its context is full.
    """

    why: Literal["stop", "tokens", "context"]
    stop_id: int | None = None


Answer = Generator[Progress | Came | Ended, None, None]
"""The items of an answer. Closing it ends the server's work."""


class LlamaServer:
    """llama.cpp's server: ids through `/completion`, one slot for the whole conversation. See `IdServer`.

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
        """The answer of at most `most` ids as it comes. If it ends without an `Ended`, it broke off or was stopped.

        `retry`: ask a server again that is busy or away, since somebody waits.
        """
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
        """Read a prompt into the cache, and generate as little as the server can."""
        return self.complete(Task(Prompt(tuple(ids)), sampling=Sampling(temperature=0)), 0, control, retry=False)

    def tokenize(self, text: str, control: Control) -> list[int]:
        """The ids that the server makes of a text; control tokens in it, spelled out, become control tokens."""
        asked = {"content": text, "add_special": False, "parse_special": True}
        return list(ids_of(self.client.post("/tokenize", asked, control).get("tokens"), self.client))

    def detokenize(self, ids: Sequence[int], control: Control) -> str:
        """The text of ids, control tokens as their names."""
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


class Vllm:
    """vLLM: ids through `/v1/completions`, with `return_token_ids` (since 0.10.2). See `IdServer`.

    https://docs.vllm.ai/en/stable/serving/openai_compatible_server/ describes it. Its structured outputs aren't used:
    they hold the whole answer to one grammar from its first id on, and can't step aside, as our guide does.
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
            **_all_sampling(task.sampling, salt=len(task.prompt.ids)),
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
                    yield Came((), _usage_figures(table(event["usage"])))
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


IdServer = LlamaServer | Vllm
"""A server that takes ids and gives ids. What it does raises EngineFailed. `kind`, for people: `vLLM 0.11.0`."""


def _all_sampling(sampling: Sampling, *, salt: int) -> Json:
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


def _usage_figures(usage: Json) -> Figures:
    """`cached_tokens` comes with `--enable-prompt-tokens-details`."""
    read = whole(usage.get("prompt_tokens"))
    reused = whole(table(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return Figures(reused, None if read is None or reused is None else max(read - reused, 0))


# -- what servers send and get ----------------------------------------------------------------------------------------


def seed_of(sampling: Sampling, *, salt: int) -> int | None:
    """The seed to send, 31 bits: another one for each step of a turn (`salt`), and for a step drawn again."""
    if sampling.seed is None:
        return None
    return (sampling.seed + 1_000_003 * sampling.attempt + 7919 * salt) % (1 << 31)


def whole(value: object) -> int | None:
    """A count or an id from a server's JSON; None if it is no such number, or absurdly large."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST else None


def context_of(value: object) -> int:
    """The tokens that a server says it has room for, at most gpt-oss's own 131,072; 0 for what is no number."""
    return min(whole(value) or 0, _MOST_CONTEXT)


def seconds(milliseconds: object) -> float | None:
    """Milliseconds as servers write them, in seconds to the microsecond; None for anything else."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or not 0 <= milliseconds < 1e12:
        return None
    return round(milliseconds / 1000, 6)


def ids_of(value: object, client: Client) -> tuple[int, ...]:
    """A list of ids. Raises EngineFailed for anything else."""
    if isinstance(value, list) and all(whole(one) is not None for one in value):
        return tuple(value)
    came = client.said(repr(value), 60)
    raise EngineFailed(
        f"{client.address.name}: expected a list of ids, not {came}: does a proxy in between change its answers?"
    )


def table(value: object) -> Json:
    """A JSON object; {} for anything else."""
    return value if isinstance(value, Mapping) else {}


def first(value: Any) -> Json:
    """The first object of a list; {} without one."""
    return table(value[0]) if isinstance(value, list) and value else {}
