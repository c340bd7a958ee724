"""What a plan predicts, compared with what llama.cpp reports: within 5 % of the whole, or exit 1.

    python -m tests.oracle.plan                      # tiny, mid and 20b, simulated: nothing is allocated
    python -m tests.oracle.plan --size tiny --lanes 1 8
    python -m tests.oracle.plan tiny.gguf 20b.gguf   # these files, loaded as `ossia` would load them, GPUs as well
    python -m tests.oracle.plan --resident mid.gguf  # what a process has in memory once each lane was used

A simulated model is a header with gpt-oss's vocabulary and a hole in place of the weights, which llama.cpp is told not
to allocate (`no_alloc`): KV cache and buffers are those that it computes, for f16 and q8_0, at 4k, 32k and 128k, in 1,
2, 4 and 8 lanes of so many tokens each.

What is resident is a process's memory without the file's pages, and the whole file. Several lanes are predicted from
that of one: so the oracle's own modules don't count. A buffer that is never filled makes it less, checkpoints (of which
a lane may have 64 MiB) make it more.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any, Final

import llama_cpp as lib
import psutil

from ossia.agent.build import models
from ossia.agent.control import Control
from ossia.agent.engine.base import Prompt, Task
from ossia.agent.engine.llama import LlamaEngine, gpu_memory, llama_settings
from ossia.agent.models.memory import read_memory, size_text
from ossia.agent.models.model import open_model
from ossia.agent.models.needs import BATCH_TOKENS, KvType, needs_of
from ossia.agent.models.plan import LoadOptions, plan
from ossia.agent.models.spec import ModelSpec
from tests.bench.synthetic import SIZES, write_header
from tests.support.host import host_in

MOST_OFF: Final = 0.05
CONTEXTS: Final = (4096, 32_768, 131_072)
LANES: Final = (1, 2, 4, 8)
_USED_TOKENS: Final = 1024
_MIB: Final = 2**20
_KV_TYPES: Final[dict[KvType, int]] = {"f16": lib.GGML_TYPE_F16, "q8_0": lib.GGML_TYPE_Q8_0}


@dataclass(frozen=True, slots=True)
class Compared:
    """Bytes as predicted and as llama.cpp says."""

    what: str
    predicted: int
    reported: int

    @property
    def off(self) -> float:
        return self.predicted / self.reported - 1

    def __str__(self) -> str:
        return f"{self.what:<32} {size_text(self.predicted):>10} {size_text(self.reported):>10} {self.off:>+8.2%}"


def simulated(size: str, folder: Path, counts: Sequence[int]) -> Iterator[Compared]:
    """The whole of a model of `SIZES`, for each type of KV cache, context and number of lanes."""
    path = folder / f"{size}.gguf"
    os.truncate(path, write_header(path, size))
    model, lines = open_model(path), list[str]()
    keep = lib.llama_log_callback(lambda level, text, data: lines.append(text.decode("utf-8", "replace")))
    lib.llama_log_set(keep, None)
    params = lib.llama_model_default_params()
    params.no_alloc, params.load_mode, params.n_gpu_layers = True, lib.LLAMA_LOAD_MODE_NONE, 0
    native: Any = lib.llama_model_load_from_file(os.fsencode(path), params)
    weights = int(lib.llama_model_size(native))
    for (kind, number), context, lanes in product(_KV_TYPES.items(), CONTEXTS, counts):
        lines.clear()
        settings = lib.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = lanes * context, BATCH_TOKENS, BATCH_TOKENS
        settings.n_seq_max = settings.n_outputs_max = lanes
        settings.kv_unified = lanes > 1
        settings.swa_full, settings.type_k, settings.type_v = False, number, number
        lib.llama_free(lib.llama_init_from_model(native, settings))
        said = "".join(lines)
        cells = re.findall(r"llama_kv_cache: size = +([\d.]+) MiB", said)
        buffers = re.findall(r"(?:compute|output) buffer size = +([\d.]+) MiB", said)
        needs = needs_of(model, context, kind, lanes)
        reported = weights + int(sum(map(float, (*cells, *buffers))) * _MIB)
        yield Compared(f"{size} {kind} {context:,}, {_lanes(lanes)}", needs.total - needs.own, reported)
    lib.llama_model_free(native)
    path.unlink()


def loaded(path: Path, lanes: int) -> Iterator[Compared]:
    """A file loaded by the plan for this machine: what is in RAM, and what each GPU holds."""
    model, memory = open_model(path), read_memory(gpu_memory())
    planned = plan(model, memory=memory, options=LoadOptions(lanes=lanes))
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        settings = llama_settings(planned, threads=None)
        vocabulary = model.vocabulary()
        engines = LlamaEngine.load(path, vocabulary=vocabulary, name=model.name, settings=settings, log_path=log)
        for engine in engines:
            engine.close()
        said = log.read_text("utf-8", "replace")
    sums: dict[str, float] = {}
    for device, mib in re.findall(r"(\S+) +(?:model|KV|compute|output) buffer size = +([\d.]+) MiB", said):
        on_gpu = not device.startswith("CPU") and not device.endswith("_Host")
        sums[device if on_gpu else "RAM"] = sums.get(device if on_gpu else "RAM", 0.0) + float(mib)
    in_ram, what = int(sums.pop("RAM") * _MIB), f"{model.name}, {_lanes(lanes)}"
    yield Compared(f"{what}, RAM", planned.ram_bytes - planned.needs.own, in_ram)
    gpus = [used for used in planned.offload.gpu_bytes if used]
    for used, (device, mib) in zip(gpus, sorted(sums.items()), strict=True):
        yield Compared(f"{what}, {device}", used, int(mib * _MIB))


def resident(path: Path, counts: Sequence[int]) -> Iterator[Compared]:
    """A file in processes of their own, in whose lanes nearly all of the context was read."""
    base = 0
    for lanes in (1, *(count for count in counts if count > 1)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            planned, found = pool.submit(_used, path, lanes).result()
        base = base or found - planned
        yield Compared(f"{path.stem}, {_lanes(lanes)}, resident", base + planned, found)


def _used(path: Path, lanes: int) -> tuple[int, int]:
    """The bytes planned and in memory."""
    with tempfile.TemporaryDirectory() as folder:
        spec = ModelSpec(str(path.resolve()), context=_USED_TOKENS, repack="off", private=True)
        loaded = models(spec, host_in(Path(folder)), lanes=lanes)

        def use(number: int) -> None:
            size = _USED_TOKENS - 100
            ids = Random(number).choices(range(2000), k=size)
            task = Task(Prompt(tuple(ids), marks=(size // 2, size)), max_tokens=50)
            for _ in loaded[number].engine.generate(task, control=Control()):
                pass

        for use_of_it in [lane.worker.submit(partial(use, number)) for number, lane in enumerate(loaded)]:
            use_of_it.result()
        process, planned = psutil.Process(), loaded[0].plan
        assert planned is not None
        pages = sum(one.rss for one in process.memory_maps() if one.path == str(path.resolve()))
        found = process.memory_info().rss - pages + planned.needs.weights
        for lane in loaded:
            lane.close().result()
    return planned.needs.total, found


def _lanes(count: int) -> str:
    return f"{count} lane{'s' * (count > 1)}"


def main() -> int:
    """Compare and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.plan", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", choices=sorted(SIZES))
    parser.add_argument("--lanes", type=int, nargs="+", default=LANES, metavar="N", help="1 2 4 8")
    parser.add_argument("--resident", action="store_true", help="the files in processes that have used them")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    chosen = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        runs = [loaded(path, lanes) for path in chosen.files for lanes in chosen.lanes]
        if chosen.resident:
            runs = [resident(path, chosen.lanes) for path in chosen.files]
        if not runs:
            sizes = [chosen.size] if chosen.size else SIZES
            runs = [simulated(size, Path(folder), chosen.lanes) for size in sizes]
        print(f"{'':<32} {'predicted':>10} {'reported':>10} {'off':>8}")
        for run in runs:
            for one in run:
                print(one, flush=True)
                worst = max(worst, -one.off if chosen.resident else abs(one.off))  # less is no fault
    print(f"at most {worst:.2%} off, {MOST_OFF:.0%} allowed")
    return int(worst > MOST_OFF)


if __name__ == "__main__":
    sys.exit(main())
