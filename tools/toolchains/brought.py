"""The toolchains that a workspace names: by its environments, and by files that choose versions.

Anybody may have written it. Here it is only read, with bounds; `find` decides what it may open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ossia.tools.toolchains.look import absolute, entries, head, names, text

_MAX_ENTRIES, _MAX_ENVIRONMENTS, _MAX_BYTES = 1000, 12, 4096
USUAL = (".venv", "venv", "env", ".env")
_HOLDERS = (".tox", ".nox")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,63}")
_SETTING = re.compile(r"(home|version|version_info)[ \t]*=[ \t]*(.*?)[ \t\r]*", re.IGNORECASE)
_CHANNEL = re.compile(r'^\s*channel\s*=\s*"([^"\n]*)"', re.MULTILINE)
_FILES = (("python", ".python-version"), ("node", ".nvmrc"), ("node", ".node-version"), ("ruby", ".ruby-version"),
          ("go", ".go-version"))  # fmt: skip
TOOLS = {"nodejs": "node", "golang": "go"}
"""Other names of tools."""


def environments(root: Path) -> Iterator[Path]:
    """The virtual environments of a workspace, the usual ones first: folders with a `pyvenv.cfg`, or links."""
    below = sorted(entry.name for entry in entries(root, _MAX_ENTRIES) if entry.is_dir(follow_symlinks=False))
    holders = [root / name for name in _HOLDERS if name in below]
    others = [root / name for name in below if name not in USUAL]
    others += [holder / name for holder in holders for name in names(holder)]
    found = filter(_is_environment, (root, *(root / name for name in USUAL), *others))
    return islice(found, _MAX_ENVIRONMENTS)


def _is_environment(folder: Path) -> bool:
    return folder.name in USUAL if folder.is_symlink() else head(folder / "pyvenv.cfg", 1) != b""


def settings(environment: Path) -> dict[str, str]:
    """The settings of a `pyvenv.cfg`: `{"home": "/usr/bin", "version": "3.11.7"}`, only those that count here."""
    lines = text(environment / "pyvenv.cfg", _MAX_BYTES).split("\n")
    return {match[1].lower(): match[2] for line in lines if (match := _SETTING.fullmatch(line.strip()))}


def base_of(environment: Path) -> Path | None:
    """The folder of the Python that an environment was made with; None where none is named without `..`."""
    folder = absolute(settings(environment).get("home", ""))
    return folder if folder and ".." not in folder.parts else None


def pythons(environment: Path) -> list[Path]:
    """The links of an environment to its Python."""
    found = [environment / "bin" / name for name in names(environment / "bin") if name.startswith("python")]
    return [path for path in found if path.is_symlink()][:8]


def chosen(root: Path) -> list[tuple[str, str, str]]:
    """The versions that files choose: `[("python", "3.11.7", ".python-version"), ("rust", "1.80", …)]`."""
    found = [(tool, word, file) for tool, file in _FILES for word in text(root / file, 200).split()]
    for line in text(root / ".tool-versions", _MAX_BYTES).split("\n"):
        tool, *versions = line.partition("#")[0].split() or [""]
        found += [(TOOLS.get(tool, tool), version, ".tool-versions") for version in versions]
    for file in ("rust-toolchain.toml", "rust-toolchain"):
        written = text(root / file, _MAX_BYTES)
        match = _CHANNEL.search(written)
        word = match[1] if match else written.strip() if len(written.split()) == 1 else ""
        found.append(("rust", word, file))
    return [one for one in found if _VERSION.fullmatch(one[0]) and _VERSION.fullmatch(one[1])][:20]


def matching(version: str, installed: list[str]) -> str | None:
    """The installed version that a file means: `matching("3.11", ["3.10.2", "3.11.7"])` is "3.11.7"; None: none."""
    plain = {name: re.sub(r"^(?:v(?=\d)|cpython-)", "", name) for name in installed}
    wanted = re.sub(r"^(?:v(?=\d)|cpython-)", "", version)
    exact = [name for name in installed if wanted in (name, plain[name])]
    near = [name for name in installed if re.match(re.escape(wanted) + r"[.-]", plain[name])]
    return max(exact or near, key=_order, default=None)


def _order(name: str) -> list[tuple[int, str]]:
    return [(int(number or 0), word) for number, word in re.findall(r"(\d{1,9})|([^\d]+)", name)]
