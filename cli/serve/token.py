"""The token of `ossia serve`: made at the first start that needs one, and stored where only its owner can read it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from ossia.cli.exits import ExitCode, ExitError
from ossia.tools.files import cannot, make_private, read_own, write_whole

VARIABLE = "OSSIA_SERVE_TOKEN"
_BYTES = 32


def checked(token: str) -> str:
    """The token, if it can stand in a header. Raises ExitError, which doesn't show it."""
    if not token or not all(0x21 <= ord(char) <= 0x7E for char in token):
        raise ExitError("--token: must be visible ASCII characters without spaces")
    return token


def stored(path: Path) -> tuple[str, bool]:
    """The stored token, and True if it was made now. Raises ExitError."""
    try:
        if path.exists():
            if os.name == "posix" and path.stat().st_mode & 0o077:
                raise ExitError(f"{path}: other users can read it: chmod 600, or delete it for a new one")
            return checked(read_own(path).decode("ascii", "replace").strip()), False
        token = secrets.token_urlsafe(_BYTES)
        make_private(path.parent)
        write_whole(path, f"{token}\n")
    except OSError as error:
        raise ExitError(f"{path}: {cannot(error, 'used')}", ExitCode.FAILED) from None
    return token, True
