"""The étude's greedy ids, a line of JSON for each line of stdin: `python -m tests.backends.answers`.

Runs in an environment that has ossia, but not what its tests take. The first line says what llama.cpp was compiled for.

    {"ids": [5, 7], "count": 48}  →  {"ids": [12, …], "prefill_s": 0.01, "decode_s": 0.2}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Sampling, Task
from ossia.agent.engine.llama import LlamaEngine, LlamaSettings, build
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.gguf import read_header
from ossia.agent.models.gpt_oss import read_vocabulary

CONTEXT_TOKENS = 2048


def load() -> LlamaEngine:
    """The étude, all of it on the GPU if this build has one, else on all cores."""
    vocabulary = read_vocabulary(read_header(ETUDE_PATH))
    return LlamaEngine.load(ETUDE_PATH, vocabulary=vocabulary, name="etude", settings=LlamaSettings(CONTEXT_TOKENS))[0]


def answer_of(engine: LlamaEngine, ids: Sequence[int], count: int) -> dict[str, Any]:
    """The `count` greedy ids after `ids`, which are read from the first one on, and the seconds that took."""
    engine.lane.cache.clear()
    generation = engine.generate(
        Task(Prompt(tuple(ids), ()), max_tokens=count, sampling=Sampling(temperature=0)), control=Control()
    )
    answer = [item for item in generation if isinstance(item, int)]
    return {"ids": answer, "prefill_s": generation.stats.prefill_s, "decode_s": generation.stats.decode_s}


def main() -> None:
    """Answer until stdin ends."""
    with closing(load()) as engine:
        print(json.dumps(asdict(build())), flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps(answer_of(engine, asked["ids"], asked["count"])), flush=True)


if __name__ == "__main__":
    main()
