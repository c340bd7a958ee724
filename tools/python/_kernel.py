"""The client's side of one ipykernel: its folders, its process, its sockets, its messages.

The kernel runs the model's code, so every message is hostile until proven otherwise: sizes are bounded before they are
read (`MAXMSGSIZE` on the socket, set before it connects), structure before it is parsed. And nothing is read between
two calls, when nobody would notice how much it is: the sockets are open only during a call.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.session import Session

from ossia.tools._scratch import Scratch
from ossia.tools.python import _kernel_inside
from ossia.tools.sandbox import Confinement, Interpreter, Job, Limits
from ossia.tools.sandbox._process import KernelProcess

MAX_MESSAGE_BYTES = 8 << 20
_MAX_ITEMS = 400_000
"""Commas, colons and brackets in a message: 8 MiB of `{},{},` would be 200 MB of Python objects."""
_QUEUED_MESSAGES = 4
_WELCOME_S = 0.01
_SUN_PATH_BYTES = 100
"""A unix socket's path has at most 108 bytes (104 on macOS)."""
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
_CONNECTED = {"iopub": zmq.SUB, "shell": zmq.DEALER, "control": zmq.DEALER}


class KernelFailed(Exception):
    """The kernel didn't start; the message says why."""


@dataclass(frozen=True, slots=True)
class KernelMessage:
    """A message about one of our requests: `kind` as in the Jupyter protocol (`"stream"`, `"execute_reply"`, …)."""

    request: str
    kind: str
    content: Mapping[str, Any]


class Kernel:
    """One life of a kernel. Starts at construction; `wait_ready` before the first `execute`.

    One thread at a time talks to it; `wake` and `process` are thread-safe.
    """

    def __init__(self, confinement: Confinement, interpreter: Interpreter, *, data: Path, limits: Limits) -> None:
        self._scratch = _short_folder()
        self._folder = self._scratch.path
        self.job = Job(data, self._folder, limits, interpreter)
        for folder in (self.job.fixed, *self.job.writable):
            folder.mkdir(mode=0o700)
        self._session = Session(key=secrets.token_hex(16).encode(), username="user", check_pid=False)
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._context = zmq.Context()
        self._sockets: dict[str, zmq.Socket[bytes]] = {}
        self._ends: dict[str, int] = {}
        self._welcomes = False
        self._poller = zmq.Poller()
        self._poller.register(self._wake_reader.fileno(), zmq.POLLIN)
        shutil.copy(str(_kernel_inside.__file__), self.job.fixed)  # the project's own folder isn't visible in there
        self.job.connection.write_text(json.dumps(self._connection_info()))
        self.process = KernelProcess(confinement.launch(self.job), self.job, on_exit=self.wake)

    def _connection_info(self) -> dict[str, object]:
        ports = {f"{channel}_port": number for number, channel in enumerate(_CHANNELS, 1)}
        return {"transport": "ipc", "ip": str(self.job.sockets / "k"), "key": self._session.key.decode(),
                "signature_scheme": "hmac-sha256", "kernel_name": "", **ports}  # fmt: skip

    def _socket_path(self, channel: str) -> Path:
        return self.job.sockets / f"k-{_CHANNELS.index(channel) + 1}"

    def wake(self) -> None:
        """Make `receive` return now."""
        with contextlib.suppress(OSError):  # closed, or so full that it wakes anyway
            self._wake_writer.send(b"w", socket.MSG_DONTWAIT)

    def close(self) -> None:
        """End it with everything it started, and release everything."""
        self.process.kill()
        self._context.destroy(linger=0)
        while self._ends:
            os.close(self._ends.popitem()[1])
        self._wake_reader.close()
        self._wake_writer.close()
        self._scratch.close()

    # -- starting ------------------------------------------------------------------------------------------------------

    def wait_ready(self, deadline: float, given_up: Callable[[], bool]) -> bool:
        """Wait for the start, then connect. False if `given_up()` became true first.

        `deadline` is of `time.monotonic()`. Raises `KernelFailed` if it ended or `deadline` passed.
        """
        last = _CHANNELS[-1]  # ipykernel binds the heartbeat last; iopub and control come before
        while not self._sockets:
            self._must_live(deadline)
            if given_up():
                return False
            if all(_listens(self._socket_path(channel)) for channel in (*_CONNECTED, last)):
                self._pin()
                self._connect("iopub", "shell")
            else:
                time.sleep(0.005)
        return self._say_hello(deadline, given_up, by_welcome=False)

    def reconnect(self, deadline: float, given_up: Callable[[], bool]) -> bool:
        """Open the sockets again after `disconnect`; the rest as `wait_ready`."""
        if not self._sockets:
            if not _listens(self._address("iopub"), follow=True):
                raise KernelFailed("the code closed the kernel's sockets")
            self._connect("iopub", "shell")
        return self._say_hello(deadline, given_up, by_welcome=self._welcomes)

    def disconnect(self) -> None:
        """Close the sockets: until `reconnect`, nothing that the kernel sends reaches this program's memory.

        Not on macOS: there a socket can't be found again safely, since the code may have replaced it.
        """
        if self._ends:
            for end in self._sockets.values():
                self._poller.unregister(end)
                end.close(linger=0)
            self._sockets.clear()

    def _must_live(self, deadline: float) -> None:
        if self.process.ended:
            said = [part for part in (self.process.reason, self.process.log) if part]
            raise KernelFailed(f"the kernel didn't start: {': '.join(said)}")
        if time.monotonic() > deadline:
            self.process.kill("doesn't answer")
            raise KernelFailed("the kernel didn't start in time")

    def _pin(self) -> None:
        """Keep hold of the kernel's own sockets: later the code controls their names, and may point them elsewhere."""
        if hasattr(os, "O_PATH"):
            for channel in _CONNECTED:
                flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
                self._ends[channel] = os.open(self._socket_path(channel), flags)

    def _address(self, channel: str) -> Path:
        end = self._ends.get(channel)
        return self._socket_path(channel) if end is None else Path(f"/proc/self/fd/{end}")

    def _connect(self, *channels: str) -> None:
        for channel in channels:
            kind = _CONNECTED[channel]
            end = self._context.socket(kind)
            end.setsockopt(zmq.LINGER, 0)
            end.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)  # before it connects: on the context it is lost
            end.setsockopt(zmq.RCVHWM, _QUEUED_MESSAGES)
            end.setsockopt(zmq.RECONNECT_IVL, -1)  # once it is broken it stays so: `disconnect` and `reconnect`
            if kind == zmq.SUB:
                end.setsockopt(zmq.SUBSCRIBE, b"")
            end.connect(f"ipc://{self._address(channel)}")
            self._sockets[channel] = end
            self._poller.register(end, zmq.POLLIN)

    def _say_hello(self, deadline: float, given_up: Callable[[], bool], *, by_welcome: bool) -> bool:
        """Wait for a message on iopub: only then is our subscription active, and no output is lost.

        ipykernel 7 welcomes a subscriber by itself, if it has seen the last one go. Else it is asked something, until
        an answer comes there too.
        """
        asked = ""
        wait_s = _WELCOME_S if by_welcome else 0
        while True:
            self._must_live(deadline)
            if given_up():
                return False
            messages = self.receive(wait_s)
            wait_s = 0.05
            for message in messages:
                if message.kind == "iopub_welcome":
                    self._welcomes = True
                    if by_welcome:
                        return True
                if message.request and message.request == asked and message.kind == "status":
                    return True
                if message.request == asked and message.kind == "kernel_info_reply":
                    asked = ""
            asked = asked or self._send("shell", "kernel_info_request", {})

    # -- messages ------------------------------------------------------------------------------------------------------

    def execute(self, code: str, *, silent: bool = False) -> str:
        """Send code; the request's id."""
        content = {"code": code, "silent": silent, "store_history": not silent, "user_expressions": {},
                   "allow_stdin": False, "stop_on_error": True}  # fmt: skip
        return self._send("shell", "execute_request", content)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running code. By message: a signal would reach bwrap, and end it."""
        if self._context.closed:  # while its call ran
            return
        if "control" not in self._sockets:
            self._connect("control")
        self._send("control", "interrupt_request", {})

    def _send(self, channel: str, kind: str, content: dict[str, object]) -> str:
        message = self._session.msg(kind, content=content)
        with contextlib.suppress(zmq.ZMQError):  # it ended, or reads no more: `ended` or a timeout shows it
            self._sockets[channel].send_multipart(self._session.serialize(message), zmq.NOBLOCK)
        return str(message["header"]["msg_id"])

    def receive(self, timeout_s: float) -> list[KernelMessage]:
        """New messages, waiting for the first; an empty list after `timeout_s` seconds or `wake`."""
        ready = dict(self._poller.poll(max(0, int(timeout_s * 1000))))
        with contextlib.suppress(BlockingIOError):
            while self._wake_reader.fileno() in ready and self._wake_reader.recv(64):
                pass
        messages: list[KernelMessage] = []
        for channel in ("iopub", "shell", "control"):  # outputs before the reply that ends them
            end = self._sockets.get(channel)
            if end is not None and end in ready and (message := self._read(end)):
                messages.append(message)
        return messages

    def _read(self, end: zmq.Socket[bytes]) -> KernelMessage | None:
        """One message, None if it is invalid."""
        try:
            frames = end.recv_multipart(zmq.NOBLOCK)
        except zmq.ZMQError:
            return None
        items = sum(frame.count(sign) for frame in frames for sign in (b",", b":", b"[", b"{"))
        if sum(map(len, frames)) > MAX_MESSAGE_BYTES or items > _MAX_ITEMS:
            return None
        try:
            _, parts = self._session.feed_identities(frames)
            message = self._session.deserialize(parts)
            request, kind, content = message["parent_header"].get("msg_id", ""), message["msg_type"], message["content"]
        except Exception:  # whatever a hostile message provokes in the parser: the message is dropped
            return None
        in_order = isinstance(request, str) and isinstance(kind, str) and isinstance(content, dict)
        return KernelMessage(request, kind, content) if in_order else None


def _listens(path: Path, *, follow: bool = False) -> bool:
    """True if a socket accepts connections there."""
    try:
        if not stat.S_ISSOCK(path.stat(follow_symlinks=follow).st_mode):
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(path))
    except OSError:
        return False
    return True


def _short_folder() -> Scratch:
    """A new private folder with short enough paths for sockets."""
    scratch = Scratch()
    if len(str(scratch.path / "s" / "k-5")) <= _SUN_PATH_BYTES:
        return scratch
    scratch.close()
    return Scratch(Path("/tmp"))
