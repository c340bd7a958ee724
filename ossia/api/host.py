"""The machine as the Python face uses it, and ossia's log in it: `logging.getLogger("ossia")`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ossia.cli import paths
from ossia.cli.exits import ExitError
from ossia.errors import ArgumentError
from ossia.tools.host import Loading, Notice

if TYPE_CHECKING:
    import os

    from ossia.tools.host import Host

LOG = logging.getLogger("ossia")
LOG.addHandler(logging.NullHandler())  # without it, Python prints warnings to stderr
_LEVELS = {"detail": logging.DEBUG, "waiting": logging.DEBUG, "note": logging.INFO, "warning": logging.WARNING}


def host_of(data: str | os.PathLike[str] | None) -> Host:
    """This machine; `data`: a folder for all that is stored. Raises ArgumentError for a user without a home."""
    with no_exit():
        return paths.host(None if data is None else paths.here() / paths.expanded(str(data)))


@contextmanager
def no_exit() -> Iterator[None]:
    """Errors of the command line become an ArgumentError."""
    try:
        yield
    except ExitError as error:
        raise ArgumentError(str(error)) from None


def report(message: Notice | Loading) -> None:
    """Log a line for people."""
    if isinstance(message, Notice):
        LOG.log(_LEVELS[message.level], "%s", message.text)
