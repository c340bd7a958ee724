"""Faults of servers and calls as one line, with no secret of the user's in it."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urlsplit

from ossia.tools.mcp.config import McpConfig
from ossia.tools.text import one_line

CLOSED = "Connection closed"  # the library's; servers use its code for faults of their own
_ERRNO = re.compile(r"^\[Errno -?\d+\] ")
_INPUT = re.compile(r"input_value=.*?(?=, input_type=|$)", re.DOTALL)  # in pydantic's errors
_MAX_FAULT_CHARS = 300


def fault_of(fault: BaseException, config: McpConfig) -> str:
    """The fault in one line, with no value of a header or a variable in it."""
    from pydantic import ValidationError

    while isinstance(fault, BaseExceptionGroup):  # the first one but a cancellation, which another one caused
        others = (each for each in fault.exceptions if not isinstance(each, asyncio.CancelledError))
        fault = next(others, fault.exceptions[0])
    if config.command is not None and isinstance(fault, FileNotFoundError | NotADirectoryError):
        text = f"there is no program {config.command!r}" + (f", or no folder {config.cwd!r}" if config.cwd else "")
    elif config.command is not None and isinstance(fault, PermissionError):
        text = f"{config.command!r} can't be started: {fault.strerror}"
    elif isinstance(fault, ValidationError):
        first = fault.errors(include_url=False, include_input=False)[0]
        text = f"its answer isn't valid MCP ({'.'.join(map(str, first['loc']))}: {first['msg']})"
    elif str(fault).startswith(("Failed to parse JSON response", "Failed to parse SSE message")):
        text = "its answer is not valid JSON"
    elif str(fault).startswith("Unexpected content type"):
        kind = str(fault).partition(": ")[2] or "no content type"
        text = f"its answer is {kind}, not MCP, perhaps a page to log in on: check the URL"
    elif str(fault).startswith("Registration failed: ") and config.client_id is None:
        todo = "register one by hand there, and give its ID (`ossia mcp add --help`)"
        text = f"logging in failed: it registers no clients by itself (HTTP {str(fault).split()[2]}): {todo}"
    elif type(fault).__name__.startswith("OAuth"):
        text = f"logging in failed: {fault}"
    elif "CERTIFICATE_VERIFY_FAILED" in str(fault):
        text = f"its certificate can't be trusted ({_ERRNO.sub('', str(fault))}): check the URL, or set SSL_CERT_FILE"
    elif config.url is not None and _caused_by(fault, "gaierror"):
        text = f"there is no host {urlsplit(config.url).hostname!r} that can be found: check the URL and the network"
    elif "complete message body" in str(fault) or str(fault).startswith("SSE stream ended"):
        text = "its answer broke off"
    elif str(fault) in ("", "Server disconnected without sending a response.") and _caused_by(fault, "TransportError"):
        text = "it closed the connection"
    elif str(fault) == CLOSED:
        text = "it ended" if config.command is not None else "it closed the connection"
    elif str(fault) == "All connection attempts failed":  # httpx says no more
        what = "connection refused" if _caused_by(fault, "ConnectionRefusedError") else "no connection"
        text = f"{what}: {urlsplit(config.url or '').netloc.rpartition('@')[2]}"
    else:
        text = _ERRNO.sub("", str(fault)) or type(fault).__name__
    return one_line(hidden(text, config), _MAX_FAULT_CHARS)


def _caused_by(fault: BaseException | None, kind: str) -> bool:
    """True if such an exception led to a fault."""
    while fault is not None and all(known.__name__ != kind for known in type(fault).__mro__):
        if isinstance(fault, BaseExceptionGroup):
            return all(_caused_by(each, kind) for each in fault.exceptions)
        fault = fault.__cause__ or fault.__context__
    return fault is not None


def hidden(text: str, config: McpConfig) -> str:
    """The text without the values of the server's variables, headers and address, which may hold secrets.

    Nor what a server over HTTP sent that couldn't be read: it may be a key.
    """
    text = _INPUT.sub("input_value=…", text) if config.url is not None else text
    values = (*config.secrets, *config.env.values(), *config.headers.values(), config.url or "")
    for secret in sorted({part for value in values for part in (value, *value.split())}, key=len, reverse=True):
        if len(secret) >= 6:
            text = text.replace(secret, "…")
    return text
