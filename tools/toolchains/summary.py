"""The toolchains that commands find: one line for the model, one for people."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from ossia.tools.sandbox.job import SYSTEM_PATH, Toolchains
from ossia.tools.toolchains import brought
from ossia.tools.toolchains.look import head, names, real, text
from ossia.tools.toolchains.places import Places

_NAMES = (("python3", "python"), ("uv",), ("node",), ("bun",), ("deno",), ("cargo",), ("go",), ("java",), ("mvn",),
          ("gradle",), ("ruby",), ("dotnet",), ("gcc", "clang"), ("make",))  # fmt: skip
_CALLED = {"python3": "python"}
_MAX_CHARS = 120  # some 50 tokens
_PYTHONS = re.compile(r"python-?(\d+\.\d+)[^/]*$|/(?:cpython-)?(\d+\.\d+)[^/]*(?:/bin/python\d?)?$")
_NODES = re.compile(r"/(?:node-)?v?(\d+)[.\d]*/(?:installation/)?bin/")
_HEADERS = re.compile(r"#define NODE_MAJOR_VERSION (\d+)")
_RUSTS = re.compile(rb'\[pkg\.rustc?\]\s+version = "(\d+\.\d+)')


def summary(shown: Places, folders: Sequence[Path]) -> str:
    """The line: `"python 3.11 (.venv), node 20, cargo 1.95"`, of PATH; `folders` are its real ones.

    Names of files give the versions, or a file beside the program; where none does, the name stands alone.
    """
    usual = [path for path in brought.environments(shown.root) if path.name in brought.USUAL]
    environment = usual[0] if usual else None
    found = []
    if environment:
        settings = brought.settings(environment)
        version = settings.get("version_info") or settings.get("version", "")
        found.append(_with("python", re.match(r"\d{1,2}\.\d{1,3}", version)) + f" ({environment.name})")
    every = (*folders, *map(Path, SYSTEM_PATH))
    seen = [folder for folder in every if shown.is_visible(folder) or shown.is_shown(folder)]
    for alike in _NAMES:
        program = next((path for name in alike for folder in seen if os.access(path := folder / name, os.X_OK)), None)
        if program and not (environment and program.name.startswith("python")):
            found.append(_about(program, shown))
    line = ""
    for part in found:
        if len(line) + len(part) + 2 <= _MAX_CHARS:
            line = f"{line}, {part}" if line else part
    return line


def _about(program: Path, shown: Places) -> str:
    """The name and version of a program: `"node 20"` for `~/.nvm/versions/node/v20.11.0/bin/node`."""
    name = _CALLED.get(program.name, program.name)
    place = real(program)
    if program.parent.name == "shims":
        place = _behind_shim(program, name, shown) or place
    path = str(place)
    match name:
        case "python":
            return _with(name, _PYTHONS.search(path))
        case "node":
            header = text(place.parent.parent / "include/node/node_version.h", 4096)
            return _with(name, _NODES.search(path) or _HEADERS.search(header))
        case "go":
            return _with(name, re.match(r"go(\d+\.\d+)", text(place.parent.parent / "VERSION", 40)))
        case "java":
            release = text(place.parent.parent / "release", 4096)
            return _with(name, re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE))
        case "cargo":
            toolchain = _rusts(shown) if place.name == "rustup" else place.parent.parent
            manifest = head(toolchain / "lib/rustlib/multirust-channel-manifest.toml", 1 << 21) if toolchain else b""
            found = _RUSTS.search(manifest)
            return f"{name} {found[1].decode()}" if found else name
    return name


def _with(name: str, version: re.Match[str] | None) -> str:
    return f"{name} {next(filter(None, version.groups() or (version[0],)))}" if version else name


def _behind_shim(program: Path, tool: str, shown: Places) -> Path | None:
    """The folder of the version that a manager would choose: by a file of the workspace, else by its own."""
    base = program.parent.parent
    words = [version for kind, version, _ in brought.chosen(shown.root) if kind == tool]
    words += text(base / "version", 200).split()
    for folder in (base / "versions", base / "installs" / tool):
        chosen = next((name for word in words if (name := brought.matching(word, names(folder)))), None)
        if chosen:
            return real(folder / chosen)
    return None


def _rusts(shown: Places) -> Path | None:
    """The toolchain that rustup would choose."""
    for base in (base for manager, base in shown.bases if manager.name == "rustup"):
        words = [version for kind, version, _ in brought.chosen(shown.root) if kind == "rust"]
        words += re.findall(r'^default_toolchain = "([\w.-]+)"', text(base / "settings.toml", 4096), re.MULTILINE)
        for word in words:
            if name := brought.matching(word, names(base / "toolchains")):
                return real(base / "toolchains" / name)
    return None


def in_words(found: Toolchains, home: Path) -> str:
    """A line: `"commands may read, for PATH: ~/.cargo/bin; for rustup: ~/.rustup/toolchains"`; "" for no places."""
    reasons: dict[str, list[str]] = {}
    for place in found.places:
        reasons.setdefault(place.why.replace(str(home.resolve()), "~"), []).append(_short(place.path, home))
    seen = "; ".join(f"for {why}: {', '.join(places)}" for why, places in reasons.items())
    closed = ", ".join(_short(path, home) for path in found.closed)
    return f"commands may read, {seen}" + (f"; never {closed}" if closed else "") if seen else ""


def _short(path: Path, home: Path) -> str:
    return str(path).replace(f"{home.resolve()}/", "~/", 1)
