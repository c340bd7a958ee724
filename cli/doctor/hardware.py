"""The GPUs of this machine as its system lists them, whether llama.cpp can use them or not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ossia.cli.doctor.machine import Machine, text_of

Maker = Literal["NVIDIA", "AMD", "Intel", "Apple"]

_MAKERS: Final[dict[str, Maker]] = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
"""Vendors of the PCI ID database, pci-ids.ucw.cz."""
_DISPLAYS: Final = ("0x03", "0x12")  # PCI classes: display controllers, processing accelerators
_SMI_TIMEOUT_S: Final = 1.5


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that is there. `problem` and `fix`: why no program can use it as it is; "": it can be used."""

    maker: Maker
    name: str
    problem: str = ""
    fix: str = ""


def gpus(machine: Machine) -> list[Gpu]:
    """The GPUs: of Linux's PCI bus, NVIDIA's by nvidia-smi if that shows none, Apple's. Virtual ones don't count."""
    if sys.platform == "darwin":
        return [Gpu("Apple", "Apple GPU")] if platform.machine() == "arm64" else []
    found = list(_on_pci(machine.root))
    if not any(gpu.maker == "NVIDIA" for gpu in found):  # Windows, WSL, some containers
        found += [Gpu("NVIDIA", name) for name in _told_by_smi(machine)]
    return found


def _on_pci(root: Path) -> Iterator[Gpu]:
    for device in sorted(root.glob("sys/bus/pci/devices/*")):
        maker = _MAKERS.get(text_of(device / "vendor"))
        if maker is None or not text_of(device / "class").startswith(_DISPLAYS):
            continue
        if maker == "NVIDIA":
            yield _nvidia(root, device.name)
        else:
            yield _rendering(root, device, maker)


def _nvidia(root: Path, address: str) -> Gpu:
    lines = text_of(root / "proc/driver/nvidia/gpus" / address / "information").splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("Model:")), "")
    if name:
        return Gpu("NVIDIA", name)
    return Gpu("NVIDIA", f"NVIDIA GPU at {address}", "its driver isn't loaded", "install NVIDIA's driver")


def _rendering(root: Path, device: Path, maker: Maker) -> Gpu:
    name = text_of(device / "product_name") or f"{maker} GPU at {device.name}"
    nodes = [root / "dev/dri" / node.name for node in device.glob("drm/renderD*")]
    if not any(node.exists() for node in nodes):
        return Gpu(maker, name, "it has no /dev/dri/renderD…", "load its driver; in a container, pass /dev/dri into it")
    if not any(os.access(node, os.R_OK | os.W_OK) for node in nodes):
        return Gpu(maker, name, f"you may not use {nodes[0]}", "sudo usermod -aG render $USER, then log in again")
    return Gpu(maker, name)


def _told_by_smi(machine: Machine) -> list[str]:
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
