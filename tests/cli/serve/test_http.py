"""The server's own part: routes, refusals, streams, slow and dead clients, its end."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext

import pytest

from ossia.cli.serve.answer import Door
from ossia.cli.serve.faults import Fault
from ossia.cli.serve.guard import Guard
from ossia.cli.serve.server import most_connections
from tests.cli.serve.running import TOKEN, Running, body_of, message_of, running, status_of

_STEP_S, _MOST_S = 0.02, 60.0


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    with running() as one:
        yield one


@pytest.fixture
def server(shared: Running) -> Running:
    """A server that nobody has asked yet, as far as a test sees."""
    shared.service.reset()
    shared.log.clear()
    return shared


def _get(server: Running, path: str, *lines: str, method: str = "GET") -> bytes:
    host = f"Host: 127.0.0.1:{server.port}"
    head = [f"{method} {path} HTTP/1.1", host, f"Authorization: Bearer {TOKEN}", "Connection: close", *lines]
    return server.exchange("\r\n".join([*head, "", ""]).encode())


def _events(answer: bytes) -> list[bytes]:
    """The `data:` and comment lines of a chunked answer."""
    return re.findall(rb"(?m)^(?:data: .*|: .*)$", body_of(answer).replace(b"\r\n", b"\n"))


# -- routes and forms --------------------------------------------------------------------------------------------------


def test_a_request_is_answered_whole_or_streamed(server: Running) -> None:
    whole = server.exchange(server.ask({"say": ["a", "b"]}, path="/v1/chat/completions"))
    assert status_of(whole) == 200
    assert b'{"api": "chat", "said": ["a", "b"]}' in whole
    streamed = server.exchange(server.ask({"say": ["a", "b"], "stream": True}))
    assert b"content-type: text/event-stream" in streamed.lower() and b"ossia-queue: 0" in streamed
    assert _events(streamed) == [b"data: a", b"data: b"]


def test_a_stream_gets_comments_while_nothing_else_comes() -> None:
    with running(comment_s=0.05) as server, server.connect() as connection:
        connection.sendall(server.ask({"say": ["a"], "stream": True, "hold": True}))
        came = b""
        while came.count(b": waiting\n\n") < 2:
            came += connection.recv(65536)
        server.service.released.set()
        while part := connection.recv(65536):
            came += part
    assert set(_events(came)) == {b"data: a", b": waiting"}


def test_other_programs_see_the_models_and_whether_the_server_is_there(server: Running) -> None:
    assert json.loads(body_of(_get(server, "/v1/models")))["data"][0]["id"] == "etude"
    assert json.loads(body_of(_get(server, "/v1/models/etude")))["id"] == "etude"
    assert status_of(_get(server, "/v1/models/gpt-9")) == 404
    for path in ("/health", "/v1/health"):
        answer = server.exchange(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        assert (status_of(answer), json.loads(body_of(answer))) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("path", "method", "status", "line"),
    [
        ("/", "GET", 404, "no such route"),
        ("/v1/responses/", "GET", 404, "no such route"),
        ("/v1/responses", "GET", 405, "GET isn't allowed here, but POST"),
        ("/v1/models", "DELETE", 405, "DELETE isn't allowed here"),
        ("/v1/responses", "OPTIONS", 405, "OPTIONS isn't allowed here"),
        ("http://127.0.0.1/v1/models", "GET", 404, "no such route"),
        ("/v1/../v1/models", "GET", 404, "no such route"),
    ],
)
def test_other_routes_are_refused_in_one_line(server: Running, path: str, method: str, status: int, line: str) -> None:
    answer = _get(server, path, method=method)
    assert status_of(answer) == status
    assert message_of(answer).startswith(line)
    assert b"access-control" not in answer.lower()


@pytest.mark.parametrize(
    ("body", "lines", "status", "line"),
    [
        (b"{", (), 400, "the body is no JSON"),
        (b"[]", (), 400, "the body must be a JSON object, not list"),
        (b"\xff", (), 400, "the body is no JSON"),
        (b'{"a": NaN}', (), 400, "the body is no JSON: NaN is not JSON"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, (), 400, "the body is nested in more than 64 levels"),
        (b"[" * 100_000, (), 400, "the body is no JSON: nested too deep"),
        ({"say": []}, ("Content-Type: text/plain",), 415, "the body must be JSON"),
        ({"say": []}, ("Content-Type:",), 415, "the body must be JSON"),
        ({"say": []}, ("Content-Encoding: gzip",), 415, "a compressed body can't be read"),
        ({"say": []}, ("Content-Length: 16777217", "Expect: 100-continue"), 413, "the body has more than 16 MiB"),
    ],
)
def test_a_body_that_cant_be_read_is_refused_in_one_line(
    server: Running, body: object, lines: tuple[str, ...], status: int, line: str
) -> None:
    answer = server.exchange(server.ask(body, *lines))
    assert (status_of(answer), message_of(answer)[: len(line)]) == (status, line)


def test_a_body_of_100_mb_is_refused_while_it_comes(server: Running) -> None:
    """In chunks, so that no length says it: the answer is there before the last one is sent."""
    with server.connect() as connection:
        head = server.ask(b"", "Content-Length:", "Transfer-Encoding: chunked", close=False)
        connection.sendall(head)
        chunk = b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
        for _ in range(20):
            connection.sendall(chunk)
        answer = b""
        while not answer.endswith(b"}\n"):
            answer += connection.recv(65536)
        assert (status_of(answer), message_of(answer)[:13]) == (413, "the body has ")
        for _ in range(80):
            connection.sendall(chunk)  # the rest is read, and dropped: the client sees the answer
        connection.sendall(b"0\r\n\r\n" + server.ask({"say": ["next"]}))
        rest = b"".join(iter(lambda: connection.recv(65536), b""))
        assert status_of(rest) == 200 and b"next" in rest


@pytest.mark.parametrize("junk", [b"GARBAGE\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000, b"\x16\x03\r\n\r\n"])
def test_what_is_no_http_is_refused_in_one_line(server: Running, junk: bytes) -> None:
    answer = server.exchange(junk)
    assert (status_of(answer), message_of(answer)[:36]) == (400, "this is no HTTP request that can be ")


def test_requests_of_http_1_0_and_pipelined_ones_are_answered(server: Running) -> None:
    old = server.ask({"say": ["old"], "stream": True}).replace(b"HTTP/1.1", b"HTTP/1.0")
    answer = server.exchange(old)
    assert _events(answer) == [b"data: old"] and b"Transfer-Encoding" not in answer
    answer = server.exchange(server.ask({"say": ["one"]}, close=False) + server.ask({"say": ["two"]}))
    assert answer.count(b"HTTP/1.1 200") == 2 and answer.index(b"one") < answer.index(b"two")


def test_a_bug_is_a_line_for_the_client_and_a_traceback_here(
    server: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = server.exchange(server.ask({"broken": True}))
    assert (status_of(whole), message_of(whole)[:28]) == (500, "a bug in ossia: RuntimeError")
    streamed = server.exchange(server.ask({"broken": True, "stream": True, "say": []}))
    assert b'data: {"error": {"message": "a bug in ossia' in streamed
    assert capfd.readouterr().err.count("RuntimeError: broken") == 2


# -- who may ask -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.example", "[::2]", "127.0.0.1@evil.example", "", "a]b"])
def test_another_host_is_refused(server: Running, host: str) -> None:
    answer = server.exchange(server.ask({"say": []}, f"Host: {host}"))
    assert (status_of(answer), message_of(answer)[:16]) == (403, "the Host header ")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8321", "127.0.0.1", "[::1]:80"])
def test_this_machine_is_a_host_whatever_it_is_called(server: Running, host: str) -> None:
    assert status_of(server.exchange(server.ask({"say": []}, f"Host: {host}"))) == 200


@pytest.mark.parametrize(
    ("listening", "host", "allowed"),
    [
        *(("192.0.2.7", "192.0.2.7:8321", True), ("Box.lan", "box.lan:8321", True), ("192.0.2.7", "box.lan", False)),
        *(("0.0.0.0", "box.lan:8321", True), ("::", "[2001:db8::1]", True), ("0.0.0.0", "", False)),
    ],
)
def test_another_address_is_a_host_by_its_name_and_all_addresses_by_any(
    listening: str, host: str, allowed: bool
) -> None:
    """There the token is needed, which no web page has."""
    headers = [(b"host", host.encode()), (b"authorization", b"Bearer t")]
    with nullcontext() if allowed else pytest.raises(Fault, match="the Host header"):
        Guard(listening, "t").check(headers, private=True)


def test_requests_of_web_pages_are_refused(server: Running) -> None:
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{server.port}"):
        answer = server.exchange(server.ask({"say": []}, f"Origin: {origin}"))
        assert (status_of(answer), message_of(answer)[:21]) == (403, "requests of web pages")


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (("Authorization: Bearer a-token-of-the-tests",), 200),
        (("Authorization: bearer  a-token-of-the-tests",), 200),
        (("Authorization:", "x-api-key: a-token-of-the-tests"), 200),
        (("Authorization:",), 401),
        (("Authorization: Bearer",), 401),
        (("Authorization: Bearer a-token-of-the-test",), 401),
        (("Authorization: Bearer a-token-of-the-tests2",), 401),
        (("Authorization: Basic YS10b2tlbi1vZi10aGUtdGVzdHM=",), 401),
        (("Authorization: Bearer \u00e4",), 401),
    ],
)
def test_the_token_is_needed(server: Running, lines: tuple[str, ...], status: int) -> None:
    answer = server.exchange(server.ask({"say": []}, *lines))
    assert status_of(answer) == status
    if status == 401:
        assert message_of(answer).startswith(("a token is needed", "the token is wrong"))
        assert b"www-authenticate: Bearer" in answer
    assert not any("token" in line for line in server.log)


def test_a_wrong_token_is_refused_before_the_body_is_read(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(server.ask(b"", "Content-Length: 1000", token="wrong"))
        assert status_of(connection.recv(65536)) == 401
    assert not server.service.began.acquire(blocking=False)


# -- slow and dead clients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("more", [b"", b"\r\n", b"GET /health HTTP/1.1\r\n\r\n" * 10_000])
def test_a_client_that_goes_away_stops_its_turn(server: Running, stream: bool, more: bytes) -> None:
    """Also one that sent more than its request: its end stands behind that."""
    with server.connect() as connection:
        connection.sendall(server.ask({"say": ["a"], "stream": stream, "hold": True}, close=False) + more)
        assert server.service.began.acquire(timeout=_MOST_S)
    assert server.service.stopped.acquire(timeout=_MOST_S)
    give_up_at = time.monotonic() + _MOST_S
    while not any("left by its client after " in line for line in server.log) and time.monotonic() < give_up_at:
        time.sleep(_STEP_S)
    assert any("left by its client after " in line for line in server.log)


def test_a_client_that_sends_without_end_is_cut(server: Running) -> None:
    with server.connect() as connection, pytest.raises(OSError):
        connection.sendall(server.ask({"say": ["a"], "hold": True}, close=False))
        while True:
            connection.sendall(b"x" * 65536)


def test_large_bodies_that_wait_together_are_refused(server: Running) -> None:
    """Read, they would fill the memory."""
    large = server.ask({"say": ["x" * 15_000_000], "hold": True}, close=False)
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(connection := server.connect())
            connection.sendall(large)
            assert server.service.began.acquire(timeout=_MOST_S)
        with server.connect() as connection:
            connection.sendall(large)
            answer = connection.recv(65536)
        assert (status_of(answer), message_of(answer)[:31]) == (503, "the requests that wait have 64 ")
        assert status_of(server.exchange(server.ask({"say": []}))) == 200
        server.service.released.set()
    assert all(server.service.stopped.acquire(timeout=_MOST_S) for _ in range(4))


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process")
def test_connections_that_ask_nothing_leave_room_for_others(server: Running) -> None:
    with server.connect() as asking, ExitStack() as stack:
        asking.sendall(server.ask({"say": ["a"], "hold": True}))
        assert server.service.began.acquire(timeout=_MOST_S)
        idle = [stack.enter_context(server.connect()) for _ in range(most_connections() + 2)]
        assert status_of(server.exchange(server.ask({"say": []}))) == 200
        assert all(_ends(one) for one in idle[:3])
        server.service.released.set()
        assert status_of(asking.recv(65536)) == 200


def test_half_requests_are_cut() -> None:
    with running(patience_s=0.5) as server:
        whole = server.ask({"say": []}, close=False)
        with server.connect() as silent, server.connect() as begun, server.connect() as nearly:
            begun.sendall(whole[:20])
            nearly.sendall(whole[:-2])
            assert all(map(_ends, (silent, begun, nearly)))
        with server.connect() as connection:  # one byte now and then is no request either
            for byte in whole[:200]:
                try:
                    connection.send(bytes([byte]))
                except OSError:
                    break
                time.sleep(_STEP_S)
            assert _ends(connection)


def test_a_reader_that_reads_nothing_is_cut_and_its_turn_ends() -> None:
    with running(patience_s=0.5) as server, server.connect() as connection:
        connection.sendall(server.ask({"say": [], "stream": True, "flood": True}))
        assert server.service.stopped.acquire(timeout=_MOST_S)


def test_a_long_answer_reaches_a_slow_reader(server: Running) -> None:
    said = [str(number) * 1000 for number in range(2000)]
    with server.connect() as connection:
        connection.sendall(server.ask({"say": said, "stream": True}))
        answer = b""
        while part := connection.recv(65536):
            answer += part
            time.sleep(0.001)
    assert b"".join(_events(answer)).count(b"data: ") == 2000


def _ends(connection: object) -> bool:
    try:
        return connection.recv(1 << 20) == b""  # type: ignore[attr-defined]
    except ConnectionResetError:
        return True


# -- the end -----------------------------------------------------------------------------------------------------------


def test_the_end_waits_for_requests_under_way_and_refuses_others() -> None:
    with running() as server:
        answers: list[bytes] = []
        asked = server.ask({"say": ["a"], "hold": True})
        asking = threading.Thread(target=lambda: answers.append(server.exchange(asked)))
        asking.start()
        assert server.service.began.acquire(timeout=_MOST_S)
        server.server.drain()
        give_up_at = time.monotonic() + _MOST_S
        while status_of(answer := server.exchange(server.ask({"say": []}))) != 503 and time.monotonic() < give_up_at:
            time.sleep(_STEP_S)
        assert message_of(answer).startswith("the server is ending") and b"retry-after: 5" in answer
        server.service.released.set()
        asking.join(_MOST_S)
        assert status_of(answers[0]) == 200
        assert server.ended(_MOST_S) is True


@pytest.mark.parametrize("stream", [True, False])
def test_the_second_time_ends_it_at_once(stream: bool) -> None:
    """Where nothing was sent yet, the answer says why."""
    with running() as server, server.connect() as connection:
        connection.sendall(server.ask({"say": [], "hold": True, "stream": stream}))
        assert server.service.began.acquire(timeout=_MOST_S)
        server.server.drain()
        server.server.drain()
        assert server.ended(_MOST_S) is False
        assert server.service.stopped.acquire(timeout=_MOST_S)
        if not stream:
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            assert (status_of(answer), message_of(answer)[:20]) == (503, "the server is ending")
    assert server.log[0].startswith("POST /v1/responses: cut after ")


def test_a_server_that_waits_too_long_for_its_end_cuts_what_is_left() -> None:
    with running(drain_s=0.2) as server, server.connect() as connection:
        connection.sendall(server.ask({"say": [], "hold": True}))
        assert server.service.began.acquire(timeout=_MOST_S)
        server.server.drain()
        assert server.ended(_MOST_S) is False


def test_beyond_the_most_requests_others_are_refused() -> None:
    with running(door=Door(2)) as server, server.connect() as one, server.connect() as other:
        for connection in (one, other):
            connection.sendall(server.ask({"say": [], "hold": True}))
            assert server.service.began.acquire(timeout=_MOST_S)
        answer = server.exchange(server.ask({"say": []}))
        assert (status_of(answer), message_of(answer)) == (503, "2 requests are waiting: ask again later")
        server.service.released.set()
