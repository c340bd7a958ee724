"""The last line of a run on stderr: why the answer is cut, or the figures of a whole one."""

from __future__ import annotations

from ossia.agent.events import TurnEnd
from ossia.cli.oneshot.report import Report
from ossia.cli.runtime.progress import Display
from ossia.cli.settings.engines import is_server
from ossia.cli.settings.table import Settings
from ossia.cli.words import speed_of

_CUT: dict[TurnEnd, str] = {
    "tokens": "the answer is cut: --max-tokens was reached",
    "time": "the answer is cut: --timeout was reached",
    "context": "the answer is cut: the context is full; ask for less, or use a larger --context, up to the model's own",
    "loop": "the answer is cut: the model repeated itself; ask again in other words",
    "steps": "the step limit was reached: this is the answer from what there is",
}
_UNBOUND: dict[TurnEnd, str] = {
    "loop": "the answer is cut: the model repeated itself",
    "context": "the answer is cut: the context is full",
}
_BOUND = "; a bound in the schema (maximum, maxLength, maxItems) or --max-tokens stops it sooner"
"""Said of an answer by a schema: the guide lets a number, a text or a list without a bound grow to the end."""
_NOT_WHOLE = "; nothing is printed, since half an answer doesn't follow the schema"


def show_last_line(report: Report, settings: Settings, display: Display) -> None:
    """Show it; nothing, where an error has its own line."""
    if report.end in _CUT:
        half = not (settings.raw or settings.json) and report.schema is not None and report.answer is None
        why = _servers_limit(report, settings) or _CUT[report.end]
        if half and report.end in _UNBOUND:
            why = _UNBOUND[report.end] + _BOUND
        display.note(f"ossia: {why}{_NOT_WHOLE if half else ''}")
    elif report.end == "answered":
        speed = f" · {speed_of(tokens_per_s)}" if (tokens_per_s := report.sums.tokens_per_s) else ""
        display.aside(f"{report.model} · {report.sums.completion} tokens{speed}")


def _servers_limit(report: Report, settings: Settings) -> str:
    """The line about a server's own limit that cut the answer; "" where it didn't."""
    if not is_server(settings.engine):
        return ""
    if report.end == "context":
        ours = " (or a larger --context)" if isinstance(settings.context, int) else ""
        return f"the answer is cut: the context is full; give the server a larger one{ours}"
    if report.end != "tokens":
        return ""
    if settings.max_tokens is None:
        return "the answer is cut at the server's own limit: give --max-tokens N, or the server a larger context"
    reached = report.sums.completion >= settings.max_tokens
    return "" if reached else "the answer is cut at the server's own limit, before --max-tokens"
