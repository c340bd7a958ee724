"""The client of servers of models, against a server on loopback that behaves and misbehaves."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from ossia.agent.control import Control
from ossia.agent.engine.remote.address import Address
from ossia.agent.engine.remote.client import Client
from ossia.agent.errors import AddressUnusable, EngineFailed, ServerRefused
from tests.support.remote import EVENTS
from tests.support.site import Reply, Request, Site, wait_until

BODY = {"prompt": [1, 2]}


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def client(site: Site, told: list[str]) -> Client:
    return client_of(site, told)


def client_of(site: Site, told: list[str] | None = None, **more: Any) -> Client:
    address = Address(site.url("").rstrip("/"), "team", "sesame", "TEAM_KEY", more.pop("ca", None))
    return Client(address, notice=(told if told is not None else []).append, back_off_s=0.01, **more)


def events(*data: object) -> bytes:
    return "".join(f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n" for one in data).encode()


def asked(client: Client, control: Control | None = None) -> list[Mapping[str, Any]]:
    return list(client.stream("/completion", BODY, control or Control()))


def stop_when(condition: Callable[[], bool], control: Control) -> None:
    def wait() -> None:
        wait_until(condition)
        control.stop()

    threading.Thread(target=wait, daemon=True).start()


def fault(client: Client) -> str:
    with pytest.raises(EngineFailed) as caught:
        asked(client)
    message = str(caught.value)
    assert "\n" not in message and "sesame" not in message
    return message


def test_json_is_asked_with_the_key(site: Site, client: Client) -> None:
    site.json("/props", {"n_ctx": 4096})
    site.json("/completion", {"tokens": [3]})
    assert client.get("/props", Control()) == {"n_ctx": 4096}
    assert client.post("/completion", BODY, Control()) == {"tokens": [3]}
    assert [request.headers["authorization"] for request in site.requests] == ["Bearer sesame"] * 2
    assert json.loads(site.requests[1].body) == BODY


def test_one_connection_for_questions_and_one_for_each_stream(site: Site, client: Client) -> None:
    site.json("/props", {})
    site.page("/completion", events({"n": 1}), type="text/event-stream")
    with client.one_connection():
        for _ in range(3):
            client.get("/props", Control())
        assert site.connections == 1
        assert [asked(client), asked(client)] == [[{"n": 1}]] * 2
        assert site.connections == 3
    client.get("/props", Control())
    assert site.connections == 4


def test_a_shared_connection_that_died_is_replaced() -> None:
    """By a server that closes it when it is asked again."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listening:
            for _ in range(2):
                with listening.accept()[0] as connection:
                    connection.recv(65_536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                    connection.recv(65_536)

    threading.Thread(target=answer, daemon=True).start()
    client = Client(Address(f"http://127.0.0.1:{listening.getsockname()[1]}", "team"))
    with client.one_connection():
        assert [client.get("/props", Control()), client.get("/props", Control())] == [{}, {}]


def test_a_stop_ends_a_question_on_a_shared_connection(site: Site, client: Client) -> None:
    site.json("/props", {})
    site.silent("/silent")
    control = Control()
    stop_when(lambda: len(site.requests) == 2, control)
    with client.one_connection():
        client.get("/props", Control())
        with pytest.raises(EngineFailed, match="stopped before it answered"):
            client.get("/silent", control)
    assert client.get("/props", Control()) == {}


def test_events_come_up_to_done(site: Site, client: Client) -> None:
    body = b": hello\n\n" + events({"n": 1}) + b'event: x\ndata: {"n":\ndata: 2}\n\n' + events("[DONE]", "rest")
    site.page("/completion", body, type="text/event-stream; charset=utf-8")
    assert asked(client) == [{"n": 1}, {"n": 2}]


def test_events_come_as_they_are_sent(site: Site, client: Client) -> None:
    more = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield events({"n": 1})
        more.wait(10)
        yield events({"n": 2})

    site.route("/completion", lambda _: Reply(pieces(), headers=EVENTS))
    stream = client.stream("/completion", BODY, Control())
    assert next(iter(stream)) == {"n": 1}
    more.set()
    assert list(stream) == [{"n": 2}]


@pytest.mark.parametrize("path", ["/silent", "/drip"])
def test_a_stop_ends_it_at_once(site: Site, client: Client, path: str) -> None:
    site.silent("/silent")
    site.route("/drip", lambda _: Reply(site._drops(0.01), headers=EVENTS))
    control, done = Control(), threading.Event()

    def ask() -> None:
        assert list(client.stream(path, BODY, control)) == []
        done.set()

    threading.Thread(target=ask, daemon=True).start()
    wait_until(lambda: bool(site.requests))
    control.stop()
    assert done.wait(10)


def answering(reply: bytes, ended: threading.Event) -> Client:
    """The client of a server that sends this, and then nothing; `ended` is set once the client has hung up."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with listening, listening.accept()[0] as connection:
            connection.recv(65_536)
            connection.sendall(reply)
            while connection.recv(65_536):
                pass
            ended.set()

    threading.Thread(target=answer, daemon=True).start()
    return Client(Address(f"http://127.0.0.1:{listening.getsockname()[1]}", "team", "sesame"), back_off_s=0.01)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"])
def test_a_stop_closes_the_connection(begun: bytes) -> None:
    """Otherwise the server would go on reading a long prompt, while it says nothing."""
    ended, control = threading.Event(), Control()
    client = answering(begun, ended)
    threading.Timer(0.05, control.stop).start()
    assert asked(client, control) == []
    assert ended.wait(10)


def test_a_stop_closes_a_shared_connection_that_is_used_again() -> None:
    ended, control = threading.Event(), Control()
    client = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", ended)
    with client.one_connection():
        assert client.get("/props", Control()) == {}
        threading.Timer(0.05, control.stop).start()
        with pytest.raises(EngineFailed, match="stopped before it answered"):
            client.get("/tokenize", control)
        assert ended.wait(10)  # while the connection could still be shared


def test_after_a_stop_nothing_is_asked(site: Site, client: Client) -> None:
    control = Control()
    control.stop()
    with pytest.raises(EngineFailed, match="stopped before it answered"):
        client.get("/props", control)
    assert site.requests == []


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_says(site: Site, client: Client, told: list[str], status: int) -> None:
    replies = iter(
        [Reply(b"{}", status, {"Retry-After": "0"}), Reply(b"{}", status), Reply(events({"n": 1}), 200, EVENTS)]
    )
    site.route("/completion", lambda _: next(replies))
    assert asked(client) == [{"n": 1}]
    wait = "asking again in 0.01 s"
    assert [line.replace("0.02", "0.01").replace(site.url("")[7:].rstrip("/"), "…") for line in told] == [
        f"team (…) is busy ({status}): {wait}"
    ] * 2


def test_a_date_to_retry_after_counts_from_the_answers_own(site: Site, client: Client) -> None:
    late = {"Retry-After": "Wed, 21 Oct 2065 07:28:00 GMT"}
    site.route("/completion", lambda _: Reply(b'{"error": {"message": "too many\\n requests"}}', 429, late))
    assert fault(client).endswith("answered 429: too many requests")
    assert len(site.requests) == 1  # too long to wait for


def test_a_stop_ends_the_wait(site: Site, client: Client, told: list[str]) -> None:
    site.route("/completion", lambda _: Reply(b"{}", 429, {"Retry-After": "50"}))
    control = Control()
    stop_when(lambda: bool(told), control)
    assert asked(client, control) == []
    assert [line.rpartition(": ")[2] for line in told] == ["asking again in 50 s"]


def test_a_busy_server_is_given_up_after_eight_times(site: Site) -> None:
    site.route("/completion", lambda _: Reply(b"{}", 503))
    client = Client(Address(site.url("").rstrip("/"), "team", "sesame"), back_off_s=0.001)
    assert "answered 503" in fault(client)
    assert len(site.requests) == 8


@pytest.mark.parametrize("after", ["Mon, 20 Nov 1995 19:12:08 +9999999999999999", "1e9", "-5", "\u0665"])
def test_an_hour_that_is_none_is_not_waited_for(site: Site, client: Client, told: list[str], after: str) -> None:
    replies = iter([Reply(b"{}", 503, {"Retry-After": after.encode().decode("latin-1")}), Reply(events({"n": 1}))])
    site.route("/completion", lambda _: Reply((reply := next(replies)).body, reply.status, {**EVENTS, **reply.headers}))
    assert asked(client) == [{"n": 1}]
    assert [line.rpartition(": ")[2] for line in told] == ["asking again in 0.01 s"]


def test_what_nobody_waits_for_is_tried_once_and_not_told(site: Site, client: Client, told: list[str]) -> None:
    site.route("/completion", lambda _: Reply(b"{}", 503))
    with pytest.raises(ServerRefused):
        list(client.stream("/completion", BODY, Control(), retry=False))
    assert (len(site.requests), told) == (1, [])


def test_a_short_answer_has_a_time_limit_in_all(site: Site) -> None:
    """A byte now and then doesn't prolong it."""
    site.drip("/props", every_s=0.02)
    with pytest.raises(EngineFailed, match="gave no answer: it didn't answer in time"):
        client_of(site, answer_s=0.2).get("/props", Control())


def test_a_late_answer_is_told_once(site: Site, told: list[str]) -> None:
    site.drip("/props", every_s=0.02)
    client = client_of(site, told, patience_s=0.05, answer_s=0.5)
    with pytest.raises(EngineFailed, match="it didn't answer in time"):
        client.get("/props", Control())
    assert told == [f"team ({client.address.place}) hasn't answered yet"]


def test_a_slow_reader_holds_few_events(site: Site, client: Client) -> None:
    sent: list[int] = []

    def pieces() -> Iterator[bytes]:
        for _ in range(60):
            yield events({"text": "x" * 1_000_000})
            sent.append(1)

    site.route("/completion", lambda _: Reply(pieces(), headers=EVENTS))
    stream = client.stream("/completion", BODY, Control())
    next(stream)
    before = -1
    while before != len(sent):  # until it stalls
        before = len(sent)
        time.sleep(0.3)
    stream.close()
    assert before < 40


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 200 OK\r\nX sesame\r\n\r\n", b"sesame\r\n\r\n", b"HTTP/1.1 200 sesame\x01\r\n\r\n"]
)
def test_a_broken_header_does_not_show_the_key(reply: bytes) -> None:
    assert "gave no answer: " in fault(answering(reply, threading.Event()))


def test_a_server_that_is_not_there_is_asked_again_and_given_up(told: list[str]) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    client = Client(Address(f"http://{place}", place), notice=told.append, back_off_s=0.01)
    refused = f"{place} can't be reached: Connection refused: is it running, and is the port right?"
    assert fault(client) == refused
    assert told == [f"{place} can't be reached: asking again in {wait} s" for wait in ("0.01", "0.02", "0.04")]


def test_what_has_begun_is_not_asked_again(site: Site, client: Client) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"5\r\n" + events({})[:5] + b"\r\n"  # a chunk that nothing follows

    site.route("/completion", lambda _: Reply(pieces(), headers={**EVENTS, "Transfer-Encoding": "chunked"}))
    assert fault(client).endswith("ask again")
    assert len(site.requests) == 1


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(events("}{"), 200, EVENTS), "expected a JSON object, not '}{': is it a server of models?"),
        (Reply(events("[" * 100_000), 200, EVENTS), "expected a JSON object, not '[["),
        (Reply(events("Bearer sesame"), 200, EVENTS), "expected a JSON object, not 'Bearer …'"),
        (Reply(events([1]), 200, EVENTS), "expected a JSON object, not '[1]'"),
        (Reply(b"<html>", 200, {"Content-Type": "text/html"}), "got 'text/html'"),
        (Reply(events({"error": {"message": "no\x1b[31m room", "code": 500}}), 200, EVENTS), ": no [31m room"),
        (Reply(b"x" * (17 << 20), 200, EVENTS), "exceeded the 16777216 byte limit"),
        (Reply(b'{"error": "bad key sesame"}', 401), "answered 401: bad key …: see the key in TEAM_KEY"),
        (Reply(b"\xff\x00\x1b]0;x\x07", 500), "answered 500: \N{REPLACEMENT CHARACTER} ]0;x"),
        (Reply(b"", 404), "answered 404: no message"),
    ],
)
def test_what_is_wrong_is_one_line(site: Site, client: Client, reply: Reply, says: str) -> None:
    site.route("/completion", lambda _: reply)
    assert says in fault(client)
    assert len(site.requests) == 1


def test_a_refusal_has_its_status(site: Site, client: Client) -> None:
    with pytest.raises(ServerRefused) as caught:
        client.get("/version", Control())
    assert caught.value.status == 404


def test_a_body_is_bounded(site: Site, client: Client) -> None:
    sent: list[int] = []

    def pieces() -> Iterator[bytes]:
        for piece in repeat(b" " * 1_000_000):
            yield piece
            sent.append(len(piece))

    site.route("/props", lambda _: Reply(pieces()))
    with pytest.raises(EngineFailed, match="an answer of more than 16 MB"):
        client.get("/props", Control())
    assert sum(sent) < 40_000_000


def test_no_packed_answer_is_unpacked(site: Site, client: Client) -> None:
    site.bomb("/props", 1_000_000)
    with pytest.raises(EngineFailed, match="it compressed its answer"):
        client.get("/props", Control())


def test_silence_has_an_end(site: Site) -> None:
    site.silent("/completion")
    assert "gave no answer: it didn't answer in time" in fault(client_of(site, silence_s=0.1))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_and_gets_no_key(site: Site, client: Client, status: int) -> None:
    with Site() as other:
        site.redirect("/completion", other.url("/completion"), status=status)
        assert f"another address ({other.url('/completion')}), which isn't followed: give that one" in fault(client)
        assert other.connections == 0


def test_no_proxy_is_asked_for_this_machine(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.json("/props", {"n": 1})
    with Site() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url(""))
        assert client_of(site).get("/props", Control()) == {"n": 1}
        other = Client(Address("http://gpu.test:81", "gpu.test:81"))
        with pytest.raises(ServerRefused):  # it is the proxy's 404
            other.get("/props", Control())
        assert [(request.target, "authorization" in request.headers) for request in proxy.requests] == [
            ("http://gpu.test:81/props", False)
        ]


@pytest.mark.parametrize("proxy", ["socks5://me:sesame@127.0.0.1:9", "ftp://me:sesame@127.0.0.1:9"])
def test_a_proxy_that_cannot_be_used_is_said(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(
        AddressUnusable, match=r"gpu\.test: the proxy that the environment names can't be used: "
    ) as caught:
        Client(Address("https://gpu.test", "gpu.test"))
    assert "sesame" not in str(caught.value)
    monkeypatch.setenv("NO_PROXY", "gpu.test")
    with pytest.raises(AddressUnusable):  # the library makes it all the same
        Client(Address("https://gpu.test", "gpu.test"))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key),
               "-out", str(cert)]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError:
        pytest.skip("needs the openssl command")
    return key, cert


def test_tls_is_verified_and_a_certificate_of_ones_own_is_named(certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Site(tls=context) as site:
        site.page("/completion", events({"n": 1}), type="text/event-stream")
        told: list[str] = []
        said = fault(client_of(site, told))
        assert "can't be reached" in said and said.endswith(
            "set ca in [engines.NAME] to a file with its certificate, if you trust it"
        )
        assert (told, site.requests) == ([], [])
        assert asked(client_of(site, ca=cert)) == [{"n": 1}]
        site.silent("/silent")
        control = Control()
        stop_when(lambda: len(site.requests) == 2, control)
        assert list(client_of(site, ca=cert).stream("/silent", BODY, control)) == []


def test_tls_where_there_is_none_is_said(site: Site) -> None:
    address = Address(site.url("").rstrip("/").replace("http:", "https:"), "team")
    assert fault(Client(address, back_off_s=0.01)).endswith(": it speaks no TLS: give http://")


def test_a_port_that_is_mute_when_asked_for_tls_is_asked_once(told: list[str]) -> None:
    """As a llama-server without TLS, which waits for the rest of a request."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = Address(f"https://127.0.0.1:{mute.getsockname()[1]}", "team")
        said = fault(Client(address, notice=told.append, back_off_s=0.01, connect_s=0.1))
    assert said.endswith(" can't be reached: it didn't answer in time: if it speaks no TLS, give http://")
    assert told == []


def test_a_stop_ends_a_handshake() -> None:
    """With a port that is mute: the thread of the request doesn't wait for it any longer."""
    ended, control = threading.Event(), Control()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connection:
                connection.recv(1)
                control.stop()
                while connection.recv(65_536):
                    pass
                ended.set()

        threading.Thread(target=answer, daemon=True).start()
        client = Client(Address(f"https://127.0.0.1:{listening.getsockname()[1]}", "team"), connect_s=60)
        assert asked(client, control) == []
        assert ended.wait(10)
        wait_until(lambda: all(one.name != "ossia-request" for one in threading.enumerate()))


def test_a_file_without_certificates_is_refused(site: Site, tmp_path: Path) -> None:
    with pytest.raises(AddressUnusable, match=r"team: .*none\.pem holds no certificates: No such file"):
        client_of(site, ca=tmp_path / "none.pem")


def test_what_the_server_sees(site: Site, client: Client) -> None:
    site.json("/props", {})
    client.get("/props", Control())
    sent: Request = site.requests[0]
    assert sent.headers["accept-encoding"] == "identity" and sent.body == b""
