"""Wheels without a network: what is installed here packed again, and small ones of our own."""

from __future__ import annotations

import re
import sysconfig
import zipfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

_LEFT_OUT = {"..", "__pycache__", "tests", "third_party"}
"""Parts of packages that no test needs: jedi's stubs are most of the files of a kernel's environment."""


def pack_installed(names: list[str], folder: Path) -> None:
    """A wheel in `folder` of each installed package in `names`, and of all that they require."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            dist = distribution(name)
        except PackageNotFoundError:
            continue  # for another platform or Python
        _pack(dist, folder)
        requires = [line for line in dist.requires or () if "extra ==" not in line]
        waiting += [match[0] for line in requires if (match := re.match(r"[\w.-]+", line))]


def pip_wheel() -> Path:
    """The pip that Python brings along: on PYTHONPATH, `python -m pip` runs it. Installing it takes 5 s of CPU time."""
    import ensurepip

    folders = [Path(ensurepip.__file__).parent / "_bundled", Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or "none")]
    return next(wheel for folder in folders for wheel in folder.glob("pip-*.whl"))


def write_wheel(name: str, version: str, code: str, folder: Path) -> None:
    """A wheel of one module, `name`, with this code."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", code)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        tags = "Root-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\n{tags}")
        wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def _pack(dist: Distribution, folder: Path) -> None:
    tag = re.findall(r"^Tag: (\S+)$", dist.read_text("WHEEL") or "", re.MULTILINE)
    name = re.sub(r"[-_.]+", "_", dist.metadata["Name"])
    files = [file for file in dist.files or () if not _LEFT_OUT.intersection(file.parts)]
    with zipfile.ZipFile(folder / f"{name}-{dist.version}-{_joined(tag)}.whl", "w") as wheel:
        for file in files:
            if file.name == "RECORD":  # hashes of files that aren't in here would be missed
                wheel.writestr(str(file), "".join(f"{kept},,\n" for kept in files))
            elif Path(str(file.locate())).exists():
                wheel.write(str(file.locate()), str(file))


def _joined(tags: list[str]) -> str:
    """`py3-none-any` of one tag, `cp311-cp311-manylinux1.manylinux2` of several."""
    parts = [tag.split("-") for tag in tags]
    return "-".join(".".join(dict.fromkeys(column)) for column in zip(*parts, strict=True))
