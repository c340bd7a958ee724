"""Requests that went wrong, as OpenAI's clients read them: error objects, and the end of an answer that broke."""

from __future__ import annotations

from typing import Any

from ossia.agent.serving.asked import BadRequest
from ossia.agent.stream.events import Result

_CUT = frozenset({"tokens", "time", "loop", "context"})


def error_object(error: BadRequest) -> dict[str, Any]:
    """The body of an answer with `error.status`, and the last chunk of a chat's stream that broke.

    error_object(BadRequest("no model is called 'gpt-9'", status=404, code="model_not_found", param="model"))
    # {"error": {"message": "no model is called 'gpt-9'", "type": "invalid_request_error", "param": "model", "code": …}}
    """
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    kind = "rate_limit_error" if error.status == 429 else kind
    return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}


def failure_of(result: Result) -> BadRequest | None:
    """The reason for which there is no answer; None: there is one, perhaps cut (`is_cut`).

    A prompt that doesn't fit has the code that clients know, and upon which some shorten their conversation. An answer
    that doesn't follow its schema is a failure: whoever asked for one reads nothing else.
    """
    if result.end == "context" and result.error:
        full, _, _ = result.error.partition(": ")  # what follows is for the owner: flags
        line = f"{full}: send less of the conversation, shorter instructions, or fewer tools"
        return BadRequest(line, code="context_length_exceeded", param="input")
    if result.end == "stopped":
        line = result.error or "the server stopped before the answer was complete: ask again"
        return BadRequest(line, status=503, code="server_error")
    if result.end == "error" or (result.error and result.text is None and not is_cut(result)):
        return BadRequest(result.error or "the server failed: its log says more", status=500, code="server_error")
    return None


def is_cut(result: Result) -> bool:
    """True for an answer that a limit ended: `max_output_tokens`, time, the context, or a loop."""
    return result.end in _CUT
