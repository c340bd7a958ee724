"""Where models are looked for on this machine, and how far the download of one is, in words."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ossia.agent.models.find import Locations
from ossia.agent.models.memory import Memory, read_memory, size_text
from ossia.cli import paths

if TYPE_CHECKING:
    from ossia.agent.models.transfer import PullProgress
    from ossia.cli.runtime.progress import LiveLine


def locations(environ: Mapping[str, str] | None = None) -> Locations:
    """Where models are looked for: by the variables and the default folders of the programs that download them."""
    env, home = os.environ if environ is None else environ, paths.expanded("~")
    caches = Path(env.get("XDG_CACHE_HOME") or home / ".cache")
    hub_home = Path(env.get("HF_HOME") or caches / "huggingface")
    hub = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or hub_home / "hub"
    llama_caches = {"darwin": home / "Library" / "Caches", "win32": Path(env.get("LOCALAPPDATA") or home)}
    return Locations(
        data=paths.data_dir(),
        huggingface=paths.expanded(str(hub)),
        llama_cpp=paths.expanded(env.get("LLAMA_CACHE") or str(llama_caches.get(sys.platform, caches) / "llama.cpp")),
        lm_studio=(home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models"),
        ollama=_ollama(env, home),
    )


def _ollama(env: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Ollama's folders of models: the one that its variable names, or its user's own and its Linux service's."""
    named = env.get("OLLAMA_MODELS")
    if named:
        return (paths.expanded(named),)
    service = (Path("/usr/share/ollama/.ollama/models"),) if sys.platform == "linux" else ()
    return (home / ".ollama" / "models", *service)


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
