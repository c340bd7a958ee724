"""The routes of the server, and what all of them have in common: the guard, and errors in one form."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router

from ossia.agent.serving.asked import BadRequest
from ossia.cli.serve.answer import Answer, Door, refused
from ossia.cli.serve.faults import Fault, refusal_of
from ossia.cli.serve.outlet import Outlet

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from ossia.agent.control import Control
    from ossia.agent.serving.asked import Api
    from ossia.cli.serve.guard import Guard

_HEALTH = ("/health", "/v1/health")
_OPENAIS = ("x-stainless-lang", "originator")
"""Headers of OpenAI's own libraries, and of Codex."""


class Service(Protocol):
    """The part of the server that knows models. Called on any thread."""

    def answer(
        self, api: Api, request: Mapping[str, object], outlet: Outlet, stop: Control, *, openais: bool = False
    ) -> None:
        """Answer a request: `Start`, then the parts. `openais`: of a library of OpenAI's, or Codex."""

    def models(self) -> Mapping[str, object]:
        """The body of `GET /v1/models`."""

    def model(self, name: str) -> object:
        """The body of `GET /v1/models/{name}`. Raises BadRequest for an unknown one."""

    def health(self) -> Mapping[str, object]:
        """The body of `GET /health`, for anyone."""


class App:
    """The ASGI application. `log` gets a line about each request.

    A turn's has the tokens, too: `"POST /v1/responses: 200 after 1.2 s, 26 of 2,651 tokens read, 12 written"`.
    `comment_s`: a stream gets a comment line after so many seconds without anything else.
    """

    def __init__(
        self, service: Service, guard: Guard, door: Door, log: Callable[[str], object], *, comment_s: float = 5.0
    ) -> None:
        self._service, self._guard, self._door, self._log, self._comment_s = service, guard, door, log, comment_s
        self._routes = Router(
            [
                Route("/v1/responses", partial(self._answer, "responses"), methods=["POST"]),
                Route("/v1/chat/completions", partial(self._answer, "chat"), methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._model),
                *(Route(path, self._health) for path in _HEALTH),
            ],
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # so that the router raises, and answers nothing itself
        began, status = time.monotonic(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            self._guard.check(scope["headers"], private=scope["path"] not in _HEALTH)
            await self._routes(scope, receive, sending)
        except ClientDisconnect:
            pass
        except Exception as error:
            if status:
                raise
            await refused(_refusal_of(scope, error))(scope, receive, sending)
        finally:
            how, cost = scope.get("how") or status or "cut", scope.get("cost", "")
            self._log(f"{scope['method']} {scope['path']}: {how} after {time.monotonic() - began:.1f} s{cost}")

    async def _answer(self, api: Api, request: Request) -> Response:
        openais = any(name in request.headers for name in _OPENAIS)
        return Answer(self._door, request, partial(self._service.answer, api, openais=openais), self._comment_s)

    async def _models(self, request: Request) -> Response:
        return _json(self._service.models())

    async def _model(self, request: Request) -> Response:
        return _json(self._service.model(request.path_params["name"]))

    async def _health(self, request: Request) -> Response:
        return _json(self._service.health())


def _json(content: object) -> Response:
    return Response(json.dumps(content).encode() + b"\n", media_type="application/json")


def _refusal_of(scope: Scope, error: Exception) -> BadRequest:
    if not isinstance(error, HTTPException):
        return refusal_of(error)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return Fault(f"{scope['method']} isn't allowed here, but {allowed}", status=405, headers=error.headers)
    there = "POST /v1/responses, POST /v1/chat/completions, GET /v1/models, GET /health"
    return BadRequest(f"no such route: the server has {there}", status=error.status_code)
