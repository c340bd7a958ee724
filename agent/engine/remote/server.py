"""The protocol of a server that takes ids, and the values that pass between it and the engine."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Sampling, Task
from ossia.agent.engine.remote.client import Client, Json
from ossia.agent.errors import EngineFailed

_MOST: Final = 1 << 31
"""Every count and every id is below this."""
_MOST_CONTEXT: Final = 131_072
"""gpt-oss's own. If a server claimed more, an endless answer would never be cut."""


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


class IdServer(Protocol):
    """A server that takes ids and gives ids. What it does raises EngineFailed."""

    client: Client
    kind: str
    """`llama-server`, `vLLM 0.11.0`: for people."""
    model: str
    """The server's name for the model."""
    context_tokens: int

    def complete(self, task: Task, most: int, control: Control, *, retry: bool = True) -> Answer:
        """The answer of at most `most` ids as it comes. If it ends without an `Ended`, it broke off or was stopped.

        `retry`: ask a server again that is busy or away, since somebody waits.
        """

    def read(self, ids: Sequence[int], control: Control) -> Answer:
        """Read a prompt into the cache, and generate as little as the server can."""

    def tokenize(self, text: str, control: Control) -> list[int]:
        """The ids that the server makes of a text; control tokens in it, spelled out, become control tokens."""

    def detokenize(self, ids: Sequence[int], control: Control) -> str:
        """The text of ids, control tokens as their names."""


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
        f"{client.address.name}: expected a list of ids, not {came}: is a proxy between that changes answers?"
    )


def table(value: object) -> Json:
    """A JSON object; {} for anything else."""
    return value if isinstance(value, Mapping) else {}


def first(value: Any) -> Json:
    """The first object of a list; {} without one."""
    return table(value[0]) if isinstance(value, list) and value else {}
