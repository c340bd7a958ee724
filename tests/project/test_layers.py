"""The structure: who may import whom, what each package shows, what works on every platform."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import static
from tests.support.command import ROOT

PACKAGES = ("cli", "agent", "tools", "harmony")

# Modules that don't exist everywhere. The files that are about POSIX (or about one system of it) may import them.
_POSIX_ONLY = frozenset({"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"})
_ABOUT_POSIX: frozenset[str] = frozenset()


def _sources() -> list[Path]:
    return [path for package in ("ossia", *PACKAGES) for path in sorted((ROOT / package).rglob("*.py"))]


@cache
def _trees() -> dict[str, ast.Module]:
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in _sources()}


def test_the_layers_hold() -> None:
    """The contracts of pyproject.toml: layers, llama_cpp, who draws, a pure harmony."""
    command = [sys.executable, "-m", "tests.static", "layers"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_the_face_of_each_package_is_there(package: str) -> None:
    """Every exported name exists and is public. (ruff's RUF022 keeps the list sorted.)"""
    face = importlib.import_module(f"ossia.{package}")
    names = getattr(face, "__all__", [])
    assert [name for name in names if not hasattr(face, name) or name.startswith("_")] == []
    assert len(names) == len(set(names))


def _imported_at_module_level(tree: ast.Module) -> Iterator[str]:
    """Top-level names of what importing the file imports, but for what stands under an `if` or a `try`."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def _imports(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported anywhere in it, and every name of it: `tools.own`, `tools.own.parts`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_what_begins_with_an_underscore_stays_in_its_package() -> None:
    found = {
        f"{path}: {name}"
        for path, tree in _trees().items()
        for name in _imports(tree)
        if name.startswith("ossia.") and name.split(".")[1] not in ("__version__", path.split("/")[0])
        if any(part.startswith("_") for part in name.split("."))
    }
    assert found == set()


def test_nothing_imports_a_posix_only_module_on_every_platform() -> None:
    found = {
        f"{path}: {name}"
        for path, tree in _trees().items()
        if path not in _ABOUT_POSIX
        for name in _imported_at_module_level(tree)
        if name in _POSIX_ONLY
    }
    assert found == set()


def test_no_circle_of_imports_has_more_than_two_files() -> None:
    """Those for types count, too. Two that belong together may know each other."""
    static.unpack_wheel()
    code = (
        "import grimp; graph = grimp.build_graph('ossia', cache_dir=None); assert len(graph.modules) > 300\n"
        "circles = {frozenset({module, *graph.find_upstream_modules(module) & graph.find_downstream_modules(module)})"
        " for module in graph.modules}\n"
        "print([sorted(circle) for circle in circles if len(circle) > 2])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=static.UNPACKED, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_folder_has_more_files_than_can_be_looked_through() -> None:
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in _sources())
    assert {folder: count for folder, count in files.items() if count > 25} == {}


def test_every_module_says_what_it_is() -> None:
    """An empty `__init__.py` is the exception."""
    assert [path for path, tree in _trees().items() if tree.body and not ast.get_docstring(tree)] == []
