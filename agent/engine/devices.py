"""The GPUs that llama.cpp can use, and what is free on them."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Final

# Libraries of a build that runs on the processor alone; one for a GPU has another beside them (cuda, metal, vulkan, …).
_PROCESSOR_ONLY: Final = ("base", "cpu", "blas", "rpc")
_GPU, _INTEGRATED_GPU = 1, 2  # ggml_backend_dev_type; 0 is the processor


def gpu_free() -> tuple[int, ...]:
    """The free bytes of each GPU that llama.cpp here was built for. `()` without one, at no cost.

    Where there may be one this loads ggml: set first what must be set before (OpenMP).
    """
    return tuple(free for kind, free in _devices() if kind in (_GPU, _INTEGRATED_GPU)) if built_for_gpu() else ()


def built_for_gpu() -> bool:
    """Whether the installed llama.cpp has a GPU's library. Looks at file names only: nothing is loaded."""
    return any(
        path.name.startswith(("libggml-", "ggml-")) and not path.name.split("ggml-", 1)[1].startswith(_PROCESSOR_ONLY)
        for path in _library_folder().iterdir()
    )


def _library_folder() -> Path:
    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None and spec.origin is not None, "llama-cpp-python is a dependency"
    return Path(spec.origin).parent / "lib"


def _devices() -> list[tuple[int, int]]:
    """Kind and free bytes of each of ggml's devices, the processor among them."""
    base, ggml = _load("ggml-base"), _load("ggml")
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    base.ggml_backend_dev_type.restype = ctypes.c_int
    base.ggml_backend_dev_type.argtypes = [ctypes.c_void_p]
    sizes = ctypes.POINTER(ctypes.c_size_t)
    base.ggml_backend_dev_memory.restype = None
    base.ggml_backend_dev_memory.argtypes = [ctypes.c_void_p, sizes, sizes]
    found = []
    for at in range(ggml.ggml_backend_dev_count()):
        device = ggml.ggml_backend_dev_get(at)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        base.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        found.append((int(base.ggml_backend_dev_type(device)), free.value))
    return found


def _load(name: str) -> ctypes.CDLL:
    """One of llama.cpp's libraries by its path: the same one that llama_cpp loads, not a second copy."""
    folder = _library_folder()
    files = (folder / pattern.format(name) for pattern in ("lib{}.so", "lib{}.dylib", "{}.dll", "lib{}.dll"))
    return ctypes.CDLL(str(next(path for path in files if path.exists())))
