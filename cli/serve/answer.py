"""One request: its body is read, a thread answers it, and the answer is sent on as it comes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from ossia.agent.control import Control
from ossia.agent.serving.asked import BadRequest
from ossia.cli.serve.faults import Fault, body_of, refusal_of
from ossia.cli.serve.outlet import Item, Outlet, Start

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

MAX_BODY_BYTES = 16 << 20
"""Of a request: some hundred times what a context of 131,072 tokens holds, pictures and escapes included."""
_MAX_DEPTH = 64
_COMMENT_EVERY_S = 5.0
_COMMENT = b": waiting\n\n"

Answerer = Callable[[Mapping[str, Any], Outlet, Control], None]
"""Answers a request's JSON on the calling thread: puts `Start`, then the parts. Its errors become the client's."""


async def read_body(request: Request) -> bytes:
    """The body of a request. Raises Fault for another type than JSON, and for one that is too long."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Fault("the body must be JSON: send it with `Content-Type: application/json`", status=415)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Fault("a compressed body can't be read: send it without Content-Encoding", status=415)
    with suppress(ValueError):
        if int(request.headers.get("content-length", "0")) > MAX_BODY_BYTES:
            raise _too_long()
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise _too_long()
    return bytes(body)


def _too_long() -> Fault:
    return Fault(f"the body has more than {MAX_BODY_BYTES >> 20} MiB: send less text, or fewer files", status=413)


def parsed(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body. Raises Fault."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise BadRequest(f"the body is no JSON: {why}") from None
    if not isinstance(value, dict):
        raise BadRequest(f"the body must be a JSON object, not {type(value).__name__}")
    level: list[object] = [value]
    for _ in range(_MAX_DEPTH):
        level = [child for one in level for child in _children(one)]
        if not level:
            return value
    raise BadRequest(f"the body is nested in more than {_MAX_DEPTH} levels")


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


class TurnResponse(Response):
    """Answers by a thread of its own. A client that goes away stops the turn, also while that waits for a lane."""

    def __init__(self, answer: Callable[[Outlet, Control], None]) -> None:
        self._answer = answer
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        control = Control()
        outlet = Outlet()
        threading.Thread(target=self._run, args=(outlet, control), name="ossia-serve-turn", daemon=True).start()
        leaving = asyncio.create_task(_disconnected(receive))
        sending = asyncio.create_task(_send_all(outlet, scope, receive, send))
        try:
            await asyncio.wait({leaving, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            outlet.leave()
            control.stop()
            for task in (leaving, sending):
                task.cancel()

    def _run(self, outlet: Outlet, control: Control) -> None:
        try:
            self._answer(outlet, control)
        except BaseException as error:
            outlet.put(error)
        finally:
            outlet.end()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_all(outlet: Outlet, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the parts to the end; a streamed answer gets a comment line every 5 s while nothing else is sent."""
    start: Start | None = None
    while True:
        try:
            parts = await asyncio.wait_for(outlet.take(), _COMMENT_EVERY_S if start and start.streamed else None)
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
