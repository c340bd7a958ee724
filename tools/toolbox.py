"""The tools of a session by name: validates, previews, asks the policy, runs, bounds the output."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType

from tools.arguments import read_arguments
from tools.policy import Policy
from tools.spec import (
    ApprovalAsked,
    ApprovalDecided,
    Decision,
    Stop,
    Tool,
    ToolCall,
    ToolContext,
    ToolEvent,
    ToolFailed,
    ToolFinished,
    ToolResult,
    ToolSpec,
    ToolStarted,
)

REFUSED = "User denied this call. Do not retry it; ask or choose another way."
INTERRUPTED = "[interrupted by the user]"

_Run = Generator[ToolEvent, Decision | None, ToolResult]


class Toolbox:
    """Runs calls. A fault of the call comes back as a result with `error=True`, never as an exception.

    `context` is what every call gets, but for its `stop`. A result longer than `max_result_tokens` keeps its head and
    its tail, and says how much is missing.
    """

    def __init__(
        self, tools: Iterable[Tool], *, policy: Policy, context: ToolContext, max_result_tokens: int = 8_000
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._policy = policy
        self._context = context
        self._max_result_tokens = max_result_tokens
        self.by_name: Mapping[str, ToolSpec] = MappingProxyType({name: t.spec for name, t in self._tools.items()})

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools on offer, in the order they were given."""
        return tuple(self.by_name.values())

    def run(self, call: ToolCall, *, stop: Stop, fault: str | None = None) -> _Run:
        """Run one call. Yields what happens, the last event being `ToolFinished`; returns the result.

        After `ApprovalAsked` the generator expects a `Decision` for that call; anything else refuses. `fault` is a
        reason found before, for which the call is answered without being run.
        """
        ms, result = yield from self._checked(call, stop, fault)
        result = self._bounded(result)
        yield ToolFinished(call, result, ms)
        return result

    def close(self) -> None:
        """Close every tool."""
        for tool in self._tools.values():
            tool.close()

    def _checked(
        self, call: ToolCall, stop: Stop, fault: str | None
    ) -> Generator[ToolEvent, Decision | None, tuple[int, ToolResult]]:
        """Everything between the wish and the result; with it the ms that the tool itself took, 0 if it never ran."""
        context = replace(self._context, stop=stop)
        try:
            if fault is not None:
                raise ToolFailed(fault)
            tool = self._find(call)
            args = read_arguments(tool.spec, call.arguments)
            refusal = yield from self._approved(tool, call, args, context)
        except ToolFailed as error:
            return 0, ToolResult(str(error), error=True)
        if stop.stopped:  # also when it was stopped at the question: that refuses nothing but the turn
            return 0, ToolResult(INTERRUPTED, error=True)
        if refusal is not None:
            return 0, refusal
        yield ToolStarted(call)
        started = time.monotonic()
        try:
            with closing(tool.run(args, call_id=call.id, context=context)) as running:
                result = yield from running
        except ToolFailed as error:
            result = ToolResult(str(error), error=True)
        return round((time.monotonic() - started) * 1000), result

    def _find(self, call: ToolCall) -> Tool:
        if call.name in self._tools:
            return self._tools[call.name]
        names = ", ".join(self._tools) or "none: answer without one"
        raise ToolFailed(f"Error: there is no tool {call.name!r}. The tools are: {names}")

    def _approved(
        self, tool: Tool, call: ToolCall, args: object, context: ToolContext
    ) -> Generator[ToolEvent, Decision | None, ToolResult | None]:
        """None when the call may run, else the result that says that it may not."""
        preview = tool.preview(args, context=context)
        ruling = self._policy.rule_on(tool.spec, call.arguments)
        if ruling.action == "ask":
            decision = yield ApprovalAsked(call, preview, ruling.reason)
            allow = decision is not None and decision.call_id == call.id and decision.allow
            yield ApprovalDecided(call.id, allow, "user", ruling.reason)
            if allow and decision is not None and decision.remember == "session":
                self._policy.remember(tool.spec, call.arguments)
            return None if allow else ToolResult(REFUSED, error=True)
        yield ApprovalDecided(call.id, ruling.action == "allow", "policy", ruling.reason)
        if ruling.action == "allow":
            return None
        return ToolResult(f"Error: {call.name} is not allowed here ({ruling.reason}). Choose another way.", error=True)

    def _bounded(self, result: ToolResult) -> ToolResult:
        """At most `max_result_tokens`, three quarters of it from the head, cut by characters in proportion."""
        text = result.text
        if len(text.encode("utf-8", "replace")) <= self._max_result_tokens:  # a token has at least one byte
            return result
        tokens = self._context.count_tokens(text)
        if tokens <= self._max_result_tokens:
            return result
        keep = len(text) * self._max_result_tokens // tokens
        head, tail = keep * 3 // 4, keep // 4
        omitted = f"\n[... {len(text) - head - tail} characters omitted]\n"
        return replace(result, text=text[:head] + omitted + text[len(text) - tail :])
