"""llama.cpp: what it was compiled for, which GPUs it leaves unused, and the command that changes that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ossia.agent.models.memory import size_text
from ossia.cli import paths
from ossia.cli.doctor.finding import Finding, State
from ossia.cli.doctor.hardware import Gpu, Maker, gpus
from ossia.cli.doctor.machine import Machine
from ossia.cli.doctor.rebuild import PACKAGE, installed, rebuild

_BACKENDS: Final[dict[Maker, tuple[str, ...]]] = {
    "NVIDIA": ("CUDA", "Vulkan"), "AMD": ("ROCm", "Vulkan"), "Intel": ("SYCL", "Vulkan"), "Apple": ("MTL",),
}  # fmt: skip
"""The llama.cpp backends that can use a maker's GPUs, by the names that they give themselves."""
_OPTIONS: Final[dict[Maker, str]] = {
    "NVIDIA": "-DGGML_CUDA=on", "AMD": "-DGGML_VULKAN=on", "Intel": "-DGGML_VULKAN=on", "Apple": "-DGGML_METAL=on",
}  # fmt: skip
_HIDING: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
_ASIDE: Final = "usr/local/cuda/bin/nvcc"  # where CUDA's own packages put it, which PATH may lack


def llama(machine: Machine) -> Iterator[Finding]:
    """Can llama.cpp be used, is it the one that ossia was made for, what was it compiled for?"""
    build, how = machine.build(), installed()
    if isinstance(build, str):
        text, fix = f"{PACKAGE} can't be used: {build}", "compile it again on this machine"
        yield Finding("llama.cpp", "fault", text, fix, rebuild(how, here=paths.here()))
        return
    if how.version and build.version != how.version:
        text = f"{PACKAGE} {build.version} is installed, ossia needs {how.version}: its structs differ"
        yield Finding("llama.cpp", "fault", text, "install that version", rebuild(how, here=paths.here()))
    features = ", ".join(build.features) or "no features named"
    text = f"{PACKAGE} {build.version}, compiled for {' and '.join(build.backends) or '?'} ({features})"
    yield Finding("llama.cpp", "ok", text)
    compiler = _compiler(machine)
    if compiler is None:
        text = "no C++ compiler: it is needed only to compile llama.cpp again"
        yield Finding("llama.cpp", "ok", text, "apt install build-essential, or your system's package of GCC or Clang")


def devices(machine: Machine) -> Iterator[Finding]:
    """Which GPUs are used, which aren't, and what to do."""
    build = machine.build()
    if isinstance(build, str):
        return
    there = gpus(machine)
    yield from _in_use(machine, build.gpus, build.gpu_free)
    compiled = set(build.backends)
    for gpu in there:
        if gpu.problem:
            yield Finding("devices", "warning", f"{gpu.name} can't be used: {gpu.problem}", gpu.fix)
        elif not compiled.intersection(_BACKENDS[gpu.maker]):
            yield _unused(machine, gpu, state="ok" if build.gpus or gpu.maker == "Intel" else "warning")
    others = sorted(compiled & {"CUDA", "ROCm", "Vulkan", "SYCL", "MTL"})
    if others and not build.gpus:
        hidden = [name for name in _HIDING if name in machine.environ]
        fix = f"unset {' and '.join(hidden)}" if hidden else "check the GPU's driver (nvidia-smi, vulkaninfo)"
        yield Finding("devices", "warning", f"llama.cpp was compiled for {' and '.join(others)}, but sees no GPU", fix)
    elif not there and not build.gpus:
        yield Finding("devices", "ok", "no GPU was found: llama.cpp runs on the processor")


def _in_use(machine: Machine, names: tuple[str, ...], free: tuple[int, ...]) -> Iterator[Finding]:
    if names and machine.settings.gpu_layers == 0:
        where = machine.resolved.origins["gpu_layers"]
        unset = "unset OSSIA_GPU_LAYERS" if where.startswith("OSSIA_") else "ossia config unset gpu_layers"
        text = f"{' and '.join(names)}: not used, as gpu_layers is 0 ({where})"
        yield Finding("devices", "warning", text, "let as many layers as fit run there", unset)
        return
    for name, room in zip(names, free, strict=True):
        yield Finding("devices", "ok", f"{name} is used, {size_text(room)} of its memory are free")


def _unused(machine: Machine, gpu: Gpu, *, state: State) -> Finding:
    option = _OPTIONS[gpu.maker]
    missing, before = _missing(machine, option)
    first = f"; before that, install {' and '.join(missing)}" if missing else ""
    backends = " or ".join(_BACKENDS[gpu.maker]).replace("MTL", "Metal")
    text = f"{gpu.name} isn't used: llama.cpp was compiled without {backends}"
    command = before + rebuild(installed(), option, here=paths.here())
    return Finding("devices", state, text, f"compile llama.cpp for it, which takes minutes{first}", command)


def _missing(machine: Machine, option: str) -> tuple[list[str], str]:
    """What is missing to compile with this option; and what must be written before the command."""
    missing = [] if _compiler(machine) else ["a C++ compiler"]
    before = ""
    if option == "-DGGML_CUDA=on" and not (machine.environ.get("CUDACXX") or machine.program("nvcc")):
        aside = machine.root / _ASIDE
        if aside.exists():
            before = f"CUDACXX={aside} "
        else:
            missing.append("the CUDA toolkit (nvcc)")
    if option == "-DGGML_VULKAN=on":
        headers = (("vulkan/vulkan.h", "libvulkan-dev"), ("spirv/unified1/spirv.hpp", "spirv-headers"))
        missing += [] if machine.program("glslc") else ["glslc"]
        missing += [package for file, package in headers if not _has_header(machine.root, file)]
    return missing, before


def _has_header(root: Path, file: str) -> bool:
    return any((root / folder / file).exists() for folder in ("usr/include", "usr/local/include"))


def _compiler(machine: Machine) -> str | None:
    return machine.environ.get("CXX") or machine.program("c++", "g++", "clang++", "cl")
