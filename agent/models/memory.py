"""The free memory, from the system's own tables: a container's limit counts, the page cache counts as free."""

from __future__ import annotations

import mmap
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

_PAGE_BYTES = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Memory:
    """Free memory in bytes. `ram_free` None: not known, so nothing is predicted. `gpu_free`: a number per device.

    `shared`: the GPU uses the same memory (Apple's processors, integrated GPUs), so that only `ram_free` counts for
    both together, and `gpu_free` is how much of it the GPU may use. What the firmware has set aside for the GPU is then
    a part of `ram_free`.
    """

    ram_free: int | None
    gpu_free: tuple[int, ...] = ()
    shared: bool = False

    @property
    def all_free(self) -> int | None:
        """The bytes free for weights, cache and buffers together."""
        return self.ram_free if self.shared or self.ram_free is None else self.ram_free + sum(self.gpu_free)


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """The free memory of each GPU, in bytes. `shared`: they are integrated, and theirs is the processor's memory."""

    free: tuple[int, ...] = ()
    shared: bool = False


def size_text(count: int) -> str:
    """Bytes for people: `"12.1 GB"`, `"3.1 MB"`, `"12.5 kB"`, `"12 bytes"`."""
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    if count < 999_500:
        return f"{count / 1e3:.3g} kB"
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def read_memory(gpus: GpuMemory | None = None, *, root: Path = Path("/")) -> Memory:
    """The free memory of this machine. `gpus` comes from the engine, which alone can see the devices; None: no GPU.

    Linux: MemAvailable, or less where a control group allows less; `root` is where its /proc and /sys are.
    """
    gpus = gpus or GpuMemory()
    if sys.platform == "linux":  # read here: psutil knows no control groups, and its import would delay each answer
        known = [room for room in (_linux_memory(root, "MemAvailable"), _cgroup_free(root)) if room is not None]
        free, total = min(known) if known else None, _linux_memory(root, "MemTotal")
    else:
        import psutil

        machine = psutil.virtual_memory()
        free, total = machine.available, machine.total
    shared = gpus.shared or (sys.platform == "darwin" and platform.machine() == "arm64")
    if gpus.shared and free is not None and total is not None:
        free += max(0, sum(gpus.free) - total)  # the system doesn't see what is set aside: of 128 GB, up to 96
    return Memory(free, gpus.free, shared)


def mapped_bytes(*, root: Path = Path("/")) -> int | None:
    """The bytes of mapped files in this process's resident memory. None: unknown (only Linux tells)."""
    numbers = _text(root / "proc/self/statm").split()
    return int(numbers[2]) * _PAGE_BYTES if len(numbers) > 2 else None


def _linux_memory(root: Path, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _cgroup_free(root: Path) -> int | None:
    """The least room that any control group above this process leaves; files in its page cache can be dropped."""
    free = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base, names = root / "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            base = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        group = Path(path.lstrip("/"))
        for folder in (group, *group.parents):
            free.append(_group_free(base / folder, *names))
    known = [room for room in free if room is not None]
    return min(known) if known else None


def _group_free(folder: Path, limit_name: str, used_name: str, cache_name: str) -> int | None:
    limit, used = _text(folder / limit_name).strip(), _text(folder / used_name).strip()
    if not limit.isdecimal() or not used.isdecimal():  # "max": no limit
        return None
    cache = re.search(rf"^{cache_name} (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
    return max(0, int(limit) - int(used) + (int(cache[1]) if cache else 0))


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
