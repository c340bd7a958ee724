"""The GPUs that llama.cpp sees, and what is kept off them, from its ggml library directly: the bindings lack this."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from ossia.agent.models.memory import GpuMemory

_GPU, _IGPU = 1, 2  # enum ggml_backend_dev_type of ggml-backend.h


@dataclass(frozen=True, slots=True)
class Build:
    """The targets of the installed llama.cpp, and the GPUs that it sees.

    `backends` are as llama.cpp calls them (CUDA, ROCm, Vulkan, MTL for Metal, CPU, …); `features` are those of the
    processor that it uses; `gpu_free` is in bytes, for each of `gpus`, and `gpu_shared` as in `GpuMemory`.

        Build("0.3.36", ("CUDA", "CPU"), ("NVIDIA GeForce RTX 4070",), (11_811_160_064,), ("AVX2", "FMA"))
    """

    version: str
    backends: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    gpu_free: tuple[int, ...] = ()
    features: tuple[str, ...] = ()
    gpu_shared: bool = False


def backend_names(ggml: ctypes.CDLL) -> tuple[str, ...]:
    """The backends of this ggml: `("CUDA", "CPU")`. Empty if the library doesn't export the calls."""
    try:
        count, get, name = ggml.ggml_backend_reg_count, ggml.ggml_backend_reg_get, ggml.ggml_backend_reg_name
    except AttributeError:
        return ()
    count.restype, get.restype, get.argtypes = ctypes.c_size_t, ctypes.c_void_p, [ctypes.c_size_t]
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    return tuple((name(get(number)) or b"").decode("utf-8", "replace") for number in range(count()))


def memory_of_gpus(ggml: ctypes.CDLL) -> GpuMemory:
    """The free memory of each GPU, in llama.cpp's order; `GpuMemory((11_811_160_064,))` on a laptop with one.

    An integrated GPU counts only if there is no other, as in llama.cpp. Empty without a GPU, or if the library doesn't
    export the calls.
    """
    try:
        devices, memory = _gpus(ggml), ggml.ggml_backend_dev_memory
    except AttributeError:
        return GpuMemory()
    size = ctypes.POINTER(ctypes.c_size_t)
    memory.restype, memory.argtypes = None, [ctypes.c_void_p, size, size]
    free = []
    for device in devices:
        room, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(device, ctypes.byref(room), ctypes.byref(total))
        free.append(room.value)
    return GpuMemory(tuple(free), shared=any(ggml.ggml_backend_dev_type(device) == _IGPU for device in devices))


def gpu_names(ggml: ctypes.CDLL) -> tuple[str, ...]:
    """The description of each GPU, in the same order: `("NVIDIA GeForce RTX 4070",)`. Empty as above."""
    try:
        devices, describe = _gpus(ggml), ggml.ggml_backend_dev_description
    except AttributeError:
        return ()
    describe.restype, describe.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    return tuple((describe(device) or b"").decode("utf-8", "replace") for device in devices)


class _Override(ctypes.Structure):
    """llama.h's `llama_model_tensor_buft_override`."""

    _fields_ = [("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p)]


def experts_with_processor(ggml: ctypes.CDLL, layers: int) -> Any:
    """The overrides that keep the experts of the first so many layers in the processor's memory; the last one is empty.

    As llama.cpp's own `--n-cpu-moe` makes them (`llm_ffn_block_regex` in its common.h). Raises AttributeError where
    the library doesn't export the call.
    """
    kind = ggml.ggml_backend_cpu_buffer_type
    kind.restype, kind.argtypes = ctypes.c_void_p, []
    patterns = (f"blk\\.{layer}\\.ffn_(up|down|gate|gate_up)_(ch|)exps".encode() for layer in range(layers))
    return (_Override * (layers + 1))(*(_Override(pattern, kind()) for pattern in patterns))


def _gpus(ggml: ctypes.CDLL) -> list[int]:
    """The handles of the GPUs. Raises AttributeError where the library doesn't export the calls."""
    count, get, kind = ggml.ggml_backend_dev_count, ggml.ggml_backend_dev_get, ggml.ggml_backend_dev_type
    count.restype, get.restype, get.argtypes = ctypes.c_size_t, ctypes.c_void_p, [ctypes.c_size_t]
    kind.restype, kind.argtypes = ctypes.c_int, [ctypes.c_void_p]
    found: dict[int, list[int]] = {_GPU: [], _IGPU: []}
    for device in map(get, range(count())):
        if kind(device) in found:
            found[kind(device)].append(device)
    return found[_GPU] or found[_IGPU]
