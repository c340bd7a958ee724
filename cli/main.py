"""The console script: runs a command and turns whatever happens into an exit code.

The top imports only what Python has loaded anyway, so that an interrupt during our other imports is answered too.
"""

from __future__ import annotations

import os
import sys

_GARBAGE = 20_000
"""So many new objects are looked through at once. With Python's 700, a start looks through all its modules again and
again: 40 of 600 ms of `ossia run`."""


def main() -> int:
    """Run the command line of this process; returns the exit code for `sys.exit` (the table in `cli.exits`)."""
    try:
        from ossia.cli import interrupts
    except KeyboardInterrupt:
        return 130
    with interrupts.hold():
        try:
            with interrupts.hold(False):
                interrupts.take()
                code = _run()
        except KeyboardInterrupt:
            code = 130
        except RuntimeError as error:  # before 3.12, Python wraps what is raised in a class body (during imports)
            if not isinstance(error.__cause__, KeyboardInterrupt):
                raise
            code = 130
        if not interrupts.is_settled():
            if code in (2, 130) and "--jsonl" in sys.argv:
                _write_result(code)
            interrupts.settle(130)  # only cleaning up is left
    return code


def _run() -> int:
    import gc

    gc.set_threshold(_GARBAGE)
    from ossia.tools.import_path import isolate

    isolate()
    from ossia.cli.streams import take_stdout

    take_stdout()
    return _flushed(invoke(sys.argv[1:]))


def invoke(argv: list[str]) -> int:
    """Run one command in this process and return its exit code; messages go to stderr.

    KeyboardInterrupt passes through, as it does from any function.

        invoke(["--version"])       → 0, and "ossia 0.1.0" on stdout
        invoke(["run", "--efort"])  → 2, and one line on stderr
    """
    import typer

    from ossia.cli.app import command, explain_usage
    from ossia.cli.commands import UsageError

    _open_streams()
    _never_fail_to_encode()
    try:
        with command.make_context("ossia", argv) as context:
            command.invoke(context)
        return 0
    except typer.Exit as leaving:
        return leaving.exit_code
    except typer.Abort:  # the end of the input at a question
        return 130
    except UsageError as error:
        line, rows = explain_usage(error)
        _complain(line, *rows)
        return 2
    except BrokenPipeError:
        return 141
    except Exception as error:
        return _explain(error)


def _explain(error: Exception) -> int:
    """One line for what isn't our fault, a traceback for what is."""
    from ossia.cli.exits import exit_code, line_of

    code = exit_code(error)
    if code is not None:
        _complain(line_of(error), *_rows_of(error))
        return code
    import traceback

    traceback.print_exception(error)
    return 1


def _rows_of(error: Exception) -> list[str]:
    """The sessions to choose from."""
    from ossia.agent.errors import SessionUnclear
    from ossia.cli.commands.sessions import choice_of

    return [choice_of(info) for info in error.found] if isinstance(error, SessionUnclear) else []


def _complain(message: str, *rows: str) -> None:
    """One line on stderr, and `rows` below it. It may name a file, and a file's name may hold anything."""
    from contextlib import suppress

    from ossia.cli.clean import clean

    with suppress(OSError):
        print(f"ossia: error: {clean(' '.join(message.split()))}", *map(clean, rows), sep="\n", file=sys.stderr)


def _open_streams() -> None:
    """Lead streams that the shell closed (`2>&-`) nowhere: Python has None for them, which `print` takes for stdout."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


def _never_fail_to_encode() -> None:
    """Write `?` for characters that a terminal's encoding lacks; in UTF-8 only lone surrogates."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure:
            reconfigure(errors="replace")


def _flushed(code: int) -> int:
    """Flush the output while an error can still be handled: at shutdown, Python would print a complaint of its own.

    A failure that was reported already (a code other than 0) is not reported twice.
    """
    from ossia.cli.streams import stdout

    try:
        stdout().flush()
    except BrokenPipeError:
        _to_nowhere(stdout().fileno())
        code = 141
    except OSError as error:
        _to_nowhere(stdout().fileno())
        if code == 0:
            _complain(f"can't write the output: {error.strerror}")
            code = 1
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _to_nowhere(2)  # and nobody is left to tell
    return code


def _to_nowhere(descriptor: int) -> None:
    """Let output still buffered for `descriptor` vanish, so that it doesn't raise again at shutdown."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _write_result(code: int) -> None:
    """The last line of `--jsonl`, where the command line couldn't be read, or an interrupt came before that."""
    from contextlib import suppress

    from ossia.agent.stream.events import Result
    from ossia.cli.oneshot.lines import Lines

    stopped = code == 130
    error = "interrupted" if stopped else "the command line can't be read: stderr says why"
    with suppress(OSError):
        Lines().write(Result("stopped" if stopped else "error", error=error, exit=code))


if __name__ == "__main__":
    sys.exit(main())
