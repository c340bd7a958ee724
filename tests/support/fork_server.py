"""A process that has imported what `ossia` needs, and forks for each command: a tenth to a third of the CPU time.

Each command gets the streams, the environment and the folder that it is given, and is a process of its own. Its end is
that of Python, but that no module is taken apart: of the 76 ms of `--version`, that took 45. It has imported more than
it would: what is imported when, and from where, is for tests that start it.
Linux only. llama.cpp isn't imported before: it would start threads, which a fork loses.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

IMPORTED = (
    *("ossia.cli.main", "ossia.cli.app", "ossia.cli.commands", "ossia.cli.exits"),
    *("ossia.cli.oneshot.once", "ossia.cli.oneshot.ask", "ossia.cli.oneshot.report", "ossia.cli.runtime.assembly"),
    *("ossia.cli.runtime.session", "ossia.cli.runtime.ending", "ossia.agent.build"),
    *("ossia.tools.build", "ossia.cli.runtime.consent", "ossia.cli.visible"),
    "ossia.cli.settings.workspace",
    *("ossia.cli.terminal.markdown", "ossia.agent.loop", "ossia.agent.worker", "ossia.agent.respond"),
    *("ossia.agent.engine.scripted", "ossia.agent.sessions.store", "ossia.agent.models.resolve"),
    *("ossia.agent.models.plan", "ossia.agent.guide.follower", "ossia.agent.compaction"),
    *("ossia.harmony.tokenizer", "ossia.harmony.codec", "ossia.tools.toolbox", "ossia.tools.sandbox"),
    *("ossia.tools.sandbox._bwrap", "ossia.tools.sandbox._landlock", "ossia.tools.work", "ossia.tools.python.tool"),
    *("ossia.tools.python._kernel", "ossia.tools.browser", "ossia.tools.library", "ossia.tools.approval.autorun"),
    *("ossia.agent.engine.sampling", "ossia.agent.engine.guiding", "ossia.agent.models.transfer"),
    *("ossia.agent.models.gpt_oss", "ossia.cli.commands.tools", "ossia.cli.runtime.failures"),
    *("ossia.agent.models.pace", "ossia.agent.vocabulary", "ossia.cli.runtime.activity"),
    *("ossia.cli.settings.mcp", "ossia.tools.library.library"),
    *("ossia.tools.mcp.config", "ossia.tools.python.environment", "ossia.tools.functions"),
    *("ossia.cli.chat.app", "ossia.cli.chat.screen_face", "ossia.cli.terminal.vt"),
    *("ossia.cli.commands.tools_call", "ossia.tools.work.exec"),
    *("ossia.tools.undo.journal", "ossia.tools.functions.user", "ossia.tools.mcp.servers", "ossia.tools.mcp._http"),
    *("ossia.tools.mcp._server", "ossia.tools.fetch.loader"),
    *("ossia.cli.serve.serving", "ossia.cli.serve.service"),
    *("ossia.agent.engine.llama", "numpy.ctypeslib", "numpy.random", "ossia.cli.doctor.examine"),
    *("ossia.cli.eval.evaluation", "ossia.tools.sandbox._command_process", "ossia.tools.sandbox._kernel_launcher"),
    *("ossia.tools.toolchains.find", "ossia.tools.toolchains.summary"),
    "ossia.agent.engine.remote.connect",
    *("asyncio", "csv", "filelock", "httpcore2", "idna", "jsonschema", "jupyter_client", "mcp", "psutil", "sqlite3"),
    *("tiktoken", "tomllib", "typer", "uuid", "webencodings", "zmq"),
)
MADE = ("run", "tools", "docs", "models", "sessions", "config")
"""Commands of which typer has made its objects: 9 of the 54 ms of `ossia run`."""
_NUMBER = struct.Struct("=q")
_LONGEST = 100_000
"""Bytes of a request; a longer one doesn't fit into the channel."""


# -- in the test --


@cache
def server() -> socket.socket:
    """Our end of the channel to the server, which ends when that is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            pass_fds=[theirs.fileno()],
        )
    process.returncode = 0  # it lives as long as we do: nobody waits for it, and no warning says so
    return ours


def can_fork(request: bytes, env: Mapping[str, str]) -> bool:
    """Not where the environment decides how Python starts."""
    at_start = any(name.startswith(("PYTHON", "LC_")) for name in env) or env.get("LANG") != "C.UTF-8"
    return sys.platform == "linux" and len(request) <= _LONGEST and not at_start


def request_of(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path | None = None,
    *,
    terminal: bool = False,
    session: bool = False,
) -> bytes:
    """`session`: it gets one of its own, as each does that has a `terminal`."""
    return json.dumps([list(command), dict(env), str(cwd or Path.cwd()), terminal, session or terminal]).encode()


def forked(
    request: bytes, stdin: bytes | int, timeout_s: float, stdout: int = subprocess.PIPE
) -> tuple[int, bytes, bytes]:
    """Run a command to its end: its exit code (minus the number of the signal that ended it), stdout and stderr.

    `stdout`: a descriptor for it, of which nothing comes back. Raises TimeoutError, after the command was killed.
    """
    ours, theirs = socket.socketpair()
    with contextlib.ExitStack() as ends, ours, ThreadPoolExecutor(3) as pool:
        with contextlib.ExitStack() as given, theirs:
            if isinstance(stdin, bytes):
                their_stdin, our_stdin = os.pipe()
                writer = ends.enter_context(os.fdopen(our_stdin, "wb", 0))
                given.callback(os.close, their_stdin)
            elif stdin == subprocess.DEVNULL:
                their_stdin = os.open(os.devnull, os.O_RDONLY)
                given.callback(os.close, their_stdin)
            else:
                their_stdin = stdin
            readers: list[io.BufferedReader | io.BytesIO] = []
            outputs = []
            for wanted in (stdout, subprocess.PIPE):
                if wanted != subprocess.PIPE:
                    readers.append(io.BytesIO())
                    outputs.append(wanted)
                    continue
                reader, output = os.pipe()
                readers.append(ends.enter_context(os.fdopen(reader, "rb")))
                outputs.append(output)
                given.callback(os.close, output)
            socket.send_fds(server(), [request], [their_stdin, *outputs, theirs.fileno()])
        pid = _received(ours)
        ours.settimeout(timeout_s)
        reads = [pool.submit(reader.read) for reader in readers]
        if isinstance(stdin, bytes):
            pool.submit(_write, writer, stdin)
        try:
            status = _received(ours)
            out, error = (read.result(timeout_s) for read in reads)
        except TimeoutError:
            send(pid, signal.SIGKILL)
            raise
    return os.waitstatus_to_exitcode(status), out, error


class ForkedProcess:
    """A command that runs on, its outputs in pipes, with those of `subprocess.Popen`'s names that tests use."""

    def __init__(self, request: bytes, stdin: int) -> None:
        self.returncode: int | None = None
        self._report, report = socket.socketpair()
        with contextlib.ExitStack() as given:
            if stdin == subprocess.DEVNULL:
                stdin = os.open(os.devnull, os.O_RDONLY)
                given.callback(os.close, stdin)
            given.enter_context(report)
            readers, outputs = zip(*(os.pipe() for _ in range(2)), strict=True)
            for output in outputs:
                given.callback(os.close, output)
            self.stdin = None
            self.stdout, self.stderr = (os.fdopen(reader, "rb") for reader in readers)
            socket.send_fds(server(), [request], [stdin, *outputs, report.fileno()])
        self.pid = _received(self._report)

    def __enter__(self) -> ForkedProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.wait()
        for pipe in (self.stdout, self.stderr):
            pipe.close()

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._report.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(_received(self._report))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired("ossia", timeout or 0) from None
            self._report.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """What is left in the pipes, and its end."""
        with ThreadPoolExecutor(2) as pool:
            reads = [pool.submit(_rest, pipe) for pipe in (self.stdout, self.stderr)]
            try:
                out, error = (read.result(timeout) for read in reads)
                self.wait(timeout)
            except TimeoutError:
                self.kill()
                raise
        return out, error

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            send(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _rest(pipe: io.BufferedReader) -> bytes:
    if pipe.closed:
        return b""
    with pipe:
        return pipe.read()


class ForkedInTerminal:
    """A command that runs in a pseudo-terminal of its own, with those of `pexpect.spawn`'s names that tests use."""

    def __init__(self, request: bytes, rows: int, columns: int) -> None:
        import termios

        self.child_fd, theirs = os.openpty()
        os.set_inheritable(self.child_fd, False)
        self.closed = False
        self.exitstatus: int | None = None
        self.signalstatus: int | None = None
        termios.tcsetwinsize(theirs, (rows, columns))
        self._report, report = socket.socketpair()
        with report:
            socket.send_fds(server(), [request], [theirs, theirs, theirs, report.fileno()])
        os.close(theirs)
        self.pid = _received(self._report)

    def send(self, text: str) -> None:
        data = text.encode()
        while data:
            data = data[os.write(self.child_fd, data) :]

    def setwinsize(self, rows: int, columns: int) -> None:
        import termios

        termios.tcsetwinsize(self.child_fd, (rows, columns))

    def isalive(self) -> bool:
        self._report.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.wait()
        self._report.setblocking(True)
        return self.exitstatus is None and self.signalstatus is None

    def wait(self) -> None:
        if self.exitstatus is None and self.signalstatus is None:
            code = os.waitstatus_to_exitcode(_received(self._report))
            self.exitstatus, self.signalstatus = (code, None) if code >= 0 else (None, -code)

    def hang_up(self) -> None:
        """Close the terminal, as a window that is closed."""
        if not self.closed:
            os.close(self.child_fd)
        self.closed = True

    def close(self) -> None:
        """Hang up, and end what goes on nevertheless."""
        self.hang_up()
        if self._report.fileno() < 0:
            return
        self._report.settimeout(1)
        with self._report:
            try:
                self.wait()
            except TimeoutError:
                send(self.pid, signal.SIGKILL)


def send(pid: int, number: int) -> None:
    """Send a signal, as `subprocess` does: to a command that has just ended it goes nowhere.

    The server has waited for it then, and only its report is still on the way.
    """
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _write(pipe: io.FileIO, data: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), pipe:
        rest = memoryview(data)
        while rest:
            rest = rest[pipe.write(rest) :]


def _received(channel: socket.socket) -> int:
    data = channel.recv(_NUMBER.size)
    assert len(data) == _NUMBER.size, "the fork server has ended"
    return int(_NUMBER.unpack(data)[0])


# -- in the server --


def _serve(channel: socket.socket) -> list[str]:
    """Returns in each forked child, with the command to run; ends when nobody can ask any more."""
    running: dict[int, tuple[int, int]] = {}  # by its pidfd: the command, and where its end is reported
    poller = select.poll()
    poller.register(channel, select.POLLIN)
    child = False
    while not child:
        for ready, _ in poller.poll():
            if ready in running:
                poller.unregister(ready)
                os.close(ready)
                pid, report = running.pop(ready)
                _report(report, os.waitpid(pid, 0)[1])
                os.close(report)
                continue
            request, given, _, _ = socket.recv_fds(channel, _LONGEST + 1, 4)
            if not request:
                sys.exit(0)
            *streams, report = given
            pid = os.fork()
            if not pid:
                child = True
                break
            for descriptor in streams:
                os.close(descriptor)
            _report(report, pid)
            ended = os.pidfd_open(pid)
            running[ended] = pid, report
            poller.register(ended, select.POLLIN)
    channel.close()
    for descriptor in (report, *running, *(theirs for _, theirs in running.values())):
        os.close(descriptor)
    command, env, cwd, terminal, session = json.loads(request)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if session:
        os.setsid()
    if terminal:
        import fcntl
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", errors="surrogateescape", closefd=False)
    lines = 1 if terminal else -1
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", lines, encoding="utf-8", errors="surrogateescape", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    return list(command)


def _report(report: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(report, _NUMBER.pack(number))


if __name__ == "__main__":
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    sys.path[0] = str(Path(sys.executable).parent)  # the folder of the script that users start
    for name in IMPORTED:
        with contextlib.suppress(ModuleNotFoundError):  # renamed: tests.project.test_environment tells
            importlib.import_module(name)
    from ossia.cli.app import command

    for name in MADE:
        command.commands[name]  # made when it is looked at
    gc.freeze()
    sys.argv = _serve(channel)
    from ossia.cli.main import main

    code = main()
    threading._shutdown()  # type: ignore[attr-defined]  # waits for those that aren't daemons
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(code)
