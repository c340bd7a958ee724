"""A check: a function from a `Machine` to its findings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ossia.agent.engine.devices import Build
from ossia.cli.settings.config import Resolved
from ossia.cli.settings.table import Settings
from ossia.tools.import_path import environment_for

Area = Literal[
    "ossia", "config", "llama.cpp", "devices", "models", "sandbox", "terminal", "sessions", "disk", "caches", "network"
]
State = Literal["fault", "warning", "ok"]
"""Something needed doesn't work; it works less well or slower than it could; nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check found. `fix` says what to do, `command` is to be typed for it; "": nothing.

    Finding("warning", "EXA_API_KEY isn't set", "set it to your key")
    """

    state: State
    text: str
    fix: str = ""
    command: str = ""


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
        """The first of these programs on PATH: `program("c++", "g++")` → `"/usr/bin/c++"`."""
        return next(filter(None, (shutil.which(name, path=self.search_path) for name in names)), None)

    @property
    def search_path(self) -> str:
        """PATH without the current folder: a command may have written there."""
        return environment_for(None, self.environ).get("PATH", os.defpath)


Check = Callable[[Machine], Iterator[Finding]]
