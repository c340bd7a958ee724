"""The Python environment of the model's code: made by the user in the data folder, apart from ossia's own packages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ossia.tools.files import make_private
from ossia.tools.sandbox._interpreter import why

DEFAULT_PACKAGES = ("ipykernel", "numpy", "pandas", "matplotlib", "sympy")
_CONFINEMENT = ("landlockpy>=0.2,<0.3",) if sys.platform == "linux" else ()  # imported in the kernel's own process
_TOOLING = {"pip", "setuptools", "wheel", "ipykernel", "uv", "landlockpy"}
_COMPLAINT = re.compile(r"WARNING: Retrying |error: (?:Request failed|Failed to fetch)")
_UNREACHABLE = re.compile(r"broken by '(?:NewConnection|ConnectTimeout|NameResolution)|error \([Cc]onnect\)")
"""The words of pip and uv for having no connection."""
_NAMED = 60
"""The model reads the names of at most this many packages."""

_LIST = """\
import importlib.metadata, json, re
def plain(name): return re.sub(r"[-_.]+", "-", name).lower()
found, needed = {}, set()
for dist in importlib.metadata.distributions():
    name = dist.metadata["Name"]
    if not name: continue
    found[plain(name)] = [name, dist.version]
    for line in dist.requires or ():
        if "extra ==" not in line: needed.add(plain(re.match(r"[\\w.-]+", line)[0]))
print(json.dumps([[*found[key], key in needed] for key in sorted(found)]))
"""


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
        wanted = [*self.defaults, *_CONFINEMENT, *packages]
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
        return packages_of(self.executable)

    @property
    def _python(self) -> Path:
        return self.folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    @property
    def _marker(self) -> Path:
        return self.folder / "ossia-is-complete"


def packages_of(executable: Path) -> tuple[Package, ...]:
    """The packages of another Python. Raises EnvironmentFailed when it doesn't start."""
    try:
        done = subprocess.run([str(executable), "-I", "-c", _LIST], capture_output=True, text=True, check=True,
                              stdin=subprocess.DEVNULL, timeout=30)  # fmt: skip
        return tuple(Package(*row) for row in json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise EnvironmentFailed(f"{executable} doesn't start as a Python ({why(error)}): name another one") from None


def sentence(packages: Sequence[Package]) -> str:
    """One line for the model, of what it may import: `Besides the standard library …: numpy, pandas.`

    Packages that only others need are left out, unless they are among those that everybody gets.
    """
    kept = [p.name for p in packages if p.name not in _TOOLING and (not p.needed or p.name in DEFAULT_PACKAGES)]
    more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
    return f"Besides the standard library these packages can be imported: {', '.join(kept[:_NAMED])}{more}."


def interpreter_at(path: Path) -> Path:
    """The Python meant by `path`: the file itself, or that of an environment's folder."""
    for inside in ("bin/python", "Scripts/python.exe"):
        if path.is_dir() and (path / inside).exists():
            return path / inside
    return path


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
