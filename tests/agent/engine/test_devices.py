"""Asking ggml for its GPUs: the real library here, and one with devices, compiled for the test."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ossia.agent.engine.devices import backend_names, gpu_names, memory_of_gpus
from ossia.agent.engine.llama import build, gpu_memory
from ossia.agent.models.memory import GpuMemory

LIBRARY = """
#include <stddef.h>
struct device { int type; size_t free; };
static struct device devices[] = {DEVICES};
size_t ggml_backend_dev_count(void) { return sizeof devices / sizeof *devices; }
void *ggml_backend_dev_get(size_t n) { return &devices[n]; }
int ggml_backend_dev_type(void *d) { return ((struct device *)d)->type; }
void ggml_backend_dev_memory(void *d, size_t *f, size_t *t) { *f = ((struct device *)d)->free; *t = *f + 1; }
const char *ggml_backend_dev_description(void *d) { return ((struct device *)d)->type == 1 ? "card" : "chip"; }
size_t ggml_backend_reg_count(void) { return 2; }
void *ggml_backend_reg_get(size_t n) { return n ? "CPU" : "CUDA"; }
const char *ggml_backend_reg_name(void *r) { return r; }
"""


def test_the_library_in_use_is_asked() -> None:
    """Whatever this machine has: the call works, and a build without a GPU has none."""
    import llama_cpp

    free = gpu_memory().free
    assert all(isinstance(size, int) and size > 0 for size in free)
    assert llama_cpp.llama_supports_gpu_offload() or free == ()
    found = build()
    assert (found.version, found.backends[-1], len(found.gpus)) == (llama_cpp.__version__, "CPU", len(free))


@pytest.mark.skipif(shutil.which("cc") is None or sys.platform == "win32", reason="needs a C compiler")
@pytest.mark.parametrize(
    ("devices", "free", "shared"),
    [
        ("{0, 1}", (), False),
        ("{1, 12000000000}, {0, 5}", (12_000_000_000,), False),
        ("{2, 7000000000}, {1, 12000000000}, {1, 8000000000}, {3, 9}", (12_000_000_000, 8_000_000_000), False),
        ("{0, 1}, {2, 7000000000}", (7_000_000_000,), True),
    ],
)
def test_which_devices_count(devices: str, free: tuple[int, ...], shared: bool, tmp_path: Path) -> None:
    source, library = tmp_path / "ggml.c", tmp_path / "libggml.so"
    source.write_text(LIBRARY.replace("DEVICES", devices))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True, timeout=60)
    assert memory_of_gpus(ctypes.CDLL(str(library))) == GpuMemory(free, shared)
    one = "card" if "{1, " in devices else "chip"
    assert gpu_names(ctypes.CDLL(str(library))) == (one,) * len(free)
    assert backend_names(ctypes.CDLL(str(library))) == ("CUDA", "CPU")


def test_a_library_without_the_calls() -> None:
    nothing = ctypes.CDLL(None)
    assert memory_of_gpus(nothing).free == gpu_names(nothing) == backend_names(nothing) == ()
