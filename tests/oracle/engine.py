"""The engine's greedy ids beside llama-server's: `python -m tests.oracle.engine SERVER [COUNT]`.

SERVER is the program (`bash tests/bench/peers.sh` builds it). For each model (the étude, the synthetic `tiny`, a toy in
F32 whose every expert is used) COUNT prompts (50) are asked of both, one after the other, each going on from a random
place of the one before: so our engine rolls its memory back, past the sliding window too, and the server, told to cache
nothing, starts afresh each time. Both have the same settings: threads, batch, context, KV cache in f16, flash attention
left to llama.cpp, no "extra" buffers (AMX, repacking).

Where ids part, an engine with an empty memory decides, which takes the ids before several times, each time in batches
cut at other places: if it chooses now our id, now the other, or the logits of both lie within `NEAR_TIE`, it is
a tie that a rounding turns (of an activation, or of the choice of an expert: that moves the logits more); everything
else is a fault, ours or llama.cpp's, and ends the prompt. Both are printed and counted. After a tie our engine is asked
again for what comes after their id, so that every id of the answer is compared. The exit code is 1 if there was a
fault, or ties at more than `MOST_TIES` of the ids.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import llama_cpp

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.cache import Logits
from ossia.agent.engine.llama import LlamaEngine
from ossia.harmony.tokenizer import Tokenizer
from tests.bench.synthetic import write_synthetic
from tests.support.engines import ETUDE, GREEDY, load_engine
from tests.support.toy_gguf import write_toy_gguf

NEAR_TIE = 0.5
"""Logits (their standard deviation is 3) that lie nearer than this may change places."""
MOST_TIES = 0.02
"""The share of ids at which near ties may turn."""

CONTEXT_TOKENS = 2048
ANSWER_TOKENS = 48
_LONGEST_KEPT = 1200
_BATCH_TOKENS = 64
_REMEMBERED = 256  # positions that the sliding-window layers keep: 128 + a batch, rounded up

Greedy = Callable[[Sequence[int], int], list[int]]
"""The first greedy ids after a prompt, from something that remembers nothing of the prompts before."""


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the two went different ways: after `length` ids, of which `reused` were in our memory, `ours` and `theirs`.

    `preferences`: by how much the logits of the deciding runs prefer theirs; negative: ours.
    """

    length: int
    reused: int
    ours: int
    theirs: int
    preferences: tuple[float, ...]

    @property
    def is_tie(self) -> bool:
        """Whether a rounding turns it."""
        return any(abs(value) <= NEAR_TIE for value in self.preferences) or (
            min(self.preferences) < 0 < max(self.preferences)
        )


@dataclass(slots=True)
class Tally:
    """What came of the prompts asked so far."""

    prompts: int = 0
    compared_tokens: int = 0
    reused_tokens: int = 0
    returns: int = 0
    """Prompts for which a part of the memory was given up, and a part kept."""
    far_returns: int = 0
    """Of those: further back than the sliding-window layers remember, so that only a checkpoint could help."""
    partings: list[Parting] = field(default_factory=list)

    @property
    def faults(self) -> list[Parting]:
        """The partings that no rounding explains."""
        return [parting for parting in self.partings if not parting.is_tie]

    @property
    def passed(self) -> bool:
        """Whether there are no faults, and not too many ties."""
        ties = len(self.partings) - len(self.faults)
        return not self.faults and ties <= MOST_TIES * self.compared_tokens


@contextmanager
def two_engines(path: Path) -> Iterator[tuple[LlamaEngine, LlamaEngine]]:
    """The engine to compare, and one that decides; both closed at the end."""
    with (
        closing(load_engine(path, context_tokens=CONTEXT_TOKENS, batch_tokens=_BATCH_TOKENS)) as engine,
        closing(load_engine(path, context_tokens=CONTEXT_TOKENS)) as judge,
    ):
        yield engine, judge


def compare(engine: LlamaEngine, judge: LlamaEngine, greedy: Greedy, *, count: int, seed: int = 0) -> Tally:
    """Ask `engine` and `greedy` for what follows each of `count` prompts; what came of it."""
    prompts = _Prompts(Tokenizer(engine.vocabulary), seed)
    tally, history = Tally(), list[int]()
    for _ in range(count):
        prompt = prompts.following(history)
        answer = greedy(prompt.ids, ANSWER_TOKENS)
        reused = follow(engine, Judge(judge), prompt, answer, tally)
        tally.prompts += 1
        tally.reused_tokens += reused
        tally.returns += 0 < reused < len(history) - 1  # the last id of an answer isn't decoded
        tally.far_returns += 0 < reused < len(history) - _REMEMBERED
        history = [*prompt.ids, *answer]
    return tally


class _Prompts:
    """Prompts that each share a beginning with what the memory holds: with a little at its end left out, up to a mark,
    or up to any place."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._source = random.Random(seed)
        self._control = tokenizer.control
        self._words = min(tokenizer.vocabulary.control.values())  # the ids below are ordinary ones
        self._user, self._assistant = tokenizer.encode("user"), tokenizer.encode("assistant")
        self._marks: tuple[int, ...] = ()

    def following(self, history: Sequence[int]) -> Prompt:
        """The next prompt; `history`: the one before and its answer."""
        kept = self._kept(len(history))
        fresh = self._message() if self._source.random() < 0.5 else self._random_ids(500)
        ids = (*history[:kept], *fresh)
        middle = self._source.randrange(kept, len(ids))
        self._marks = (*[mark for mark in self._marks if mark <= kept], middle, len(ids))
        return Prompt(ids, self._marks)

    def _kept(self, length: int) -> int:
        kind = self._source.random()
        if kind < 0.05:
            return 0
        if kind < 0.2:
            kept = length - self._source.randrange(100)
        elif kind < 0.6 and self._marks:
            kept = self._source.choice(self._marks)
        else:
            kept = self._source.randrange(length + 1)
        return min(max(kept, 0), _LONGEST_KEPT)

    def _message(self) -> list[int]:
        """What such a model is asked, so that it knows how to go on; the user's words are random."""
        control = self._control
        opened = [control.end, control.start, *self._user, control.message]
        return [*opened, *self._random_ids(100), control.end, control.start, *self._assistant]

    def _random_ids(self, most: int) -> list[int]:
        return [self._source.randrange(self._words) for _ in range(self._source.randrange(1, most))]


def follow(engine: LlamaEngine, judge: Judge, prompt: Prompt, answer: Sequence[int], tally: Tally) -> int:
    """Compare our ids with those of `answer`, one by one; returns how many of the prompt's ids were reused at first."""
    reused, done = None, 0
    while done < len(answer):
        given = Prompt((*prompt.ids, *answer[:done]), prompt.marks)
        ours, again = _ask(engine, given, len(answer) - done)
        reused = again if reused is None else reused
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, answer[done:], strict=True)))
        done += alike
        if alike < len(ours):
            chosen = (ours[alike], answer[done])
            preferences = judge.preferences(prompt, answer[:done], *chosen)
            tally.partings.append(Parting(len(prompt.ids) + done, again, *chosen, preferences))
            done += 1
            if not tally.partings[-1].is_tie:
                break  # what is wrong once stays wrong: the rest would only take time
    tally.compared_tokens += done
    return reused or 0


def _ask(engine: LlamaEngine, prompt: Prompt, count: int) -> tuple[list[int], int]:
    """Our next ids, and how many of the prompt's were reused."""
    generation = engine.generate(Task(prompt, max_tokens=count, sampling=GREEDY), control=Control())
    ids = [item for item in generation if isinstance(item, int)]
    return ids, generation.stats.reused_tokens


class Judge:
    """Decides between two ids."""

    def __init__(self, engine: LlamaEngine) -> None:
        self._lane = engine.lane

    def preferences(self, prompt: Prompt, answer: Sequence[int], ours: int, theirs: int) -> tuple[float, ...]:
        """How much `theirs` is preferred to `ours` after `prompt` and `answer`; several numbers if that isn't 0."""
        ids = (*prompt.ids, *answer)
        found: list[float] = []
        for cuts in (
            range(len(prompt.ids), len(ids)),  # the answer one by one, as it came
            (),
            prompt.marks,
            sorted({*prompt.marks, *range(_BATCH_TOKENS, len(ids), _BATCH_TOKENS)}),
            *(range(size, len(ids), size) for size in (_BATCH_TOKENS, 100, 32, 16)),
        ):
            logits = self._logits(ids, cuts)
            found.append(float(logits[theirs] - logits[ours]))
            if abs(found[-1]) <= NEAR_TIE or min(found) < 0 < max(found):
                break
        return tuple(found)

    def _logits(self, ids: Sequence[int], cuts: Iterable[int]) -> Logits:
        """Those after `ids`, which go into an empty memory in pieces that end at `cuts`."""
        lane = self._lane
        lane.cache.clear()
        for start, end in pairwise([0, *[cut for cut in cuts if 0 < cut < len(ids)], len(ids)]):
            for first in range(start, end, lane.decoder.batch_tokens):
                assert lane.advance(ids[first : min(end, first + lane.decoder.batch_tokens)])
        return lane.decoder.logits()


class LlamaServer:
    """A llama-server of its own on a free port of loopback. `with LlamaServer(program, model) as server: …`

    Raises `ServerError` when it doesn't come up.
    """

    def __init__(
        self,
        program: Path,
        model: Path,
        *,
        log: Path,
        threads: int = 1,
        context_tokens: int = CONTEXT_TOKENS,
        checkpoints: int = 0,
        more: Sequence[str] = (),
    ) -> None:
        self._log = log
        self._port = _free_port()
        settings = {
            "--model": model, "--host": "127.0.0.1", "--port": self._port, "--parallel": 1, "--fit": "off",
            "--ctx-size": context_tokens, "--threads": threads, "--threads-batch": threads,
            "--batch-size": _BATCH_TOKENS, "--ubatch-size": _BATCH_TOKENS, "--cache-ram": 0,
            "--ctx-checkpoints": checkpoints,
        }  # fmt: skip
        flags = [str(part) for setting in settings.items() for part in setting]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [str(program), *flags, *more, "--no-repack", "--no-warmup", "--no-ui", "--verbosity", "4"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> LlamaServer:
        try:
            self._await_health(seconds=120)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where it answers: `http://127.0.0.1:41234`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def kill(self) -> None:
        """End the process at once, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def system(self) -> str:
        """What it says it was built for, as `llama_print_system_info()`: "… AVX512 = 1 | … OPENMP = 1 | REPACK = 1"."""
        found = re.search(r"(CPU : .*)", self._log.read_text("utf-8", "replace"))
        return found[1].strip() if found else ""

    def greedy(self, ids: Sequence[int], count: int) -> list[int]:
        """The first `count` greedy ids after `ids`, or fewer: up to one that ends a generation."""
        asked = {
            "prompt": list(ids), "n_predict": count, "temperature": 0, "samplers": ["temperature"],
            "cache_prompt": False, "return_tokens": True,
        }  # fmt: skip
        answer = self.complete(asked)
        if answer["timings"]["cache_n"]:
            raise ServerError(f"llama-server reused {answer['timings']['cache_n']} ids, expected none")
        return [int(token) for token in answer["tokens"]][:count]

    def complete(self, asked: Mapping[str, object]) -> Any:
        """What it answers to that (`POST /completion`). Raises `ServerError`."""
        status, body = self._exchange("POST", "/completion", json.dumps(asked))
        if status != 200:
            raise ServerError(f"llama-server answered {status}: {body[:200]!r}")
        return json.loads(body)

    def _await_health(self, *, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and self._process.poll() is None:
            try:
                if self._exchange("GET", "/health")[0] == 200:
                    return
            except OSError:  # not listening yet
                pass
            time.sleep(0.05)
        last = self._log.read_text("utf-8", "replace").splitlines()[-1:]
        raise ServerError(f"llama-server isn't up (exit code {self._process.poll()}): {last}")

    def _exchange(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=300)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


class ServerError(Exception):
    """llama-server didn't do what was asked of it; the message says what."""


def our_system() -> str:
    """What the llama.cpp that ossia runs was built for."""
    return str(llama_cpp.llama_print_system_info().decode()).strip()


def report(name: str, tally: Tally) -> str:
    """Lines for people: the counts, then each parting."""
    lines = [
        f"{name}: {tally.prompts} prompts, {tally.returns} returns ({tally.far_returns} past the window), "
        f"{tally.reused_tokens} ids reused, {tally.compared_tokens} ids alike, "
        f"{len(tally.partings) - len(tally.faults)} near ties, {len(tally.faults)} faults"
    ]
    for parting in tally.partings:
        lines.append(
            f"  {'tie' if parting.is_tie else 'FAULT'} after {parting.length} ids ({parting.reused} reused): "
            f"{parting.ours}, theirs {parting.theirs} preferred by "
            + ", ".join(f"{value:+.3f}" for value in parting.preferences)
        )
    return "\n".join(lines)


def models(folder: Path) -> dict[str, Path]:
    """The models to compare on; those that aren't there are written into `folder`."""
    toy = write_toy_gguf(folder / "toy.gguf", layers=4, experts=2, quantized=False)
    return {"étude": ETUDE, "tiny": write_synthetic(folder / "tiny.gguf", "tiny"), "toy, F32": toy}


def main() -> int:
    """Compare on each model; returns the exit code."""
    program, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 50
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        for name, path in models(Path(folder)).items():
            with LlamaServer(program, path, log=Path(folder) / "server.log") as server, two_engines(path) as engines:
                tally = compare(*engines, server.greedy, count=count)
                print(report(name, tally), flush=True)
                passed = passed and tally.passed
                if server.system != our_system():
                    print(f"built otherwise:\n  server {server.system}\n  ossia  {our_system()}")
    return 0 if passed else 1


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
