"""ossia as it is installed: its versions, its packages, and the command that compiles llama.cpp again.

Each installer reuses what it compiled, unless it gets an option against that.
"""

from __future__ import annotations

import json
import platform
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from ossia import __version__
from ossia.cli.doctor.check import Finding, Machine
from ossia.cli.words import listed

Way = Literal["clone", "uv tool", "pipx", "uv", "pip"]
PACKAGE = "llama-cpp-python"


@dataclass(frozen=True, slots=True)
class Installed:
    """The way ossia was installed: `Installed("clone", Path("/home/me/ossia"), "0.3.36")`.

    `place` is the clone, the environment's folder ("uv tool", "pipx"), or the Python that runs it ("uv", "pip").
    `version` is the one of llama-cpp-python that ossia needs.
    """

    way: Way
    place: Path
    version: str


def versions(machine: Machine) -> Iterator[Finding]:
    """ossia, Python, the system; the packages that are missing."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    python = f"Python {platform.python_version()} ({sys.executable}), SQLite {sqlite3.sqlite_version}"
    yield Finding("ok", f"ossia {__version__}, {python}, {system}; way of installing: {installed().way}")
    missing = [name for name, _ in needs() if not _is_installed(name)]
    if missing:
        yield Finding("fault", f"packages are missing: {listed(missing)}", "install ossia again")


def installed(prefix: Path = Path(sys.prefix)) -> Installed:
    """The way the running ossia was installed."""
    needed = dict(needs()).get(PACKAGE, "").removeprefix("==")
    if (prefix / "uv-receipt.toml").exists():
        return Installed("uv tool", prefix, needed)
    if (prefix / "pipx_metadata.json").exists():
        return Installed("pipx", prefix, needed)
    python = Path(sys.executable)
    try:
        about = distribution("ossia")
    except PackageNotFoundError:
        return Installed("pip", python, needed)
    by_uv = (about.read_text("INSTALLER") or "").strip() == "uv"
    clone = _clone(about.read_text("direct_url.json") or "")
    if by_uv and clone is not None and prefix.is_relative_to(clone):
        return Installed("clone", clone, needed)
    return Installed("uv" if by_uv else "pip", python, needed)


def rebuild(how: Installed, *options: str, here: Path | None = None) -> str:
    """The command that compiles llama.cpp with these options of CMake; without any, as it is by default.

        rebuild(Installed("clone", clone, "0.3.36"), "-DGGML_CUDA=on", here=clone)
        # CMAKE_ARGS="-DGGML_CUDA=on" uv sync --inexact --no-cache --reinstall-package llama-cpp-python

    `here` is the current folder: in the clone, its path isn't needed.
    """
    place = shlex.quote(str(how.place))
    package = f"{PACKAGE}=={how.version}" if how.version else PACKAGE
    match how.way:
        case "clone":
            command = f"uv sync --inexact --no-cache --reinstall-package {PACKAGE}"
            command += "" if here == how.place else f" --project {place}"
        case "uv tool":
            command = f"uv tool upgrade {shlex.quote(how.place.name)} --no-cache --reinstall-package {PACKAGE}"
        case "pipx":
            inner = f"--no-cache-dir --force-reinstall --no-deps --no-binary {PACKAGE} {package}"
            command = f"pipx runpip {shlex.quote(how.place.name)} install {inner}"
        case "uv":
            inner = f"--no-cache --reinstall-package {PACKAGE} --no-deps --no-binary {PACKAGE} {package}"
            command = f"uv pip install --python {place} {inner}"
        case "pip":
            inner = f"--no-cache-dir --force-reinstall --no-deps --no-binary {PACKAGE} {package}"
            command = f"{place} -m pip install {inner}"
    return f'CMAKE_ARGS="{" ".join(options)}" {command}' if options else command


def needs() -> Iterator[tuple[str, str]]:
    """The required packages of ossia on this system, with their bounds: `("llama-cpp-python", "==0.3.36")`, …"""
    try:
        lines = distribution("ossia").requires or []
    except PackageNotFoundError:
        return
    for line in lines:
        requirement, _, marker = line.partition(";")
        if "extra" in marker or ("sys_platform" in marker and f"'{sys.platform}'" not in marker.replace('"', "'")):
            continue
        end = next((at for at, char in enumerate(requirement) if char in "<>=!~ [("), len(requirement))
        yield requirement[:end], requirement[end:].strip()


def _clone(direct_url: str) -> Path | None:
    """The folder of an editable install, from the installer's direct_url.json (packaging.python.org)."""
    try:
        noted = json.loads(direct_url or "{}")
        url = urlsplit(noted["url"])
        editable = noted["dir_info"]["editable"]
    except (ValueError, KeyError, TypeError):
        return None
    return Path(unquote(url.path)) if editable and url.scheme == "file" else None


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
