"""The exit codes, and which error leads to which one.

| code | when |
|---|---|
| 0 | answered |
| 1 | our own error (a traceback), a failed strict parse, `tools call` or `doctor`, a full disk, unusable files |
| 2 | usage: a flag, a setting, a script file, the input, or the name of a `tools call` can't be used |
| 3 | the model is missing or unusable |
| 4 | out of memory or context |
| 5 | the step limit was reached; an answer from the results so far was printed |
| 6 | cut by `--max-tokens`, the context, `--timeout`, or a loop; the start was printed (not with a schema or `-x`) |
| 7 | the engine or the network failed in the middle of a turn |
| 8 | with `--strict-approvals`: answered, but a call was refused since nobody could be asked; `tools call`: refused |
| 9 | no answer came: the model ended its turn without one |
| 10 | the answer doesn't follow `--schema` (only without the guide), or has no code for `-x`; nothing was printed |
| 130 | interrupted, by Ctrl-C, SIGTERM or a closed terminal |
| 141 | whoever read our output closed the pipe |
"""

from __future__ import annotations

import errno
import os
from enum import IntEnum
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)
MAX_TEXT_BYTES = 4_000_000
"""The longest input: 30 bytes for each of the 131,072 tokens of gpt-oss's context, where texts have 3 to 5."""


class ExitCode(IntEnum):
    """The exit codes by name; the table above says when each is used."""

    ANSWERED = 0
    FAILED = 1
    USAGE = 2
    MODEL = 3
    NO_ROOM = 4
    STEPS = 5
    CUT = 6
    ENGINE = 7
    UNASKED = 8
    SILENT = 9
    MISFIT = 10
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class ExitError(Exception):
    """Ends a command with one line on stderr and a code: `raise ExitError("can't write x.md: …", ExitCode.FAILED)`."""

    def __init__(self, message: str, code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.code = code


def require_size(what: str, size: int, *, more: bool = False, cuttable: bool = False) -> None:
    """Raise ExitError for a text of more than 4 MB, which no context of gpt-oss holds. `more`: it may be even longer.

    `cuttable`: `--truncate` cuts it. `standard input has 100.0 MB, and at most 4.0 MB are read: send a part of it, …`
    """
    if size > MAX_TEXT_BYTES:
        most = f"{MAX_TEXT_BYTES / 1e6:.1f} MB"
        came = f"more than the {most} that" if more else f"{size / 1e6:,.1f} MB, and at most {most}"
        part = "cut it with --truncate head|tail|middle" if cuttable else "send a part of it"
        part += ", or let the model search the file: --workspace DIR"
        raise ExitError(f"{what} has {came} are read: {part}", ExitCode.NO_ROOM)


def exit_code(error: BaseException) -> ExitCode | None:
    """The code of the user's, the machine's or the model's error; None: it is our own, show the traceback.

    With a code, even 1 (a failed parse, a full disk), `line_of(error)` is the line to print.
    """
    from ossia.agent import errors
    from ossia.tools.approval.trust import TrustError
    from ossia.tools.functions import FunctionsError

    if isinstance(error, ExitError):
        return error.code
    if isinstance(error, BrokenPipeError):
        return ExitCode.CLOSED_PIPE
    if isinstance(error, OSError) and (error.errno in _FULL or _is_stored(error)):
        return ExitCode.FAILED  # the disk is full, or a file of ossia's can't be used, wherever it was noticed
    sessions = (errors.SessionInvalid, errors.SessionMissing, errors.SessionUnclear, errors.SessionInUse)
    by_kind: tuple[tuple[type[Exception] | tuple[type[Exception], ...], ExitCode], ...] = (
        (errors.ModelError, ExitCode.MODEL),
        (errors.DoesNotFit, ExitCode.NO_ROOM),
        ((errors.EngineFailed, errors.DownloadFailed), ExitCode.ENGINE),
        ((errors.SchemaUnusable, errors.ScriptInvalid, errors.AddressUnusable, errors.SettingRefused), ExitCode.USAGE),
        ((FunctionsError, TrustError, *sessions), ExitCode.USAGE),
        (errors.AgentError, ExitCode.FAILED),
    )
    return next((code for kind, code in by_kind if isinstance(error, kind)), None)


def line_of(error: BaseException) -> str:
    """The line about an error with a code: the fault, its place, the next step."""
    if not isinstance(error, OSError):
        return str(error)
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in _FULL:
        return f"{where}the disk is full ({error.strerror}): free some space"
    return f"{where}can't be used: {error.strerror}: check what is there and its permissions, or move it away"


def _is_stored(error: OSError) -> bool:
    """Is it about a file of ossia's: data, settings, caches?"""
    from ossia.cli import paths

    if not isinstance(error.filename, str | bytes | Path):
        return False
    place = Path(os.path.abspath(os.fsdecode(error.filename)))  # noqa: PTH100 - no link is followed
    try:
        folders = (paths.data_dir(), paths.config_file().parent, paths.cache_dir())
    except ExitError:  # this user has no home
        return False
    return any(place.is_relative_to(own) for own in folders)
