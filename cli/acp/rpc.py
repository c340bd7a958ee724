"""JSON-RPC 2.0, a message a line, over two streams: answers the client's requests, asks it in turn.

stdin is read by the thread that calls `serve`, and methods are called there: they are quick, or return a future. Lines
are written by a thread of their own.
"""

from __future__ import annotations

import collections
import json
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ossia.tools.calls.coerce import STRICT

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
MAX_LINE_BYTES = 32 << 20
_MAX_WAITING_BYTES = 8 << 20
_PATIENCE_S = 60.0
"""A client that hasn't read for so long, with `_MAX_WAITING_BYTES` before it, is gone."""

Params = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """A result, and a function to call once it is sent: only then the client knows the new session's id."""

    result: Mapping[str, object]
    then: Callable[[], object]


Answer = Mapping[str, object] | Reply | Future[Any]
"""The answer of a method, or its future."""
Method = Callable[[Params], Answer]


class RpcError(Exception):
    """An error for the client: `RpcError(INVALID_PARAMS, "cwd: expected an absolute path, not 'src'")`."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def text(params: Params, key: str) -> str:
    """A parameter, a text. Raises RpcError for anything else."""
    if not isinstance(value := params.get(key), str):
        raise RpcError(INVALID_PARAMS, f"{key}: expected a text")
    return value


def absolute(params: Params, key: str) -> Path:
    """A parameter that must be an absolute path. Raises RpcError."""
    path = Path(text(params, key))
    if not path.is_absolute() or "\0" in str(path):
        raise RpcError(INVALID_PARAMS, f"{key}: expected an absolute path, not {str(path)!r:.200}")
    return path


class Connection:
    """A connection with one client.

    `error_of` makes an `RpcError` of whatever a method raises. `ended`: the client is gone.

        Connection(stdin, stdout, error_of).serve({"initialize": initialize}, {"session/cancel": cancel})
    """

    def __init__(self, read: BinaryIO, write: BinaryIO, error_of: Callable[[BaseException], RpcError]) -> None:
        self._read, self._error_of = read, error_of
        self._writer = _Writer(write)
        self._lock = threading.Lock()
        self._asked: dict[int, Callable[[object, bool], None]] = {}
        self._last_id = 0

    @property
    def ended(self) -> threading.Event:
        """Set once the client is gone: it closed a stream, or stopped reading. What is sent later may still arrive."""
        return self._writer.ended

    def serve(self, methods: Mapping[str, Method], notifications: Mapping[str, Callable[[Params], None]]) -> None:
        """Answer each line until stdin ends; by then, open requests to the client fail."""
        with suppress(OSError, ValueError):  # stdin was closed
            while line := self._read.readline(MAX_LINE_BYTES + 1):
                if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
                    while (rest := self._read.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                        pass
                    self._fail(None, RpcError(INVALID_REQUEST, f"a line has at most {MAX_LINE_BYTES >> 20} MB"))
                elif line.strip():
                    try:
                        self._take(line, methods, notifications)
                    except Exception:  # after an answer, or of a callback: the next line counts all the same
                        traceback.print_exc()
        self.close()

    def close(self) -> None:
        """End the connection, and fail the open requests."""
        self.ended.set()
        with self._lock:
            waiting, self._asked = list(self._asked.values()), {}
        for answered in waiting:
            answered(None, False)

    def finish(self, timeout_s: float) -> None:
        """Write all that waits, then stop writing."""
        self._writer.finish(timeout_s)

    # -- to the client -------------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Params) -> None:
        """Send a notification. It waits while the client doesn't read."""
        self._send({"method": method, "params": params})

    def request(self, method: str, params: Params, answered: Callable[[object, bool], None]) -> Callable[[], None]:
        """Ask the client. `answered(result, ok)` is called once, on the reading thread; not ok: an error, or it left.

        Returns a function that drops the question: an answer has no effect any more.
        """
        with self._lock:
            gone = self.ended.is_set()
            self._last_id += 1
            number = self._last_id
            if not gone:
                self._asked[number] = answered
        if gone:
            answered(None, False)
        else:
            self._send({"id": number, "method": method, "params": params})
        return lambda: self._forget(number)

    def _forget(self, number: int) -> None:
        with self._lock:
            self._asked.pop(number, None)

    def _send(self, message: Mapping[str, object]) -> None:
        self._writer.put(_line({"jsonrpc": "2.0", **message}))

    def _fail(self, request: object, error: RpcError) -> None:
        self._send({"id": request, "error": {"code": error.code, "message": str(error)}})

    # -- from the client -----------------------------------------------------------------------------------------------

    def _take(
        self, line: bytes, methods: Mapping[str, Method], notifications: Mapping[str, Callable[[Params], None]]
    ) -> None:
        try:
            message = json.loads(line.decode("utf-8"), **STRICT)
        except (ValueError, RecursionError) as error:
            return self._fail(None, RpcError(PARSE_ERROR, f"expected a line of JSON: {error}"))
        request = message.get("id") if isinstance(message, dict) else None
        if fault := _fault_of(message):
            return self._fail(request if _is_id(request) else None, RpcError(INVALID_REQUEST, fault))
        if message.get("method") is None:
            return self._answered(message)
        params = message.get("params", {})
        return self._call(message, _whole(params) if rb"\ud" in line.lower() else params, methods, notifications)

    def _call(
        self,
        message: Mapping[str, Any],
        params: object,
        methods: Mapping[str, Method],
        notifications: Mapping[str, Callable[[Params], None]],
    ) -> None:
        """Call a method, and answer; or hear a notification."""
        request, method = message.get("id"), message["method"]
        try:
            if not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "params: expected an object")
            if "id" not in message:
                if heard := notifications.get(method):
                    heard(params)
                return
            if method not in methods:
                raise RpcError(UNKNOWN_METHOD, f"there is no method {method!r}")
            answer = methods[method](params)
        except Exception as error:
            if "id" in message:
                self._fail(request, self._error_of(error))
            return
        if isinstance(answer, Future):
            answer.add_done_callback(lambda future: self._reply(request, future))
        else:
            self._send_result(request, answer)

    def _reply(self, request: object, future: Future[Mapping[str, object] | Reply]) -> None:
        if error := future.exception():
            self._fail(request, self._error_of(error))
        else:
            self._send_result(request, future.result())

    def _send_result(self, request: object, answer: Mapping[str, object] | Reply) -> None:
        result = answer.result if isinstance(answer, Reply) else answer
        self._send({"id": request, "result": result})
        if isinstance(answer, Reply):
            answer.then()

    def _answered(self, message: Mapping[str, object]) -> None:
        """Hand over the answer to a request, or drop it: nobody waits for it any more."""
        number = message.get("id")
        with self._lock:
            answered = self._asked.pop(number, None) if isinstance(number, int) else None
        if answered:
            answered(message.get("result"), "result" in message)


class _Writer:
    """Writes whole lines on a thread of its own, in order."""

    def __init__(self, stream: BinaryIO) -> None:
        self.ended = threading.Event()
        self._stream = stream
        self._changed = threading.Condition()
        self._lines: collections.deque[bytes] = collections.deque()
        self._bytes = 0
        self._finishing = False
        self._thread = threading.Thread(target=self._write, name="ossia-acp-writer", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue the line. Blocks while the queue is full, and ends the connection if that takes too long."""
        with self._changed:
            give_up_at = time.monotonic() + _PATIENCE_S
            while self._bytes > _MAX_WAITING_BYTES and not self.ended.is_set():
                if not self._changed.wait(max(0.0, give_up_at - time.monotonic())):
                    self.ended.set()
            if self._bytes <= _MAX_WAITING_BYTES:
                self._lines.append(line)
                self._bytes += len(line)
                self._changed.notify_all()

    def finish(self, timeout_s: float) -> None:
        with self._changed:
            self._finishing = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._finishing)
                if not self._lines:
                    return
                line = self._lines.popleft()
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                self.ended.set()
            with self._changed:
                self._bytes -= len(line)
                self._changed.notify_all()


def _fault_of(message: object) -> str:
    """The fault in the form of a message; "": none."""
    if not isinstance(message, dict):
        return "a batch isn't answered: send a message a line" if isinstance(message, list) else "expected an object"
    if not _is_id(message.get("id")):
        return "id: expected a number or a text"
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc: expected "2.0"'
    answers = message.get("method") is None and ("result" in message) != ("error" in message)
    return "" if answers or isinstance(message.get("method"), str) else "method: expected a text"


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, int | str) and not isinstance(value, bool))


def _line(message: Mapping[str, object]) -> bytes:
    """The message on a line. NaN and the infinities become texts, half a surrogate pair a "?".

    A model may write them; Python's JSON has them, a client's may not: it would lose the message.
    """
    try:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(message), parse_constant=str)
        text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        sent = json.loads(text)
        request = {"id": sent["id"]} if "id" in sent else {}  # the client's own comes back as it was
        return json.dumps({**_whole(sent), **request}, separators=(",", ":")).encode() + b"\n"


def _whole(value: object) -> Any:
    """The value with a "?" for each half of a surrogate pair: neither files nor SQLite take one."""
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))
