"""The free memory for a model, and how far the download of one is, in words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ossia.agent.models.memory import Memory, read_memory, size_text

if TYPE_CHECKING:
    from ossia.agent.models.transfer import PullProgress
    from ossia.cli.runtime.progress import LiveLine


def free_memory() -> Memory:
    """What is free for a model, also on the GPUs, as a run counts it. Loads llama.cpp's library, which sees them."""
    from ossia.agent.engine.llama import gpu_memory

    return read_memory(gpu_memory())


def download_line(line: LiveLine, name: str) -> Callable[[PullProgress], None]:
    """Shows each report on `line`, as `gpt-oss-20b: 42 %, 5.1 of 12.1 GB, 35 MB/s`."""
    started: dict[str, tuple[float, int]] = {}

    def show(progress: PullProgress) -> None:
        now = time.monotonic()
        since, from_byte = started.setdefault(progress.phase, (now, progress.done))
        speed = f", {size_text(int((progress.done - from_byte) / (now - since)))}/s" if now > since else ""
        what = "checking " if progress.phase == "check" else ""
        share = 100 * progress.done // max(progress.total, 1)
        line.set(f"{what}{name}: {share} %, {size_text(progress.done)} of {size_text(progress.total)}{speed}")
        line.tick()

    return show
