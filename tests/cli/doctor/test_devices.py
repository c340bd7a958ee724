"""Which GPUs are found, which are unused, and the command that uses them: on machines made of files."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ossia.agent.engine.devices import Build
from ossia.cli.doctor.check import Finding, Machine
from ossia.cli.doctor.devices import devices, llama
from ossia.cli.doctor.installed import Installed, installed, needs, rebuild
from ossia.cli.settings.config import resolve
from tests.support.command import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /sys and /proc")
CPU = Build("0.3.36", ("CPU",))
CARD = ("NVIDIA GeForce RTX 4070",)


def _file(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def _card(root: Path, address: str, vendor: str, kind: str = "0x030000") -> Path:
    device = root / "sys/bus/pci/devices" / address
    _file(device / "vendor", vendor)
    _file(device / "class", kind)
    return device


def _nvidia(root: Path) -> None:
    _card(root, "0000:01:00.0", "0x10de")
    _file(root / "proc/driver/nvidia/gpus/0000:01:00.0/information", f"Model: \t\t {CARD[0]}\nIRQ:   \t\t 44")


def _amd(root: Path) -> None:
    (_card(root, "0000:03:00.0", "0x1002") / "drm/renderD128").mkdir(parents=True)
    _file(root / "dev/dri/renderD128")


def _program(root: Path, name: str) -> None:
    _file(root / "bin" / name, "#!/bin/sh")
    (root / "bin" / name).chmod(0o755)


def _machine(root: Path, build: Build | str, **environ: str) -> Machine:
    given = {"PATH": str(root / "bin"), **environ}
    return Machine(given, resolve({}, environ=given), lambda: build, root)


def _texts(machine: Machine) -> list[tuple[str, str]]:
    return [(one.state, one.text) for one in devices(machine)]


def test_a_machine_without_a_gpu(tmp_path: Path) -> None:
    _card(tmp_path, "0000:00:02.0", "0x1234")  # QEMU's
    _card(tmp_path, "0000:00:03.0", "0x10de", "0x040300")  # a sound card of NVIDIA's
    assert _texts(_machine(tmp_path, CPU)) == [("ok", "no GPU was found: llama.cpp runs on the processor")]


def test_an_unused_card_and_what_compiling_for_it_takes(tmp_path: Path) -> None:
    _nvidia(tmp_path)
    option = '"-DGGML_CUDA=on" '
    (bare,) = devices(_machine(tmp_path, CPU))
    text = f"{CARD[0]} isn't used: llama.cpp was compiled without CUDA or Vulkan"
    takes = "compile llama.cpp for it, which takes minutes"
    first = "; before that, install a C++ compiler and the CUDA toolkit (nvcc)"
    assert (bare.state, bare.text, bare.fix) == ("warning", text, takes + first)
    assert bare.command.startswith(f"CMAKE_ARGS={option}")
    _program(tmp_path, "g++")
    _file(tmp_path / "usr/local/cuda/bin/nvcc")
    (aside,) = devices(_machine(tmp_path, CPU))
    assert (aside.fix, aside.command) == (takes, f"CUDACXX={tmp_path}/usr/local/cuda/bin/nvcc {bare.command}")
    _program(tmp_path, "nvcc")
    assert list(devices(_machine(tmp_path, CPU))) == [Finding("warning", text, takes, bare.command)]


def test_a_card_of_amds_goes_by_vulkan(tmp_path: Path) -> None:
    _amd(tmp_path)
    _program(tmp_path, "c++")
    (one,) = devices(_machine(tmp_path, CPU))
    assert one.text == "AMD GPU at 0000:03:00.0 isn't used: llama.cpp was compiled without ROCm or Vulkan"
    assert one.fix.endswith("; before that, install glslc and libvulkan-dev and spirv-headers")
    assert one.command.startswith('CMAKE_ARGS="-DGGML_VULKAN=on" ')
    (node,) = (tmp_path / "dev/dri").iterdir()
    node.unlink()
    hidden = "AMD GPU at 0000:03:00.0 can't be used: it has no /dev/dri/renderD…"
    assert _texts(_machine(tmp_path, CPU)) == [("warning", hidden)]


def test_intels_own_is_only_mentioned(tmp_path: Path) -> None:
    (_card(tmp_path, "0000:00:02.0", "0x8086") / "drm/renderD128").mkdir(parents=True)
    _file(tmp_path / "dev/dri/renderD128")
    assert [state for state, _ in _texts(_machine(tmp_path, CPU))] == ["ok"]


def test_a_card_that_is_used(tmp_path: Path) -> None:
    _nvidia(tmp_path)
    cuda = Build("0.3.36", ("CUDA", "CPU"), CARD, (11_811_160_064,))
    used = f"{CARD[0]} is used, 11.8 GB of its memory are free"
    assert _texts(_machine(tmp_path, cuda)) == [("ok", used)]
    idle = f"{CARD[0]}: not used, as gpu_layers is 0 (OSSIA_GPU_LAYERS)"
    (one,) = devices(_machine(tmp_path, cuda, OSSIA_GPU_LAYERS="0"))
    assert (one.state, one.text, one.command) == ("warning", idle, "unset OSSIA_GPU_LAYERS")


def test_a_build_for_gpus_that_sees_none(tmp_path: Path) -> None:
    blind = Build("0.3.36", ("Vulkan", "CPU"))
    said = "llama.cpp was compiled for Vulkan, but sees no GPU"
    (hidden,) = devices(_machine(tmp_path, blind, GGML_VK_VISIBLE_DEVICES=""))
    assert (hidden.state, hidden.text, hidden.fix) == ("warning", said, "unset GGML_VK_VISIBLE_DEVICES")
    _card(tmp_path, "0000:01:00.0", "0x10de")
    assert _texts(_machine(tmp_path, blind)) == [
        ("warning", "NVIDIA GPU at 0000:01:00.0 can't be used: its driver isn't loaded"),
        ("warning", said),
    ]


def test_another_version_of_the_bindings(tmp_path: Path) -> None:
    needed = dict(needs())["llama-cpp-python"].removeprefix("==")
    old = next(llama(_machine(tmp_path, Build("0.3.1", ("CPU",)))))
    text = f"llama-cpp-python 0.3.1 is installed, but ossia needs {needed}"
    assert (old.state, old.text) == ("fault", text) and "llama-cpp-python" in old.command


@pytest.mark.parametrize(
    ("how", "command"),
    [
        (
            Installed("clone", ROOT, "0.3.36"),
            'CMAKE_ARGS="-DGGML_CUDA=on" uv sync --inexact --no-cache --reinstall-package llama-cpp-python',
        ),
        (
            Installed("clone", Path("/a b"), "0.3.36"),
            'CMAKE_ARGS="-DGGML_CUDA=on" uv sync --inexact --no-cache --reinstall-package llama-cpp-python '
            "--project '/a b'",
        ),
        (
            Installed("uv tool", Path("/x/tools/ossia"), "0.3.36"),
            'CMAKE_ARGS="-DGGML_CUDA=on" uv tool upgrade ossia --no-cache --reinstall-package llama-cpp-python',
        ),
        (
            Installed("pipx", Path("/x/venvs/ossia"), "0.3.36"),
            'CMAKE_ARGS="-DGGML_CUDA=on" pipx runpip ossia install --no-cache-dir --force-reinstall --no-deps '
            "--no-binary llama-cpp-python llama-cpp-python==0.3.36",
        ),
        (
            Installed("uv", Path("/x/bin/python"), "0.3.36"),
            'CMAKE_ARGS="-DGGML_CUDA=on" uv pip install --python /x/bin/python --no-cache --reinstall-package '
            "llama-cpp-python --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36",
        ),
        (
            Installed("pip", Path("/x/bin/python"), "0.3.36"),
            'CMAKE_ARGS="-DGGML_CUDA=on" /x/bin/python -m pip install --no-cache-dir --force-reinstall --no-deps '
            "--no-binary llama-cpp-python llama-cpp-python==0.3.36",
        ),
    ],
    ids=lambda value: value.way if isinstance(value, Installed) else "",
)
def test_the_command_for_each_way_to_install(how: Installed, command: str) -> None:
    assert rebuild(how, "-DGGML_CUDA=on", here=ROOT) == command


def test_how_an_environment_was_made(tmp_path: Path) -> None:
    for mark, way in (("uv-receipt.toml", "uv tool"), ("pipx_metadata.json", "pipx")):
        _file(tmp_path / mark)
        assert installed(tmp_path).way == way
        (tmp_path / mark).unlink()
    if shutil.which("uv") and (ROOT / ".venv" / "pyvenv.cfg").exists() and Path(sys.prefix) == ROOT / ".venv":
        assert (installed().way, installed().place) == ("clone", ROOT)


def test_the_page_on_installing_shows_the_same_command() -> None:
    command = rebuild(Installed("clone", ROOT, ""), "-DGGML_CUDA=on", here=ROOT)
    assert command in (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
