"""Setting what llama.cpp's OpenMP reads when its library is loaded, and only then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from agent.engine.openmp import openmp_settings


@contextmanager
def openmp_environment() -> Iterator[None]:
    """Inside the block the environment is as llama.cpp's library should find it; our children never inherit it."""
    settings = openmp_settings(os.environ)
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]
