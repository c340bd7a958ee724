"""What the checks look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ossia.agent.engine.devices import Build
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import Settings


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine and its user. `resolved` holds the defaults where the settings can't be used.

    `build` is what llama.cpp was compiled for, or why it can't be used. `root` is where /proc, /sys, /dev and /usr are.
    """

    environ: Mapping[str, str]
    resolved: Resolved
    build: Callable[[], Build | str]
    root: Path = Path("/")

    @property
    def settings(self) -> Settings:
        return self.resolved.settings

    def program(self, *names: str) -> str | None:
        """The first of these programs that is on PATH: `program("c++", "g++")` → `"/usr/bin/c++"`."""
        path = self.environ.get("PATH", os.defpath)
        return next(filter(None, (shutil.which(name, path=path) for name in names)), None)


def text_of(path: Path) -> str:
    """What a small file of the system says; "" where it can't be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
