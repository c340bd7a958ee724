"""Modules of a package without its own `__init__`, which may import much that isn't needed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

_VERSION = re.compile(r"^__version__ = [\"'](.+)[\"']$", re.MULTILINE)


@contextmanager
def bare(name: str) -> Iterator[str]:
    """Import modules of the package inside the block; yields its `__version__`. A later import of it is a whole one.

    llama-cpp-python's `__init__` loads templates, chat formats and more: 50 of 64 ms. Raises ImportError without it.

        with bare("llama_cpp") as version:     # "0.3.36"
            import llama_cpp.llama_cpp as lib
    """
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    found = _VERSION.search(Path(spec.origin).read_text(encoding="utf-8"))
    version = found[1] if found else ""
    if name in sys.modules:
        yield version
        return
    package = sys.modules[name] = ModuleType(name)
    package.__path__ = list(spec.submodule_search_locations or ())
    try:
        yield version
    finally:
        del sys.modules[name]
