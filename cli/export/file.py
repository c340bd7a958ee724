"""The file that an export goes into."""

from __future__ import annotations

from cli.exits import ExitCode, ExitError
from cli.paths import expanded
from tools.files import write_whole


def write_text(name: str, text: str) -> None:
    """Write a file for its owner only, whole or not at all. Raises ExitError."""
    path = expanded(name)
    try:
        write_whole(path, text)
    except OSError as error:
        raise ExitError(f"can't write {name}: {error.strerror}", ExitCode.FAILED) from None
