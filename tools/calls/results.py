"""The toolbox's own results: of a call that didn't run, that failed, or that ran a second time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ossia.tools.approval.policy import PLANNING, Ruling
from ossia.tools.approval.shell_words import words_of
from ossia.tools.spec import Fault, Preview, Taint, ToolContext, ToolFailed, ToolResult, ToolSpec

BECAUSE = "The user refused: "
REFUSED = "User denied this call. Do not retry it; ask or choose another way."
UNASKED = "This call needs approval, and there is nobody to ask: it did not run. Choose another way, or do without."
UNASKED_PARTS = (
    "This call needs approval, and there is nobody to ask: it did not run. Call its commands one by one: a rule may "
    "allow some of them."
)
REFUSED_AGAIN = "User denied this very call before: they were not asked again. Choose another way, or do without."
DRY_RUN = "Not executed (dry run). It would:"
RAN_ONCE = "it has already run once, and failed"
"""For the user, at the question about a second run."""
_NOT_GIVEN: Final[Mapping[str | None, str]] = {
    "refused": "the user said no: do without, or ask them",
    "unasked": "only the user can give that, and nobody can be asked: do without",
}


def refused(*, unasked: str, reason: str) -> ToolResult:
    """The result of a call that a person refused, or that nobody could be asked about: `unasked` then says that."""
    text = unasked or (f"{BECAUSE}{reason}" if reason else REFUSED)
    return ToolResult(text, error=True, fault=Fault("unasked" if unasked else "refused"))


def unasked(preview: Preview) -> str:
    """The words for a call that nobody could be asked about. Rules give what is needed only to simple commands."""
    return UNASKED_PARTS if preview.needs and None in map(words_of, preview.subjects) else UNASKED


def not_allowed(spec: ToolSpec, ruling: Ruling) -> ToolResult:
    """The result of a call that a rule denies, or a plan."""
    text = f"Error: {spec.name} is not allowed here ({ruling.reason}). Choose another way."
    return ToolResult(text, error=True, fault=Fault("planning") if ruling.reason == PLANNING else None)


def only_shown(preview: Preview, context: ToolContext) -> ToolResult:
    """The result of a dry run. Its diff quotes the file's text."""
    text = f"{DRY_RUN} {preview.summary}" + (f"\n{preview.detail}" if preview.detail else "")
    return ToolResult(text, taints=_workspace_taints(context) if preview.detail else frozenset())


def failure_of(error: ToolFailed, spec: ToolSpec, context: ToolContext) -> ToolResult:
    """A failed call's result. Its text may quote what the tool was reading."""
    usual = frozenset[Taint]({"outside"}) if spec.name.startswith("browser.") else usual_taints(spec, context)
    taints = usual if error.taints is None else error.taints
    return ToolResult(str(error), error=True, state=error.state, taints=taints, fault=error.fault)


def not_given(first: ToolResult, lacks: str, answer: ToolResult) -> ToolResult:
    """The result of a call that failed for want of something, and wasn't given it."""
    why = _NOT_GIVEN.get(answer.fault.kind if answer.fault else None, "that is not allowed here")
    why = f"the{answer.text[3:]}" if answer.text.startswith(BECAUSE) else why
    return replace(first, text=f"{first.text}\n[not given: {lacks}; {why}]", retry=None)


def ran_again(first: ToolResult, second: ToolResult, lacks: str) -> ToolResult:
    """The result of a call that was given what it lacked, and ran a second time."""
    lines = "".join(f"\n[{line}]" for line in (f"it had failed without {lacks}", *first.notices))
    return replace(second, text=second.text + lines, notices=(*first.notices, *second.notices), retry=None)


def usual_taints(spec: ToolSpec, context: ToolContext) -> frozenset[Taint]:
    """The kinds of text in a call's result however it ends: no tool can omit them."""
    return _workspace_taints(context) if spec.result_taints is None else spec.result_taints


def _workspace_taints(context: ToolContext) -> frozenset[Taint]:
    return context.workspace.taints if context.workspace is not None else frozenset()
