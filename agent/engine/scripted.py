"""An engine that replays given completions: for tests, demonstrations and bug reports."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ossia.agent.control import Control
from ossia.agent.engine.base import Progress, Prompt, StepStats, Task
from ossia.agent.errors import ScriptEnded, ScriptInvalid
from ossia.harmony.messages import CompletionEnd
from ossia.harmony.tokenizer import Tokenizer

CONTEXT_TOKENS = 131_072
_CONTROL = re.compile(r"<\|[^<>|]*\|>")


@dataclass(frozen=True, slots=True)
class Script:
    """A script file as it was read: one entry for each step, Harmony text or ids.

    `tokens_per_s` 0: no delay. `pause_s`: the seconds before a step's first token, as for reading the prompt.
    """

    steps: tuple[str | tuple[int, ...], ...]
    tokens_per_s: float = 0.0
    pause_s: float = 0.0

    @property
    def has_ids(self) -> bool:
        """True when an entry is a list of ids, which mean something in one vocabulary only."""
        return any(not isinstance(step, str) for step in self.steps)


def read_script(path: Path) -> Script:
    """Read `{"version": 1, "tokens_per_s": 40, "steps": ["<|channel|>final<|message|>Hi.<|return|>", [200005, …]]}`.

    It may have a `pause_s`. Raises `ScriptInvalid` that names the file and what is wrong with it.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScriptInvalid(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ScriptInvalid(f"{path}: a script must be JSON: {error}") from None
    try:
        return _script(data)
    except ScriptInvalid as error:
        raise ScriptInvalid(f"{path}: {error}") from None


def _script(data: object) -> Script:
    if not isinstance(data, dict):
        raise ScriptInvalid(f'a script must be an object with "version" and "steps", not {type(data).__name__}')
    if data.get("version") != 1 or isinstance(data["version"], bool):
        raise ScriptInvalid(f'"version" must be 1, not {data.get("version")!r}: use an ossia that knows this version')
    for key in ("tokens_per_s", "pause_s"):
        number = data.get(key, 0)
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < float("inf"):
            raise ScriptInvalid(f'"{key}" must be 0 or more, not {number!r}')
    steps = data.get("steps")
    if not isinstance(steps, list):
        raise ScriptInvalid(f'"steps" must be a list, not {steps!r:.80}')
    unknown = ", ".join(sorted(set(data) - {"version", "tokens_per_s", "pause_s", "steps"}))
    if unknown:
        raise ScriptInvalid(f"only version, tokens_per_s, pause_s and steps are known, not {unknown}")
    times = float(data.get("tokens_per_s", 0)), float(data.get("pause_s", 0))
    return Script(tuple(_step(step, n) for n, step in enumerate(steps)), *times)


def _step(step: object, n: int) -> str | tuple[int, ...]:
    if isinstance(step, str):
        return step
    if isinstance(step, list) and all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in step):
        return tuple(step)
    raise ScriptInvalid(f"step {n} must be a string or a list of ids, not {step!r:.80}")


class ScriptedEngine:
    """Replays one entry of a script for each step, token by token, whatever the prompt is.

    An entry starts where the prompt ends: after `<|start|>assistant`, or after `<|message|>` in a step opened with
    `final`. It ends at its first stop id; without one its end counts as `<|endoftext|>`. Running out raises
    `ScriptEnded`. Raises `ScriptInvalid` when an entry names a control token or an id that the vocabulary lacks.
    """

    name = "script"
    capabilities: frozenset[str] = frozenset()

    def __init__(self, script: Script, tokenizer: Tokenizer, *, context_tokens: int = CONTEXT_TOKENS) -> None:
        self._steps = iter([_ids(step, n, tokenizer) for n, step in enumerate(script.steps)])
        self._seconds_per_token = 1 / script.tokens_per_s if script.tokens_per_s else 0.0
        self._pause_s = script.pause_s
        self._endoftext = tokenizer.control.endoftext
        self.vocabulary = tokenizer.vocabulary
        self.context_tokens = context_tokens

    def generate(self, task: Task, *, control: Control) -> _Replay:
        limit, at_limit = task.limit(self.context_tokens)
        ids: Sequence[int] | None = next(self._steps, None)
        if ids is None:
            raise ScriptEnded(
                "the script has no more steps, and the turn isn't over: add one that ends with a final message"
            )
        ids = _until_stop(ids, task.stops, self._endoftext)
        prompt_tokens = len(task.prompt.ids)
        return _Replay(ids, prompt_tokens, limit, at_limit, control, self._seconds_per_token, self._pause_s)

    def prefill(
        self, prompt: Prompt, *, control: Control, on_progress: Callable[[Progress], None] = lambda progress: None
    ) -> None:
        """Does nothing: no prompt is read."""

    def close(self) -> None:
        """Does nothing: no memory is held."""


@dataclass(slots=True)
class _Replay:
    """One entry, token by token. See `agent.engine.base.Generation`."""

    _ids: Sequence[int]
    _prompt_tokens: int
    _limit: int
    _at_limit: CompletionEnd
    _control: Control
    _wait_s: float
    _pause_s: float
    _done: int = 0
    _started: float = field(default_factory=time.monotonic)
    _decode_s: float = 0.0
    _end: CompletionEnd | None = None

    def __iter__(self) -> Iterator[int | Progress]:
        return self

    def __next__(self) -> int | Progress:
        if self._end is None and self._control.stopped:
            self._finish("stopped")
        elif self._end is None and self._done == len(self._ids):
            self._finish("stop")
        elif self._end is None and self._done >= self._limit:
            self._finish(self._at_limit)
        if self._end is not None:
            raise StopIteration
        if self._pause_s and not self._done:
            self._sleep(self._pause_s)
            self._started = time.monotonic()
        if self._wait_s:
            self._sleep(self._wait_s)
        token = self._ids[self._done]
        self._done += 1
        return token

    @property
    def stats(self) -> StepStats:
        read = self._prompt_tokens
        return StepStats(read, 0, self._done, self._pause_s, self._decode_s, self._end or "stop", evaluated_tokens=read)

    def close(self) -> None:
        if self._end is None:
            self._finish("stop")

    def _finish(self, end: CompletionEnd) -> None:
        self._end = end
        self._decode_s = time.monotonic() - self._started

    def _sleep(self, seconds: float) -> None:
        """Wait for the next token, or until the turn is stopped, whichever comes first."""
        until = time.monotonic() + seconds
        while not self._control.stopped and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))


def _ids(step: str | tuple[int, ...], n: int, tokenizer: Tokenizer) -> tuple[int, ...]:
    if not isinstance(step, str):
        unknown = next((token for token in step if tokenizer.token_bytes(token) is None), None)
        if unknown is not None:
            raise ScriptInvalid(
                f"step {n}: the id {unknown} isn't in the vocabulary: give --model the one it was made with"
            )
        return step
    ids: list[int] = []
    position = 0
    for match in _CONTROL.finditer(step):
        token = tokenizer.vocabulary.control.get(match[0])
        if token is None:
            raise ScriptInvalid(f"step {n}: there is no control token {match[0]} in the vocabulary")
        ids += [*tokenizer.encode(step[position : match.start()]), token]
        position = match.end()
    return (*ids, *tokenizer.encode(step[position:]))


def _until_stop(ids: Sequence[int], stops: frozenset[int], endoftext: int) -> Sequence[int]:
    """The entry up to its first stop id, which is added if missing."""
    for n, token in enumerate(ids):
        if token in stops:
            return ids[: n + 1]
    return (*ids, endoftext)
