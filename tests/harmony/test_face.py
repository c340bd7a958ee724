"""What the package shows: every name documented."""

from __future__ import annotations

import inspect

import pytest

import harmony


@pytest.mark.parametrize("name", harmony.__all__)
def test_every_name_says_what_it_is(name: str) -> None:
    value = getattr(harmony, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        written = value.__doc__ or ""
        assert written and not written.startswith(f"{name}("), f"{name} has no docstring of its own"
