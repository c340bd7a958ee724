"""The exit codes, and which error leads to which one.

| code | when |
|---|---|
| 0 | answered |
| 1 | our own error (a traceback), a strict parse that failed, a full disk or unusable stored sessions (one line) |
| 2 | usage: a flag, a setting, a script file, or the input can't be used |
| 3 | the model is missing or unusable |
| 4 | out of memory or context |
| 5 | the step limit was reached; the answer from what there was, was printed |
| 6 | cut by `--max-tokens`, by the end of the context, or by `--timeout`; what there is of the answer was printed |
| 7 | the engine or the network failed in the middle of a turn |
| 9 | no answer came: the model ended its turn without one |
| 130 | interrupted, by Ctrl-C, SIGTERM or a closed terminal |
| 141 | whoever read our output closed the pipe |
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process answers to the shell; the table above says when."""

    ANSWERED = 0
    FAILED = 1
    USAGE = 2
    MODEL = 3
    NO_ROOM = 4
    STEPS = 5
    CUT = 6
    ENGINE = 7
    SILENT = 9
    INTERRUPTED = 130
    CLOSED_PIPE = 141


class ExitError(Exception):
    """Ends a command with one line on stderr and a code: `raise ExitError("no prompt: …", ExitCode.USAGE)`."""

    def __init__(self, message: str, code: ExitCode) -> None:
        super().__init__(message)
        self.code = code


def exit_code(error: BaseException) -> ExitCode | None:
    """The code of an error that is the user's, the machine's or the model's; None: it is our own, show the traceback.

    Its `str()` is then the line to print. (1 with a line: a parse that failed, or a full disk.)
    """
    import errno

    from agent.errors import (
        AgentError,
        DoesNotFit,
        DownloadFailed,
        EngineFailed,
        ModelError,
        ScriptInvalid,
        SessionInUse,
        SessionInvalid,
        SessionMissing,
    )
    from cli.config import ConfigError
    from tools.functions.errors import FunctionsError
    from tools.trust import TrustError

    if isinstance(error, ExitError):
        return error.code
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ExitCode.FAILED  # the disk is full, wherever it was noticed
    by_kind: tuple[tuple[type[Exception], ExitCode], ...] = (
        (ModelError, ExitCode.MODEL),
        (DoesNotFit, ExitCode.NO_ROOM),
        (EngineFailed, ExitCode.ENGINE),
        (DownloadFailed, ExitCode.ENGINE),
        (ScriptInvalid, ExitCode.USAGE),
        (SessionInvalid, ExitCode.USAGE),
        (SessionMissing, ExitCode.USAGE),
        (SessionInUse, ExitCode.USAGE),
        (ConfigError, ExitCode.USAGE),
        (FunctionsError, ExitCode.USAGE),
        (TrustError, ExitCode.USAGE),
        (AgentError, ExitCode.FAILED),
    )
    return next((code for kind, code in by_kind if isinstance(error, kind)), None)
