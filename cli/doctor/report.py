"""The findings as lines for people, or as one line of JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict

from ossia.cli.clean import one_line
from ossia.cli.doctor.finding import Finding
from ossia.cli.runtime.progress import columns
from ossia.cli.streams import shown, stdout
from ossia.cli.words import count, json_line, wrapped

VERSION = 1
"""The version of what `--json` prints."""
_STATE, _AREA = 8, 10  # columns, the blank included


def print_findings(found: Sequence[Finding], *, json: bool) -> None:
    """What was found, the worst first. A command stands on a line of its own, unbroken, to be copied."""
    if json:
        worst = found[0].state if found else "ok"
        print(json_line({"version": VERSION, "state": worst, "findings": [asdict(one) for one in found]}))
        return
    width = columns(stdout())
    for one in found:
        for line in _lines(one, width):
            print(shown(line))
    faults, warnings = (sum(one.state == state for one in found) for state in ("fault", "warning"))
    print(f"ossia: {count(faults, 'fault')}, {count(warnings, 'warning')}", file=sys.stderr)


def _lines(one: Finding, width: int) -> list[str]:
    indent = " " * (_STATE + _AREA)
    lines = wrapped(one.text, f"{one.state:<{_STATE}}{one.area:<{_AREA}}", indent, width)
    if one.fix:
        lines += wrapped(one.fix, f"{indent}→ ", f"{indent}  ", width)
    if one.command:
        lines.append(f"    {one_line(one.command)}")
    return lines
