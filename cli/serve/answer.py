"""One request: its body is read, a thread answers it, and the answer is sent on as it comes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from ossia.agent.control import Control
from ossia.agent.serving.asked import BadRequest
from ossia.cli.serve.faults import Fault, body_of, busy, ending, refusal_of
from ossia.cli.serve.outlet import Item, Outlet, Start
from ossia.tools.calls.coerce import MAX_DEPTH, STRICT, children

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MAX_BODY_BYTES = 16 << 20
"""Of a request: some hundred times what a context of 131,072 tokens holds, pictures and escapes included."""
_MAX_BYTES = 64 << 20
"""Of the bodies under way: once it is read, one takes up to 25 times its bytes, until it is answered."""
MAX_REQUESTS = 256
"""That are being answered or wait, each with a thread; beyond it they are refused."""
_COMMENT = b": waiting\n\n"

Answerer = Callable[[Mapping[str, Any], Outlet, Control], None]
"""Answers a request's JSON on the calling thread: puts `Start`, then the parts. Its errors become the client's."""


class Door:
    """Counts the requests under way, and lets no more in than there is room for, none while the server ends."""

    def __init__(self, most: int = MAX_REQUESTS) -> None:
        self.inside, self.closed, self._most, self._bytes = 0, False, most, 0

    @contextmanager
    def passing(self) -> Iterator[Callable[[int], None]]:
        """A request under way, which gives the bytes of its body as they come. Raises Fault, as that does."""
        if self.closed:
            raise ending()
        if self.inside >= self._most:
            raise busy(f"{self.inside} requests are waiting: ask again later")
        held = 0

        def hold(count: int) -> None:
            nonlocal held
            if self._bytes + count > _MAX_BYTES:
                raise busy(f"the requests that wait have {_MAX_BYTES >> 20} MiB together: ask again later")
            self._bytes, held = self._bytes + count, held + count

        self.inside += 1
        try:
            yield hold
        finally:
            self.inside, self._bytes = self.inside - 1, self._bytes - held


async def read_body(request: Request, hold: Callable[[int], None]) -> bytes:
    """The body of a request; `hold` gets the bytes of each part. Raises Fault for no JSON, and for one too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Fault("the body must be JSON: send it with `Content-Type: application/json`", status=415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Fault("a compressed body can't be read: send it without Content-Encoding", status=415)
    with suppress(ValueError):
        if int(request.headers.get("content-length", "0")) > MAX_BODY_BYTES:
            raise _too_long()
    body = bytearray()
    async for chunk in request.stream():
        hold(len(chunk))
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_long()
    return bytes(body)


def _too_long() -> Fault:
    return Fault(f"the body has more than {MAX_BODY_BYTES >> 20} MiB: send less text, or fewer files", status=413)


def parsed(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body. Raises BadRequest."""
    try:
        value = json.loads(body, **STRICT)
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise BadRequest(f"the body is no JSON: {why}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body must be a JSON object, not {type(value).__name__}")
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        level = [child for one in level for child in children(one)]
        if not level:
            return value
    raise BadRequest(f"the body is nested in more than {MAX_DEPTH} levels")


class Answer(Response):
    """Answers a request on a thread of its own. A client that goes away stops the turn, also one that waits for a lane.

    `comment_s`: a stream gets a comment line after so many seconds without anything else.
    """

    def __init__(self, door: Door, request: Request, answer: Answerer, comment_s: float) -> None:
        self._door, self._request, self._answer, self._comment_s = door, request, answer, comment_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._door.passing() as hold:
            body = await read_body(self._request, hold)
            control, outlet = Control(), Outlet()
            run = partial(self._run, body, outlet, control)
            threading.Thread(target=run, name="ossia-serve-turn", daemon=True).start()
            leaving = asyncio.create_task(_disconnected(receive))
            sending = asyncio.create_task(_send_all(outlet, scope, receive, send, self._comment_s))
            try:
                await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
                if sending.done():
                    sending.result()
            finally:
                scope["cost"] = outlet.cost
                if not (outlet.ended or sending.done()):
                    scope["how"] = "cut" if self._door.closed else "left by its client"
                outlet.leave()
                control.stop()
                for task in (leaving, sending):
                    task.cancel()

    def _run(self, body: bytes, outlet: Outlet, control: Control) -> None:
        try:
            self._answer(parsed(body), outlet, control)
        except BaseException as error:
            outlet.put(error)
        finally:
            outlet.end()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_all(outlet: Outlet, scope: Scope, receive: Receive, send: Send, comment_s: float) -> None:
    """Send the parts to the end; a stream gets comment lines while nothing else is sent."""
    start: Start | None = None
    while True:
        try:
            parts = await asyncio.wait_for(outlet.take(), comment_s if start and start.streamed else None)
        except TimeoutError:
            await _send_body(send, _COMMENT, more=True)
            continue
        if start is None and parts:
            first, *parts = parts
            if isinstance(first, BaseException):
                return await refused(refusal_of(first))(scope, receive, send)
            assert isinstance(first, Start)
            start = first
            kind = "text/event-stream" if start.streamed else "application/json"
            headers = {"content-type": kind, "cache-control": "no-store", **start.headers}
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": 200, "headers": raw})
            if not parts:
                continue
        if chunk := b"".join(_bytes_of(part, start) for part in parts):
            await _send_body(send, chunk, more=True)
        elif not parts:
            return await _send_body(send, b"", more=False)


def _bytes_of(part: Item, start: Start | None) -> bytes:
    assert start is not None and not isinstance(part, Start)
    return b"data: " + body_of(refusal_of(part)) + b"\n" if isinstance(part, BaseException) else part


async def _send_body(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


def refused(error: BadRequest) -> Response:
    """The answer to a request that is refused."""
    headers = dict(error.headers) if isinstance(error, Fault) else None
    return Response(body_of(error), error.status, headers, "application/json")
