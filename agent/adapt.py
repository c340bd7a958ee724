"""The one file that converts between tools and Harmony."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ossia.harmony.builtins import TRAINED
from ossia.harmony.messages import COMMENTARY, Completion, FunctionDecl, Message, Namespace, is_call
from ossia.tools.calls.names import resolve_name
from ossia.tools.spec import ToolCall, ToolSpec


def as_namespaces(specs: Iterable[ToolSpec]) -> tuple[dict[str, Namespace], dict[str, Namespace]]:
    """The tools sections of the system prompt (trained tools) and of the developer prompt (functions), by key."""
    trained: dict[str, Namespace] = {}
    functions: list[FunctionDecl] = []
    for spec in specs:
        key, _, name = spec.name.rpartition(".") if spec.trained else ("", "", spec.name.removeprefix("functions."))
        if not spec.trained:
            functions.append(FunctionDecl(name, spec.description, spec.shown or spec.parameters))
        elif (known := TRAINED.get(key or name)) is not None:
            text = known.description if spec.section is None else spec.section
            trained[key or name] = replace(known, description=text)
        else:
            there = trained.get(key, Namespace(key, spec.section, ()))
            declared = FunctionDecl(name, spec.description, spec.parameters)
            trained[key] = replace(there, functions=(*there.functions, declared))
    return trained, {"functions": Namespace("functions", None, tuple(functions))} if functions else {}


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A message addressed to a tool. `fault`: the error for the model, if it must not run."""

    message: Message
    call: ToolCall
    fault: str | None = None


def as_call(completion: Completion, *, call_id: Callable[[], str], specs: Mapping[str, ToolSpec]) -> ToolRequest | None:
    """The call that a completion ends with; None when it ends otherwise, or was stopped or cut.

    `call_id` makes an id when there is a call; `specs` are the tools on offer by their whole name.
    """
    message = completion.messages[-1] if completion.messages else None
    if message is None or completion.end != "stop" or not is_call(message):
        return None
    assert message.recipient is not None
    call = ToolCall(call_id(), message.recipient, message.text)
    name = resolve_name(message.recipient, specs)
    return ToolRequest(message, call, _fault(message, specs.get(name) if name else None))


def _fault(message: Message, spec: ToolSpec | None) -> str | None:
    """The reason not to run a call whose generation stopped; None: it may run. Only `<|call|>` vouches for raw code."""
    sampled = message.sampled
    if sampled is None or (sampled.closed_by == "call" and not sampled.headless):
        return None
    if spec is not None and spec.input == "text":
        return "Error: the call was not closed properly and its code may be cut: send the whole call again."
    try:
        json.loads(message.text)
    except (ValueError, RecursionError) as error:
        return f"Error: the call's arguments are not complete JSON ({error}): send the whole call again."
    return None


def result_message(call: Message, text: str) -> Message:
    """A call's result as the model reads it: from the tool, to the assistant, on the call's own channel."""
    return Message("tool", (text,), name=call.recipient, recipient="assistant", channel=call.channel or COMMENTARY)
