"""The rows of calls in the chat: what ran, what it brought, the diff that was applied."""

from __future__ import annotations

import re
from collections.abc import Callable

from rich.segment import Segment

from ossia.agent.events import Event
from ossia.cli.clean import clean, fitted
from ossia.cli.runtime.activity import Running
from ossia.cli.runtime.call_line import call_line, running, running_line
from ossia.cli.runtime.failures import failure_rows, fix_rows
from ossia.cli.runtime.writing import Writing
from ossia.cli.terminal.diff_rows import diff_rows
from ossia.cli.terminal.markdown.paint import Painter, Row
from ossia.cli.words import count
from ossia.tools.outcome import Outcome, outcome_of
from ossia.tools.spec import ToolFinished
from ossia.tools.work.apply_patch import CUT

_DIFF_ROWS, _OUTPUT_ROWS = 12, 3
_HUNK = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@")


class CallRows:
    """The calls of a turn as rows. Looks of one kind in a row share one, which is open until something else comes.

        calls.see(event); rows = calls.add(done)    # rows that are finished now
        calls.open()                                # the row that may still grow
        calls.running()                             # the call under way
        rows = calls.close()                        # what was open is finished, too
    """

    def __init__(self, painter: Painter, clock: Callable[[], float]) -> None:
        self._painter = painter
        self._running, self._writing = Running(clock), Writing(clock)
        self._looks: list[tuple[Outcome, int]] = []
        self.keys = True
        """Rows mention keys, and may grow: False on a terminal without any."""
        self.fix: Callable[[ToolFinished], str] = lambda done: ""
        """The user's next step after a failed call."""

    def see(self, event: Event) -> None:
        """Take in one event, before what it ends is added."""
        self._running.see(event)
        self._writing.see(event)

    def add(self, done: ToolFinished, *, past: bool = False) -> list[Row]:
        """Take an ended call; returns the rows finished by it. `past`: it ended in an earlier chat."""
        outcome = outcome_of(done, "" if past else self._running.said_of(done.call))
        if self._looks and (outcome.kind, outcome.failed) == (self._looks[-1][0].kind, False):
            self._looks.append((outcome, done.ms))
            return [] if self.keys else self.close()
        rows = self.close()
        if outcome.kind and not outcome.failed:
            self._looks.append((outcome, done.ms))
            return rows if self.keys else [*rows, *self.close()]
        if outcome.reason:
            rows += self._painter.text("\n".join(failure_rows(outcome, done.ms, self._painter.width)), "red")
        else:
            rows += [*self._rows([outcome], done.ms), *self._diff(outcome.diff)]
        helps = fix_rows(self.fix(done), self._painter.width) if done.result.error and not past else []
        return rows + (self._painter.text("\n".join(helps), "yellow") if helps else [])

    def open(self) -> list[Row]:
        """The unfinished row of the last looks."""
        if not self._looks:
            return []
        return self._rows([outcome for outcome, _ in self._looks], sum(ms for _, ms in self._looks))

    def close(self) -> list[Row]:
        """The same row, finished."""
        rows = self.open()
        self._looks = []
        return rows

    def running(self) -> list[Row]:
        """The call under way and its last lines: `▸ running pytest -q · 12 s`; none before it printed something."""
        call, output = self._running.call, self._running.lines(_OUTPUT_ROWS)
        if call is None or not output:
            return []
        head = running_line(self._running.said_of(call), self._running.seconds, self._painter.width)
        return [*self._painter.text(head, "cyan"), *self._dim(output)]

    def written(self, most: int) -> list[Row]:
        """The last lines of the call being written."""
        return self._dim(self._writing.lines(most))

    def activity(self) -> str:
        """The call under way, or being written: `"running pytest -q · 12 s"`; "" without one."""
        if call := self._running.call:
            said = "running" if self._running.lines(1) else running(self._running.said_of(call))  # a row says which
            return f"{said} · {self._running.seconds:.0f} s"
        writing = self._writing.text()
        return writing and f"{writing} · {self._writing.seconds:.0f} s"

    def _dim(self, lines: list[str]) -> list[Row]:
        """Lines from outside, two columns in, each on one row."""
        shown = (fitted(clean(f"  {line}"), self._painter.width) for line in lines)
        return [row for line in shown for row in self._painter.text(line, "dim")]

    def _rows(self, outcomes: list[Outcome], ms: int) -> list[Row]:
        head, below = call_line(outcomes, ms, self._painter.width)
        rows = self._painter.text(head, "red" if outcomes[0].failed else "cyan")
        return [*rows, *(row for line in below for row in self._painter.text(line, "dim"))]

    def _diff(self, diff: str) -> list[Row]:
        """The first lines of a diff, at most `_DIFF_ROWS` rows, and the number of the others."""
        if not diff:
            return []
        *lines, last = diff.removesuffix("\n").split("\n")
        cut = last.startswith(CUT)
        lines += [] if cut else [last]
        heads = [at for at in range(1, len(lines)) if lines[at - 1][:4] == "--- " and lines[at][:4] == "+++ "]
        lines = _near_changes(lines[2:] if len(heads) == 1 else lines)  # the row above names a single file
        rows: list[Row] = []
        shown = 0  # lines, whole
        while shown < len(lines) and len(rows) <= _DIFF_ROWS:
            shown += 1
            rows = diff_rows("\n".join(lines[:shown]), self._painter.width - 2)
        shown -= len(rows) > _DIFF_ROWS
        more = sum(not line.startswith(("@@", "--- ", "+++ ")) for line in lines[shown:])
        rest = f"… {'over ' if cut else ''}{count(more, 'more line')}{', Ctrl-O' if self.keys else ''}"
        folded = self._painter.text(f"   {rest}", "dim") if more else []
        return [*([Segment("  "), *row] for row in rows[:_DIFF_ROWS]), *folded]


def _near_changes(lines: list[str]) -> list[str]:
    """The lines of a diff, with one line at most before the first change of a hunk and one behind its last."""
    kept: list[str] = []
    at = 0
    while at < len(lines):
        found = _HUNK.match(lines[at])
        if found is None:
            kept.append(lines[at])
            at += 1
            continue
        old, olds, new, news = map(int, found.groups())
        end, left = at + 1, [olds, news]
        while end < len(lines) and (any(left) or lines[end].startswith("\\")):
            left[0] -= lines[end][:1] in ("-", " ")
            left[1] -= lines[end][:1] in ("+", " ")
            end += 1
        body = lines[at + 1 : end]
        changed = [number for number, line in enumerate(body) if line[:1] in ("+", "-")] or [0]
        before = max(changed[0] - 1, 0)
        behind = sum(line.startswith(" ") for line in body[changed[-1] + 2 :])
        kept.append(f"@@ -{old + before},{olds - before - behind} +{new + before},{news - before - behind} @@")
        kept += body[before : changed[-1] + 2]
        at = end
    return kept
