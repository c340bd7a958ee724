"""The tools of a session by name: finds, validates, previews, asks the policy, runs, cleans and bounds the output."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType

from tools._result import bounded, readable
from tools.arguments import PATCH_TOOL, ArgumentReader, patch_in
from tools.names import resolve_name, unknown_name
from tools.policy import Policy, acts
from tools.spec import (
    ApprovalAsked,
    ApprovalDecided,
    Decision,
    Preview,
    Stop,
    Taint,
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
REFUSED_AGAIN = "User denied this very call before: they were not asked again. Choose another way, or do without."
INTERRUPTED = "[interrupted by the user]"
DRY_RUN = "Not executed (dry run). It would:"

_Run = Generator[ToolEvent, Decision | None, ToolResult]
_Asking = Generator[ToolEvent, Decision | None, ToolResult | None]


class Toolbox:
    """Runs calls. A fault of the call comes back as a result with `error=True`, never as an exception.

    `context` is what every call gets, but for its `stop`, `taint`, `said` and `preview`. A result longer than
    `max_result_tokens` keeps its head and its tail, and says how much is missing. With `dry_run`, calls that would
    write, run or send something are shown as they would be, and nobody is asked.
    """

    def __init__(
        self,
        tools: Iterable[Tool],
        *,
        policy: Policy,
        context: ToolContext,
        max_result_tokens: int = 8_000,
        dry_run: bool = False,
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._readers = {name: ArgumentReader(tool.spec) for name, tool in self._tools.items()}
        self._policy = policy
        self._context = context
        self._max_result_tokens = max_result_tokens
        self._dry_run = dry_run
        self._refused: set[tuple[str, str]] = set()
        self._said = ""
        self.by_name: Mapping[str, ToolSpec] = MappingProxyType({name: t.spec for name, t in self._tools.items()})

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools on offer, in the order they were given."""
        return tuple(self.by_name.values())

    def run(
        self,
        call: ToolCall,
        *,
        stop: Stop,
        fault: str | None = None,
        taint: frozenset[Taint] = frozenset(),
        said: str = "",
    ) -> _Run:
        """Run one call. Yields what happens, the last event being `ToolFinished`; returns the result.

        After `ApprovalAsked` the generator expects a `Decision` for that call; anything else refuses. `fault` is a
        reason found before, for which the call is answered without being run. `taint` is what stands in the prompt,
        `said` what the user typed so far: once they type something new, what they refused may be asked again.
        """
        if said != self._said:
            self._said = said
            self._refused.clear()
        context = replace(self._context, stop=stop, taint=taint, said=said)
        ms, result = yield from self._checked(call, context, fault)
        text = bounded(readable(result.text), self._max_result_tokens, self._context.count_tokens)
        result = replace(result, text=text)
        yield ToolFinished(call, result, ms)
        return result

    def close(self) -> None:
        """Close every tool."""
        for tool in self._tools.values():
            tool.close()

    def _checked(
        self, call: ToolCall, context: ToolContext, fault: str | None
    ) -> Generator[ToolEvent, Decision | None, tuple[int, ToolResult]]:
        """Everything between the wish and the result; with it the ms that the tool itself took, 0 if it never ran."""
        if fault is not None:
            return 0, ToolResult(fault, error=True)
        try:
            tool, args = self._read(call)
        except ToolFailed as error:
            return 0, ToolResult(str(error), error=True)
        try:
            preview = tool.preview(args, context=context)
        except ToolFailed as error:
            return 0, _failure(error, tool.spec, context)
        context = replace(context, preview=preview)
        refusal = yield from self._approved(tool.spec, call, args, context)
        if context.stop.stopped:  # also when it was stopped at the question: that refuses nothing but the turn
            return 0, ToolResult(INTERRUPTED, error=True)
        if refusal is not None:
            return 0, refusal
        yield ToolStarted(call)
        started = time.monotonic()
        try:
            with closing(tool.run(args, call_id=call.id, context=context)) as running:
                result = yield from running
        except ToolFailed as error:
            result = _failure(error, tool.spec, context)
        return round((time.monotonic() - started) * 1000), result

    def _read(self, call: ToolCall) -> tuple[Tool, object]:
        """The tool that is meant, and its arguments. A patch for a shell is a call of `apply_patch`, if that is on."""
        found = resolve_name(call.name, self._tools)
        if found.name is None:
            raise ToolFailed(unknown_name(call.name, self._tools))
        tool, args = self._tools[found.name], self._readers[found.name].read(call.arguments)
        patch = patch_in(tool.spec, args) if PATCH_TOOL in self._tools else None
        if patch is not None:
            tool, args = self._tools[PATCH_TOOL], self._readers[PATCH_TOOL].read(patch)
        return tool, args

    def _approved(self, spec: ToolSpec, call: ToolCall, args: object, context: ToolContext) -> _Asking:
        """None when the call may run, else the result that answers it without."""
        preview = context.preview
        assert preview is not None
        wish = spec.name, json.dumps(args, sort_keys=True)
        if wish in self._refused:
            return ToolResult(REFUSED_AGAIN, error=True)
        ruling = self._policy.rule_on(spec, preview, args, taint=context.taint)
        if self._dry_run and ruling.action != "deny" and acts(spec, preview):
            return _shown(preview, context)
        if ruling.action == "ask":
            asked = replace(call, name=spec.name)  # a person agrees to the tool that runs, whatever the model called it
            decision = yield ApprovalAsked(asked, preview, ruling.reason, ruling.firm, ruling.rules)
            allow = decision is not None and decision.call_id == call.id and decision.allow
            yield ApprovalDecided(call.id, allow, "user", ruling.reason)
            if not allow:
                if not context.stop.stopped:
                    self._refused.add(wish)
                return ToolResult(REFUSED, error=True)
            if decision is not None and decision.remember == "session":
                self._policy.remember(spec, preview, args)
            return None
        yield ApprovalDecided(call.id, ruling.action == "allow", "policy", ruling.reason)
        if ruling.action == "allow":
            return None
        return ToolResult(f"Error: {spec.name} is not allowed here ({ruling.reason}). Choose another way.", error=True)


def _shown(preview: Preview, context: ToolContext) -> ToolResult:
    """What a dry run answers. A diff holds what stands in the file."""
    text = f"{DRY_RUN} {preview.summary}" + (f"\n{preview.detail}" if preview.detail else "")
    return ToolResult(text, brings=_workspace_brings(context) if preview.detail else frozenset())


def _failure(error: ToolFailed, spec: ToolSpec, context: ToolContext) -> ToolResult:
    """A failed call's result. Its text may quote what the tool was reading."""
    if error.brings is not None:
        brings = error.brings
    elif spec.source.startswith("mcp ") or spec.name.startswith("browser."):
        brings = frozenset({"outside"})
    else:
        brings = _workspace_brings(context)
    return ToolResult(str(error), error=True, brings=brings)


def _workspace_brings(context: ToolContext) -> frozenset[Taint]:
    return context.workspace.brings if context.workspace is not None else frozenset()
