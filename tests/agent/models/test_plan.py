"""What fits: predictions against llama.cpp's own figures, and every decision made of them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ossia.agent.engine.llama import processor_features
from ossia.agent.errors import OutOfMemory, SettingRefused
from ossia.agent.models.catalog import ETUDE_PATH
from ossia.agent.models.gguf_parts import TensorInfo
from ossia.agent.models.memory import GpuMemory, Memory, read_memory, size_text
from ossia.agent.models.model import open_model
from ossia.agent.models.needs import (
    Needs,
    Repack,
    buffer_bytes,
    fits,
    kv_bytes,
    needs_of,
    reason_against,
    repacked_bytes,
)
from ossia.agent.models.plan import LoadOptions, Offload, Plan, memory_lines, plan
from tests.support.announced import REAL, announced
from tests.support.toy_gguf import write_toy_gguf

MB, GB = 10**6, 10**9

_MEASURE = r"""
import re, sys
import llama_cpp as L
log = []

@L.llama_log_callback
def keep(level, text, data):
    log.append(text.decode(errors="replace"))

L.llama_log_set(keep, None)
params = L.llama_model_default_params()
params.use_extra_bufts = False
model = L.llama_model_load_from_file(sys.argv[1].encode(), params)
lanes = int(sys.argv[2])
for context in map(int, sys.argv[3:]):
    log.clear()
    settings = L.llama_context_default_params()
    settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.swa_full = context * lanes, 512, 512, False
    settings.n_outputs_max = settings.n_seq_max = lanes
    settings.kv_unified = lanes > 1
    L.llama_free(L.llama_init_from_model(model, settings))
    sizes = re.findall(r"(KV|compute|output) buffer size = +([\d.]+) MiB", "".join(log))
    kv = sum(float(size) for kind, size in sizes if kind == "KV")
    print(context, kv, sum(float(size) for kind, size in sizes if kind != "KV"))
"""


@pytest.mark.parametrize(("which", "lanes"), [("etude", 1), ("toy", 1), ("wide", 1), ("etude", 8), ("wide", 3)])
def test_cache_and_buffers_are_llama_cpp_s(which: str, lanes: int, tmp_path: Path) -> None:
    path = ETUDE_PATH
    if which != "etude":
        changes = {"layers": 5, "embd": 128, "heads": 6, "window": 300} if which == "wide" else {}
        path = write_toy_gguf(tmp_path / "toy.gguf", **changes)  # type: ignore[arg-type]
    contexts = [256, 700, 4096, 20_000]
    command = [sys.executable, "-c", _MEASURE, str(path), str(lanes), *map(str, contexts)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    network = open_model(path).architecture
    for line in shown.splitlines():
        context, kv_mib, buffer_mib = line.split()
        assert kv_bytes(network, int(context), lanes=lanes) == pytest.approx(float(kv_mib) * 2**20, abs=2**14)
        least = float(buffer_mib) * 2**20
        assert least <= buffer_bytes(network, int(context), lanes) <= least + 2 * 2**20


def test_the_real_measures() -> None:
    assert 0.5 * GB < needs_of(announced(), 8192).total - announced().weight_bytes < 0.7 * GB, (
        "the greeting counts on it"
    )
    # What llama.cpp 0.3.36 reported for a file of these shapes: KV 192 + 18 MiB at 8k; buffers 98 at 4k, 222 at 128k.
    assert kv_bytes(REAL, 8192) == (192 + 18) * 2**20
    assert kv_bytes(REAL, 131_072) == (3072 + 18) * 2**20
    assert buffer_bytes(REAL, 4096) == pytest.approx(98 * 2**20, rel=0.01)
    assert buffer_bytes(REAL, 131_072) == pytest.approx(222 * 2**20, rel=0.01)


@pytest.mark.parametrize(
    ("free", "tokens"), [(40 * GB, 32_768), (13_000 * MB, 16_384), (12_700 * MB, 8192), (9 * GB, 8192), (None, 32_768)]
)
def test_the_largest_context_that_fits(free: int | None, tokens: int) -> None:
    planned = plan(announced(), memory=Memory(free))
    assert planned.context_tokens == tokens
    assert planned.gpu_layers == 0
    expected = ()
    if free == 9 * GB:
        expected = ("gpt-oss-20b needs 12.6 GB, 9.0 GB are free: it is read from disk while it runs, which is slow",)
    assert planned.warnings == expected


def test_a_context_that_is_asked_for() -> None:
    model, plenty = announced(), Memory(40 * GB)
    assert plan(model, memory=plenty, options=LoadOptions("max")).context_tokens == 131_072
    assert plan(model, memory=plenty, options=LoadOptions(1000)).context_tokens == 1000
    cut = plan(model, memory=plenty, options=LoadOptions(200_000))
    assert cut.context_tokens == 131_072
    assert cut.warnings == ("gpt-oss-20b has a context of 131072 tokens at most: --context 200000 is cut to that",)


def test_a_small_model_has_its_own_context() -> None:
    model = open_model(ETUDE_PATH)
    network = model.architecture
    needs = Needs(4_961_664, kv_bytes(network, 4096), buffer_bytes(network, 4096), own=52_099_020)
    assert plan(model, memory=Memory(GB)) == Plan(4096, Offload(), needs)
    assert needs_of(model, 4096) == needs


def test_cache_and_buffers_that_do_not_fit() -> None:
    with pytest.raises(OutOfMemory) as failure:
        plan(announced(), memory=Memory(2 * GB), options=LoadOptions("max"))
    assert str(failure.value) == (
        "a context of 131072 tokens needs 3.7 GB on top of the weights, 2.0 GB are free: "
        "use a smaller --context, or close other programs"
    )
    with pytest.raises(OutOfMemory, match=r"a context of 8192 tokens needs 0\.5 GB"):
        plan(announced(), memory=Memory(500 * MB))


@pytest.mark.parametrize(
    ("lanes", "free", "tokens"),
    [(4, 16 * GB, 32_768), (4, 14_500 * MB, 16_384), (8, 16 * GB, 16_384), (8, 14_500 * MB, 8192), (8, None, 32_768)],
)
def test_the_largest_context_of_each_lane_that_fits(lanes: int, free: int | None, tokens: int) -> None:
    planned = plan(announced(), memory=Memory(free), options=LoadOptions(lanes=lanes))
    assert (planned.context_tokens, planned.lanes) == (tokens, lanes)
    assert planned.warnings == ()


def test_lanes_that_do_not_fit() -> None:
    model = announced()
    with pytest.raises(OutOfMemory) as failure:
        plan(model, memory=Memory(1_800 * MB), options=LoadOptions(8192, lanes=8))
    assert str(failure.value) == (
        "--parallel 8, each with a context of 8192 tokens, needs 2.0 GB on top of the weights, 1.8 GB are free: "
        "use a smaller --parallel or --context, or close other programs"
    )
    tight = plan(model, memory=Memory(13 * GB), options=LoadOptions(lanes=8))
    assert tight.warnings == (
        "gpt-oss-20b needs 14.1 GB for 8 lanes, 13.0 GB are free: it is read from disk while it runs, which is slow",
    )


def test_the_lanes_are_in_the_memory_s_lines() -> None:
    planned = plan(announced(), memory=Memory(40 * GB), options=LoadOptions(32_768, lanes=4))
    assert memory_lines(planned) == (
        "memory 15.8 GB for 4 lanes, weights not repacked",
        "weights 12.1 GB, KV cache 3.2 GB, the rest 0.4 GB",
    )


def test_lanes_leave_less_room_on_a_gpu() -> None:
    model, memory = announced(), Memory(40 * GB, (14 * GB,))
    one, four = (plan(model, memory=memory, options=LoadOptions(32_768, lanes=lanes)) for lanes in (1, 4))
    assert (one.offload.cpu_moe, four.offload.cpu_moe) == (0, 4)
    assert four.offload.kv == kv_bytes(REAL, 32_768, lanes=4)
    assert four.offload.gpu_bytes[0] <= 14 * GB


def test_layers_that_are_asked_for() -> None:
    model = announced()
    assert plan(model, memory=Memory(40 * GB, (24 * GB,)), options=LoadOptions(gpu_layers=0)).gpu_layers == 0
    assert plan(model, memory=Memory(40 * GB), options=LoadOptions(gpu_layers=7)).gpu_layers == 7
    assert plan(model, memory=Memory(40 * GB), options=LoadOptions(gpu_layers=999)).gpu_layers == 25


def test_what_is_on_the_gpu_takes_no_memory() -> None:
    model = announced()
    assert plan(model, memory=Memory(4 * GB, (24 * GB,))).warnings == ()
    assert plan(model, memory=Memory(4 * GB, (24 * GB,)), options=LoadOptions(gpu_layers=0)).warnings != ()


def test_a_gpu_that_shares_the_memory() -> None:
    model, apple = announced(), Memory(16 * GB, (12 * GB,), shared=True)
    assert plan(model, memory=apple).gpu_layers == 25
    assert apple.all_free == 16 * GB
    assert plan(model, memory=replace(apple, ram_free=9 * GB)).warnings != ()


# --- a second copy of the weights ---

_AVX2 = frozenset({"AVX2", "REPACK"})
_COPY = 24 * 423_014_400  # the experts of gpt-oss-20b


@pytest.mark.skipif(reason_against(processor_features()) is not None, reason="this build can't repack")
@pytest.mark.parametrize("which", ["etude", "toy"])
def test_the_copy_is_as_large_as_llama_cpp_s(which: str, tmp_path: Path) -> None:
    path = ETUDE_PATH if which == "etude" else write_toy_gguf(tmp_path / "toy.gguf")
    measure = _MEASURE.replace("use_extra_bufts = False", "use_extra_bufts = True")
    command = [sys.executable, "-c", measure.partition("lanes =")[0] + "print(*log)", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    mib = sum(map(float, re.findall(r"CPU_REPACK model buffer size = +([\d.]+) MiB", shown)))
    assert repacked_bytes(open_model(path).tensors.values(), processor_features()) == pytest.approx(
        mib * 2**20, abs=2**14
    )


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ({"AVX2"}, 0),  # a build without it
        ({"REPACK"}, 0),
        ({"AVX2", "REPACK"}, 1 << 8),
        ({"AVX2", "AVX512", "REPACK"}, 1 << 8 | 1 << 12),
        ({"NEON", "DOTPROD", "REPACK"}, 1 << 8 | 1 << 9 | 1 << 10),
    ],
)
def test_what_is_repacked(processor: set[str], expected: int) -> None:
    tensors = [
        TensorInfo("blk.0.ffn_up_exps.weight", (64, 16, 4), "MXFP4", 0, 1 << 8),
        TensorInfo("blk.0.ffn_down_exps.weight", (64, 12, 4), "MXFP4", 0, 1 << 9),
        TensorInfo("output.weight", (64, 16), "Q8_0", 0, 1 << 10),
        TensorInfo("token_embd.weight", (64, 16), "MXFP4", 0, 1 << 11),
        TensorInfo("blk.0.attn_q.weight", (256, 16), "Q2_K", 0, 1 << 12),
        TensorInfo("blk.0.attn_norm.weight", (64,), "F32", 0, 1 << 13),
    ]
    assert repacked_bytes(tensors, frozenset(processor)) == expected


@pytest.mark.parametrize(
    ("repack", "memory", "copy"),
    [
        ("off", Memory(99 * GB), 0),
        ("auto", Memory(26 * GB), _COPY),
        ("auto", Memory(25 * GB), 0),  # it would fit, and nothing else
        ("auto", Memory(None), 0),
        ("auto", Memory(99 * GB, (4 * GB,)), 0),
        ("on", Memory(25 * GB), _COPY),
        ("on", Memory(None), _COPY),
        ("on", Memory(99 * GB, (4 * GB,)), 21 * 423_014_400),  # not what is on the GPU
    ],
)
def test_where_the_copy_is_made(repack: Repack, memory: Memory, copy: int) -> None:
    planned = plan(announced(), memory=memory, options=LoadOptions(repack=repack), processor=_AVX2)
    assert (planned.needs.repacked, planned.repack) == (copy, copy > 0)
    assert planned.context_tokens == 32_768


def test_a_copy_that_is_asked_for_comes_before_a_long_context() -> None:
    planned = plan(announced(), memory=Memory(23 * GB), options=LoadOptions(repack="on"), processor=_AVX2)
    assert (planned.context_tokens, planned.repack) == (16_384, True)


def test_a_copy_that_can_not_be_made_is_refused() -> None:
    with pytest.raises(OutOfMemory) as full:
        plan(announced(), memory=Memory(20 * GB), options=LoadOptions(repack="on"), processor=_AVX2)
    assert str(full.value) == (
        "gpt-oss-20b needs 22.8 GB with a second, repacked copy of its weights, 20.0 GB are free: "
        "leave out --repack, or close other programs"
    )
    with pytest.raises(SettingRefused) as refused:
        plan(announced(), memory=Memory(99 * GB), options=LoadOptions(repack="on"), processor=_AVX2 | {"AMX_INT8"})
    assert str(refused.value) == (
        "--repack on: llama.cpp was built for a processor with AMX, where repacking can crash it: leave it out"
    )
    assert not plan(
        announced(), memory=Memory(99 * GB), options=LoadOptions(repack="auto"), processor=_AVX2 | {"AMX_INT8"}
    ).repack
    with pytest.raises(SettingRefused, match=r"llama\.cpp was built without repacking"):
        plan(announced(), memory=Memory(99 * GB), options=LoadOptions(repack="on"), processor=frozenset({"AVX2"}))


def test_whether_it_fits() -> None:
    model = announced()
    assert fits(model, Memory(None))
    assert fits(model, Memory(13 * GB))
    assert not fits(model, Memory(12 * GB))
    assert fits(model, Memory(2 * GB, (16 * GB,)))
    assert fits(open_model(ETUDE_PATH), Memory(90 * MB))


# --- what is free ---


def _machine(root: Path, available_kb: int | None, groups: dict[str, str] | None = None) -> Path:
    files = dict(groups or {})
    if available_kb is not None:
        files["proc/meminfo"] = f"MemTotal:       99 kB\nMemFree:        1 kB\nMemAvailable:   {available_kb} kB\n"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's tables")


@linux_only
def test_memory_of_a_plain_machine(tmp_path: Path) -> None:
    assert read_memory(root=_machine(tmp_path, 1000)) == Memory(1_024_000)
    assert read_memory(GpuMemory((5,)), root=_machine(tmp_path, 1000)) == Memory(1_024_000, (5,))
    assert read_memory(GpuMemory((5,), shared=True), root=_machine(tmp_path, 1000)) == Memory(1_024_000, (5,), True)
    aside = GpuMemory((99 * 1024, 7_000_000), shared=True)  # more than the system has in all
    assert read_memory(aside, root=_machine(tmp_path, 1000)) == Memory(8_024_000, aside.free, True)
    assert read_memory(root=tmp_path / "none") == Memory(None)


@linux_only
def test_a_container_s_limit_counts(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/user/box"
    files = {
        "proc/self/cgroup": "0::/user/box\n",
        f"{group}/memory.max": "500000\n",
        f"{group}/memory.current": "300000\n",
        f"{group}/memory.stat": "anon 100\ninactive_file 50000\n",
        "sys/fs/cgroup/user/memory.max": "max\n",
        "sys/fs/cgroup/user/memory.current": "300000\n",
    }
    assert read_memory(root=_machine(tmp_path, 1000, files)) == Memory(250_000)
    (tmp_path / group / "memory.current").write_text("900000")
    assert read_memory(root=tmp_path) == Memory(0)
    (tmp_path / "sys/fs/cgroup/user/memory.max").write_text("310000")
    (tmp_path / group / "memory.max").write_text("max")
    assert read_memory(root=tmp_path) == Memory(10_000)


@linux_only
def test_a_container_of_the_first_version(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/memory/box"
    files = {
        "proc/self/cgroup": "9:cpu:/other\n4:memory,x:/box\n",
        f"{group}/memory.limit_in_bytes": "500000",
        f"{group}/memory.usage_in_bytes": "300000",
        f"{group}/memory.stat": "total_inactive_file 1000\n",
    }
    assert read_memory(root=_machine(tmp_path, 1000, files)) == Memory(201_000)


@linux_only
def test_this_machine() -> None:
    free = read_memory().ram_free
    assert free is not None
    total = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    assert total
    assert 0 < free <= int(total[1]) * 1024


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1_000, "1 kB"), (12_345, "12.3 kB"), (999_499, "999 kB")),
        *((999_500, "1.0 MB"), (36_600_000, "36.6 MB"), (100_000_000, "0.1 GB"), (12_109_000_000, "12.1 GB")),
    ],
)
def test_a_size_is_told_in_the_unit_that_fits(count: int, words: str) -> None:
    assert size_text(count) == words
