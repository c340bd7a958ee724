"""Requests that are refused: a status, and one line in the form of OpenAI's errors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ossia.agent.serving.asked import BadRequest
from ossia.agent.serving.failures import error_object

_MAX_CHARS, _RETRY_S = 1000, 5


class Fault(BadRequest):
    """A request that is refused by HTTP's own means. `headers` go with the answer.

    `Fault("the server is ending: …", status=503, headers={"retry-after": "5"})`
    """

    def __init__(
        self, message: str, *, status: int, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, status=status, code=code)
        self.headers = headers or {}


def ending() -> Fault:
    """The refusal of a request that comes, or would begin, while the server ends."""
    return busy("the server is ending: ask again once it has started again")


def busy(message: str) -> Fault:
    """The refusal of a request that may come again in some seconds."""
    return Fault(message, status=503, headers={"retry-after": str(_RETRY_S)})


def body_of(error: BadRequest) -> bytes:
    """The JSON of the answer: `{"error": {"message": "no such route: …", "type": "invalid_request_error", …}}`."""
    return json.dumps(error_object(error)).encode() + b"\n"


def refusal_of(error: BaseException) -> BadRequest:
    """The answer about an error: the line of a user's or the machine's fault; a bug's traceback goes to stderr."""
    from ossia.cli.clean import one_line
    from ossia.cli.exits import ExitCode, exit_code, line_of

    if isinstance(error, BadRequest):
        return error
    code = exit_code(error)
    if code is None:
        import traceback

        traceback.print_exception(error)
        line = f"a bug in ossia: {type(error).__name__}; the server's stderr has the traceback"
        return BadRequest(line, status=500)
    status = {ExitCode.USAGE: 400, ExitCode.NO_ROOM: 400, ExitCode.MODEL: 503}.get(code, 500)
    return BadRequest(one_line(line_of(error), _MAX_CHARS), status=status)
