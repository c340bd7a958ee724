"""The kernel from inside: ipykernel with its output bounded. Copied next to the launcher, which runs it confined.

It imports nothing from this project; the rest of the project reads only its constants.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import contextvars
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

HEAD_CHARS, TAIL_CHARS = 150_000, 50_000
"""Of one cell's output, only this beginning and this end leave the kernel's process."""
OMITTED = "application/x-ossia-omitted"
"""A display of this type holds the number of characters left out in between."""
_MAX_PICTURE_CHARS = 4_000_000
_QUEUED_MESSAGES = 50_000
_WAIT_FOR_PIPES_S = 0.5
"""The end of a cell waits this long for the output of child processes, which may never stop."""
_OPTIONS = ("--InteractiveShell.colors=nocolor", "--HistoryManager.enabled=False")


def run(connection: str, *, terminals: bool) -> None:
    """Run a kernel on a connection file until it is asked to end. Without `terminals`, `!command` gets a pipe.

    ipykernel is patched before it starts: done in a first cell it would be silently undone, since IPython restores its
    streams.
    """
    sys.modules["debugpy"] = None  # type: ignore[assignment]  # a third of the start, for a debugger nobody attaches
    from ipykernel.iostream import IOPubThread
    from ipykernel.kernelapp import IPKernelApp
    from ipykernel.zmqshell import ZMQInteractiveShell
    from IPython.core.formatters import DisplayFormatter
    from jupyter_client.session import Session

    _bound_streams()
    _replace(Session, "serialize", _without_halves)
    _replace(DisplayFormatter, "format", _bounded_format)
    # a TCP port for the prints of forked children: needs sockets that a filter refuses; _Bound sends those to fd 1
    _replace(IOPubThread, "_setup_pipe_in", lambda _: lambda thread: setattr(thread, "_pipe_flag", False))
    _replace(IPKernelApp, "_bind_socket", _with_a_long_queue)
    if not terminals:
        _replace(ZMQInteractiveShell, "system", lambda _: _system)
        _replace(ZMQInteractiveShell, "system_piped", lambda _: _system)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)  # what a child writes is echoed there: 50 MB of it if the code wants
    IPKernelApp.launch_instance(argv=["-f", connection, *_OPTIONS])


def _replace(owner: type, name: str, wrap: Callable[[Any], Any]) -> None:
    setattr(owner, name, wrap(getattr(owner, name)))


def _with_a_long_queue(bind: Any) -> Any:
    """No output of a cell may be dropped: 1,000 messages, libzmq's own limit, are 0.2 s of `display()`."""

    def wrapped(app: Any, end: Any, port: int) -> Any:
        end.sndhwm = _QUEUED_MESSAGES
        return bind(app, end, port)

    return wrapped


def _bound_streams() -> None:
    from ipykernel.displayhook import ZMQShellDisplayHook
    from ipykernel.iostream import OutStream
    from ipykernel.ipkernel import IPythonKernel
    from ipykernel.zmqshell import ZMQInteractiveShell

    pipes = _Pipes()
    bound = _Bound(OutStream.write, pipes)

    def tail_first(method: Any) -> Any:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            bound.release()
            return method(*arguments, **options)

        return wrapped

    def then_end(method: Any) -> Any:
        async def wrapped(*arguments: Any, **options: Any) -> Any:
            _threads_keep_their_cell()
            try:
                return await method(*arguments, **options)
            except (KeyboardInterrupt, asyncio.CancelledError):
                raise
            except BaseException as fault:  # what the code raised can't even be shown: its __str__ raises, or leaves
                return _unshowable(arguments[0], fault)
            finally:
                bound.end_of_cell()

        return wrapped

    _replace(OutStream, "write", lambda _: lambda stream, text: bound.write(stream, text))
    _replace(OutStream, "_watch_pipe_fd", lambda _: lambda stream: pipes.watch(stream))
    if hasattr(ZMQInteractiveShell, "_tee"):  # IPython 9 keeps all that a cell prints, without an end
        _replace(ZMQInteractiveShell, "_tee", lambda _: lambda shell, channel: contextlib.nullcontext())
    _replace(ZMQInteractiveShell, "_showtraceback", tail_first)  # else an error would stand before what led to it
    _replace(ZMQShellDisplayHook, "start_displayhook", tail_first)
    _replace(IPythonKernel, "do_execute", then_end)


def _unshowable(kernel: Any, fault: BaseException) -> dict[str, object]:
    """The reply to a cell with an unprintable error; the error is shown by its name."""
    try:
        name = str(type(fault.__context__ or fault).__name__)
    except BaseException:  # a class of the code's
        name = "an exception"
    text = "(its text can't be had)"
    error = {"ename": name, "evalue": text, "traceback": [f"{name}: {text}"]}
    kernel.send_response(kernel.iopub_socket, "error", error)
    return {"status": "error", "execution_count": kernel.shell.execution_count, **error}


def _without_halves(serialize: Any) -> Any:
    """Half a surrogate pair in a message can't be encoded: it is sent as `?`."""

    def serialized(session: Any, message: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return serialize(session, message, *arguments, **options)
        except UnicodeEncodeError:
            return serialize(session, _encodable(message), *arguments, **options)

    return serialized


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(inner) for key, inner in value.items()}
    return [_encodable(inner) for inner in value] if isinstance(value, list | tuple) else value


def _threads_keep_their_cell() -> None:
    """From now on a thread inherits the context it is started in: its output belongs to the cell that started it.

    Not before the first cell: ipykernel's own threads, which belong to none, must not.
    """
    if hasattr(threading.Thread, "starts_in_context"):
        return

    def starting(start: Any) -> Any:
        def start_in_context(thread: Any) -> None:
            thread.run = partial(contextvars.copy_context().run, thread.run)
            start(thread)

        return start_in_context

    _replace(threading.Thread, "start", starting)
    threading.Thread.starts_in_context = True  # type: ignore[attr-defined]


class _Pipes:
    """Reads descriptors 1 and 2 instead of ipykernel, whose echo may come after the cell's end."""

    def __init__(self) -> None:
        self._busy: dict[int, bool] = {}
        self._readers: set[int] = set()

    def watch(self, stream: Any) -> None:
        """Copy a stream's pipe into the stream until the kernel ends. Runs in a thread of its own."""
        pipe: int = stream._fid
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._readers.add(threading.get_ident())
        self._busy[pipe] = False
        while stream._should_watch:
            select.select([pipe], [], [])
            self._busy[pipe] = True  # before the pipe is emptied, so that empty and not busy means: all is written
            data = os.read(pipe, 65536)
            if stream._should_watch:  # else the byte that wakes us up at the end
                stream.write(decoder.decode(data))
            self._busy[pipe] = False

    def drain(self, wait_s: float) -> None:
        """Wait, `wait_s` at most, until all output so far has reached the streams."""
        if threading.get_ident() in self._readers:
            return
        end = None
        while select.select(self._busy, [], [], 0)[0] or True in self._busy.values():
            end = end or time.monotonic() + wait_s
            if time.monotonic() > end:
                return
            time.sleep(0.0005)


class _Bound:
    """Passes on the head of a cell's output, holds back its tail, counts what is in between.

    A courtesy to the host, which has bounds of its own: code that writes to the socket itself isn't seen here.
    """

    def __init__(self, write: Callable[[Any, str], Any], pipes: _Pipes) -> None:
        self._write, self._pipes = write, pipes
        self._master = os.getpid()
        self._lock = threading.RLock()
        self._passed = 0
        self._last: Any = None
        self._tail: list[tuple[Any, str]] = []
        self._tail_chars = 0
        self._omitted = 0

    def write(self, stream: Any, text: str) -> int | None:
        if not isinstance(text, str):
            self._write(stream, text)  # raises what the stream raises
        if os.getpid() != self._master:  # a forked child: the kernel reads the pipe behind fd 1 and 2
            os.write(2 if stream.name == "stderr" else 1, text.encode(errors="replace"))
            return len(text)
        self._pipes.drain(0.05)
        last, self._last = self._last, stream
        if last is not None and last is not stream and self._passed < HEAD_CHARS:
            last.flush()  # so that stdout and stderr arrive in the order in which they were written
        with self._lock:
            taken = text[: HEAD_CHARS - self._passed]
            self._passed += len(taken)
            self._hold(stream, text[len(taken) :])
        if taken:
            self._write(stream, taken)
        return len(text)

    def _hold(self, stream: Any, text: str) -> None:
        if not text:
            return
        self._omitted += max(0, len(text) - TAIL_CHARS)
        self._tail.append((stream, text[-TAIL_CHARS:]))
        self._tail_chars += len(self._tail[-1][1])
        if self._tail_chars > 2 * TAIL_CHARS:  # not at every write: a print() of one character stays cheap
            self._cut()

    def _cut(self) -> None:
        """Keep the last TAIL_CHARS of the tail."""
        kept: list[tuple[Any, str]] = []
        room = TAIL_CHARS
        for stream, text in reversed(self._tail):
            if not room:
                break
            kept.append((stream, text[-room:]))
            room -= len(kept[-1][1])
        self._omitted += self._tail_chars - (TAIL_CHARS - room)
        self._tail, self._tail_chars = kept[::-1], TAIL_CHARS - room

    def release(self) -> None:
        """Send the number of omitted characters, then the tail."""
        with self._lock:
            if self._tail_chars > TAIL_CHARS:
                self._cut()
            tail, omitted = self._tail, self._omitted
            self._tail, self._tail_chars, self._omitted = [], 0, 0
        if omitted:
            from IPython import get_ipython

            get_ipython().display_pub.publish({OMITTED: omitted})
        for stream, text in tail:
            if stream is not self._last:
                self._last.flush()
            self._last = stream
            self._write(stream, text)

    def end_of_cell(self) -> None:
        self._pipes.drain(_WAIT_FOR_PIPES_S)
        self.release()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._passed, self._last = 0, None


def _bounded_format(format_object: Any) -> Any:
    def bounded(*arguments: Any, **options: Any) -> Any:
        data, metadata = format_object(*arguments, **options)
        return {kind: _bounded(kind, value) for kind, value in data.items()}, metadata

    return bounded


def _bounded(kind: str, value: Any) -> Any:
    if not isinstance(value, str | bytes):
        return value
    if kind.startswith("image/"):
        return value if len(value) <= _MAX_PICTURE_CHARS else ""
    if isinstance(value, bytes) or len(value) <= HEAD_CHARS + TAIL_CHARS:
        return value
    omitted = len(value) - HEAD_CHARS - TAIL_CHARS
    return f"{value[:HEAD_CHARS]}\n[... {omitted} characters omitted]\n{value[-TAIL_CHARS:]}"


def _system(shell: Any, command: str) -> None:
    """`!command` without a pseudo-terminal."""
    process = subprocess.Popen(
        command, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0
    )
    assert process.stdout is not None
    try:
        while chunk := process.stdout.read(65536):
            sys.stdout.write(chunk.decode(errors="replace"))
        shell.user_ns["_exit_code"] = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
