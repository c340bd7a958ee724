"""Clients of one `ossia serve` at once, well- and ill-behaved, and what they see."""

from __future__ import annotations

import http.client
import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.marks import Mark, numbers_of, one_line, request_for, streamed_numbers
from tests.support.serve import Address

DEADLINE_S = 120
"""For each wait on a socket."""
_LONG_BYTES = 100 << 20
_PIECE = b" " * (1 << 16)


@dataclass
class Seen:
    """What all clients saw. `own`, `off`: answers with their own mark, and with a number that nobody asked for."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    own: int = 0
    off: int = 0
    longest_s: float = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, outcome: str, took_s: float) -> None:
        with self.lock:
            self.outcomes[f"{kind}: {outcome}"] += 1
            self.longest_s = max(self.longest_s, took_s)


class Client:
    """One client: its requests are drawn from a generator. `open_marks`: those of all requests under way."""

    def __init__(self, address: Address, draw: random.Random, seen: Seen, open_marks: set[int]) -> None:
        self._address, self._draw, self._seen, self._open = address, draw, seen, open_marks

    def ask(self) -> None:
        """One request, and a look at its answer."""
        kinds: Mapping[Callable[[], str], float] = {
            self._whole: 35,
            self._streamed: 25,
            self._in_two_turns: 10,
            self._cut: 10,
            self._slow: 4,
            self._half: 4,
            self._too_long: 1,
            self._wrong_token: 4,
            self._elsewhere: 4,
            self._nonsense: 3,
        }
        (kind,) = self._draw.choices(list(kinds), list(kinds.values()))
        began = time.monotonic()
        try:
            outcome = kind()
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            outcome = f"{type(error).__name__}: {error}"
            self._fault(f"{kind.__name__}: {outcome}")
        self._seen.note(kind.__name__.lstrip("_"), outcome, time.monotonic() - began)

    # -- those that behave ---------------------------------------------------------------------------------------------

    def _whole(self) -> str:
        with self._marked() as mark:
            return self._judged(mark, numbers_of(self._json("POST", *self._request(mark))))

    def _streamed(self) -> str:
        with self._marked() as mark:
            path, body = self._request(mark)
            events = list(self._events(path, body))
            return self._judged(mark, streamed_numbers(events))

    def _in_two_turns(self) -> str:
        with self._marked() as mark, self._marked() as second:
            _, body = self._request(mark, "responses")
            first = self._json("POST", "/v1/responses", body)
            self._judged(mark, numbers_of(first))
            calls = [one for one in first["output"] if one["type"] == "function_call"]
            _, body = self._request(second, "responses", "json")
            results = [{"type": "function_call_output", "call_id": one["call_id"], "output": "done"} for one in calls]
            said = [{"role": "user", "content": body["input"]}]
            body |= {"previous_response_id": first["id"], "input": [*results, *said]}
            answer = self._json("POST", "/v1/responses", body)
            if answer["previous_response_id"] != first["id"]:
                self._fault(f"another conversation goes on: {answer['previous_response_id']}")
            return self._judged(second, numbers_of(answer), earlier=mark)

    # -- those that don't ----------------------------------------------------------------------------------------------

    def _cut(self) -> str:
        with self._marked() as mark:
            path, body = self._request(mark)
            with self._connection() as connection:
                self._send(connection, "POST", path, body | {"stream": True})
                if self._draw.random() < 0.3:
                    time.sleep(self._draw.uniform(0, 0.5))
                    return "before the answer"
                reply = connection.getresponse()
                reply.read(self._draw.randrange(1, 2000))
                return "within the answer"

    def _slow(self) -> str:
        with self._marked() as mark:
            path, body = self._request(mark)
            events = list(self._events(path, body, pause_s=0.02))
            return self._judged(mark, streamed_numbers(events))

    def _half(self) -> str:
        path, body = self._request(1234)
        text = json.dumps(body).encode()
        with self._connection() as connection:
            self._head(connection, path, len(text))
            connection.send(text[: len(text) // 2])
            time.sleep(self._draw.uniform(0, 1))
        return "left"

    def _too_long(self) -> str:
        with self._connection() as connection:
            self._head(connection, "/v1/responses", _LONG_BYTES)
            try:
                for _ in range(_LONG_BYTES // len(_PIECE)):
                    connection.send(_PIECE)
            except OSError:
                return "refused while it was sent"
            return self._refused(connection, 413)

    def _wrong_token(self) -> str:
        wrong = self._draw.choice(("", "Bearer", "Bearer wrong", f"Basic {self._address.token}", "Bearer \u00e9"))
        return self._turned_away(401, {"Authorization": wrong})

    def _elsewhere(self) -> str:
        odd = self._draw.choice(
            ({"Origin": "https://example.org"}, {"Origin": "null"}, {"Host": "example.org"}, {"Host": "example.org:80"})
        )
        return self._turned_away(403, odd)

    def _nonsense(self) -> str:
        bodies: tuple[object, ...] = (
            {},
            [],
            {"model": "etude", "input": 7},
            {"model": "no-such-model", "input": "hi"},
            {"model": "etude", "messages": [{"role": "nobody", "content": "hi"}]},
            {"model": "etude", "input": "hi", "tools": [{"type": "function"}]},
            {"model": "etude", "input": "hi", "previous_response_id": "resp_none"},
        )
        with self._connection() as connection:
            path = self._draw.choice(("/v1/responses", "/v1/chat/completions"))
            self._send(connection, "POST", path, self._draw.choice(bodies))
            reply = connection.getresponse()
            one_line(reply.read())
            if reply.status not in (400, 404):
                self._fault(f"nonsense: {reply.status}")
            return str(reply.status)

    def _turned_away(self, status: int, headers: Mapping[str, str]) -> str:
        with self._connection() as connection:
            self._send(connection, "POST", *self._request(1234), headers=headers)
            return self._refused(connection, status)

    def _refused(self, connection: http.client.HTTPConnection, status: int) -> str:
        reply = connection.getresponse()
        one_line(reply.read())
        if reply.status != status:
            self._fault(f"{reply.status}, not {status}")
        return str(reply.status)

    # -- what is sent --------------------------------------------------------------------------------------------------

    def _marked(self) -> Mark:
        return Mark(self._draw, self._seen.lock, self._open)

    def _request(self, mark: int, api: str = "", form: str = "") -> tuple[str, dict[str, Any]]:
        api = api or self._draw.choice(("responses", "chat"))
        return request_for(mark, api, form or self._draw.choice(("text", "json", "call")))

    def _connection(self) -> _Connection:
        return _Connection(self._address.host, self._address.port, timeout=DEADLINE_S)

    def _headers(self) -> dict[str, str]:
        return {"Content-Type": "application/json", "Authorization": f"Bearer {self._address.token}"}

    def _head(self, connection: http.client.HTTPConnection, path: str, length: int) -> None:
        connection.putrequest("POST", path)
        for name, value in (self._headers() | {"Content-Length": str(length)}).items():
            connection.putheader(name, value)
        connection.endheaders()

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: object,
        headers: Mapping[str, str] = {},
    ) -> None:  # fmt: skip
        whole = {name: value.encode("latin-1") for name, value in (self._headers() | dict(headers)).items()}
        connection.request(method, path, json.dumps(body).encode(), whole)

    def _json(self, method: str, path: str, body: object) -> dict[str, Any]:
        with self._connection() as connection:
            self._send(connection, method, path, body)
            reply = connection.getresponse()
            answer = json.loads(reply.read())
            if reply.status != 200:
                raise ValueError(f"{reply.status}: {answer}")
            assert isinstance(answer, dict)
            return answer

    def _events(self, path: str, body: dict[str, Any], *, pause_s: float = 0) -> Iterator[dict[str, Any]]:
        with self._connection() as connection:
            if pause_s:
                connection.connect()
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            self._send(connection, "POST", path, body | {"stream": True})
            reply = connection.getresponse()
            if reply.status != 200:
                raise ValueError(f"{reply.status}: {reply.read()!r}")
            for line in reply:
                time.sleep(pause_s)
                if line.startswith(b"data: {"):
                    yield json.loads(line[6:])

    # -- what comes back -----------------------------------------------------------------------------------------------

    def _judged(self, mark: int, values: list[int], *, earlier: int | None = None) -> str:
        """Own: the mark is there. Off: the model misread it. An open mark of another conversation is a fault."""
        with self._seen.lock:
            others = [value for value in values if value in self._open and value not in (mark, earlier)]
            if mark in values:
                self._seen.own += 1
                return "own"
            if not others:
                self._seen.off += 1
                return "off"
        self._fault(f"the answer to {mark} has another's mark: {others}")
        return "another's"

    def _fault(self, text: str) -> None:
        with self._seen.lock:
            self._seen.faults.append(text)


class _Connection(http.client.HTTPConnection):
    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def crowd(address: Address, *, requests: int, clients: int, seed: int, seen: Seen | None = None) -> Seen:
    """So many requests by so many clients at once; returns once all are done."""
    seen, open_marks = seen or Seen(), set[int]()
    left = iter(range(requests))
    lock = threading.Lock()

    def work(number: int) -> None:
        client = Client(address, random.Random(seed * 1000 + number), seen, open_marks)
        while True:
            with lock:
                if next(left, None) is None:
                    return
            client.ask()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen
