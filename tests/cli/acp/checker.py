"""Holds an agent's messages to the protocol: each to its schema, and all to what the protocol says of their order.

The models of the library forgive: a field that they can't read becomes None, and one that they don't know is dropped.
So the JSON Schema is taken from them, and closed: a field that isn't in it is a fault, and so is one that the stable
protocol doesn't have yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Any

from jsonschema import Draft202012Validator

Message = dict[str, Any]

RESULTS = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/resume": "ResumeSessionResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/prompt": "PromptResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
"""The library's model of each method's result."""
ASKED = {"session/update": "SessionNotification", "session/request_permission": "RequestPermissionRequest"}
"""The same for the parameters of an agent's own messages: others need abilities that our clients don't have."""
_UNSTABLE = "not part of the spec yet"


class Checker:
    """`faults` says what was wrong so far, a line each."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._methods: dict[object, tuple[str, Message]] = {}
        self._sessions: set[str] = set()
        self._calls: dict[tuple[str, str], str] = {}  # (session, call) → status

    def sent(self, message: Message) -> None:
        """Note a message of the client."""
        if "method" in message and "id" in message:
            params = message.get("params") or {}
            self._methods[message["id"]] = message["method"], params
            if message["method"] in ("session/load", "session/resume"):
                self._sessions.add(params["sessionId"])  # its history comes before the answer

    def received(self, line: bytes) -> Message | None:
        """Check a line of the agent; its message, None: it is none."""
        try:
            message = json.loads(line.decode("utf-8"))
            assert isinstance(message, dict)
        except (ValueError, AssertionError):
            self.faults.append(f"no JSON-RPC message: {line[:200]!r}")
            return None
        if message.get("jsonrpc") != "2.0":
            self.faults.append(f"no jsonrpc 2.0: {line[:200]!r}")
        if "method" in message:
            self._see_own(message)
        else:
            self._see_answer(message)
        return message

    def _see_own(self, message: Message) -> None:
        method = message["method"]
        if unknown := message.keys() - {"jsonrpc", "id", "method", "params"}:
            self.faults.append(f"{method} has {sorted(unknown)}")
        if method not in ASKED or ("id" in message) != (method == "session/request_permission"):
            self.faults.append(f"{method} isn't what these clients can answer: {message}")
            return
        params = message["params"]
        if not self._fits(ASKED[method], params, method):
            return
        session = params["sessionId"]
        if session not in self._sessions:
            self.faults.append(f"{method} of the session {session!r}, which the client doesn't have")
        if method == "session/update":
            self._see_update(session, params["update"])
            return
        call = params["toolCall"]
        if (session, call["toolCallId"]) not in self._calls:
            self.faults.append(f"a question about an unknown call: {call}")
        kinds = [option["kind"] for option in params["options"]]
        ids = [option["optionId"] for option in params["options"]]
        if not {"allow_once", "reject_once"} <= set(kinds) or len(set(ids)) < len(ids):
            self.faults.append(f"options that a client can't offer: {params['options']}")
        self._see_paths(call)

    def _see_update(self, session: str, update: Message) -> None:
        kind = update["sessionUpdate"]
        if kind not in ("tool_call", "tool_call_update"):
            return
        key = session, update["toolCallId"]
        if (kind == "tool_call") == (key in self._calls):
            self.faults.append(f"a {kind} for {key[1]!r}, which is {self._calls.get(key, 'unknown')}")
        self._calls[key] = update.get("status") or self._calls.get(key, "pending")
        self._see_paths(update)

    def _see_paths(self, call: Message) -> None:
        paths = [place["path"] for place in call.get("locations") or ()]
        paths += [part["path"] for part in call.get("content") or () if part["type"] == "diff"]
        self.faults += [f"not absolute: {path!r}" for path in paths if not PurePath(path).is_absolute()]

    def _see_answer(self, message: Message) -> None:
        if message.keys() not in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}):
            self.faults.append(f"neither a result nor an error: {sorted(message)}")
            return
        method, params = self._methods.pop(message["id"], ("", {}))
        if "error" in message:
            self._fits("Error", message["error"], "an error")
            return
        if method not in RESULTS:
            self.faults.append(f"a result for {method or 'no request'}: {message}")
            return
        if not self._fits(RESULTS[method], message["result"], f"the result of {method}"):
            return
        if method == "session/new":
            self._sessions.add(message["result"]["sessionId"])
        if method == "session/prompt":
            session = params["sessionId"]
            still = [call for (of, call), status in self._calls.items() if of == session and status in _OPEN]
            if still:
                self.faults.append(f"calls without an end when the prompt is over: {still}")
        self._see_choices(message["result"])

    def _see_choices(self, result: Mapping[str, Any]) -> None:
        """Whatever is chosen is offered."""
        modes = result.get("modes")
        if modes and modes["currentModeId"] not in {mode["id"] for mode in modes["availableModes"]}:
            self.faults.append(f"an unknown mode: {modes}")
        for option in result.get("configOptions") or ():
            if option["type"] == "select":
                flat = [one for part in option["options"] for one in part.get("options", [part])]
                if option["currentValue"] not in {one["value"] for one in flat}:
                    self.faults.append(f"an unknown value: {option}")

    def _fits(self, model: str, value: object, what: str) -> bool:
        found = list(_validator(model).iter_errors(value))
        self.faults += [f"{what}, {error.json_path}: {error.message[:300]}" for error in found]
        return not found


_OPEN = ("pending", "in_progress")


@cache
def _validator(model: str) -> Draft202012Validator:
    import acp.schema

    return Draft202012Validator(_closed(getattr(acp.schema, model).model_json_schema()))


def _closed(schema: Any) -> Any:
    """The schema, without unknown and unstable properties."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        stable = {name: one for name, one in schema["properties"].items() if _UNSTABLE not in str(one)}
        closed |= {"properties": _closed(stable), "additionalProperties": False}
    return closed
