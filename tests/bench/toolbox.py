"""`python -m tests.bench.toolbox [--calls 2000]`: what the toolbox itself adds to a call, in CPU time."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from ossia.tools.approval.policy import Policy
from ossia.tools.approval.rules import parse_rule
from ossia.tools.spec import NoStop, Preview, ToolCall, ToolContext, ToolOutput, ToolResult, ToolSpec
from ossia.tools.toolbox import Toolbox
from tests.bench.report import Report, options

PAGE = "L12: Some text of a page, with 【3†a link†a.test】 in it.\n" * 150
PARAMETERS = {
    "type": "object",
    "properties": {
        "command": {"type": "string"},
        "timeout": {"type": "number"},
        "where": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["command"],
}


class Nothing:
    """A tool that does nothing, and answers with a page."""

    def __init__(self, name: str, text: str) -> None:
        self.spec = ToolSpec(name, "", PARAMETERS, effects=frozenset({"run"}), provenance="built-in")
        self._text = text

    def preview(self, args: object, *, context: ToolContext) -> Preview:
        assert isinstance(args, dict)
        return Preview("run", args["command"], subjects=(args["command"],), command=True)

    def run(self, args: object, *, call_id: str, context: ToolContext) -> Generator[ToolOutput, None, ToolResult]:
        yield from ()
        return ToolResult(self._text)

    def close(self) -> None:
        """Nothing to give back."""


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = options(__doc__)
    parser.add_argument("--calls", type=int, default=2_000, metavar="N")
    given = parser.parse_args(argv)
    report = Report("toolbox")
    context = ToolContext(stop=NoStop(), workspace=None, data_dir=Path(), count_tokens=len)
    rules = [parse_rule(rule, "allow") for rule in ("container.exec:git *", "page")]
    rules += [parse_rule("container.exec:rm*", "deny")]
    rules += [parse_rule(f"container.exec:tool{number} *", "allow") for number in range(20)]
    tools = [Nothing("container.exec", "ok"), Nothing("functions.page", PAGE)]
    tools += [Nothing(f"functions.tool_{number}", "ok") for number in range(30)]
    toolbox = Toolbox(tools, policy=Policy(rules), context=context, max_result_tokens=10**6)
    plain = json.dumps({"command": ["git", "status", "-s"], "timeout": 5, "where": ["a", "b"]})
    foreign = json.dumps({"cmd": ["bash", "-lc", "git status -s"]})
    loose = "{'command': ['git', 'status'], 'timeout': '5',}"
    report.settings |= {"calls": given.calls, "tools": len(tools), "rules": len(rules)}
    for what, call in {
        "a simple call": ToolCall("c", "container.exec", plain),
        "another program's name and arguments": ToolCall("c", "functions.shell<|channel|>commentary", foreign),
        "arguments to be mended": ToolCall("c", "exec", loose),
        f"a result of {len(PAGE) // 1000} kB": ToolCall("c", "functions.page", plain),
        "a name that means nothing": ToolCall("c", "functions.nope", plain),
    }.items():
        times = sorted(_ms(lambda call=call: list(toolbox.run(call, stop=NoStop()))) for _ in range(given.calls + 1))  # type: ignore[misc]
        worst = times[given.calls * 99 // 100]
        report.row("CPU time of a call", what=what, median_ms=statistics.median(times), percentile_99_ms=worst)
    report.print(as_json=given.json)


def _ms(call: Callable[[], object]) -> float:
    started = time.process_time_ns()
    call()
    return (time.process_time_ns() - started) / 1e6


if __name__ == "__main__":
    main()
