"""The engine's small parts: `python -m tests.bench.engine [--runs 50]`.

Drawing an id from gpt-oss's 201,088, beside llama.cpp's own chain of samplers for the same setting and the same
logits, in turns; for several settings and two kinds of logits: a standard deviation of 3 (nearly flat: the worst case
for top-p), and peaked ones, of which one id has nearly everything, as a trained model's mostly are. Then a checkpoint
of the étude. (Whole tokens: `tests.bench.decode`, `tests.bench.own_cost`.)
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import llama_cpp as lib
import numpy as np

from ossia.agent.engine.base import Prompt, Sampling
from ossia.agent.engine.sampling import Sampler
from tests.bench.report import Report, options, ratios
from tests.support.engines import ETUDE, Logits, load_engine, prefill
from tests.support.toy_gguf import write_toy_gguf

_SETTINGS = {
    "recommended": Sampling(seed=1),
    "greedy": Sampling(temperature=0),
    "temperature 0.7": Sampling(temperature=0.7, seed=1),
    "top-k 40": Sampling(top_k=40, seed=1),
    "top-p 0.95": Sampling(top_p=0.95, seed=1),
    "min-p 0.05": Sampling(min_p=0.05, seed=1),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__, compares=True)
    parser.add_argument("--runs", type=int, default=50, metavar="K")
    given = parser.parse_args(argv)
    report = Report("engine")
    report.settings |= {"runs": given.runs}
    _sampling(report, given.runs)
    _checkpoint(report, given.runs)
    report.print(as_json=given.json, svg=given.svg)


def _sampling(report: Report, runs: int) -> None:
    with _context() as (context, logits):
        report.settings["ids"] = len(logits)
        for kind, values in _logits(len(logits)).items():
            logits[:] = values
            for name, settings in _SETTINGS.items():
                sampler, chain = Sampler(settings, len(logits)), _chain(settings)
                pick, sample = sampler.pick, lib.llama_sampler_sample
                pairs = [(_ms(lambda: pick(logits)), _ms(lambda: sample(chain, context, -1))) for _ in range(runs)]  # noqa: B023
                lib.llama_sampler_free(chain)
                report.row(
                    "an id out of all, milliseconds; ratios: llama.cpp over ossia",
                    logits=kind,
                    sampling=name,
                    ours_ms=median(ours for ours, _ in pairs),
                    ours_best_ms=min(ours for ours, _ in pairs),
                    llama_cpp_ms=median(theirs for _, theirs in pairs),
                    **ratios((theirs for _, theirs in pairs), (ours for ours, _ in pairs)),
                )


@contextmanager
def _context() -> Iterator[tuple[Any, Logits]]:
    """A context of llama.cpp with gpt-oss's vocabulary, and the logits in it, which may be written to."""
    with tempfile.TemporaryDirectory() as folder:
        params = lib.llama_model_default_params()
        params.use_extra_bufts = False  # see agent/models/needs.py about AMX
        path = write_toy_gguf(Path(folder, "toy.gguf"), vocabulary="real", layers=1, embd=32)
        model = lib.llama_model_load_from_file(str(path).encode(), params)
        context = lib.llama_init_from_model(model, lib.llama_context_default_params())
        one = (lib.llama_token * 1)(0)
        if lib.llama_decode(context, lib.llama_batch_get_one(one, 1)):
            raise RuntimeError("llama.cpp failed to decode the toy network")
        size = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        yield context, np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (size,))
        lib.llama_free(context)
        lib.llama_model_free(model)


def _logits(size: int) -> dict[str, Logits]:
    flat = (np.random.default_rng(0).standard_normal(size) * 3).astype(np.float32)
    peaked = flat.copy()
    peaked[4913] = 30
    return {"flat": flat, "peaked": peaked}


def _chain(settings: Sampling) -> Any:
    """llama.cpp's samplers for a setting, in our order: temperature, top-k, min-p, top-p."""
    chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
    if settings.temperature == 0:
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_greedy())
        return chain
    lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_temp(settings.temperature))
    if settings.top_k:
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_k(settings.top_k))
    if settings.min_p:
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_min_p(settings.min_p, 1))
    if settings.top_p < 1:
        lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_top_p(settings.top_p, 1))
    lib.llama_sampler_chain_add(chain, lib.llama_sampler_init_dist(settings.seed or 0))
    return chain


def _checkpoint(report: Report, runs: int) -> None:
    engine = load_engine(ETUDE)
    prefill(engine, Prompt(tuple(range(600))))
    saved = engine.memory.save_window()
    assert saved is not None
    report.row(
        "a checkpoint of the étude",
        bytes=len(saved),
        save_ms=median(_ms(engine.memory.save_window) for _ in range(runs)),
        restore_ms=median(_ms(lambda: engine.memory.restore_window(saved)) for _ in range(runs)),
    )
    engine.close()


def _ms(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
