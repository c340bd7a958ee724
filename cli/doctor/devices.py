"""llama.cpp and the GPUs: its build, unused GPUs, and the command to use them."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ossia.agent.engine.devices import Build
from ossia.agent.models.memory import size_text
from ossia.cli import paths
from ossia.cli.doctor.check import Finding, Machine, State
from ossia.cli.doctor.installed import PACKAGE, installed, rebuild

Maker = Literal["NVIDIA", "AMD", "Intel", "Apple"]

_BACKENDS: Final[dict[Maker, tuple[str, ...]]] = {
    "NVIDIA": ("CUDA", "Vulkan"), "AMD": ("ROCm", "Vulkan"), "Intel": ("SYCL", "Vulkan"), "Apple": ("MTL",),
}  # fmt: skip
"""The llama.cpp backends for a maker's GPUs, by their own names."""
_OPTIONS: Final[dict[Maker, str]] = {
    "NVIDIA": "-DGGML_CUDA=on", "AMD": "-DGGML_VULKAN=on", "Intel": "-DGGML_VULKAN=on", "Apple": "-DGGML_METAL=on",
}  # fmt: skip
_HIDING: Final = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES")
_ASIDE: Final = "usr/local/cuda/bin/nvcc"  # where CUDA's own packages put it, which PATH may lack
_MAKERS: Final[dict[str, Maker]] = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
"""Vendors of the PCI ID database, pci-ids.ucw.cz."""
_DISPLAYS: Final = ("0x03", "0x12")  # PCI classes: display controllers, processing accelerators
_SMI_TIMEOUT_S: Final = 1.5
_ENGINE_TIMEOUT_S: Final = 20.0  # a GPU's driver may take seconds to wake up
_ASK: Final = (
    "import dataclasses, json; from ossia.agent.engine.llama import build;"
    " print(json.dumps(dataclasses.asdict(build())))"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of this machine. `problem` and `fix`: why no program can use it as it is; "": it can be used."""

    maker: Maker
    name: str
    problem: str = ""
    fix: str = ""


class Engine:
    """The installed llama.cpp, asked in a process of its own, which one compiled for another processor would end.

    Making one starts the process, so that other checks run meanwhile; `close` ends it.
    """

    def __init__(self) -> None:
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        self._process = subprocess.Popen([sys.executable, "-P", "-c", _ASK], stdin=nothing, stdout=pipe, stderr=pipe)
        self._found: Build | str | None = None

    def build(self) -> Build | str:
        """Its build and its GPUs; or one line about why it can't be used."""
        if self._found is None:
            self._found = self._answer()
        return self._found

    def close(self) -> None:
        """End the process if it hasn't answered yet."""
        with suppress(OSError):
            self._process.kill()
        self._process.communicate()

    def _answer(self) -> Build | str:
        try:
            out, error = self._process.communicate(timeout=_ENGINE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"it hasn't answered for {_ENGINE_TIMEOUT_S:.0f} s"
        code = self._process.returncode
        if code < 0:
            return f"loading it crashes ({signal.Signals(-code).name})"
        if code:
            return (error.decode("utf-8", "replace").strip().splitlines() or [f"exit status {code}"])[-1]
        said: dict[str, Any] = json.loads(out.splitlines()[-1])
        said |= {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
        return Build(**said)


def llama(machine: Machine) -> Iterator[Finding]:
    """llama.cpp: unusable, of the wrong version, or its backends and features."""
    build, how = machine.build(), installed()
    if isinstance(build, str):
        text, fix = f"{PACKAGE} can't be used: {build}", "compile it again on this machine"
        yield Finding("fault", text, fix, rebuild(how, here=paths.here()))
        return
    if how.version and build.version != how.version:
        text = f"{PACKAGE} {build.version} is installed, but ossia needs {how.version}"
        yield Finding("fault", text, "install that version", rebuild(how, here=paths.here()))
    features = ", ".join(build.features) or "no features named"
    text = f"{PACKAGE} {build.version}, compiled for {' and '.join(build.backends) or '?'} ({features})"
    yield Finding("ok", text)
    compiler = _compiler(machine)
    if compiler is None:
        text = "no C++ compiler: it is needed only to compile llama.cpp again"
        yield Finding("ok", text, "apt install build-essential, or your system's package of GCC or Clang")


def devices(machine: Machine) -> Iterator[Finding]:
    """The GPUs in use, those left unused, and the way to use them."""
    build = machine.build()
    if isinstance(build, str):
        return
    there = gpus(machine)
    yield from _in_use(machine, build.gpus, build.gpu_free)
    compiled = set(build.backends)
    for gpu in there:
        if gpu.problem:
            yield Finding("warning", f"{gpu.name} can't be used: {gpu.problem}", gpu.fix)
        elif not compiled.intersection(_BACKENDS[gpu.maker]):
            yield _unused(machine, gpu, state="ok" if build.gpus or gpu.maker == "Intel" else "warning")
    others = sorted(compiled & {"CUDA", "ROCm", "Vulkan", "SYCL", "MTL"})
    if others and not build.gpus:
        hidden = [name for name in _HIDING if name in machine.environ]
        fix = f"unset {' and '.join(hidden)}" if hidden else "check the GPU's driver (nvidia-smi, vulkaninfo)"
        yield Finding("warning", f"llama.cpp was compiled for {' and '.join(others)}, but sees no GPU", fix)
    elif not there and not build.gpus:
        yield Finding("ok", "no GPU was found: llama.cpp runs on the processor")


def _in_use(machine: Machine, names: tuple[str, ...], free: tuple[int, ...]) -> Iterator[Finding]:
    if names and machine.settings.gpu_layers == 0:
        where = machine.resolved.origins["gpu_layers"]
        unset = "unset OSSIA_GPU_LAYERS" if where.startswith("OSSIA_") else "ossia config unset gpu_layers"
        text = f"{' and '.join(names)}: not used, as gpu_layers is 0 ({where})"
        yield Finding("warning", text, "let as many layers as fit run there", unset)
        return
    for name, room in zip(names, free, strict=True):
        yield Finding("ok", f"{name} is used, {size_text(room)} of its memory are free")


def _unused(machine: Machine, gpu: Gpu, *, state: State) -> Finding:
    option = _OPTIONS[gpu.maker]
    missing, before = _missing(machine, option)
    first = f"; before that, install {' and '.join(missing)}" if missing else ""
    backends = " or ".join(_BACKENDS[gpu.maker]).replace("MTL", "Metal")
    text = f"{gpu.name} isn't used: llama.cpp was compiled without {backends}"
    command = before + rebuild(installed(), option, here=paths.here())
    return Finding(state, text, f"compile llama.cpp for it, which takes minutes{first}", command)


def _missing(machine: Machine, option: str) -> tuple[list[str], str]:
    """The missing tools for compiling with this option, and the variables to set before the command."""
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


# -- the hardware ------------------------------------------------------------------------------------------------------


def gpus(machine: Machine) -> list[Gpu]:
    """The GPUs: of Linux's PCI bus, NVIDIA's by nvidia-smi if that shows none, Apple's. Virtual ones don't count."""
    if sys.platform == "darwin":
        return [Gpu("Apple", "Apple GPU")] if platform.machine() == "arm64" else []
    found = list(_on_pci(machine.root))
    if not any(gpu.maker == "NVIDIA" for gpu in found):  # Windows, WSL, some containers
        found += [Gpu("NVIDIA", name) for name in _listed_by_smi(machine)]
    return found


def _on_pci(root: Path) -> Iterator[Gpu]:
    for device in sorted(root.glob("sys/bus/pci/devices/*")):
        maker = _MAKERS.get(_text_of(device / "vendor"))
        if maker is None or not _text_of(device / "class").startswith(_DISPLAYS):
            continue
        if maker == "NVIDIA":
            yield _nvidia(root, device.name)
        else:
            yield _rendering(root, device, maker)


def _nvidia(root: Path, address: str) -> Gpu:
    lines = _text_of(root / "proc/driver/nvidia/gpus" / address / "information").splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("Model:")), "")
    if name:
        return Gpu("NVIDIA", name)
    return Gpu("NVIDIA", f"NVIDIA GPU at {address}", "its driver isn't loaded", "install NVIDIA's driver")


def _rendering(root: Path, device: Path, maker: Maker) -> Gpu:
    name = _text_of(device / "product_name") or f"{maker} GPU at {device.name}"
    nodes = [root / "dev/dri" / node.name for node in device.glob("drm/renderD*")]
    if not any(node.exists() for node in nodes):
        return Gpu(maker, name, "it has no /dev/dri/renderD…", "load its driver; in a container, pass /dev/dri into it")
    if not any(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        return Gpu(maker, name, f"you may not use {nodes[0]}", "sudo usermod -aG render $USER, then log in again")
    return Gpu(maker, name)


def _listed_by_smi(machine: Machine) -> list[str]:
    program = machine.program("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SMI_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def _text_of(path: Path) -> str:
    """The text of a small file of the system; "" for an unreadable one."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
