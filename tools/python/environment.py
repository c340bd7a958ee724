"""The Python environment of the model's code: made by the user in the data folder, apart from ossia's own packages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ossia.tools.files import make_private

DEFAULT_PACKAGES = ("ipykernel", "numpy", "pandas", "matplotlib", "sympy")
_TOOLING = {"pip", "setuptools", "wheel", "ipykernel", "uv"}
_COMPLAINT = re.compile(r"WARNING: Retrying |error: (?:Request failed|Failed to fetch)")
_UNREACHABLE = re.compile(r"broken by '(?:NewConnection|ConnectTimeout|NameResolution)|error \([Cc]onnect\)")
"""The words of pip and uv for having no connection."""
_NAMED = 60
"""The model reads the names of at most this many packages."""

class EnvironmentFailed(Exception):
    """The environment can't be made or read. One line, with a next step."""


@dataclass(frozen=True, slots=True)
class Package:
    """An installed package: `Package("numpy", "2.3.4", needed=True)`; `needed`: another one requires it."""

    name: str
    version: str
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment in `folder`, which need not exist yet.

    environment = Environment(data_dir / "python-environment")
    environment.setup(["requests"], log=sys.stderr)
    environment.executable           # …/bin/python
    """

    folder: Path
    defaults: tuple[str, ...] = DEFAULT_PACKAGES

    @property
    def executable(self) -> Path | None:
        """Its Python; None until `setup` has completed once."""
        there = all(os.access(path, os.F_OK) for path in (self._marker, self._python))  # no, too, if that can't be seen
        return self._python if there else None

    def setup(self, packages: Sequence[str] = (), *, log: IO[str], uv: str | None = None) -> None:
        """Make it if it is missing, and install `defaults` and `packages` (`"requests>=2"`) into it.

        By `uv` (its path) if given, else by pip, with their output in `log`. Continues an interrupted setup. Raises
        EnvironmentFailed.
        """
        wanted = [*self.defaults, *packages]
        bad = next((package for package in packages if package.startswith("-")), None)
        if bad is not None:
            raise EnvironmentFailed(f"a package must be a name, not {bad!r}")
        make_private(self.folder.parent)
        if not self._python.exists():
            ours = sys.executable
            make = [uv, "venv", "--quiet", "--python", ours] if uv else [ours, "-m", "venv", "--clear"]
            _run([*make, str(self.folder)], log, "can't create the environment")
        install = (
            [uv, "pip", "install", "--compile-bytecode", "--python", str(self._python)]
            if uv
            else [str(self._python), "-m", "pip", "install", "--disable-pip-version-check"]
        )
        _run([*install, "--", *wanted], log, "can't install the packages")
        self._marker.touch()

    def packages(self) -> tuple[Package, ...]:
        """The installed packages, by name. Raises EnvironmentFailed when there is no environment."""
        if self.executable is None:
            raise EnvironmentFailed("the model's Python has no packages yet: run `ossia python setup`")
        from ossia.tools.sandbox._kernel_launcher import packages

        folders = [str(path) for path in self.folder.glob("[Ll]ib/**/site-packages")]
        return tuple(Package(*row) for row in packages(folders))

    @property
    def _python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def _marker(self) -> Path:
        return self.folder / "ossia-is-complete"


def sentence(packages: Sequence[Package]) -> str:
    """One line for the model, of what it may import: `Besides the standard library …: numpy, pandas.`

    Packages that only others need are left out, unless they are among those that everybody gets.
    """
    kept = [p.name for p in packages if p.name not in _TOOLING and (not p.needed or p.name in DEFAULT_PACKAGES)]
    more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
    return f"Besides the standard library these packages can be imported: {', '.join(kept[:_NAMED])}{more}."


def _run(command: Sequence[str], log: IO[str], problem: str) -> None:
    """Run it with its output going to `log`; complaints about a missing connection become one line."""
    log.flush()
    held: list[str] = []  # from the first complaint on: several lines follow
    try:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.PIPE, text=True,
                              encoding="utf-8", errors="replace") as process:  # fmt: skip
            assert process.stderr is not None
            for line in process.stderr:
                if held or _COMPLAINT.match(line):
                    held.append(line)
                else:
                    print(line, end="", file=log, flush=True)
    except OSError as error:
        raise EnvironmentFailed(f"{problem}: {command[0]}: {error.strerror}") from None
    if process.returncode != 0 and _UNREACHABLE.search("".join(held)):
        raise EnvironmentFailed(f"{problem}: the package index can't be reached: check the network, then try again")
    print("".join(held), end="", file=log, flush=True)
    if process.returncode != 0:
        raise EnvironmentFailed(f"{problem} (exit status {process.returncode}): see the output above, then try again")
