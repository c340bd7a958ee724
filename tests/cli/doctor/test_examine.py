"""A check that fails is a finding, and the others go on."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from ossia.cli.doctor.check import Finding, Machine
from ossia.cli.doctor.examine import examine
from ossia.cli.exits import ExitError

SAID = Finding("ok", "said before that")


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ExitError("--proxy: must be…"), Finding("fault", "--proxy: must be…")),
        (
            OSError(errno.EACCES, "Permission denied", "/x\ny"),
            Finding("warning", "/x y: Permission denied", "check its permissions"),
        ),
        (
            ValueError("a\nb"),
            Finding(
                "warning",
                "this couldn't be checked (ValueError: a b)",
                "please report it: it is a fault of ossia",
            ),
        ),
        (
            OSError(errno.ENOSPC, "No space left on device", "/x"),
            Finding("fault", "/x: the disk is full (No space left on device): free some space"),
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_a_check_raises(error: Exception, found: Finding) -> None:
    def failing(machine: Machine) -> Iterator[Finding]:
        yield SAID
        raise error

    def later(machine: Machine) -> Iterator[Finding]:
        yield Finding("ok", "said after that")
        yield SAID  # once is enough

    all_of_them = examine(os.environ, (("disk", failing), ("caches", later)))
    assert all_of_them == [("disk", found), ("disk", SAID), ("caches", Finding("ok", "said after that"))]
