"""The errors of the protocol, from those of ossia."""

from __future__ import annotations

from collections.abc import Mapping

from ossia.cli.acp.rpc import INTERNAL, INVALID_PARAMS, RpcError
from ossia.cli.exits import ExitCode, exit_code, line_of

AUTH_REQUIRED, NOT_FOUND = -32000, -32002
_MAX_CHARS = 1000
"""Of a line."""


def note_bug(error: BaseException) -> None:
    """Print the traceback of a bug on stderr; another error is for a prompt to raise."""
    error_of(error)


def error_of(error: BaseException) -> RpcError:
    """The error for the client: the line of a user's or the machine's fault; a bug's traceback goes to stderr."""
    from ossia.agent.errors import ModelNotFound, SessionMissing
    from ossia.cli.clean import one_line

    if isinstance(error, RpcError):
        return error
    code = exit_code(error)
    if code is None:
        import traceback

        traceback.print_exception(error)
        return RpcError(INTERNAL, f"a bug in ossia: {type(error).__name__}; stderr has the traceback")
    kinds: Mapping[type[BaseException], int] = {ModelNotFound: AUTH_REQUIRED, SessionMissing: NOT_FOUND}
    usual = INVALID_PARAMS if code == ExitCode.USAGE else INTERNAL
    return RpcError(kinds.get(type(error), usual), one_line(line_of(error), _MAX_CHARS))
