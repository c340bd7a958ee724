"""Why a plan is as it is, in words."""

from __future__ import annotations

from ossia.agent.models.explain import explain
from ossia.agent.models.memory import Memory
from ossia.agent.models.plan import Wishes, plan
from tests.support.announced import LARGE, announced

MB, GB = 10**6, 10**9
_AVX2 = frozenset({"AVX2", "REPACK"})
_LONG = "32,768 of the model's 131,072 tokens; more when asked for (--context)"
_KV = "0.8 GB as f16, with flash attention where the device has it; --kv-type q8_0: 0.4 GB"


def _rows(memory: Memory, wishes: Wishes | None = None, *, large: bool = False) -> dict[str, str]:
    model, wishes = announced(LARGE, "gpt-oss-120b") if large else announced(), wishes or Wishes()
    planned = plan(model, memory=memory, wishes=wishes, processor=_AVX2)
    return dict(explain(model, memory, planned, wishes, _AVX2))


def test_without_a_gpu() -> None:
    assert _rows(Memory(13 * GB), Wishes(repack="auto")) == {
        "context": "16,384 of the model's 131,072 tokens; 32,768 would need 13.3 GB, 13.0 GB are free",
        "GPU": "none that llama.cpp can use: the processor does everything",
        "KV cache": "0.4 GB as f16, with flash attention where the device has it; --kv-type q8_0: 0.2 GB",
        "weights": "12.1 GB, not repacked: there is no room for a copy",
        "memory": "12.8 GB; 13.0 GB are free",
    }
    plenty = _rows(Memory(60 * GB), Wishes(repack="auto"))
    assert plenty["weights"] == "12.1 GB, and 10.2 GB for a copy in the processor's order"
    assert _rows(Memory(None))["memory"] == "13.3 GB; an unknown amount is free"


def test_a_gpu_that_is_smaller_than_the_model() -> None:
    assert _rows(Memory(28 * GB, (7900 * MB,)), Wishes(repack="auto")) == {
        "context": _LONG,
        "GPU": "all 25 layers, the output's among them: 7.5 GB of 7.9 GB",
        "experts": (
            "those of the first 12 of 24 layers stay with the processor; with them 12.4 GB would be needed on the GPU"
        ),
        "KV cache": _KV,
        "weights": "12.1 GB, not repacked: the GPU does most",
        "memory": "6.0 GB; 28.0 GB are free",
    }
    tiny = _rows(Memory(28 * GB, (2 * GB,)))
    assert tiny["GPU"] == "13 of 25 layers: 1.6 GB of 2.0 GB"
    assert tiny["experts"] == ("with the processor; even without them, all layers would need 2.4 GB on the GPU")
    assert _rows(Memory(28 * GB, (GB,)))["GPU"] == "nothing: even the output layer needs more than 1.0 GB"


def test_two_gpus() -> None:
    rows = _rows(Memory(60 * GB, (24 * GB, 24 * GB)), large=True)
    assert (rows["GPUs"], rows["GPU 0"], rows["GPU 1"]) == (
        "all 37 layers, the output's among them",
        "24 layers: 22.6 GB of 24.0 GB",
        "13 layers: 22.4 GB of 24.0 GB",
    )
    assert rows["experts"].startswith("those of the first 12 of 36 layers stay with the processor; with them 64.")


def test_shared_memory() -> None:
    tight = Memory(13 * GB, (11_500 * MB,), shared=True)
    rows = _rows(tight)
    assert rows["GPU"] == (
        "all 25 layers, the output's among them: 10.9 GB of the shared memory, 11.5 GB are meant for it"
    )
    assert rows["experts"] == (
        "those of the first 3 of 24 layers stay with the processor; with them 12.0 GB would be needed on the GPU"
    )
    asked = _rows(tight, Wishes(cpu_moe=4))["experts"]
    assert asked == "those of the first 4 of 24 layers stay with the processor; as asked for"
    small = _rows(Memory(28 * GB, (500 * MB,), shared=True))["GPU"]
    assert small == "nothing: even the output layer needs more than 0.5 GB"


def test_what_was_asked_for_in_vain() -> None:
    none = "none that llama.cpp can use: the processor does everything"
    assert _rows(Memory(60 * GB), Wishes(cpu_moe=3))["GPU"] == f"{none}; without effect: --n-cpu-moe"
    both = _rows(Memory(60 * GB), Wishes(cpu_moe=3, gpu_layers=5))["GPU"]
    assert both == f"{none}; without effect: --gpu-layers, --n-cpu-moe"
    assert _rows(Memory(60 * GB), Wishes(cpu_moe=0, gpu_layers=0))["GPU"] == none


def test_a_context_that_the_model_does_not_have() -> None:
    rows = _rows(Memory(28 * GB), Wishes(context=200_000))
    assert rows["context"] == "131,072 of the model's 131,072 tokens; 200,000 were asked for"


def test_what_was_asked_for() -> None:
    rows = _rows(Memory(28 * GB, (24 * GB,)), Wishes(context="max", cpu_moe=3, kv_type="q8_0"))
    assert rows["context"] == "131,072 of the model's 131,072 tokens, as asked for"
    assert rows["experts"] == "those of the first 3 of 24 layers stay with the processor; as asked for"
    assert rows["KV cache"] == "1.7 GB as q8_0, with flash attention"
    few = _rows(Memory(28 * GB, (24 * GB,)), Wishes(gpu_layers=5))
    assert few["GPU"] == "5 of 25 layers, as asked for: 2.7 GB of 24.0 GB"
    none = _rows(Memory(28 * GB, (24 * GB,)), Wishes(gpu_layers=0))
    assert none["GPU"] == "0 of 25 layers, as asked for: 0 bytes of 24.0 GB"
