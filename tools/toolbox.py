"""The tools of a session by name: finds, validates, previews, asks the policy, runs, cleans and bounds the output."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType

from ossia.tools.approval.needs import named
from ossia.tools.approval.policy import Policy, Ruling, acts
from ossia.tools.calls import results
from ossia.tools.calls.arguments import PATCH_TOOL, ArgumentReader, patch_in
from ossia.tools.calls.names import resolve_name, unknown_name
from ossia.tools.spec import (
    CHANGED,
    ApprovalAsked,
    ApprovalDecided,
    Decision,
    Fault,
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
    ToolShown,
    ToolSpec,
    ToolStarted,
    interrupted,
)
from ossia.tools.text import readable, trim


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call that was parsed and previewed. `context` holds its preview."""

    call: ToolCall
    tool: Tool
    args: object
    context: ToolContext

    @property
    def preview(self) -> Preview:
        assert self.context.preview is not None
        return self.context.preview

    @property
    def request(self) -> tuple[str, str]:
        """The tool and its arguments in one form, however they were written: `("python", 'print(1)')`."""
        return self.tool.spec.name, json.dumps(self.args, sort_keys=True)

    @property
    def refusal(self) -> tuple[str, ...]:
        """The scope of a refusal: the request, with what it would be given."""
        return *self.request, *sorted(self.preview.needs)


class Toolbox:
    """Runs calls. A fault of the call comes back as a result with `error=True`, never as an exception.

    `context` is what every call gets; `stop`, `taint`, `said`, `read_only` and `preview` are set for each call. A
    result longer than `max_result_tokens` keeps its head and its tail, and says how much is missing. With `dry_run`,
    calls that would write, run or send something are only shown, and nobody is asked.
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
        self._every = {tool.spec.name: tool for tool in tools}
        self._readers = {name: ArgumentReader(tool.spec) for name, tool in self._every.items()}
        self._policy = policy
        self._context = context
        self._max_result_tokens = max_result_tokens
        self._dry_run = dry_run
        self._refused: dict[tuple[str, ...], str] = {}  # a refusal's scope → the result for the model
        self._said = ""
        self.by_name: Mapping[str, ToolSpec]
        self.turn_off(())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools on offer, in the order they were given."""
        return tuple(self.by_name.values())

    @property
    def every_spec(self) -> tuple[ToolSpec, ...]:
        """All tools, including those that are off."""
        return tuple(tool.spec for tool in self._every.values())

    @property
    def taints(self) -> frozenset[Taint]:
        """The kinds of text in the descriptions of the tools on offer."""
        return frozenset[Taint]().union(*(spec.taints for spec in self.specs))

    def turn_off(self, names: Collection[str]) -> None:
        """Offer all tools but these: the prompt doesn't name them, calls don't find them. Only between turns."""
        self._tools = {name: tool for name, tool in self._every.items() if name not in names}
        self.by_name = MappingProxyType({name: tool.spec for name, tool in self._tools.items()})

    def forget_refusals(self) -> None:
        """The user speaks again: what they refused may be asked about once more."""
        self._refused.clear()

    def run(
        self,
        call: ToolCall,
        *,
        stop: Stop,
        fault: str | None = None,
        taint: frozenset[Taint] = frozenset(),
        said: str = "",
    ) -> Generator[ToolEvent, Decision | None, ToolResult]:
        """Run one call. Yields what happens, the last event being `ToolFinished`; returns the result.

        After `ApprovalAsked` the generator expects a `Decision` for that call; anything else refuses. One with new
        arguments leads to a new question, and the result says what ran instead of the model's call. `fault`: an error
        found before; it answers the call, which doesn't run. `taint`: the kinds of text in the prompt. `said`: the text
        that the user typed so far; once they type more, what they refused may be asked again.
        """
        if said != self._said:
            self._said = said
            self.forget_refusals()
        policy = self._policy
        context = replace(self._context, stop=stop, taint=taint, said=said, read_only=policy.read_only,
                          given=policy.given)  # fmt: skip
        ran, ms, result = yield from self._checked(call, context, fault)
        limit, count_tokens = self._max_result_tokens, self._context.count_tokens
        result = replace(result, text=trim(readable(result.text), max_tokens=limit, count_tokens=count_tokens))
        yield ToolFinished(ran, result, ms)
        return result

    def with_tools(self, extra: Iterable[Tool]) -> Toolbox:
        """Another toolbox, over the same tools and these."""
        tools = (*self._every.values(), *extra)
        limit, dry_run = self._max_result_tokens, self._dry_run
        return Toolbox(tools, policy=self._policy, context=self._context, max_result_tokens=limit, dry_run=dry_run)

    def close(self) -> None:
        """Close every tool."""
        for tool in self._every.values():
            tool.close()

    def _checked(
        self, call: ToolCall, context: ToolContext, fault: str | None
    ) -> Generator[ToolEvent, Decision | None, tuple[ToolCall, int, ToolResult]]:
        """The call as it ran, the ms that the tool took (0: it never ran), the result."""
        call = replace(call, name=resolve_name(call.name, self._tools) or call.name)
        if fault is not None:
            return call, 0, ToolResult(fault, error=True)
        first = self._previewed(call, context)
        if isinstance(first, ToolResult):
            return call, 0, first
        if first.tool.spec.returned:
            return replace(first.call, arguments=json.dumps(first.args)), 0, ToolResult("", returned=True)
        ready, result = yield from self._approved(first)
        if (stop := context.stop).stopped:  # also while asking: that isn't a refusal of the call
            return call, 0, ToolResult(f"[{interrupted(stop)}]", error=True)
        ms = 0
        if result is None:
            ms, result = yield from self._started(ready)
            if result.retry is not None and not stop.stopped:
                ready, more_ms, result = yield from self._again(ready, result, result.retry)
                ms += more_ms
        if ready.request != first.request:
            result = replace(result, text=f"{self._change(ready)}\n{result.text}")
        return ready.call, ms, result

    def _started(self, ready: _Ready) -> Generator[ToolEvent, Decision | None, tuple[int, ToolResult]]:
        yield ToolStarted(ready.call, ready.preview)
        started = time.monotonic()
        try:
            with closing(ready.tool.run(ready.args, call_id=ready.call.id, context=ready.context)) as running:
                result = yield from running
            result = replace(result, taints=result.taints | results.usual_taints(ready.tool.spec, ready.context))
        except ToolFailed as error:
            result = results.failure_of(error, ready.tool.spec, ready.context)
        return round((time.monotonic() - started) * 1000), result

    def _again(
        self, ran: _Ready, result: ToolResult, retry: Preview
    ) -> Generator[ToolEvent, Decision | None, tuple[_Ready, int, ToolResult]]:
        """The call, run again with what it lacked if a person gives it that; else as it ended. Never a third time."""
        context = replace(ran.context, preview=retry, taint=ran.context.taint | result.taints)
        ready, refused = yield from self._approved(replace(ran, context=context), ran_once=True)
        if ran.context.stop.stopped:
            return ran, 0, replace(result, retry=None)
        lacks = named(retry.needs - ran.preview.needs)
        if refused is not None:
            return ran, 0, results.not_given(result, lacks, refused)
        ms, second = yield from self._started(ready)
        return ready, ms, results.ran_again(result, second, lacks)

    def _previewed(self, call: ToolCall, context: ToolContext) -> _Ready | ToolResult:
        """The call, ready for approval, or the result that says what is wrong with it."""
        try:
            tool, args = self._read(call)
        except ToolFailed as error:
            return ToolResult(str(error), error=True, fault=error.fault)
        try:
            preview = tool.preview(args, context=context)
        except ToolFailed as error:
            return results.failure_of(error, tool.spec, context)
        called = replace(call, name=tool.spec.name)  # a patch for a shell has become another tool's
        return _Ready(called, tool, args, replace(context, preview=preview))

    def _change(self, ready: _Ready) -> str:
        """The line for the model on what its call became; it would take the result for that of its own."""
        written = readable(f"{ready.tool.spec.name} {json.dumps(ready.args, ensure_ascii=False)}")
        shown = trim(written, max_tokens=self._max_result_tokens // 4, count_tokens=self._context.count_tokens)
        return f"{CHANGED} {shown}"

    def _read(self, call: ToolCall) -> tuple[Tool, object]:
        """The tool that is meant, and its arguments. A patch for a shell is a call of `apply_patch`, if that is on."""
        name = resolve_name(call.name, self._tools)
        if name is None:
            raise ToolFailed(unknown_name(call.name, self._tools), fault=Fault("missing"))
        tool, args = self._tools[name], self._readers[name].read(call.arguments)
        patch = patch_in(name, args) if PATCH_TOOL in self._tools else None
        if patch is not None:
            tool, args = self._tools[PATCH_TOOL], self._readers[PATCH_TOOL].read(patch)
        return tool, args

    def _approved(
        self, first: _Ready, *, ran_once: bool = False
    ) -> Generator[ToolEvent, Decision | None, tuple[_Ready, ToolResult | None]]:
        """The call, with None if it may run, else with the result that answers it.

        Arguments that the user wrote instead are previewed and checked like any others, but always asked about: the
        user has not seen yet what they would do. Nor does any rule let a call that `ran_once` run again.
        """
        if first.refusal in self._refused:
            return first, ToolResult(self._refused[first.refusal], error=True, fault=Fault("unasked"))
        ready, fault, rejected = first, "", ""
        while True:
            spec, preview, context = ready.tool.spec, ready.preview, ready.context
            ruling = self._policy.rule_on(spec, preview, ready.args, taint=context.taint)
            if self._dry_run and ruling.action != "deny" and acts(spec, preview):
                yield ToolShown(ready.call, preview)
                return ready, results.only_shown(preview, context)
            if ruling.action == "deny" or (ruling.action == "allow" and ready is first and not ran_once):
                yield ApprovalDecided(ready.call.id, ruling.action == "allow", "policy", ruling.reason)
                return ready, None if ruling.action == "allow" else results.not_allowed(spec, ruling)
            if ran_once and ready is first:
                ruling = replace(ruling, action="ask", reason=f"{results.RAN_ONCE}; {ruling.reason}", firm=True)
            asked = _question(ready, ruling, fault, rejected, edits=self._can_accept(ready))
            decision = yield asked
            if decision is None or decision.call_id != asked.call.id:
                decision = Decision(asked.call.id, False)
            if decision.arguments is None or not decision.allow:
                yield ApprovalDecided(ready.call.id, decision.allow, "user", asked.reason)
                return self._answered(first, ready, decision)
            changed = self._previewed(replace(asked.call, arguments=decision.arguments), replace(context, preview=None))
            if isinstance(changed, ToolResult):
                fault, rejected = changed.text, decision.arguments
            else:
                ready, fault, rejected = changed, "", ""

    def _answered(
        self, first: _Ready, ready: _Ready, decision: Decision
    ) -> tuple[_Ready, ToolResult | None]:
        """Carry out a person's answer. A no refuses the call, and the model's first version of it."""
        if not decision.allow:
            nobody = results.unasked(ready.preview) if decision.unasked else ""
            if not ready.context.stop.stopped:
                self._refused |= dict.fromkeys((first.refusal, ready.refusal), nobody or results.REFUSED_AGAIN)
            return first, results.refused(unasked=nobody, reason=decision.reason)
        if decision.remember == "session":
            self._policy.remember(ready.tool.spec, ready.preview, ready.args)
        elif decision.remember == "edits" and self._can_accept(ready):
            self._policy.accepts_edits = True
        return ready, None

    def _can_accept(self, ready: _Ready) -> bool:
        """True for an edit that can be undone."""
        workspace = ready.context.workspace
        undone = workspace is not None and workspace.keeper is not None
        return undone and self._policy.is_edit(ready.tool.spec, ready.preview)


def _question(ready: _Ready, ruling: Ruling, fault: str, rejected: str, *, edits: bool) -> ApprovalAsked:
    """The question. It names the tool that would run, whatever the model called it."""
    return ApprovalAsked(
        ready.call,
        ready.preview,
        ruling.reason if ruling.action == "ask" else "you changed the call",
        ruling.firm,
        ruling.rules,
        fault=fault,
        rejected=rejected,
        edits=edits,
        arguments=ready.args,
        lasting=ruling.lasting,
        wider=ruling.wider,
    )
