"""JSON-RPC over two pipes: what is answered, what is refused, and how it ends."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from ossia.cli.acp.rpc import INTERNAL, INVALID_PARAMS, MAX_LINE_BYTES, Connection, Params, Reply, RpcError

_WAIT_S = 30


class Peer:
    """The client of a connection with two methods: `echo` returns its params, `fail` raises."""

    def __init__(self) -> None:
        self._read, write = os.pipe()
        read, self.write = os.pipe()
        self.heard: queue.SimpleQueue[Params] = queue.SimpleQueue()
        self.later: Future[Mapping[str, object]] = Future()
        self._streams = [os.fdopen(read, "rb"), os.fdopen(write, "wb")]
        self.connection = Connection(*self._streams, _error_of)
        methods = {"echo": lambda params: params, "fail": _fail, "later": lambda params: self.later, "then": self._then}
        self.serving = threading.Thread(target=self.connection.serve, args=(methods, {"note": self.heard.put}))
        self.serving.start()
        self._lines = os.fdopen(self._read, "rb")

    def _then(self, params: Params) -> Reply:
        return Reply({"first": True}, lambda: self.connection.notify("second", {}))

    def send(self, *lines: str | bytes) -> None:
        for line in lines:
            data = (line if isinstance(line, bytes) else line.encode()) + b"\n"
            while data:
                data = data[os.write(self.write, data) :]

    def line(self) -> Any:
        return json.loads(self._lines.readline())

    def end(self) -> None:
        if self.write >= 0:
            os.close(self.write)
            self.write = -1
        self.serving.join(_WAIT_S)
        self.connection.finish(_WAIT_S)

    def close(self) -> None:
        for stream in (*self._streams, self._lines):
            stream.close()


def _fail(params: Params) -> Mapping[str, object]:
    raise ZeroDivisionError


def _error_of(error: BaseException) -> RpcError:
    return error if isinstance(error, RpcError) else RpcError(INTERNAL, type(error).__name__)


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.end()
    peer.close()


def _error(request: object, code: int, message: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request, "error": {"code": code, "message": message}}


def test_a_request_gets_its_result_and_a_notification_nothing(peer: Peer) -> None:
    peer.send(
        '{"jsonrpc":"2.0","method":"note","params":{"a":1}}',
        '{"jsonrpc":"2.0","method":"unknown"}',
        '{"jsonrpc":"2.0","id":"x\\ud83d","method":"echo","params":{"é":"\\ud800 \\u2028"}}',
    )
    assert peer.line() == {"jsonrpc": "2.0", "id": "x\ud83d", "result": {"é": "? \u2028"}}
    assert peer.heard.get(timeout=_WAIT_S) == {"a": 1}


def test_what_json_or_unicode_does_not_have_is_replaced(peer: Peer) -> None:
    peer.connection.notify("x", {"a": [float("nan"), float("inf"), "\ud800é"]})
    assert peer.line() == {"jsonrpc": "2.0", "method": "x", "params": {"a": ["NaN", "Infinity", "?é"]}}


@pytest.mark.parametrize(
    ("line", "request_id", "code"),
    [
        ("{", None, -32700),
        (b"\xff", None, -32700),
        ("[" * 100_000, None, -32700),
        ("1" * 5000, None, -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":NaN}}', None, -32700),
        ('[{"jsonrpc":"2.0","id":1,"method":"echo"}]', None, -32600),
        ("7", None, -32600),
        ('{"jsonrpc":"2.0","id":{},"method":"echo"}', None, -32600),
        ('{"jsonrpc":"2.0","id":true,"method":"echo"}', None, -32600),
        ('{"jsonrpc":"1.0","id":1,"method":"echo"}', 1, -32600),
        ('{"jsonrpc":"2.0","id":1,"method":7}', 1, -32600),
        ('{"jsonrpc":"2.0","id":1}', 1, -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"ehco"}', 1, -32601),
        ('{"jsonrpc":"2.0","id":1,"method":"echo","params":[]}', 1, -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"fail"}', 1, -32603),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_is_malformed_is_refused_and_the_next_line_is_answered(
    peer: Peer, line: str | bytes, request_id: object, code: int
) -> None:
    peer.send(line, '{"jsonrpc":"2.0","id":2,"method":"echo"}')
    refused = peer.line()
    assert (refused["id"], refused["error"]["code"]) == (request_id, code)
    assert peer.line() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_line_that_is_too_long_is_refused_as_one(peer: Peer) -> None:
    peer.send(b" " * (2 * MAX_LINE_BYTES + 10), '{"jsonrpc":"2.0","id":2,"method":"echo"}')
    assert peer.line()["error"]["code"] == -32600
    assert peer.line() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_other_requests_are_answered_while_one_waits(peer: Peer) -> None:
    peer.send('{"jsonrpc":"2.0","id":1,"method":"later"}', '{"jsonrpc":"2.0","id":2,"method":"echo"}')
    assert peer.line()["id"] == 2
    peer.later.set_exception(RpcError(INVALID_PARAMS, "no"))
    assert peer.line() == _error(1, INVALID_PARAMS, "no")


def test_what_follows_a_result_comes_behind_it(peer: Peer) -> None:
    peer.send('{"jsonrpc":"2.0","id":1,"method":"then"}')
    assert [peer.line().get("method"), peer.line().get("method")] == [None, "second"]


def test_an_answer_counts_once_and_for_its_question(peer: Peer) -> None:
    answers: queue.SimpleQueue[tuple[object, bool]] = queue.SimpleQueue()
    peer.connection.request("ask", {"q": 1}, lambda result, ok: answers.put((result, ok)))
    number = peer.line()["id"]
    peer.send(
        '{"jsonrpc":"2.0","id":999,"result":"another"}',
        f'{{"jsonrpc":"2.0","id":{number},"result":"yes"}}',
        f'{{"jsonrpc":"2.0","id":{number},"result":"again"}}',
    )
    assert answers.get(timeout=_WAIT_S) == ("yes", True)
    forget = peer.connection.request("ask", {}, lambda result, ok: answers.put((result, ok)))
    forget()
    peer.connection.request("ask", {}, lambda result, ok: answers.put((result, ok)))
    _, last = peer.line()["id"], peer.line()["id"]
    peer.send(f'{{"jsonrpc":"2.0","id":{last},"error":{{"code":-32603,"message":"no"}}}}')
    assert answers.get(timeout=_WAIT_S) == (None, False)


def test_the_end_of_the_client_answers_what_is_open_with_no(peer: Peer) -> None:
    answers: queue.SimpleQueue[tuple[object, bool]] = queue.SimpleQueue()
    peer.connection.request("ask", {}, lambda result, ok: answers.put((result, ok)))
    peer.end()
    assert answers.get(timeout=_WAIT_S) == (None, False)
    assert peer.connection.ended.is_set()
