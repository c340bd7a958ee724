"""One command while it runs: its output, bounded as it arrives, and the reason of its end."""

from __future__ import annotations

import codecs
import time
from collections.abc import Generator
from dataclasses import dataclass

from ossia.tools.sandbox import Confinement, Job
from ossia.tools.spec import Fault, Stop, ToolContext, ToolFailed, ToolOutput, ToolResult, interrupted
from ossia.tools.text import Bounded
from ossia.tools.work._command import MAX_TIMEOUT_S, remark_on
from ossia.tools.work.result import MAX_CHARS, TIMED_OUT, formed, share

_MAX_STREAMED_CHARS = 200_000
_LEFT_OUT = "\n[... not all is shown while it runs]\n"
_END_CHARS, _END_S = 2_000, 0.25
"""Beyond that, only the end of the output is streamed, that often."""


@dataclass(frozen=True, slots=True)
class ShellTiming:
    """Seconds between the request to end (SIGTERM) and the kill: after a time-out, and after a stop of the turn.

    `waits_s`: a program that has waited so long for a person is ended.
    """

    grace_s: float = 2.0
    stop_grace_s: float = 0.15
    waits_s: float = 5.0


def run_job(
    confinement: Confinement, job: Job, timing: ShellTiming, timeout_s: float, *, call_id: str, context: ToolContext
) -> Generator[ToolOutput, None, ToolResult]:
    """Run a job to its end. The result holds the output of both streams, in the order it came."""
    from ossia.tools.sandbox._command_process import CommandProcess  # imports psutil, which a start can do without

    output = _Output(call_id)
    try:
        launch = confinement.launch(job)
        process = CommandProcess(launch, job, timeout_s=timeout_s, grace_s=timing.grace_s, waits_s=timing.waits_s)
    except OSError as error:
        raise ToolFailed(f"Error: the shell can't be started: {error.strerror or error}") from error
    forget = context.stop.on_stop(lambda: process.stop(timing.stop_grace_s))
    try:
        for chunk in process.output:
            yield from output.take(chunk)
        yield from output.take(b"", last=True)
        status, left = process.status, process.left
    finally:
        forget()
        process.close()
    failure = _failure(process.ended_by, timeout_s, context.stop)
    remark = failure or remark_on(output.kept.tail or output.kept.head, left=left, words=job.words)
    text = output.kept.cleaned(MAX_CHARS, share(context.count_tokens))
    text = "\n".join(part for part in (text, remark) if part)
    status = TIMED_OUT if process.ended_by == "timeout" else status
    text = formed(text, job.start_in or job.folder, status=status)
    fault = Fault("timeout") if process.ended_by == "timeout" else None
    return ToolResult(text, error=bool(failure or status), fault=fault)


class _Output:
    """The output of a command: bounded for the model, streamed for the screen, of a flood only the end."""

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.kept = Bounded()
        self._room = _MAX_STREAMED_CHARS
        self._end, self._next = "", 0.0

    def take(self, chunk: bytes, *, last: bool = False) -> Generator[ToolOutput, None, None]:
        text = self._decoder.decode(chunk, last)
        self.kept.add(text)
        shown, rest = text[: self._room], text[self._room :]
        self._room -= len(shown)
        self._end = (self._end + rest[-_END_CHARS:])[-_END_CHARS:]
        if self._end and time.monotonic() >= self._next:
            shown, self._end, self._next = f"{shown}{_LEFT_OUT}{self._end}", "", time.monotonic() + _END_S
        if shown:
            yield ToolOutput(self._call_id, shown)


def _failure(ended_by: str, timeout_s: float, stop: Stop) -> str:
    """A line about a command that didn't end by itself."""
    if ended_by == "timeout":
        most = f"{MAX_TIMEOUT_S * 1000:.0f}"
        more = f"; a longer `timeout` can be given, at most {most}" if timeout_s < MAX_TIMEOUT_S else ""
        return f"[ERROR] timed out after {timeout_s:g} s: the command and all it started were ended{more}"
    if ended_by == "stopped":
        return f"[ERROR] {interrupted(stop)}: the command and all it started were ended"
    return f"[ERROR] the command was ended: {ended_by}" if ended_by else ""
