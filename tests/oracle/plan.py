"""What a plan predicts, compared with what llama.cpp reports: within 5 % of the whole, or exit 1.

    python -m tests.oracle.plan                      # tiny, mid and 20b, simulated: nothing is allocated
    python -m tests.oracle.plan --size tiny --lanes 1 8
    python -m tests.oracle.plan tiny.gguf 20b.gguf   # these files, loaded as `ossia` would load them, GPUs as well

A simulated model is a header with gpt-oss's vocabulary and a hole in place of the weights, which llama.cpp is told not
to allocate (`no_alloc`): KV cache and buffers are those that it computes, for f16 and q8_0, at 4k, 32k and 128k, in 1,
2, 4 and 8 lanes of so many tokens each.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import llama_cpp as lib

from ossia.agent.engine.llama import LlamaEngine, gpu_memory, llama_settings
from ossia.agent.models.memory import read_memory, size_text
from ossia.agent.models.model import open_model
from ossia.agent.models.needs import BATCH_TOKENS, KvType, needs_of
from ossia.agent.models.plan import LoadOptions, plan
from tests.bench.synthetic import SIZES, write_header

MOST_OFF: Final = 0.05
CONTEXTS: Final = (4096, 32_768, 131_072)
LANES: Final = (1, 2, 4, 8)
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
        LlamaEngine.load(path, vocabulary=vocabulary, name=model.name, settings=settings, log_path=log).close()
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


def _lanes(count: int) -> str:
    return f"{count} lane{'s' * (count > 1)}"


def main() -> int:
    """Compare and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.plan", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", choices=sorted(SIZES))
    parser.add_argument("--lanes", type=int, nargs="+", default=LANES, metavar="N", help="1 2 4 8")
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    chosen = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        runs = [loaded(path, lanes) for path in chosen.files for lanes in chosen.lanes]
        if not runs:
            sizes = [chosen.size] if chosen.size else SIZES
            runs = [simulated(size, Path(folder), chosen.lanes) for size in sizes]
        print(f"{'':<32} {'predicted':>10} {'reported':>10} {'off':>8}")
        for run in runs:
            for one in run:
                print(one, flush=True)
                worst = max(worst, abs(one.off))
    print(f"at most {worst:.2%} off, {MOST_OFF:.0%} allowed")
    return int(worst > MOST_OFF)


if __name__ == "__main__":
    sys.exit(main())
