"""The command of a call of `container.exec`, read from its arguments, and its run."""

from __future__ import annotations

import codecs
import re
import shlex
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ossia.tools.approval.shell_words import one_line_of, script_of
from ossia.tools.calls.patch_commands import applies_a_patch
from ossia.tools.safe_files import locate
from ossia.tools.sandbox import Confinement, Job
from ossia.tools.spec import Fault, Stop, ToolContext, ToolFailed, ToolOutput, ToolResult, interrupted
from ossia.tools.text import Bounded
from ossia.tools.work._folder import as_mapping
from ossia.tools.work.result import MAX_CHARS, TIMED_OUT, formed, share

DEFAULT_TIMEOUT_S, MAX_TIMEOUT_S = 60.0, 600.0
_SECONDS_BELOW = 1_000
"""A `timeout` below this is meant as seconds: models write 10 as well as 10000."""
_MAX_BYTES = 100_000
"""Linux allows 128 KiB for one argument of a command."""
_IS_PATCH = re.compile(r"\s*(?:\w+\.)?apply_?patch\b", re.IGNORECASE)
_IS_JSON = re.compile(r"""\s*(?:\{\s*"[^"]*"\s*:|\["|\[\s*"[^"]*"\s*,)""")
"""The beginning of a call as JSON, which is no line for a shell."""
_ASKS = re.compile(r"[:?>)\]$#] \n?\Z|[:?]\Z")
"""The end of a question, or a prompt: it ends with a blank, or no line."""
_REPLS = re.compile(r"(?:.*/)?(?:python|node|sqlite3|bash|sh|bc)[\d.]*")


@dataclass(frozen=True, slots=True)
class Command:
    """A command to run: `text` for a shell where the call was `["bash", "-lc", text]`, else the `words` of a program.

    `folder`: its real name in the workspace. `-l` is taken as `-c`: there are no profile files of the user's.
    """

    words: tuple[str, ...]
    text: str | None
    folder: str
    timeout_s: float

    @property
    def shown(self) -> str:
        """As a person reads it and rules match it, as one line. To a rule `cd x && …` is never simple."""
        line = one_line_of(self.words)
        return line if self.folder == "." else f"cd {shlex.quote(self.folder)} && {line}"

    @classmethod
    def of(cls, args: object, root: Path) -> Command:
        """The command of a call in a workspace. Raises `ToolFailed` for one that can't run."""
        asked = as_mapping(args)
        words = cast(Sequence[str], asked["command"])
        text = script_of(words)
        if not (words[0] if text is None else text).strip():
            raise ToolFailed("Error: `command` is empty: give a program and its arguments, or bash, -lc and a command")
        if words[0].startswith("-"):
            raise ToolFailed(f"Error: {words[0]!r} is no program: begin `command` with one")
        if _IS_PATCH.match(text or words[0]) or applies_a_patch(words):
            raise ToolFailed(
                "Error: apply_patch is not a program: call the tool repo_browser.apply_patch with the patch itself, "
                "from `*** Begin Patch` to `*** End Patch`, as its argument, and run other commands by themselves"
            )
        if _IS_JSON.match(text or words[0]):
            raise ToolFailed("Error: `command` holds JSON as a text: send the list of its words, not quoted")
        if any("\0" in word for word in words):
            raise ToolFailed("Error: `command` holds a null character: send plain text")
        try:
            size = sum(len(word.encode()) + 1 for word in words)
        except UnicodeEncodeError:
            raise ToolFailed("Error: `command` holds a lone surrogate, half a character: send plain text") from None
        if size > _MAX_BYTES:
            raise ToolFailed(
                f"Error: `command` may have at most {_MAX_BYTES} bytes, it has {size}: write a script with "
                "repo_browser.apply_patch and run that"
            )
        place = locate(root, str(asked.get("workdir", "")))
        if place.kind != "folder":
            raise ToolFailed(f"Error: workdir {asked['workdir']!r} is no folder of the workspace. Leave it out.")
        return cls(tuple(words), text, place.name, _timeout_s(asked.get("timeout")))


def _timeout_s(timeout: object) -> float:
    if not isinstance(timeout, int | float) or not timeout > 0:  # or nan
        return DEFAULT_TIMEOUT_S
    if timeout >= MAX_TIMEOUT_S * 1000:  # before dividing: a whole number of 400 digits is no float
        return MAX_TIMEOUT_S
    return min(timeout if timeout < _SECONDS_BELOW else timeout / 1000, MAX_TIMEOUT_S)


def remark_on(output: str, *, left: str, words: Sequence[str]) -> str:
    """A line for the model about a command that ended by itself: what ended with it, or wanted an answer; "" if none.

    `left`: what it left running; `words`: of a program that no shell ran.

        remark_on("Proceed? [Y/n] ", left="", words=())    # "[nobody can answer: its input is empty, and …]"
    """
    if left:
        return f"[ended with the command: {left}. A server and its client belong in one command]"
    if _ASKS.search(output) or (not output and len(words) == 1 and _REPLS.fullmatch(words[0])):
        return "[nobody can answer: the command's input is empty, and there is no terminal]"
    return ""


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
